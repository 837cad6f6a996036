"""`best`: the optimum on small models, never worse than now, few restarts, the clock said aloud."""

from __future__ import annotations

import itertools
import math
import re

import msgspec
import numpy as np
import pytest

from builders import assigned, supervisor, together, topology, traffic, two_chains
from large_models import loaded_cluster, unlike_cluster
from proved_optima import proved
from stormpilot.errors import UsageError
from stormpilot.generate.models import Loaded, Small, loaded, small
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Model, Plan, TopologyPlan, Worker
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.methods import best
from stormpilot.planner.placement.layout import frame_of


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_proved_optimum_on_small_clusters(seed):
    model, least_tps = proved(seed)
    found = compute(model, "best", seed=seed)
    assert isinstance(found, Plan)
    assert found.metrics["inter_node_tps"] == pytest.approx(least_tps, rel=1e-6)


def alike_nodes() -> Model:
    """Four pairs on four nodes that are alike, all at their best place now."""
    t = topology("t", {"a": 4, "b": 4}, workers=4, streams=[("a", "b")])
    rates = {(i, i + 4): 10.0 * i for i in range(1, 5)}
    model = Model(
        supervisors=[supervisor(f"n{i}", mhz=200.0) for i in range(4)], topologies=[t], traffic=traffic("t", rates)
    )
    workers = [Worker(supervisor=f"n{i}", port=6702, executors=[(4 - i, 4 - i), (8 - i, 8 - i)]) for i in range(4)]
    return assigned(Plan(topologies=[TopologyPlan(id="t", workers=workers)]), model)


def test_an_optimal_present_placement_stays_as_it_is():
    plan = compute(alike_nodes(), "best")
    assert isinstance(plan, Plan)
    assert plan.metrics["restarted_workers"] == 0
    assert any("stays" in note for note in plan.notes)


def test_of_plans_that_cost_the_same_the_one_with_fewest_restarts_wins():
    """Two executors stand exchanged: putting them right touches their two workers and no other."""
    model = alike_nodes()
    t = model.topologies[0]
    at = {a.start: a for a in t.assignment}
    swapped = [
        msgspec.structs.replace(a, start={5: 6, 6: 5}.get(a.start, a.start)) if a.start in (5, 6) else a
        for a in at.values()
    ]
    model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, assignment=swapped)])
    for seed in range(3):
        plan = compute(model, "best", seed=seed)
        assert isinstance(plan, Plan)
        assert plan.metrics["inter_node_tps"] == 0
        assert plan.metrics["restarted_workers"] == 2
        assert plan.metrics["moved_executors"] in (2, 4)  # in place, or on fresh ports


def test_without_any_traffic_an_overload_restarts_no_more_than_it_takes():
    """Twelve workers of two executors on a node each; one node has room for one of them, the others for three."""
    t = topology("t", {"a": 24}, workers=12, cpu_mhz=300.0)
    model = Model(supervisors=[supervisor(f"n{i}", mhz=1000.0 if i else 500.0) for i in range(12)], topologies=[t])
    workers = [Worker(supervisor=f"n{i}", port=6700, executors=[(e, e) for e in (i + 1, i + 13)]) for i in range(12)]
    running = assigned(Plan(topologies=[TopologyPlan(id="t", workers=workers)]), model)
    answer = compute(running, "best", {"iterations": 15_000})
    assert isinstance(answer, Plan)
    assert violations(running, answer) == []
    assert answer.metrics["restarted_workers"] == 2


def test_restart_cost_holds_back_a_move_that_wins_less():
    """Putting two exchanged executors right wins 30 tuples/s and restarts two workers."""
    model = alike_nodes()
    t = model.topologies[0]
    swapped = [msgspec.structs.replace(a, start={5: 6, 6: 5}.get(a.start, a.start)) for a in t.assignment]
    model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, assignment=swapped)])
    cheap = compute(model, "best", {"restart_tps": 14.0})
    dear = compute(model, "best", {"restart_tps": 16.0})
    assert isinstance(cheap, Plan)
    assert isinstance(dear, Plan)
    assert cheap.metrics["restarted_workers"] == 2
    assert dear.metrics["restarted_workers"] == 0


