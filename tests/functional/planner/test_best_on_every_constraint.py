"""`best` from placements that run, on random models and on clusters that are large enough for focused runs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from builders import assigned
from random_models import models
from stormpilot.generate.models import Unlike, unlike
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute


@settings(max_examples=40, deadline=None)
@given(models())
def test_is_never_worse_than_a_present_placement_that_is_sound(model):
    for planner in ("default", "online"):
        now = compute(model, planner)
        if isinstance(now, Plan) and not any("given up" in n for n in now.notes):
            better = compute(assigned(now, model), "best", {"iterations": 2000})
            assert isinstance(better, Plan)
            assert better.metrics["inter_node_tps"] <= now.metrics["inter_node_tps"] * (1 + 1e-9) + 1e-9


def ruled_cluster(seed: int, rules: bool) -> Model:
    """Five topologies on unlike nodes in two sites, memory that binds; with `rules`, on who shares a worker or node."""
    made = unlike(Unlike(executors=160, topologies=5, sites=2, memory_load=0.5, nodes=12), np.random.default_rng(seed))
    if not rules:
        return made
    topologies = []
    for i, t in enumerate(made.topologies):
        most = max(2, -(-2 * len(t.executors) // t.workers))
        first, second, *_ = (c.id for c in t.components)
        components = [
            msgspec.structs.replace(c, heap_mb=10.0, resources={"gpu": 0.05} if n == 1 else {})
            for n, c in enumerate(t.components)
        ]
        topologies.append(
            msgspec.structs.replace(
                t,
                components=components,
                worker_executors=most if i % 2 else None,
                worker_heap_mb=None if i % 2 else 10.0 * most,
                apart=[(first, second)] if i == 4 else [],
            )
        )
    supervisors = [
        msgspec.structs.replace(s, resources={"gpu": 4.0} if n % 2 else {"gpu": 1.0})
        for n, s in enumerate(made.supervisors)
    ]
    return msgspec.structs.replace(made, topologies=topologies, supervisors=supervisors)


@pytest.mark.parametrize(("seed", "rules"), [(1, True), (2, False), (2, True), (3, False)])
def test_focused_runs_keep_every_constraint(seed, rules):
    """Models that are large enough for them, with tries for whole rounds, from a placement that runs.

    Of each kind of model, one where focused runs are the whole round and one where they end it.
    """
    model = ruled_cluster(seed, rules)
    now = compute(model, "best", {"iterations": 0}, seed=seed)
    assert isinstance(now, Plan), now
    running = assigned(now, model)
    for params in ({}, {"restart_tps": 5.0}, {"exact_workers": True}):
        plan = compute(running, "best", {"iterations": 400_000, **params}, seed=seed)
        if isinstance(plan, Plan):
            assert violations(running, plan) == []
            assert plan.metrics["inter_node_tps"] <= now.metrics["inter_node_tps"] or params
        else:
            assert "exact_workers" in params and rules
