"""OTD's four cases and what ends it, on instances small enough to work out by hand [N24 4]."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import assigned, located, supervisor, topology, traffic
from random_models import models
from stormpilot.errors import UsageError
from stormpilot.generate.models.shapes import SHAPES
from stormpilot.generate.models.traffic import Spread, flows
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import (
    Assigned,
    Component,
    Executor,
    Infeasible,
    Input,
    Model,
    Plan,
    Topology,
)
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.methods.otd import (
    Lacking,
    Move,
    Nothing,
    Params,
    Step,
    Thresholds,
    moved,
    starting,
    step,
)
from stormpilot.planner.placement.layout import Frame, Layout, frame_of, running_layout
from stormpilot.planner.placement.problem import no_limits
from stormpilot.planner.repair import repaired

NODES = ("n0", "n1", "n2")


def running(
    where: Mapping[int, str],
    cpu_mhz: Mapping[int, float],
    rates: Mapping[tuple[int, int], float],
    *,
    queues: Mapping[int, float] | None = None,
    fixed: str | None = None,
    memory_mb: Mapping[int, float] | None = None,
) -> Model:
    """One topology; task -> node that it runs on (slot 6700 of each, nodes of 1000 MHz and 1000 MB), CPU, rates."""
    t = Topology(
        id="t",
        name="t",
        workers=len(set(where.values())),
        components=[Component(id="c", kind="spout")],
        executors=[
            Executor(
                start=e,
                end=e,
                component="c",
                cpu_mhz=cpu_mhz[e],
                memory_mb=(memory_mb or {}).get(e, 0.0),
                queue_tuples=(queues or {}).get(e),
            )
            for e in where
        ],
        assignment=[Assigned(start=e, supervisor=n, port=6700) for e, n in where.items()],
        fixed_workers=[(fixed, 6700)] if fixed else [],
    )
    nodes = [supervisor(n, mhz=1000.0, memory_mb=1000.0) for n in NODES if n in where.values()]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", rates))


def next_step(model: Model, **thresholds: float) -> Step:
    frame = frame_of(compile_model(model))
    return step(frame, running_layout(frame), Thresholds(**thresholds))


def target(model: Model, answer: Step) -> tuple[int, str]:
    """(task, node) of a move."""
    assert isinstance(answer, Move)
    frame = frame_of(compile_model(model))
    return int(frame.compiled.start[answer.executor]), frame.compiled.node_ids[int(frame.home_node[answer.worker])]


def test_case_1_takes_from_the_most_loaded_worker_what_costs_least_traffic():
    """n0 has 950 of 1000 MHz, n1 100, n2 200. 1 and 2 talk (10); 3 has 5 with n1 and 2 with n0: its ASC is 5 - 2."""
    model = running(
        {1: "n0", 2: "n0", 3: "n0", 4: "n1", 5: "n2"},
        {1: 400.0, 2: 400.0, 3: 150.0, 4: 100.0, 5: 200.0},
        {(1, 2): 10.0, (3, 4): 5.0, (3, 1): 2.0},
    )
    answer = next_step(model)
    assert isinstance(answer, Move)
    assert answer.case == 1
    assert answer.asc_tps == pytest.approx(3.0)
    assert target(model, answer) == (3, "n1")


def test_case_1_moves_even_when_traffic_rises():
    """Balance comes first: both on n0 talk, and one has to leave."""
    model = running({1: "n0", 2: "n0", 3: "n1"}, {1: 500.0, 2: 450.0, 3: 10.0}, {(1, 2): 7.0})
    answer = next_step(model)
    assert isinstance(answer, Move)
    assert (answer.case, answer.asc_tps) == (1, -7.0)


def test_case_1_never_overloads_the_target():
    """Only 2 (100 MHz) fits under 800 MHz on n1, though 1 has its traffic there."""
    model = running({1: "n0", 2: "n0", 3: "n1"}, {1: 800.0, 2: 100.0, 3: 500.0}, {(1, 3): 50.0})
    assert target(model, next_step(model)) == (2, "n1")


def test_case_1_goes_on_to_the_next_worker_when_the_most_loaded_cannot_help():
    """n0 holds one executor, which must not leave its worker empty; n1 is high too and can give 3 (100) to n2."""
    model = running({1: "n0", 2: "n1", 3: "n1", 4: "n2"}, {1: 950.0, 2: 750.0, 3: 100.0, 4: 100.0}, {})
    answer = next_step(model)
    assert target(model, answer) == (3, "n2")
    assert isinstance(answer, Move) and answer.lacking is not None
    assert answer.lacking.text == "t on n0 is too loaded and no executor of them fits a worker that is low"


def test_case_1_counts_memory_of_the_target():
    model = running(
        {1: "n0", 2: "n0", 3: "n1"}, {1: 500.0, 2: 450.0, 3: 10.0}, {}, memory_mb={1: 100.0, 2: 300.0, 3: 800.0}
    )
    assert target(model, next_step(model)) == (1, "n1")


def test_a_long_queue_is_load_as_well():
    """CPU is low everywhere; 12,000 tuples wait on n0. Only what shortens the queue helps: 2 with 4,000, not 3."""
    model = running(
        {1: "n0", 2: "n0", 3: "n0", 4: "n1"},
        dict.fromkeys((1, 2, 3, 4), 10.0),
        {(3, 4): 100.0},
        queues={1: 8000.0, 2: 4000.0, 3: 0.0},
    )
    assert target(model, next_step(model)) == (1, "n1")  # 8,000 fits under 10,000 too; of equal gains the lower
    assert target(model, next_step(model, queue_high_tuples=5000.0)) == (2, "n1")


def test_case_2_warns_and_moves_nothing():
    """n0 is high, n1 is neither high nor low."""
    model = running({1: "n0", 2: "n0", 3: "n1"}, {1: 500.0, 2: 450.0, 3: 700.0}, {(1, 3): 50.0})
    answer = next_step(model)
    assert isinstance(answer, Lacking)
    assert answer.case == 2
    assert answer.text == "t on n0 is too loaded and no worker is low"


def test_case_1_without_a_candidate_warns_too():
    model = running({1: "n0", 2: "n1"}, {1: 950.0, 2: 10.0}, {(1, 2): 5.0})
    answer = next_step(model)
    assert isinstance(answer, Lacking)
    assert answer.case == 1
    assert "no executor of them fits" in answer.text


def test_where_no_high_worker_can_give_traffic_falls_elsewhere():
    """n0 holds one executor, which must not leave its worker empty; 2 and 4 talk, and n1 and n2 have room."""
    model = running(
        {1: "n0", 2: "n1", 3: "n1", 4: "n2", 5: "n2"},
        {1: 950.0, 2: 100.0, 3: 100.0, 4: 100.0, 5: 100.0},
        {(2, 4): 9.0, (3, 5): 1.0},
    )
    answer = next_step(model)
    assert isinstance(answer, Move)
    assert (answer.case, target(model, answer)) == (3, (2, "n2"))
    assert answer.lacking is not None
    assert (answer.lacking.workers, answer.lacking.topologies) == ((0,), {"t"})
    assert isinstance(next_step(model, threshold_asc_tps=10.0), Lacking)


def test_case_3_takes_the_largest_fall_of_traffic_above_the_threshold():
    """1-3 cross with 9, 2-4 with 6; moving 1 to n1 gains 9 - 1 (1-2), moving 3 to n0 gains 9 - 2 (3-4)."""
    model = running(
        {1: "n0", 2: "n0", 3: "n1", 4: "n1"},
        dict.fromkeys((1, 2, 3, 4), 100.0),
        {(1, 3): 9.0, (2, 4): 6.0, (1, 2): 1.0, (3, 4): 2.0},
    )
    answer = next_step(model)
    assert isinstance(answer, Move)
    assert (answer.case, answer.asc_tps) == (3, pytest.approx(8.0))
    assert target(model, answer) == (1, "n1")
    assert next_step(model, threshold_asc_tps=8.0) == Nothing(3)


def test_case_3_leaves_targets_alone_that_are_not_low():
    """3 (550 MHz on n1) would draw 1; n1 is at 650 of 1000, between low and high, n0 is low and draws 3's peer 4."""
    model = running(
        {1: "n0", 2: "n0", 3: "n1", 4: "n1"}, {1: 100.0, 2: 100.0, 3: 550.0, 4: 100.0}, {(1, 3): 9.0, (2, 4): 5.0}
    )
    assert target(model, next_step(model)) == (3, "n0")
    assert target(model, next_step(model, cpu_high=0.7)) == (4, "n0")  # 200 + 550 MHz would be more than 700


