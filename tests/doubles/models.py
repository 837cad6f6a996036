"""Small planning models, plans and states of decisions.

The model: three supervisors `a`, `b`, `c` with two slots each and 1000 MHz to fill; topologies of four executors (1 to
4, 200 MHz each) in two workers. Executors 1 and 3 talk (800 tuples/s), 2 and 4 talk (200).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stormpilot.decide.admit import TopologyState
from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Executor,
    Input,
    Model,
    Plan,
    Supervisor,
    Topology,
    TopologyPlan,
    Worker,
)

NOW_MS = 1_763_700_000_000
Slots = Mapping[tuple[str, int], Sequence[int]]
SPREAD: Slots = {("a", 1): (1, 2), ("b", 1): (3, 4)}
PAIRED: Slots = {("a", 1): (1, 3), ("b", 1): (2, 4)}
"""Inter-node traffic 0 instead of 1000."""
HALF: Slots = {("a", 1): (1, 3, 2), ("b", 1): (4,)}
"""Inter-node traffic 200."""


def topology(slots: Slots = SPREAD, name: str = "flights", cpu_mhz: float = 200.0) -> Topology:
    """A topology that runs in these slots."""
    return Topology(
        id=f"{name}-1",
        name=name,
        workers=2,
        components=[
            Component(id="x", kind="spout"),
            Component(id="y", inputs=[Input(component="x", grouping="FIELDS")]),
        ],
        executors=[
            Executor(start=i, end=i, component="x" if i < 3 else "y", cpu_mhz=cpu_mhz, memory_mb=100.0)
            for i in (1, 2, 3, 4)
        ],
        assignment=[Assigned(start=e, supervisor=s, port=p) for (s, p), es in slots.items() for e in es],
    )


def model(*topologies: Topology, limit_mhz: float = 1000.0) -> Model:
    """The supervisors with these topologies, and the traffic of each."""
    chosen = topologies or (topology(),)
    return Model(
        supervisors=[
            Supervisor(
                id=s, host=f"host-{s}", slots=[1, 2], cores=2.0, mhz=1000.0, memory_mb=4096.0, cpu_limit_mhz=limit_mhz
            )
            for s in ("a", "b", "c")
        ],
        topologies=list(chosen),
        traffic=[
            Edge(topology=t.id, from_=a, to=b, rate=rate, stream="default")
            for t in chosen
            for a, b, rate in ((1, 3, 800.0), (2, 4, 200.0))
        ],
    )


def plan(*slots: Slots, names: Sequence[str] = ("flights", "wordcount", "third")) -> Plan:
    """A plan of topologies by these names, in these slots."""
    return Plan(
        planner="double",
        topologies=[
            TopologyPlan(
                id=f"{name}-1",
                workers=[Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in where.items()],
            )
            for name, where in zip(names, slots, strict=False)
        ],
    )


def plan_message(age_s: float = 0.0, **fields: Any) -> PlanMessage:
    """A published plan of that age."""
    return PlanMessage(
        **{
            "plan_id": "p-1",
            "plan_set": "r-1",
            "topology_id": "flights-1",
            "epoch": 1,
            "created_at_ms": NOW_MS - int(age_s * 1000),
            "planner": "double",
            "workers": [Worker(supervisor="a", port=1, executors=[(1, 1), (2, 2), (3, 3), (4, 4)])],
            "checksum": "",
            **fields,
        }
    )


def status(state: str, code: str = "OK", text: str = "", plan_id: str | None = "p-1") -> StatusMessage:
    """What the plug-in says of it."""
    return StatusMessage(
        topology_id="flights-1",
        plan_id=plan_id,
        state=state,  # type: ignore[arg-type]
        code=code,
        text=text,
        since_ms=NOW_MS,
        written_at_ms=NOW_MS,
    )


def subject(
    of: Topology | None = None, *, placed: bool = True, missing_slots: int = 0, mode: str = "act", **fields: Any
) -> TopologyState:
    """A topology as the gates see it: in mode `act`, running, measured, without a plan of ours."""
    of = of or topology(SPREAD if placed else {})
    if missing_slots:
        of = Topology(
            id=of.id,
            name=of.name,
            workers=of.workers,
            components=of.components,
            executors=of.executors,
            assignment=of.assignment[missing_slots:],
        )
    if isinstance(plan := fields.get("plan"), PlanMessage):
        fields.setdefault("plan_since_ms", plan.created_at_ms)
    return TopologyState(topology=of, mode=mode, **fields)  # type: ignore[arg-type]