def test_changed_workers_go_to_ports_that_are_free_now():
    model = two_chains()
    crossed = [
        Worker(supervisor="n1", port=6700, executors=[(1, 1), (4, 4), (5, 5)]),
        Worker(supervisor="n2", port=6700, executors=[(2, 2), (3, 3), (6, 6)]),
    ]
    model = assigned(Plan(topologies=[TopologyPlan(id="chains", workers=crossed)]), model)
    plan = compute(model, "best")
    assert isinstance(plan, Plan)
    assert together(plan) == {frozenset({1, 3, 5}), frozenset({2, 4, 6})}
    assert {w.port for w in plan.topologies[0].workers} == {6701}


def test_cut_by_the_clock_says_so_and_is_still_sound():
    ticks = itertools.count()
    model = small(Small(), np.random.default_rng(3))
    plan = compute(model, "best", left_s=lambda: 5.0 - next(ticks))
    assert isinstance(plan, Plan)
    assert any("clock" in note for note in plan.notes)
    assert violations(model, plan) == []


@pytest.mark.parametrize("traffic_of", ["measured", "flow"])
def test_without_any_time_a_sound_present_placement_is_never_made_worse(traffic_of):
    """The clock is over before the search begins."""
    model = loaded_cluster()
    now = compute(model, "online")
    assert isinstance(now, Plan)
    plan = compute(assigned(now, model), "best", left_s=lambda: 0.0, traffic=traffic_of)
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    figure = "inter_node_tps" if traffic_of == "measured" else "flow_inter_node_tps"
    before = compute(assigned(now, model), "online", traffic=traffic_of)
    assert isinstance(before, Plan)
    assert plan.metrics[figure] <= before.metrics[figure] * (1 + 1e-9)


def test_a_search_ends_where_nothing_crosses_nodes_and_something_is_left_to_win():
    """Traffic between workers of one node: no topology has any between nodes, at which alone it would be improved."""
    parallelism = {"a": 16, "b": 16}
    names = ("one", "two")
    jobs = [topology(t, parallelism, streams=[("a", "b")]) for t in names]
    jobs = [msgspec.structs.replace(t, worker_executors=20) for t in jobs]
    rates = {(a, b): 1.0 + (a == b - 16) * 50.0 for a in range(1, 17) for b in range(17, 33)}
    edges = [e for t in names for e in traffic(t, rates)]
    model = Model(supervisors=[supervisor("n1")], topologies=jobs, traffic=edges)
    asked = itertools.count()
    answer = compute(model, "best", {"iterations": 30_000}, left_s=lambda: 1000.0 if next(asked) < 10_000 else 0.0)
    assert isinstance(answer, Plan)
    assert answer.metrics["inter_node_tps"] == 0
    assert not [note for note in answer.notes if "clock" in note]


def test_the_same_iterations_find_the_same_plan_on_any_number_of_threads():
    model = loaded(Loaded(executors=130, topologies=5, load=0.75), np.random.default_rng(4))
    plans = [compute(model, "best", {"iterations": 200_000, "threads": n}, seed=5) for n in (1, 2, 5)]
    assert all(isinstance(p, Plan) for p in plans)
    assert plans[0].topologies == plans[1].topologies == plans[2].topologies


@pytest.mark.parametrize("gains", [[0.5, 0.01, 0.0005], [0.0, 0.0], [0.2, 0.0]])
def test_without_a_budget_it_stops_after_a_round_that_gains_less_than_a_thousandth(gains):
    """Each round is as long as all before it together, so that one that gains next to nothing says enough."""
    lengths: list[float] = []

    class Scripted(best.Portfolio):
        def _round(self, starts, tries, parts):
            self.cost *= 1 - gains[len(lengths)]
            lengths.append(tries)
            self.budget.tried += int(tries)

    frame = frame_of(compile_model(loaded_cluster()))
    search = Scripted(frame, best.Params(), np.random.default_rng(1), lambda: math.inf)
    search.run(None)
    assert len(lengths) == len(gains)
    for i in range(1, len(lengths)):
        assert lengths[i] >= sum(lengths[:i])