def test_case_4_neither_high_nor_low():
    model = running({1: "n0", 2: "n0", 3: "n1"}, {1: 350.0, 2: 350.0, 3: 700.0}, {(1, 3): 9.0})
    assert next_step(model) == Nothing(4)


def test_fixed_workers_neither_give_nor_take():
    """n0 must stay; 3 leaves n1 only for n2, whatever it talks with on n0."""
    model = running(
        {1: "n0", 2: "n0", 3: "n1", 4: "n1", 5: "n2"},
        dict.fromkeys(range(1, 6), 100.0),
        {(1, 3): 50.0, (2, 4): 40.0, (3, 5): 3.0},
        fixed="n0",
    )
    assert target(model, next_step(model)) == (3, "n2")


def test_the_gain_of_a_move_is_what_inter_node_traffic_falls_by():
    frame = frame_of(compile_model(word_count()))
    layout = starting(frame)
    for _ in range(5):
        answer = step(frame, layout, Thresholds())
        assert isinstance(answer, Move)
        after = moved(layout, answer)
        assert answer.asc_tps == pytest.approx(crossing_tps(frame, layout) - crossing_tps(frame, after))
        layout = after


def test_steps_one_at_a_time_lead_where_the_planner_goes():
    model = word_count()
    whole = compute(model, "otd")
    assert isinstance(whole, Plan)
    plan = compute(model, "otd", {"steps": 0})
    steps = 0
    while isinstance(plan, Plan):
        model = assigned(plan, model)
        plan = compute(model, "otd", {"steps": 1})
        assert isinstance(plan, Plan)
        assert violations(model, plan) == []
        if plan.metrics["moved_executors"] == 0:
            break
        assert plan.metrics["restarted_workers"] == 2
        steps += 1
    assert f"{steps} steps" in whole.notes[0]
    assert located(plan).keys() == located(whole).keys()
    assert plan.metrics["inter_node_tps"] == pytest.approx(whole.metrics["inter_node_tps"])


