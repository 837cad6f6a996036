"""Who comes first across users, and who is left out where not all topologies fit [RAS]."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings

from builders import assigned, located, supervisor, topology
from random_models import models
from stormpilot.errors import UsageError
from stormpilot.model.values import Guarantee, Infeasible, Model, Plan, Topology
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.admission import LeftS, admitted, topology_order


def of(user: str, name: str, *, priority: int = 29, cpu_mhz: float = 100.0, memory_mb: float = 1000.0) -> Topology:
    """A topology of one executor."""
    made = topology(name, {"a": 1}, workers=1, cpu_mhz=cpu_mhz, memory_mb=memory_mb)
    return msgspec.structs.replace(made, owner=user, priority=priority)


def page(*topologies: Topology, nodes: int = 1) -> Model:
    """The example of the Storm page: 300 CPU and 4000 MB in all; A is guaranteed 100/1000, B 200/1500."""
    return Model(
        supervisors=[
            supervisor(f"n{i}", 8 // nodes, mhz=300.0 / nodes, memory_mb=4000.0 / nodes) for i in range(nodes)
        ],
        topologies=list(topologies),
        guarantees=[
            Guarantee(user="A", cpu_mhz=100.0, memory_mb=1000.0),
            Guarantee(user="B", cpu_mhz=200.0, memory_mb=1500.0),
        ],
    )


FOUR = (of("A", "A-1"), of("A", "A-2"), of("B", "B-1"), of("B", "B-2"))


def test_order_and_scores_of_the_storm_page():
    turns = topology_order(page(*FOUR))
    assert [t.topology for t in turns] == ["B-1", "A-1", "B-2", "A-2"]
    assert [t.score for t in turns[:3]] == pytest.approx([-0.125, 0.0, 0.25])


def test_priority_decides_inside_a_user_before_age_and_name():
    first = of("A", "z", priority=0)
    ran = assigned(compute(page(of("A", "y")), "default"), page(of("A", "y"))).topologies[0]
    assert [t.topology for t in topology_order(page(of("A", "x"), ran, first))] == ["z", "y", "x"]


def test_users_without_a_guarantee_come_after_those_below_theirs():
    turns = topology_order(page(of("nobody", "n"), of("B", "b")))
    assert [(t.topology, t.score) for t in turns] == [("b", pytest.approx(-0.125)), ("n", pytest.approx(0.5))]


def test_memory_without_a_limit_is_no_measure():
    model = page(*FOUR)
    unlimited = [msgspec.structs.replace(s, memory_mb=0.0) for s in model.supervisors]
    turns = topology_order(msgspec.structs.replace(model, supervisors=unlimited))
    assert turns[0].score == pytest.approx(-100 / 300)  # B, by CPU alone


def test_without_a_limit_of_memory_users_come_in_the_order_of_their_cpu():
    """Both are below what is guaranteed to them, B further: 700 MHz of 1000 against 10."""
    model = page(of("A", "a"), of("B", "b"))
    nodes = [msgspec.structs.replace(s, memory_mb=0.0, cpu_limit_mhz=1000.0) for s in model.supervisors]
    guarantees = [Guarantee(user="A", cpu_mhz=110.0), Guarantee(user="B", cpu_mhz=800.0)]
    turns = topology_order(msgspec.structs.replace(model, supervisors=nodes, guarantees=guarantees))
    assert [t.user for t in turns] == ["B", "A"]


def test_a_cluster_without_anything_left_scores_infinite():
    turns = topology_order(page(of("A", "a", cpu_mhz=300.0), of("A", "b")))
    assert turns[1].score == math.inf


@pytest.mark.parametrize("planner", ["default", "offline", "online", "otd", "rsm", "ras-order", "best"])
def test_the_last_in_order_is_left_out_and_named(planner):
    """300 MHz hold three of the four."""
    model = page(*FOUR)
    params = {"iterations": 2000} if planner == "best" else {}
    assert isinstance(compute(model, planner, params), Infeasible)
    plan = compute(model, planner, params, partial=True)
    assert isinstance(plan, Plan)
    assert sorted(tp.id for tp in plan.topologies) == ["A-1", "B-1", "B-2"]
    assert list(plan.left_out) == ["A-2"]
    assert plan.left_out["A-2"].startswith("cpu: ")
    assert any(note.startswith("left out: A-2 of A (turn 4 of 4, score ") for note in plan.notes)
    assert plan.planner == planner
    assert violations(model, plan, left_out=plan.left_out) == []
    assert [v.text for v in violations(model, plan)] == ["A-2 is planned 0 times, expected once"]


def test_a_smaller_one_later_in_order_still_gets_its_place():
    """B-1 wants more than there is; A-1 fits."""
    plan = compute(page(of("B", "B-1", cpu_mhz=350.0), of("A", "A-1")), "default", partial=True)
    assert isinstance(plan, Plan)
    assert list(plan.left_out) == ["B-1"]


def test_what_runs_is_never_left_out():
    """A-1 and A-2 run with 100 MHz each; B-1 is furthest below its guarantee, and finds only 100 of its 150 MHz."""
    ours = page(of("A", "A-1"), of("A", "A-2"))
    ran = compute(ours, "default")
    assert isinstance(ran, Plan)
    running = assigned(ran, ours)
    model = msgspec.structs.replace(running, topologies=[*running.topologies, of("B", "B-1", cpu_mhz=150.0)])
    assert topology_order(model)[0].topology == "B-1"
    plan = compute(model, "default", partial=True)
    assert isinstance(plan, Plan)
    assert list(plan.left_out) == ["B-1"]
    assert plan.metrics["moved_executors"] == 0
    told = violations(model, plan, left_out=["B-1", "A-1"])
    assert {"A-1 runs and is left out", "A-1 is planned 1 times, expected none, as it is left out"} == {
        v.text for v in told
    }


def test_running_topologies_move_together_where_that_makes_room():
    """Two nodes of 150 MHz with one of 100 MHz each cannot take 100 more; one of 50 more they can, on either."""
    ours = page(of("A", "A-1"), of("A", "A-2"), nodes=2)
    ran = assigned(compute(ours, "default"), ours)
    model = msgspec.structs.replace(ran, topologies=[*ran.topologies, of("B", "B-1"), of("B", "B-2", cpu_mhz=50.0)])
    plan = compute(model, "default", partial=True)
    assert isinstance(plan, Plan)
    assert list(plan.left_out) == ["B-1"]
    assert located(plan, "B-2")


def test_running_topologies_that_do_not_fit_are_infeasible_and_not_evicted():
    ours = page(of("A", "A-1"), of("A", "A-2"))
    ran = assigned(compute(ours, "default"), ours)
    shrunk = msgspec.structs.replace(
        ran,
        supervisors=[msgspec.structs.replace(s, cpu_limit_mhz=150.0) for s in ran.supervisors],
        topologies=[*ran.topologies, of("B", "B-1")],
    )
    answer = compute(shrunk, "default", partial=True)
    assert isinstance(answer, Infeasible)
    assert "even without the topologies that wait" in answer.text


def test_without_time_what_waits_is_left_out_and_the_reason_is_said():
    ours = page(of("A", "A-1"))
    ran = compute(ours, "default")
    assert isinstance(ran, Plan)
    running = assigned(ran, ours)
    model = msgspec.structs.replace(running, topologies=[*running.topologies, *FOUR[1:]])

    def plan(part: Model, left_s: LeftS = lambda: 0.0) -> Plan | Infeasible:
        return compute(part, "default")

    answer = admitted(model, plan, plan, left_s=lambda: 0.0)
    assert isinstance(answer, Plan)
    assert [tp.id for tp in answer.topologies] == ["A-1"]
    assert answer.left_out == dict.fromkeys(("B-1", "B-2", "A-2"), "no time was left to see whether it fits")


def test_one_that_never_fits_leaves_time_for_the_others():
    """A planner that takes all the time it is given, and finds nothing wherever the large one takes part."""
    model = page(*FOUR[:3])
    large = msgspec.structs.replace(topology("large", {"a": 1}, workers=1), id="large")
    model = msgspec.structs.replace(model, topologies=[large, *model.topologies])
    clock = [60.0]

    def plan(part: Model, left_s: LeftS) -> Plan | Infeasible:
        if any(t.id == "large" for t in part.topologies):
            clock[0] -= left_s()
            return Infeasible(constraint="memory", text="nothing was found")
        return compute(part, "default")

    def probe(part: Model) -> Plan | Infeasible:
        if any(t.id == "large" for t in part.topologies):
            return Infeasible(constraint="memory", text="nothing was found")
        return compute(part, "default")

    answer = admitted(model, plan, probe, left_s=lambda: clock[0])
    assert isinstance(answer, Plan)
    assert list(answer.left_out) == ["large"]
    assert len(answer.topologies) == 3


def test_a_plan_of_everything_leaves_nothing_out():
    plan = compute(page(*FOUR[:3]), "default", partial=True)
    assert isinstance(plan, Plan)
    assert plan == compute(page(*FOUR[:3]), "default")
    assert plan.left_out == {}


def test_guarantees_and_left_out_read_from_files_that_have_none():
    assert msgspec.json.decode(b'{"supervisors": [], "topologies": []}', type=Model).guarantees == []
    assert msgspec.json.decode(b'{"topologies": []}', type=Plan).left_out == {}


@pytest.mark.parametrize(
    ("guarantees", "text"),
    [
        ([Guarantee(user="A"), Guarantee(user="A")], "'A' is there twice"),
        ([Guarantee(user="A", cpu_mhz=-1.0)], "cpu_mhz"),
    ],
)
def test_guarantees_that_make_no_sense_are_refused_by_name(guarantees, text):
    with pytest.raises(UsageError, match=text):
        topology_order(msgspec.structs.replace(page(*FOUR), guarantees=guarantees))


@pytest.mark.parametrize("planner", ["ras-order", "online"])
def test_partial_plans_keep_every_hard_constraint(planner):
    @settings(max_examples=25, deadline=None)
    @given(models())
    def check(model: Model) -> None:
        plan = compute(model, planner, partial=True)
        if isinstance(plan, Plan):
            assert violations(model, plan, exact_workers=planner == "online", left_out=plan.left_out) == []

    check()
