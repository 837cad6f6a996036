"""What the model says of executors that stand by: the routing table decides, not only what was measured."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology
from doubles.rolling import begun
from stormpilot.messages.core import ComponentPart, ExecutorPart, InputPart, TopologySnapshot
from stormpilot.messages.rollouts import RolloutStepPart
from stormpilot.messages.routes import ComponentRoute, Routes
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Edge, Model, Topology
from stormpilot.observe.standby import IDLE_CORES, as_before_the_step, by_table

CORE_MHZ = 2_000.0
IDLE_MHZ = IDLE_CORES * CORE_MHZ


def snapshot(grouping: str = "SHUFFLE", standby: int = 1, routed: bool = True) -> TopologySnapshot:
    """spout(1) -> bolt(2, 3, 4), of which the last `standby` wait, -> sink(5)."""
    tasks = {1: "spout", 2: "bolt", 3: "bolt", 4: "bolt", 5: "sink"}
    inputs = [InputPart(component="spout", grouping=grouping, fields=["k"], routed=routed)]
    return TopologySnapshot(
        written_at_ms=1,
        id="t",
        name="t",
        workers=2,
        components=[
            ComponentPart(id="spout", kind="spout"),
            ComponentPart(id="bolt", kind="bolt", inputs=inputs, config={"stormpilot.standby": standby}),
            ComponentPart(id="sink", kind="bolt", inputs=[InputPart(component="bolt", grouping="GLOBAL")]),
        ],
        executors=[ExecutorPart(start=t, end=t, component=c) for t, c in tasks.items()],
    )


def built() -> Topology:
    streams = [("spout", "bolt"), ("bolt", "sink")]
    return topology("t", {"spout": 1, "bolt": 3, "sink": 1}, streams=streams, cpu_mhz=100.0)


def edges(rates: dict[tuple[int, int], float]) -> list[Edge]:
    return [Edge(topology="t", from_=a, to=b, rate=r, stream="default") for (a, b), r in rates.items()]


def told(of: list[Edge]) -> dict[tuple[int, int], float]:
    return {(e.from_, e.to): e.rate for e in of}


def cpu(of: Topology) -> dict[int, float]:
    return {e.start: e.cpu_mhz for e in of.executors}


def routes(active: list[int], partitions: list[int] | None = None) -> Routes:
    return Routes(
        topology_id="t", components=[ComponentRoute(component="bolt", active=active, partitions=partitions or [])]
    )


def test_without_a_table_the_last_tasks_stand_by_as_the_component_says() -> None:
    after, _ = by_table(built(), [], snapshot(standby=2), None, CORE_MHZ)
    assert after.standby == [3, 4]


def test_a_move_that_was_just_made_moves_what_was_measured_before_it() -> None:
    """The window still has the tuples and the CPU of the task that was left."""
    measured = edges({(1, 2): 30.0, (1, 3): 30.0, (2, 5): 30.0, (3, 5): 30.0})
    table = routes([2, 4], [2, 4, 2, 4])
    after, now = by_table(built(), measured, snapshot("FIELDS"), table, CORE_MHZ)
    assert after.standby == [3]
    assert told(now) == {(1, 2): 45.0, (1, 4): 15.0, (2, 5): 45.0, (4, 5): 15.0}
    assert cpu(after)[3] == IDLE_MHZ
    assert sum(cpu(after).values()) == pytest.approx(500.0), "no CPU is lost"
    assert sum(told(now).values()) == sum(told(measured).values())


def test_where_nothing_is_routed_nothing_changes() -> None:
    measured = edges({(1, 2): 30.0})
    for same in (snapshot(routed=False), snapshot(standby=0)):
        after, now = by_table(built(), measured, same, None, CORE_MHZ)
        assert (after.standby, now) == ([], measured)
        assert cpu(after) == cpu(built())


def test_shuffled_tuples_are_foreseen_to_go_to_active_tasks_alone() -> None:
    """A standby in the source's own worker gets nothing, wherever plans put it."""
    measured = edges({(1, 2): 30.0, (1, 3): 30.0, (2, 5): 30.0, (3, 5): 30.0})
    after, now = by_table(built(), measured, snapshot(), None, CORE_MHZ)
    model = Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[after], traffic=now)
    flow = flow_model(model)
    slots = flow.compiled.slot_numbers()
    near_is_standby = {1: ("n1", 6700), 4: ("n1", 6700), 2: ("n2", 6700), 3: ("n2", 6701), 5: ("n2", 6700)}
    placement = np.array([slots[near_is_standby[int(s)]] for s in flow.compiled.start], dtype=np.int64)
    predicted = flow.predict(placement)
    received = dict(zip(flow.compiled.start.tolist(), predicted.received_tps.tolist(), strict=True))
    assert received[4] == 0.0
    assert received[2] == received[3] == pytest.approx(30.0)
    assert dict(zip(flow.compiled.start.tolist(), predicted.cpu_mhz.tolist(), strict=True))[4] == IDLE_MHZ


def test_what_a_step_of_a_rollout_routes_around_comes_back_and_what_stands_by_does_not() -> None:
    """Tasks 2 and 4 work since a switch, and 3 stands by; the step moves 2, with 3 in its place meanwhile."""
    step = RolloutStepPart(workers=[], away=[2], stand_ins=[3])
    rollout = msgspec.structs.replace(begun(), steps=[step], phase="moving")
    found = as_before_the_step(routes([3, 4]), rollout, snapshot())
    assert [r.active for r in found.components] == [[2, 4]]
    back = msgspec.structs.replace(rollout, steps=[RolloutStepPart(workers=[])], back=[2])
    assert [r.active for r in as_before_the_step(routes([4]), back, snapshot()).components] == [[2, 4]]
    keyed = as_before_the_step(routes([3, 4], [3, 4, 3, 4]), rollout, snapshot()).components
    assert [(r.active, r.partitions) for r in keyed] == [([2, 4], [])], "nobody knows whose the keys were"
    ready = msgspec.structs.replace(rollout, phase="ready")
    assert as_before_the_step(routes([3, 4]), ready, snapshot()) == routes([3, 4]), "nothing is put aside yet"
    switch = msgspec.structs.replace(rollout, steps=[RolloutStepPart(workers=[], away=[2], switches=[(2, 3)])])
    assert as_before_the_step(routes([3, 4]), switch, snapshot()) == routes([3, 4]), "for good"
