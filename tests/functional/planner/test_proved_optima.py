"""`exact` and bounds against every placement tried out, and against `best`, on random models."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from doubles.models import model as model_of
from doubles.models import topology
from random_models import models
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Infeasible, Model, Plan, TopologyPlan, Worker
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.bounds.groups import grouped_bound
from stormpilot.planner.bounds.linear import levels_of, relaxation
from stormpilot.planner.placement.objective import objective_of


def least_by_trying_all(model: Model) -> float:
    """Least inter-node traffic over all assignments of executors to nodes, one worker per topology and node."""
    host = {s.id: s.host for s in model.supervisors}
    everyone = [(t.id, e) for t in model.topologies for e in t.executors]
    least = math.inf
    for nodes in itertools.product([s.id for s in model.supervisors], repeat=len(everyone)):
        where = {(t, e.start): n for (t, e), n in zip(everyone, nodes, strict=True)}
        cost = sum(x.rate for x in model.traffic if host[where[x.topology, x.from_]] != host[where[x.topology, x.to]])
        if cost < least and not violations(model, _plan(model, everyone, where)):
            least = cost
    return least


def _plan(model, everyone, where):
    ports = {s.id: iter(s.slots) for s in model.supervisors}
    held: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for t, e in everyone:
        held.setdefault((t, where[t, e.start]), []).append((e.start, e.end))
    plans: dict[str, list[Worker]] = {t.id: [] for t in model.topologies}
    for (t, node), executors in held.items():
        plans[t].append(Worker(supervisor=node, port=next(ports[node], -1), executors=executors))
    return Plan(topologies=[TopologyPlan(id=t, workers=workers) for t, workers in plans.items()])


def least_metric(model: Model, metric: str) -> float:
    """The same for a metric of a plan."""
    everyone = [(t.id, e) for t in model.topologies for e in t.executors]
    least = math.inf
    for nodes in itertools.product([s.id for s in model.supervisors], repeat=len(everyone)):
        plan = _plan(model, everyone, {(t, e.start): n for (t, e), n in zip(everyone, nodes, strict=True)})
        if not violations(model, plan):
            least = min(least, evaluate(model, plan)[metric])
    return least


def small(model: Model, most: int = 800) -> bool:
    executors = sum(len(t.executors) for t in model.topologies)
    return len(model.supervisors) ** executors <= most and not any(t.fixed_workers for t in model.topologies)


def test_a_proof_within_wishes_or_the_cpu_measured_says_so() -> None:
    plain = model_of(topology(), limit_mhz=800.0)
    t = plain.topologies[0]
    north = [replace(s, site="north") if s.id == "c" else s for s in plain.supervisors]
    sited = [replace(c, site="north", site_required=False) if c.id == "y" else c for c in t.components]
    polling = [replace(e, polling_mhz=10.0) for e in t.executors]
    said = {
        way: exact_note(replace(plain, supervisors=north, topologies=[replace(t, **changed)]))
        for way, changed in {
            "plain": {},
            "site": {"components": [replace(sited[0], site="south", site_required=False), sited[1]]},
            "nodes": {"favored_nodes": ["a"]},
            "polling": {"executors": polling},
        }.items()
    }
    bare, wishes = "optimal: no plan has less than 0 tuples/s between nodes", "within the wishes for nodes and sites"
    assert said["plain"] == bare
    assert wishes in said["site"]
    assert said["nodes"].startswith(f"{bare}, {wishes}")
    assert said["polling"] == f"{bare}, with the CPU as measured"


def exact_note(m: Model) -> str:
    """The first note of `exact`: what it proved."""
    answer = compute(m, "exact", {"threads": 1})
    assert isinstance(answer, Plan)
    return answer.notes[0]


@settings(max_examples=25, deadline=None)
@given(models(most_executors=6).filter(small))
def test_optimum_is_that_of_all_placements_tried(model):
    least = least_by_trying_all(model)
    answer = compute(model, "exact", {"threads": 1})
    optional_site_given_up = isinstance(answer, Plan) and any("given up" in n for n in answer.notes)
    if math.isinf(least):
        assert isinstance(answer, Infeasible)
        assert answer.proved
    elif not optional_site_given_up and not any(not c.site_required for t in model.topologies for c in t.components):
        assert isinstance(answer, Plan)
        assert answer.metrics["inter_node_tps"] == pytest.approx(least, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(models(constrained=False, most_executors=6).filter(small))
def test_relaxation_is_never_above_the_optimum(model):
    least = least_by_trying_all(model)
    compiled = compile_model(model)
    cost = levels_of(compiled, objective_of(compiled, "inter_node", first_only=True))
    assert relaxation(compiled, cost, lambda: 1.0).bound <= least + 1e-6


@pytest.mark.parametrize(("objective", "metric"), [("network_cost", "network_cost_tps"), ("ras", "ras_network_metric")])
def test_the_other_objectives_are_proved_over_racks_and_workers(objective, metric):
    """One worker per topology and node is best for both, so that all placements on nodes are all there are."""

    @settings(max_examples=25, deadline=None)
    @given(models(constrained=False, most_executors=6).filter(lambda m: small(m, 130)))
    def check(model):
        least = least_metric(model, metric)
        answer = compute(model, "exact", {"objective": objective})
        if math.isinf(least):
            assert isinstance(answer, Infeasible)
            assert answer.proved
        else:
            assert isinstance(answer, Plan)
            assert answer.metrics[metric] == pytest.approx(least, rel=1e-6, abs=1e-9)
            assert answer.notes[0].startswith("optimal")

    check()


@settings(max_examples=25, deadline=None)
@given(models(most_executors=8))
def test_a_proved_optimum_of_the_ras_metric_is_never_undercut(model):
    """With fixed workers, shared hosts and every other constraint."""
    exact = compute(model, "exact", {"objective": "ras"})
    best = compute(model, "best", {"objective": "ras", "iterations": 15_000})
    if isinstance(exact, Plan) and isinstance(best, Plan) and exact.notes[0].startswith("optimal"):
        least = exact.metrics["ras_network_metric"]
        given_up = any("given up" in n for n in (*exact.notes, *best.notes))
        assert given_up or best.metrics["ras_network_metric"] >= least - 1e-6
        assert f"{least:.6g}" in exact.notes[0]


@settings(max_examples=25, deadline=None)
@given(models())
def test_the_bound_by_groups_is_never_above_a_plan_of_any_model(model):
    """With sites, memory, pins, exclusions, fixed workers and nodes on one host."""
    plan = compute(model, "exact", {"threads": 1})
    if isinstance(plan, Plan):
        assert grouped_bound(compile_model(model)) <= plan.metrics["inter_node_tps"] * (1 + 1e-9) + 1e-9