class Ticking:
    """A clock on which each look takes a hundredth of a second."""

    def __init__(self, seconds: float) -> None:
        self.looks_left = round(seconds * 100)

    def __call__(self) -> float:
        self.looks_left -= 1
        return self.looks_left / 100


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1, 0.3, 1.0, 3.0])
def test_whenever_the_clock_ends_the_plan_is_sound_and_no_worse_than_what_runs(seconds):
    model = unlike_cluster()
    now = compute(model, "ras-order")
    assert isinstance(now, Plan)
    plan = compute(assigned(now, model), "best", left_s=Ticking(seconds))
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert plan.metrics["inter_node_tps"] <= now.metrics["inter_node_tps"] * (1 + 1e-9)


@pytest.mark.parametrize("traffic_of", ["measured", "flow"])
def test_a_clock_that_is_over_before_the_search_begins_leaves_a_plan_that_was_searched_for(traffic_of):
    """On a busy machine 3 s were over after 0 moves tried, and the plan was 3.8 times worse."""
    model = loaded(Loaded(executors=13, topologies=2, nodes=4), np.random.default_rng(1))
    plan = compute(model, "best", left_s=lambda: 0.0, traffic=traffic_of)
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    (tried,) = [int(n) for note in plan.notes for n in re.findall(r"after (\d+) moves tried", note)]
    assert tried >= 20 * 13


def test_a_time_budget_is_used():
    clock = Ticking(20.0)
    plan = compute(loaded_cluster(), "best", left_s=clock)
    assert isinstance(plan, Plan)
    assert clock() < 1.0


@pytest.mark.parametrize("traffic_of", ["measured", "flow"])
def test_a_plan_that_costs_nothing_ends_the_search_whatever_the_budget_is(traffic_of):
    t = topology("t", {"a": 40, "b": 40}, workers=1, streams=[("a", "b")])
    rates = {(i, i + 40): 1.0 * i for i in range(1, 41)}
    nodes = [supervisor(f"n{i}") for i in range(2)]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("t", rates))
    clock = Ticking(1000.0)
    plan = compute(model, "best", left_s=clock, traffic=traffic_of)
    assert isinstance(plan, Plan)
    assert plan.metrics["inter_node_tps"] == 0
    assert clock() > 900.0


@pytest.mark.parametrize("traffic_of", ["measured", "flow"])
def test_on_a_small_model_the_clock_changes_nothing_unless_it_cuts(traffic_of):
    """So it is found anew, however busy the machine is."""
    model = small(Small(executors=7), np.random.default_rng(8))
    alone = compute(model, "best", seed=2, traffic=traffic_of)
    clock = Ticking(1000.0)
    timed = compute(model, "best", seed=2, left_s=clock, traffic=traffic_of)
    assert isinstance(alone, Plan) and isinstance(timed, Plan)
    assert timed.topologies == alone.topologies
    assert clock() > 900.0


def test_without_a_budget_a_search_that_finds_no_sound_plan_ends():
    lengths: list[float] = []

    class Fruitless(best.Portfolio):
        def _round(self, starts, tries, parts):
            lengths.append(tries)
            self.budget.tried += int(tries)

        def _consider(self, layout):
            return math.inf

    frame = frame_of(compile_model(loaded_cluster()))
    search = Fruitless(frame, best.Params(), np.random.default_rng(1), lambda: math.inf)
    search.run(None)
    assert len(lengths) == 2
    assert search.best is None


def test_network_cost_prefers_the_own_rack():
    """Two pairs that must be split over two nodes each: halves stay in one rack."""
    t = topology("t", {"a": 2, "b": 2}, workers=4, streams=[("a", "b")])
    nodes = [supervisor(f"n{i}", mhz=100.0, rack=f"r{i % 2}") for i in range(4)]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 3): 10.0, (2, 4): 10.0}))
    plan = compute(model, "best", {"objective": "network_cost"})
    assert isinstance(plan, Plan)
    assert evaluate(model, plan)["network_cost_tps"] == pytest.approx(40.0)


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "speed"},
        {"restart_tps": -1},
        {"iterations": -5},
        {"min_gain": 2},
        {"iterations": 1.5},
        {"threads": 0},
    ],
)
def test_bad_parameters_are_refused(params):
    with pytest.raises(UsageError):
        compute(two_chains(), "best", params)