def test_inter_node_share_of_a_communication_bound_word_count_falls_by_nine_tenths():
    """The paper's figure: from about 50% to under 6% in 61 steps."""
    model = word_count()
    start = compute(model, "otd", {"steps": 0})
    end = compute(model, "otd", {"steps": 61})
    assert isinstance(start, Plan)
    assert isinstance(end, Plan)
    assert start.metrics["inter_node_share"] == pytest.approx(0.5, abs=0.06)
    assert end.metrics["inter_node_share"] < 0.06


def test_computation_bound_executors_move_to_the_idle_node():
    """All of a topology's CPU on one node of three (95% of it): steps of case 1 until none is above 80%."""
    model = running(
        {**dict.fromkeys(range(1, 20), "n0"), 20: "n1", 21: "n2"},
        {**dict.fromkeys(range(1, 20), 50.0), 20: 10.0, 21: 10.0},
        {},
    )
    plan = compute(model, "otd")
    assert isinstance(plan, Plan)
    assert plan.metrics["max_load_ratio"] == pytest.approx(0.8)
    assert plan.metrics["moved_executors"] >= 3
    assert plan.notes == ["3 steps (3 for load, 0 for traffic); case 3: no move is worth it"]


@settings(max_examples=60, deadline=None)
@given(models(), st.sampled_from([0.5, 0.7, 0.9]), st.sampled_from([0.0, 12.0]))
def test_each_step_is_the_best_of_all_candidates_and_the_steps_end(model, cpu_high, threshold_asc_tps):
    """Against every transfer tried one by one; and what makes the steps end goes down with each of them."""
    frame = frame_of(compile_model(model))
    at = Thresholds(cpu_high=cpu_high, cpu_low=cpu_high - 0.1, threshold_asc_tps=threshold_asc_tps)
    layout = repaired(frame, starting(frame), no_limits(frame.compiled), np.random.default_rng(0), lambda: math.inf)
    assume(not isinstance(layout, Infeasible))
    for _ in range(200):
        answer = step(frame, layout, at)
        case, best = by_hand(frame, layout, at)
        assert answer.case == case
        if not isinstance(answer, Move):
            assert best is None
            break
        assert answer.asc_tps == pytest.approx(best)
        after = moved(layout, answer)
        if case == 3:
            assert crossing_tps(frame, after) < crossing_tps(frame, layout)
        assert excess_mhz(frame, after, at) <= excess_mhz(frame, layout, at) - (1e-3 if case == 1 else -1e-6)
        layout = after
    else:
        raise AssertionError("it does not end")


