"""OTD and the rules on who shares a worker: they close a worker to an executor, not the way to others."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Assigned, Component, Executor, Model, Topology
from stormpilot.planner.methods.otd import Move, Thresholds, step
from stormpilot.planner.placement.layout import frame_of, running_layout

WHERE = {1: ("n0", 6700), 2: ("n0", 6700), 3: ("n1", 6700), 4: ("n1", 6700), 5: ("n1", 6701)}


@pytest.mark.parametrize(
    "rule",
    [{"worker_executors": 2}, {"worker_heap_mb": 250.0}, {"apart": [("1", "4"), ("2", "3")]}],
    ids=["executors", "heap", "apart"],
)
def test_a_rule_closes_a_worker_and_not_the_way_out_of_another(rule: dict[str, object]) -> None:
    """3 and 4 fill a worker on n1, 5 has another one there: 1 joins 5, though it talks to 3."""
    t = Topology(
        id="t",
        name="t",
        workers=3,
        components=[Component(id=str(e), kind="spout", heap_mb=100.0) for e in WHERE],
        executors=[Executor(start=e, end=e, component=str(e), cpu_mhz=10.0) for e in WHERE],
        assignment=[Assigned(start=e, supervisor=n, port=port) for e, (n, port) in WHERE.items()],
    )
    model = Model(
        supervisors=[supervisor(n, mhz=1000.0) for n in ("n0", "n1")],
        topologies=[msgspec.structs.replace(t, **rule)],
        traffic=traffic("t", {(1, 3): 100.0}),
    )
    frame = frame_of(compile_model(model))
    answer = step(frame, running_layout(frame), Thresholds())
    assert isinstance(answer, Move)
    assert (int(frame.compiled.start[answer.executor]), answer.asc_tps) == (1, 100.0)
    assert frame.compiled.slot_port[frame.home_slot[answer.worker]] == 6701
