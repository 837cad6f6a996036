"""Where nothing fits with what is measured, what places save is relied on as far as it was learned."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Assigned, CpuLaw, Exclusion, Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute

LAW = CpuLaw(worker_mhz=60.0, in_worker_mhz=0.1, in_node_mhz=0.5, far_mhz=1.0, error_ratio=0.05, rows=40)
SAVED_MHZ = 2 * 60 + 200 * 0.9  # in one worker: two JVMs, and 200 tuples/s that leave no more
RELIED = 1 - 2 * 0.06  # without twice the error
RELIED_MHZ = SAVED_MHZ * RELIED


def drained(limit_mhz: float, law: CpuLaw | None = LAW, *, placed: bool = True) -> Model:
    """A spout and two bolts, 200 MHz each, on three nodes, of which two are drained."""
    t = topology("t", {"a": 1, "b": 1, "c": 1}, streams=[("a", "b"), ("b", "c")], workers=3, cpu_mhz=200.0)
    at = [Assigned(start=e, supervisor=f"n{e}", port=6700) for e in (1, 2, 3)]
    return Model(
        supervisors=[supervisor(n, mhz=limit_mhz) for n in ("n1", "n2", "n3")],
        topologies=[msgspec.structs.replace(t, assignment=at if placed else [], cpu_law=law)],
        traffic=traffic("t", {(1, 2): 100.0, (2, 3): 100.0}),
        exclusions=[Exclusion(supervisor=n, drained=True) for n in ("n2", "n3")],
    )


@pytest.mark.parametrize("flows", ["measured", "flow"])
def test_merging_makes_room_for_what_did_not_fit(flows: str) -> None:
    model = drained(600 - RELIED_MHZ + 1)
    plan = compute(model, "best", seed=1, traffic=flows)  # type: ignore[arg-type]
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert len(plan.topologies[0].workers) == 1
    assert evaluate(model, plan).items() <= plan.metrics.items()
    assert f"relies on {RELIED_MHZ:.0f} MHz less CPU" in plan.notes[-1]


def test_no_more_is_relied_on_than_was_learned() -> None:
    assert isinstance(compute(drained(600 - RELIED_MHZ - 1), "best", seed=1), Infeasible)


def test_topology_without_executors_saves_nothing() -> None:
    model = drained(600 - RELIED_MHZ + 1)
    both = msgspec.structs.replace(model, topologies=[*model.topologies, topology("empty", {})])
    assert isinstance(compute(both, "best", seed=1), Plan)


@pytest.mark.parametrize("law", [None, msgspec.structs.replace(LAW, error_ratio=None), CpuLaw(error_ratio=0.1)])
def test_without_a_learned_law_measured_cpu_has_to_fit(law: CpuLaw | None) -> None:
    answer = compute(drained(599, law), "best", seed=1)
    assert isinstance(answer, Infeasible)
    assert answer.proved


def test_of_what_lost_its_place_nothing_is_saved() -> None:
    """Where it ran nobody knows any more, nor what it paid for that."""
    assert isinstance(compute(drained(599, placed=False), "best", seed=1), Infeasible)


def test_plan_that_fits_as_measured_relies_on_nothing() -> None:
    plan = compute(drained(601), "best", seed=1)
    assert isinstance(plan, Plan)
    assert not any("relies" in note for note in plan.notes)


def test_workers_that_stay_apart_save_only_the_network() -> None:
    """With a worker for each, 200 tuples/s cost 0.5 MHz instead of 1, and no JVM is saved."""
    assert isinstance(compute(drained(600 - 200 * 0.5 * RELIED + 1), "online", seed=1), Plan)
    assert isinstance(compute(drained(600 - 200 * 0.5 * RELIED - 1), "online", seed=1), Infeasible)


@pytest.mark.parametrize(("planner", "proved"), [("online", False), ("best", True)])
def test_what_more_workers_would_need_is_no_proof_that_there_is_no_plan(planner: str, proved: bool) -> None:
    """With all workers in use there is none, by which nothing is proved; even in one worker they need one MHz more."""
    limit_mhz = 600 - (RELIED_MHZ if proved else 200 * 0.5 * RELIED) - 1
    answer = compute(drained(limit_mhz), planner, seed=1)
    assert isinstance(answer, Infeasible)
    assert answer.proved == proved


def test_node_is_refused_by_what_it_would_need() -> None:
    model = drained(600 - RELIED_MHZ + 1)
    plan = compute(model, "best", seed=1)
    assert isinstance(plan, Plan)
    tighter = drained(600 - RELIED_MHZ - 1)
    assert [str(v) for v in violations(tighter, plan)] == [
        f"cpu: n1: {600 - RELIED_MHZ:.0f} MHz of {599 - RELIED_MHZ:.0f} MHz"
    ]


def polls(model: Model, polling_mhz: float) -> Model:
    """The model with so much CPU of each executor that only looks for tuples."""
    (t,) = model.topologies
    executors = [msgspec.structs.replace(e, polling_mhz=polling_mhz) for e in t.executors]
    return msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, executors=executors)])


def test_looking_for_tuples_makes_room_without_a_law() -> None:
    """Three executors give up half of 80 MHz each."""
    model = polls(drained(600 - 120 + 1, None), 80.0)
    plan = compute(model, "best", seed=1)
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert "relies on 120 MHz less CPU than is measured now, 120 MHz of looking for tuples" in plan.notes[-1]
    assert isinstance(compute(polls(drained(600 - 120 - 1, None), 80.0), "best", seed=1), Infeasible)


def test_places_and_looking_for_tuples_both_make_room() -> None:
    both_mhz = RELIED_MHZ + 120
    plan = compute(polls(drained(600 - both_mhz + 1), 80.0), "best", seed=1)
    assert isinstance(plan, Plan)
    assert f"{RELIED_MHZ:.0f} MHz that its places save and 120 MHz of looking for tuples" in plan.notes[-1]
    assert isinstance(compute(polls(drained(600 - both_mhz - 1), 80.0), "best", seed=1), Infeasible)


def test_what_lost_its_place_looks_for_tuples_as_before() -> None:
    assert isinstance(compute(polls(drained(600 - 119, placed=False), 80.0), "best", seed=1), Plan)


def test_no_executor_needs_less_than_nothing() -> None:
    """One that was measured when it was idle polls more than it uses where its traffic is played smaller."""
    assert isinstance(compute(polls(drained(600 - 300 - 1, None), 1e6), "best", seed=1), Infeasible)
    assert isinstance(compute(polls(drained(600 - 300 + 1, None), 1e6), "best", seed=1), Plan)
