"""OTD's step where executors stand by: what one gets goes to another of its component, and nothing moves [N24 4]."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from builders import supervisor, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Assigned, Component, Executor, Input, Model, Topology
from stormpilot.planner.methods.otd import Move, Thresholds, step, switch_step
from stormpilot.planner.placement.layout import Frame, Layout, frame_of, running_layout

NODES = ("n0", "n1", "n2")


def running(
    where: Mapping[int, str],
    cpu_mhz: Mapping[int, float],
    rates: Mapping[tuple[int, int], float],
    standby: list[int],
    *,
    pins: Mapping[int, str] | None = None,
    ends: Mapping[int, int] | None = None,
    queues: Mapping[int, float] | None = None,
) -> Model:
    """Task 1 is a spout, all others of one bolt; a worker on each of the nodes of 1000 MHz. `ends`: last tasks."""
    t = Topology(
        id="t",
        name="t",
        workers=len(set(where.values())),
        components=[Component(id="s", kind="spout"), Component(id="b", kind="bolt", inputs=[Input(component="s")])],
        executors=[
            Executor(
                start=e,
                end=(ends or {}).get(e, e),
                component="s" if e == 1 else "b",
                cpu_mhz=cpu_mhz[e],
                pin=(pins or {}).get(e),
                queue_tuples=(queues or {}).get(e),
            )
            for e in where
        ],
        assignment=[Assigned(start=e, supervisor=n, port=6700) for e, n in where.items()],
        standby=standby,
    )
    nodes = [supervisor(n, mhz=1000.0) for n in NODES if n in where.values()]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", rates))


def next_switch(model: Model, **thresholds: float) -> tuple[int, int, int, float] | None:
    """Case, task that gives, task that takes, gain."""
    frame = frame_of(compile_model(model))
    answer = switch_step(frame, running_layout(frame), Thresholds(**thresholds))
    if answer is None:
        return None
    start = frame.compiled.start
    return answer.case, int(start[answer.executor]), int(start[answer.standby]), answer.asc_tps


FAR = {1: "n0", 2: "n1", 3: "n0", 4: "n1"}
"""The spout on n0, what works on n1, one of its component beside the spout and one beside itself."""
LIGHT = {1: 100.0, 2: 100.0, 3: 10.0, 4: 10.0}


def test_tuples_go_where_a_task_stands_by_beside_their_source() -> None:
    assert next_switch(running(FAR, LIGHT, {(1, 2): 30.0}, [3, 4])) == (3, 2, 3, pytest.approx(30.0))


def test_only_a_gain_above_the_threshold_is_worth_a_switch() -> None:
    assert next_switch(running(FAR, LIGHT, {(1, 2): 30.0}, [3, 4]), threshold_asc_tps=30.0) is None


def test_who_works_takes_no_other_tuples() -> None:
    """3 is beside the source and gets tuples itself; 4 stands by where nothing is won."""
    assert next_switch(running(FAR, LIGHT, {(1, 2): 30.0, (1, 3): 1.0}, [4])) is None


def test_a_task_of_another_component_is_no_stand_in() -> None:
    model = running(FAR, LIGHT, {(1, 2): 30.0}, [1])
    assert next_switch(model) is None


def test_a_target_is_never_made_too_loaded() -> None:
    """500 MHz and 350 more would be above 800 of 1000; with 250 it fits."""
    assert next_switch(running(FAR, {**LIGHT, 1: 490.0, 2: 350.0}, {(1, 2): 30.0}, [3])) is None
    assert next_switch(running(FAR, {**LIGHT, 1: 490.0, 2: 250.0}, {(1, 2): 30.0}, [3])) is not None


def test_a_pin_and_an_executor_of_several_tasks_stay() -> None:
    assert next_switch(running(FAR, LIGHT, {(1, 2): 30.0}, [3], pins={2: "n1"})) is None
    far = {1: "n0", 2: "n1", 4: "n0"}
    light = {1: 100.0, 2: 100.0, 4: 10.0}
    assert next_switch(running(far, light, {(1, 2): 30.0}, [4], ends={2: 3})) is None
    assert next_switch(running(far, light, {(1, 2): 30.0}, [4])) is not None


def test_an_overloaded_node_is_relieved_whatever_the_traffic() -> None:
    """n0 has 900 of 1000; 3 stands by on n1: 2 is the only one whose tuples can leave."""
    where = {1: "n0", 2: "n0", 3: "n1", 4: "n0"}
    model = running(where, {1: 500.0, 2: 390.0, 3: 10.0, 4: 10.0}, {(1, 2): 30.0}, [3, 4])
    assert next_switch(model) == (1, 2, 3, pytest.approx(-30.0))


def test_a_long_queue_is_relieved_on_another_node() -> None:
    model = running(FAR, LIGHT, {(1, 2): 30.0}, [3, 4], queues={2: 9_000.0, 4: 3_000.0})
    assert next_switch(model) == (1, 2, 3, pytest.approx(30.0))


def test_who_stands_by_is_not_moved_to_relieve_a_node() -> None:
    """Moving 3, which gets nothing, would cost no traffic and win nothing."""
    model = running({1: "n0", 2: "n0", 3: "n0", 4: "n1"}, {1: 500.0, 2: 390.0, 3: 10.0, 4: 10.0}, {(1, 2): 30.0}, [3])
    frame = frame_of(compile_model(model))
    answer = step(frame, running_layout(frame), Thresholds())
    assert isinstance(answer, Move)
    assert frame.compiled.start[answer.executor] == 1


def crossing_tps(frame: Frame, layout: Layout) -> float:
    c = frame.compiled
    node = layout.node_of_executors()
    return float(c.pair_tps[node[c.pair_a] != node[c.pair_b]].sum())


def test_step_by_step_a_word_count_comes_together() -> None:
    """One source; 12 tasks that work and 24 that stand by, each on the three nodes in turn: no step can be undone."""
    work, wait = list(range(2, 14)), list(range(14, 38))
    where = {e: NODES[(e - 1) % 3] for e in (1, *work, *wait)}
    cpu = {1: 50.0, **dict.fromkeys(work, 20.0), **dict.fromkeys(wait, 1.0)}
    frame = frame_of(compile_model(running(where, cpu, {(1, e): 10.0 + e for e in work}, wait)))
    layout, total = running_layout(frame), frame.compiled.total_tps
    assert crossing_tps(frame, layout) / total > 0.6
    n = 0
    while (answer := switch_step(frame, layout, Thresholds())) is not None:
        pair, after = [answer.executor, answer.standby], layout.copy()
        after.worker[pair] = layout.worker[pair[::-1]]
        assert answer.asc_tps == pytest.approx(crossing_tps(frame, layout) - crossing_tps(frame, after))
        assert (np.sort(after.worker) == np.sort(layout.worker)).all(), "no worker gets another executor"
        layout, n = after, n + 1
    assert n == 8
    assert crossing_tps(frame, layout) == 0
