"""`exact` on small instances, its bound, and what it says when time or room is missing."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest
from ortools.linear_solver import pywraplp

from builders import supervisor, topology, traffic, triangle_too_heavy, two_chains
from stormpilot.errors import RefusedError, UsageError
from stormpilot.generate.models.clusters import Asked, generate
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Exclusion, Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.bounds.cpsat import any_layout
from stormpilot.planner.bounds.linear import Relaxation, levels_of, relaxation
from stormpilot.planner.methods.exact import optimum
from stormpilot.planner.placement.layout import Layout, frame_of
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import no_limits


def relaxed(model: Model) -> Relaxation:
    compiled = compile_model(model)
    return relaxation(compiled, levels_of(compiled, objective_of(compiled, "inter_node", first_only=True)), lambda: 1.0)


def test_named_instances():
    assert optimum(two_chains(), 10.0).value == pytest.approx(2.0)
    heavy = optimum(triangle_too_heavy(), 10.0)
    assert (heavy.value, heavy.bound, heavy.proved) == (7.0, 7.0, True)


def test_relaxation_of_a_triangle_cuts_half_of_it():
    """Beside an executor there is room for one other, so each pair is together by a half: 6 of 12 tuples/s are cut."""
    assert relaxed(triangle_too_heavy()).bound == pytest.approx(6.0, abs=0.01)


@pytest.mark.parametrize("solves", [1, 2, 3])
def test_a_relaxation_that_is_cut_short_reads_only_what_was_solved(solves, capfd):
    """After cuts were added the solver's last duals are void, and it says so on stderr."""
    asked = itertools.count(1)
    model = generate("loaded", Asked(executors=20, nodes=4, topologies=1), np.random.default_rng(1))[0]
    compiled = compile_model(model)
    cost = levels_of(compiled, objective_of(compiled, "inter_node", first_only=True))
    short = relaxation(compiled, cost, lambda: 1.0 if next(asked) <= solves else 0.0)
    assert next(asked) == solves + 2  # it was the clock that ended it
    assert short.bound <= relaxation(compiled, cost, lambda: 1.0).bound + 1e-6
    assert bool(short.triangles) == (solves > 1)
    assert capfd.readouterr().err == ""


def test_every_solve_of_the_relaxation_ends_with_the_time_that_is_left(monkeypatch):
    limits_ms = []
    limit, solve = pywraplp.Solver.SetTimeLimit, pywraplp.Solver.Solve
    monkeypatch.setattr(pywraplp.Solver, "SetTimeLimit", lambda s, ms: (limits_ms.append(ms), limit(s, ms)))
    monkeypatch.setattr(pywraplp.Solver, "Solve", lambda s: (limits_ms.append("solved"), solve(s))[1])
    compiled = compile_model(triangle_too_heavy())
    cost = levels_of(compiled, objective_of(compiled, "inter_node", first_only=True))
    left_s = iter([60.0, 30.0, 0.0])
    relaxation(compiled, cost, lambda: next(left_s, 0.0))
    assert limits_ms[:2] == [60_000, "solved"]
    assert limits_ms[2:4] in ([], [30_000, "solved"])


def test_no_time_for_a_proof_still_gives_a_plan_and_a_true_bound():
    found = optimum(two_chains(), 1e-3)
    assert found.bound <= 2.0 + 1e-9
    assert found.value >= 2.0 - 1e-9


def test_exact_workers_uses_all_of_them_at_the_same_inter_node_traffic():
    few = compute(two_chains(), "exact")
    t = topology("chains", {"a": 2, "b": 2, "c": 2}, workers=5, streams=[("a", "b"), ("b", "c")])
    model = Model(supervisors=two_chains().supervisors, topologies=[t], traffic=two_chains().traffic)
    many = compute(model, "exact", {"exact_workers": True})
    assert isinstance(few, Plan)
    assert isinstance(many, Plan)
    assert few.metrics["workers"] == 2
    assert many.metrics["workers"] == 5
    assert many.metrics["inter_node_tps"] == few.metrics["inter_node_tps"] == pytest.approx(2.0)
    assert violations(model, many, exact_workers=True) == []


