"""What holds for every planner of the registry, on random models with every kind of constraint."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from builders import assigned, located, supervisor, topology, traffic, two_chains, two_sites
from doubles.models import model as cluster
from doubles.models import topology as seen
from random_models import models, ruled_models
from stormpilot.errors import UsageError
from stormpilot.generate.models.clusters import Asked, generate
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Assigned, Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import PLANNERS, compute, planner_named

PARAMS = {
    "best": {"iterations": 15_000},
    "partition": {"iterations": 15_000},
    "exact": {"budget_s": 20.0, "threads": 1},
}
SLOW = {"exact": 10}  # examples; each of the others is cheap

each_planner = pytest.mark.parametrize("name", PLANNERS)


def plan(model: Model, name: str, seed: int = 1) -> Plan | Infeasible:
    return compute(model, name, PARAMS.get(name), seed=seed)


def some(name: str, examples: int = 40) -> settings:
    return settings(max_examples=SLOW.get(name, examples), deadline=None)


@each_planner
def test_a_plan_keeps_every_hard_constraint_and_metrics_are_its_own(name):
    @some(name)
    @given(models() | ruled_models())
    def check(model):
        answer = plan(model, name)
        if isinstance(answer, Plan):
            assert violations(model, answer, exact_workers=PLANNERS[name].exact_workers) == []
            assert answer.metrics == evaluate(model, answer)
            assert (answer.planner, answer.seed) == (name, 1)
        else:
            assert answer.constraint
            assert answer.text

    check()


@each_planner
@pytest.mark.parametrize("slots", [None, []], ids=["no supervisor", "no slot"])
def test_a_cluster_without_a_slot_has_no_plan_and_the_text_says_so(name, slots):
    """All supervisors are lost, or other topologies hold every slot."""
    whole = two_chains()
    supervisors = [] if slots is None else [msgspec.structs.replace(s, slots=slots) for s in whole.supervisors]
    answer = plan(msgspec.structs.replace(whole, supervisors=supervisors), name)
    assert isinstance(answer, Infeasible)
    assert (answer.constraint, answer.proved, len(answer.executors)) == ("slots", True, 6)
    assert answer.text == ("there is no supervisor" if slots is None else "no supervisor has a slot")


@each_planner
def test_same_model_and_seed_give_the_same_plan(name):
    @some(name, 15)
    @given(models())
    def check(model):
        assert plan(model, name, seed=7) == plan(model, name, seed=7)

    check()


@each_planner
def test_planning_from_its_own_result_moves_nothing(name):
    @some(name, 25)
    @given(models())
    def check(model):
        first = plan(model, name)
        if isinstance(first, Plan):
            again = plan(assigned(first, model), name)
            assert isinstance(again, Plan)
            assert again.metrics["moved_executors"] == 0
            assert again.metrics["restarted_workers"] == 0
            assert again.topologies == first.topologies

    check()


WITHOUT_CHANCE = [n for n in PLANNERS if n not in ("best", "partition", "exact")]


@pytest.mark.parametrize("name", WITHOUT_CHANCE)
def test_planning_a_loaded_cluster_from_its_own_result_moves_nothing_whatever_the_seed(name):
    """Tight enough that what is dealt or packed has to be repaired."""
    model = loaded()
    first = plan(model, name, seed=1)
    assert isinstance(first, Plan)
    for seed in (1, 2):
        again = plan(assigned(first, model), name, seed=seed)
        assert isinstance(again, Plan)
        assert (again.metrics["moved_executors"], again.metrics["restarted_workers"]) == (0, 0)
        assert again.topologies == first.topologies


@pytest.mark.parametrize("name", ["best", "partition"])
def test_a_search_keeps_its_own_result_on_a_loaded_cluster(name):
    model = loaded()
    first = plan(model, name)
    assert isinstance(first, Plan)
    again = plan(assigned(first, model), name)
    assert isinstance(again, Plan)
    assert again.topologies == first.topologies


def loaded() -> Model:
    """60 executors of two topologies on six nodes."""
    return generate("loaded", Asked(executors=60, nodes=6, topologies=2), np.random.default_rng(1))[0]


@each_planner
def test_proved_infeasible_is_never_said_where_another_planner_finds_a_plan(name):
    """A planner that must use all workers may refuse more than one that need not."""

    @some(name, 25)
    @given(models() | ruled_models())
    def check(model):
        answer = plan(model, name)
        if isinstance(answer, Infeasible) and answer.proved:
            for other in (o for o in ("best", "online") if o != name):  # itself would say the same again
                found = plan(model, other)
                if isinstance(found, Plan) and not violations(model, found, exact_workers=PLANNERS[name].exact_workers):
                    raise AssertionError(f"{name} says {answer.text}; {other} found a plan")

    check()


@each_planner
def test_unconstrained_models_with_room_are_always_planned(name):
    roomy = Model(
        supervisors=[supervisor(f"n{i}", 4) for i in range(3)],
        topologies=[topology("t", {"a": 3, "b": 4}, workers=4, streams=[("a", "b")])],
    )
    assert isinstance(plan(roomy, name), Plan)


@each_planner
def test_a_model_without_topologies_gives_an_empty_plan(name):
    answer = plan(Model(supervisors=[supervisor("n1")], topologies=[]), name)
    assert isinstance(answer, Plan)
    assert answer.topologies == []


@each_planner
@pytest.mark.parametrize("fixed", [[], [("a", 1)]], ids=["none fixed", "the second fixed"])
def test_two_topologies_that_were_seen_in_one_slot_are_planned(name, fixed):
    """Their snapshots are of different moments: one of them is no longer there, and it is not the fixed one."""
    first = seen({("a", 1): (1, 2), ("b", 1): (3, 4)})
    second = seen({("a", 1): (1, 2), ("c", 1): (3, 4)}, "wordcount")
    model = cluster(first, msgspec.structs.replace(second, fixed_workers=fixed))
    answer = plan(model, name)
    assert isinstance(answer, Plan)
    assert violations(model, answer) == []


@each_planner
@pytest.mark.parametrize("rule", [{"worker_executors": 2}, {"worker_heap_mb": 2.0}], ids=["executors", "heap"])
def test_a_fixed_worker_that_exceeds_a_rule_is_no_proof_against_the_others(name, rule):
    """Four of the five executors are in a fixed worker; the other worker has one, and may have two."""
    t = topology("t", {"a": 5})
    t = msgspec.structs.replace(
        t,
        components=[msgspec.structs.replace(t.components[0], heap_mb=1.0)],
        assignment=[Assigned(start=i, supervisor="n1" if i < 5 else "n2", port=6700) for i in range(1, 6)],
        fixed_workers=[("n1", 6700)],
        **rule,
    )
    model = Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[t])
    answer = plan(model, name)
    assert isinstance(answer, Plan)
    assert violations(model, answer) == []


@each_planner
@pytest.mark.parametrize("rule", [{"all_apart": True}, {"worker_heap_mb": 200.0}], ids=["apart", "heap"])
def test_rules_on_workers_are_kept_where_there_is_one_node(name, rule):
    """Who may not stay in a worker has no other node to go to, only another worker."""
    t = topology("t", {"a": 2, "b": 2}, streams=[("a", "b")])
    components = [msgspec.structs.replace(c, heap_mb=100.0) for c in t.components]
    t = msgspec.structs.replace(t, components=components, **rule)
    rates = traffic("t", {(1, 3): 10.0, (2, 4): 10.0})
    answer = plan(model := Model(supervisors=[supervisor("n1", 2)], topologies=[t], traffic=rates), name)
    assert isinstance(answer, Plan)
    assert violations(model, answer) == []


@each_planner
def test_sites_bind_components_and_leave_the_others_free(name):
    answer = plan(two_sites(), name)
    assert isinstance(answer, Plan)
    where = located(answer)
    assert {where[1][0], where[2][0]} == {"e"}
    assert {where[5][0], where[6][0]} == {"w"}


@each_planner
def test_an_executor_too_large_for_every_node_is_named_and_proved(name):
    heavy = topology("t", {"a": 2, "big": 1}, cpu_mhz={"a": 10.0, "big": 20_000.0})
    answer = plan(Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[heavy]), name)
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert answer.constraint == "cpu"
    assert answer.executors == [("t", 3)]
    assert "big" in answer.text


@each_planner
def test_too_few_slots_for_the_topologies_is_proved(name):
    many = [topology(f"t{i}", {"a": 1}, workers=1) for i in range(3)]
    answer = plan(Model(supervisors=[supervisor("n1", 2)], topologies=many), name)
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert answer.constraint == "slots"


@each_planner
def test_missing_site_names_site_and_component(name):
    lost = topology("t", {"a": 1, "b": 1}, sites={"b": "mars"})
    answer = plan(Model(supervisors=[supervisor("n1")], topologies=[lost]), name)
    assert isinstance(answer, Infeasible)
    assert answer.constraint == "site"
    assert "mars" in answer.text
    assert "b" in answer.text


@each_planner
def test_unknown_parameters_are_refused_by_name(name):
    with pytest.raises(UsageError, match="no parameter 'speed'"):
        compute(two_chains(), name, {"speed": 3})


def test_unknown_planner_lists_those_there_are():
    with pytest.raises(UsageError, match="default, offline"):
        planner_named("magic")


def test_every_planner_says_what_it_is_and_where_it_comes_from():
    for name, planner in PLANNERS.items():
        assert planner.name == name
        assert planner.summary
        assert planner.source
        planner.params()  # every parameter has a default


def test_traffic_of_a_plan_between_planners_is_ordered_as_it_must_be():
    """On the same model: exact <= best <= each of the others."""
    model = two_chains()
    cost = {}
    for name in PLANNERS:
        answer = plan(model, name)
        assert isinstance(answer, Plan)
        cost[name] = answer.metrics["inter_node_tps"]
    assert cost["exact"] == pytest.approx(2.0)
    for a, b in itertools.product(("exact", "best"), PLANNERS):
        assert cost[a] <= cost[b] + 1e-9
