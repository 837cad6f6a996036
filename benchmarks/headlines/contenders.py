"""Contenders: Storm's schedulers and ours, all from one measured model with the same room on every node."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.planners import storm
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.flow.planning import Traffic

ROOM = 1.2
"""B(n) over what each node would use if all used the same part of their CPU: nobody may put everything on one node."""
BUDGET_S = 5.0
StormScheduler = Literal["default", "ras-default"]
DEFAULT: StormScheduler = "default"
RAS: StormScheduler = "ras-default"
"""Storm's own classes, as their runner names them."""


@dataclass(frozen=True)
class Contender:
    """A planner of ours under the name in the tables."""

    planner: str
    params: Mapping[str, Any]
    traffic: Traffic = "measured"


BEST = Contender("best", {}, "flow")
LATENCY = "best latency"
"""`best` asked for the least predicted latency: network and queueing together."""
WHO = {DEFAULT: "Storm default", "ras": "Storm RAS, measured CPU declared"}
"""Storm's contenders in words; ours are told by the names of their planners."""
OURS = {
    "offline": Contender("offline", {}),
    "online": Contender("online", {}),
    "best": BEST,
    LATENCY: Contender("best", {"objective": "latency"}, "flow"),
}
SWEPT = {
    **{f"online alpha={a:g}": Contender("online", {"alpha": a}) for a in (0.25, 0.5)},
    **{f"offline alpha={a:g}": Contender("offline", {"alpha": a}) for a in (0.25, 0.5)},
    **{f"offline beta={b:g}": Contender("offline", {"beta": b}) for b in (0.0, 1.0)},
}
"""The other settings of the paper's two schedulers, for the long form."""
NAMES = ("default", "ras", *OURS)


@dataclass(frozen=True)
class Placement:
    """A plan, or why there is none; what the model says of it."""

    plan: Plan | None
    why: str = ""
    metrics: Mapping[str, float] | None = None


def roomy(model: Model) -> Model:
    """The model with B(n) = `ROOM` times the load of a node if all were filled alike; room for the largest executor."""
    loads = [e.cpu_mhz for t in model.topologies for e in t.executors]
    ratio = ROOM * sum(loads) / sum(s.cpu_mhz for s in model.supervisors)
    nodes = [msgspec.structs.replace(s, cpu_limit_mhz=max(ratio * s.cpu_mhz, *loads)) for s in model.supervisors]
    return msgspec.structs.replace(model, supervisors=nodes)


def placements(measured: Model, folder: Path, who: Collection[str]) -> dict[str, Placement]:
    """Plans of these contenders, from what was measured while Storm's default placement ran."""
    model = roomy(measured)
    compiled = compile_model(model)
    answers: dict[str, Plan | str] = {"default": compiled.plan_of(compiled.current)}
    if "ras" in who:
        answers["ras"] = storms(model, RAS, folder)
    for name, contender in {**OURS, **SWEPT}.items():
        if name in who:
            answers[name] = ours(model, contender)
    return {
        name: Placement(None, a) if isinstance(a, str) else Placement(a, metrics=evaluate(model, a))
        for name, a in answers.items()
    }


def ours(model: Model, contender: Contender) -> Plan | str:
    """The plan of a planner of ours, or why there is none."""
    end_s = time.monotonic() + BUDGET_S
    answer = compute(
        model,
        contender.planner,
        dict(contender.params),
        seed=1,
        left_s=lambda: end_s - time.monotonic(),
        traffic=contender.traffic,
    )
    return answer if isinstance(answer, Plan) else answer.text


def storms(model: Model, scheduler: StormScheduler, folder: Path) -> Plan | str:
    """The plan of a scheduler of Storm's, or why there is none.

    The resource aware one is told the measured CPU of every executor, which no user knows as well.
    """
    storm.build()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.json"
    file.write_bytes(msgspec.json.encode(model))
    plan = storm.schedule({"model": file}, [scheduler], folder / "plans", warmup=0, rounds=1)["model", scheduler]
    return plan if plan.complete else "; ".join(plan.notes)