def test_a_topology_takes_no_slot_in_which_the_solution_has_another_one():
    """Both executors of t1 are on n1, in a worker each: there is no slot for two workers of t0."""
    homes = {"t0": ["n1", "n1", "n1", "n1", "n2", "n2"], "t1": ["n1", "n1"]}
    topologies = []
    for name, workers in (("t0", 3), ("t1", 2)):
        t = topology(name, {"a": len(homes[name])}, workers=workers)
        pinned = [msgspec.structs.replace(e, pin=n) for e, n in zip(t.executors, homes[name], strict=True)]
        topologies.append(msgspec.structs.replace(t, executors=pinned))
    nodes = [supervisor("n1", 3), supervisor("n2", 2)]
    frame = frame_of(compile_model(Model(supervisors=nodes, topologies=topologies)))
    found = any_layout(frame, no_limits(frame.compiled, exact_workers=True), 5.0)
    assert isinstance(found, Layout)
    assert np.bincount(frame.topology[found.sizes() > 0]).tolist() == [3, 2]


@pytest.mark.parametrize("planner", ["default", "exact"])
def test_a_rule_of_the_topology_on_workers_is_no_cap_of_the_planner(planner):
    """One executor in a worker, both pinned to a node with one slot."""
    t = topology("t", {"a": 2})
    pinned = [msgspec.structs.replace(e, pin="n1") for e in t.executors]
    t = msgspec.structs.replace(t, executors=pinned, worker_executors=1)
    answer = compute(Model(supervisors=[supervisor("n1", 1), supervisor("n2", 1)], topologies=[t]), planner)
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "alpha" not in answer.text


def test_infeasible_packing_is_proved():
    """Three executors of 60% of a node on two nodes: sums fit, no packing does."""
    t = topology("t", {"a": 3}, workers=3, cpu_mhz=60.0)
    model = Model(supervisors=[supervisor("n1", mhz=100.0), supervisor("n2", mhz=100.0)], topologies=[t])
    answer = compute(model, "exact")
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "cpu" in answer.constraint
    with pytest.raises(RefusedError, match="no placement keeps"):
        optimum(model, 5.0)


def test_what_fits_by_a_hair_is_not_refuted():
    """100.000006 MHz are more than 100.00001 in whole hundred-thousandths, and just what its node has."""
    t = topology("t", {"a": 1, "b": 1}, workers=2, cpu_mhz={"a": 100.000006, "b": 1.0})
    nodes = [supervisor("x", 1, mhz=100.000006), supervisor("y", 1, mhz=50.0)]
    model = Model(
        supervisors=nodes, topologies=[t], exclusions=[Exclusion(supervisor="x", topology="t", component="b")]
    )
    plan = compute(model, "exact")
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []


def test_models_that_are_too_large_are_refused_with_the_size():
    t = topology("t", {"a": 2000}, workers=2, cpu_mhz=1.0)
    model = Model(supervisors=[supervisor(f"n{i}") for i in range(11)], topologies=[t], traffic=traffic("t", {}))
    with pytest.raises(UsageError, match="2000 executors x 11 nodes"):
        compute(model, "exact")


@pytest.mark.parametrize("params", [{"budget_s": 0}, {"threads": 0}, {"budget_s": "soon"}])
def test_bad_parameters_are_refused(params):
    with pytest.raises(UsageError):
        compute(two_chains(), "exact", params)


def test_what_rules_on_workers_forbid_is_not_put_down_to_the_clock():
    """Three heaps of 300 MB in two workers of 500 MB: their sum fits, no packing does."""
    t = topology("t", {"a": 3}, workers=2)
    t = msgspec.structs.replace(
        t, worker_heap_mb=500.0, components=[msgspec.structs.replace(x, heap_mb=300.0) for x in t.components]
    )
    answer = compute(Model(supervisors=[supervisor("n1")], topologies=[t]), "exact")
    assert isinstance(answer, Infeasible)
    assert "time was over" not in answer.text
    assert answer.constraint == "what may share a worker or a node"