def by_hand(frame: Frame, layout: Layout, at: Thresholds) -> tuple[int, float | None]:
    """The case, and the largest ASC of all candidates (in case 1 those of the most loaded worker that has some)."""
    c = frame.compiled
    node = layout.node_of_executors()
    load = np.bincount(node, c.cpu_mhz, c.nodes)
    used = [w for w in range(frame.workers) if layout.node[w] >= 0]
    high = [w for w in used if load[layout.node[w]] > at.cpu_high * c.node_limit_mhz[layout.node[w]] + 1e-6]
    low = [w for w in used if load[layout.node[w]] <= at.cpu_low * c.node_limit_mhz[layout.node[w]] + 1e-6]
    low = [w for w in low if not frame.fixed[w]]  # a worker that must stay as it is takes nothing
    case = (1 if low else 2) if high else (3 if low else 4)
    best = candidates(frame, layout, at, case, high, low)
    if case == 1:
        score = {w: load[layout.node[w]] / c.node_limit_mhz[layout.node[w]] for w in high}
        own = {w: c.cpu_mhz[layout.worker == w].sum() for w in high}
        first = next((w for w in sorted(high, key=lambda w: (-score[w], -own[w], w)) if w in best), None)
        if first is not None:
            return 1, best[first]
        best = candidates(frame, layout, at, 3, high, low)
        return (3, max(best.values())) if best else (1, None)
    return case, max(best.values(), default=None) if case == 3 else None


def candidates(
    frame: Frame, layout: Layout, at: Thresholds, case: int, high: list[int], low: list[int]
) -> dict[int, float]:
    """The largest ASC of a transfer out of each worker that has one."""
    c = frame.compiled
    node = layout.node_of_executors()
    load = np.bincount(node, c.cpu_mhz, c.nodes)
    memory = np.bincount(node, c.memory_mb, c.nodes)
    best: dict[int, float] = {}
    for e in range(c.executors):
        old = int(layout.worker[e])
        if c.fixed[e] or (layout.worker == old).sum() < 2 or (old in high) != (case == 1):
            continue
        for w in low:
            n = int(layout.node[w])
            apart = n != node[e]
            if w == old or frame.topology[w] != c.topology[e] or not c.allowed[c.klass[e], n]:
                continue
            if apart and load[n] + c.cpu_mhz[e] > at.cpu_high * c.node_limit_mhz[n] + 1e-6:
                continue
            if apart and memory[n] + c.memory_mb[e] > c.node_memory_mb[n]:
                continue
            if case == 1 and (not apart or c.cpu_mhz[e] == 0):
                continue
            after = layout.copy()
            after.worker[e] = w
            asc = crossing_tps(frame, layout) - crossing_tps(frame, after)
            if case == 1 or asc > max(at.threshold_asc_tps, 1e-9 * c.total_tps):
                best[old] = max(best.get(old, -math.inf), asc)
    return best


def crossing_tps(frame: Frame, layout: Layout) -> float:
    c = frame.compiled
    host = c.node_host[layout.node_of_executors()]
    return float(c.pair_tps[host[c.pair_a] != host[c.pair_b]].sum())


def excess_mhz(frame: Frame, layout: Layout, at: Thresholds) -> float:
    c = frame.compiled
    load = np.bincount(layout.node_of_executors(), c.cpu_mhz, c.nodes)
    return float(np.maximum(load - at.cpu_high * c.node_limit_mhz, 0).sum())


def test_a_queue_length_that_is_no_number_is_refused_by_name():
    with pytest.raises(UsageError, match=r"executor 1: expected .*queue_tuples"):
        next_step(running({1: "n0", 2: "n0"}, {1: 1.0, 2: 1.0}, {}, queues={1: -5.0}))


@pytest.mark.parametrize(
    "params",
    [{"cpu_high": 1.2}, {"cpu_low": 0.9}, {"queue_low_tuples": 1e6}, {"threshold_asc_tps": -1.0}, {"steps": -1}],
)
def test_wrong_parameters_are_refused_by_name(params):
    with pytest.raises(UsageError, match=next(iter(params))):
        Params(**params)


def word_count(seed: int = 3) -> Model:
    """A word count of 80 executors that use little CPU, dealt over two nodes: what it costs is communication."""
    shape = SHAPES["wordcount"]
    counts = {"lines": 10, "split": 24, "count": 44, "report": 2}
    made = topology("words", counts, workers=2, streams=[(s.source, s.target) for s in shape.streams], cpu_mhz=11.0)
    components = [
        msgspec.structs.replace(
            c, inputs=[Input(component=s.source, grouping=s.grouping) for s in shape.streams if s.target == c.id]
        )
        for c in made.components
    ]
    t = msgspec.structs.replace(made, components=components)
    selectivity = {(s.source, s.name): s.selectivity for s in shape.streams}
    rng = np.random.default_rng(seed)
    moved_ = flows(t, {"lines": 20_000.0}, selectivity, Spread(None, key_skew=0.8), rng)
    nodes = [supervisor(f"n{i}", mhz=1600.0) for i in range(2)]
    return Model(supervisors=nodes, topologies=[t], traffic=moved_.edges)
