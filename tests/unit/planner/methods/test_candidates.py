"""What `best` is told by the other planners before it searches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from large_models import unlike_cluster
from proved_optima import proved
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Plan
from stormpilot.planner import compute
from stormpilot.planner.methods import best, partition, starts
from stormpilot.planner.placement.layout import frame_of
from stormpilot.planner.placement.result import Result
from stormpilot.planner.search import rounds


@pytest.mark.parametrize("seed", range(4))
def test_every_other_planners_plan_is_a_candidate_on_a_small_model(seed):
    model, _ = proved(seed)
    others = [compute(model, name, seed=seed) for name in ("sam", "online", "offline", "default", "rsm", "dsm")]
    costs = [plan.metrics["inter_node_tps"] for plan in others if isinstance(plan, Plan)]
    assert costs
    frame = frame_of(compile_model(model))
    portfolio = best.Portfolio(frame, best.Params(), np.random.default_rng(seed), lambda: math.inf)
    portfolio._candidates()
    assert portfolio.best is not None
    c, node = frame.compiled, portfolio.best.node_of_executors()
    between_nodes_tps = c.pair_tps[node[c.pair_a] != node[c.pair_b]].sum()
    assert between_nodes_tps <= min(costs) * (1 + 1e-9)


def test_in_a_large_model_with_little_time_partition_is_not_lost_to(monkeypatch):
    """It once was on a cluster of 36,086 executors: its division was searched on from for less time than it takes."""
    monkeypatch.setattr(partition, "LARGE_FROM", 200)
    frame = frame_of(compile_model(unlike_cluster()))
    executors = frame.compiled.executors
    asked = partition.Params(min_gain=0.0)
    alone = partition.place(frame, asked, np.random.default_rng(5), lambda: math.inf)
    assert isinstance(alone, Result)
    little_s = 0.9 * starts.ITSELF_S * executors
    portfolio = best.Portfolio(frame, best.Params(), np.random.default_rng(5), lambda: little_s)
    portfolio._candidates()
    assert portfolio.cost <= portfolio.annealer.cost(alone.layout) * (1 + 1e-9)


def test_in_a_large_model_with_time_for_it_every_division_is_searched_from(monkeypatch):
    """What repair costs hides which division is better to search from."""
    monkeypatch.setattr(partition, "LARGE_FROM", 200)
    frame = frame_of(compile_model(unlike_cluster()))
    portfolio = best.Portfolio(frame, best.Params(), np.random.default_rng(5), lambda: math.inf)
    portfolio._candidates()
    assert len(portfolio.starts.divisions) == 2
    first = rounds.Phase(2, 1.0, rounds.FRESH, 0)
    heads = portfolio._heads(first, [], [])
    assert sorted(map(id, heads)) == sorted(map(id, portfolio.starts.divisions))
