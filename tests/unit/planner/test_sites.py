"""The four points on which the site-aware demo of G15 breaks, inside the planners of the papers."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from builders import assigned, located, supervisor, topology, traffic
from stormpilot.model.values import Infeasible, Model, Plan, Supervisor
from stormpilot.model.violations import violations
from stormpilot.planner import PLANNERS, compute
from stormpilot.planner.registry import MOST_ROUNDS, Planner, run

each_planner = pytest.mark.parametrize("name", ["default", "offline", "online", "otd", "rsm", "ras-order"])


def cluster(*nodes: Supervisor) -> Model:
    """source (anywhere) -> parse (site east, four executors of 100 MHz) -> sink (anywhere)."""
    t = topology(
        "t",
        {"source": 2, "parse": 4, "sink": 2},
        workers=4,
        streams=[("source", "parse"), ("parse", "sink")],
        sites={"parse": "east"},
    )
    return Model(supervisors=list(nodes), topologies=[t])


def east(name: str, *, slots: int = 2, mhz: float = 250.0) -> Supervisor:
    return supervisor(name, slots, mhz=mhz, site="east")


def planned(model: Model, name: str) -> Plan:
    answer = compute(model, name)
    assert isinstance(answer, Plan)
    assert violations(model, answer) == []
    return answer


@each_planner
def test_supervisors_and_components_without_a_tag_take_part(name):
    """east holds two executors each: source and sink have to go to the node without a tag."""
    where = located(planned(cluster(east("e0"), east("e1"), supervisor("plain", 2)), name))
    assert {where[task][0] for task in (3, 4, 5, 6)} <= {"e0", "e1"}
    assert "plain" in {where[task][0] for task in (1, 2, 7, 8)}


@each_planner
def test_a_site_without_a_free_slot_names_site_and_component(name):
    answer = compute(cluster(east("e0", slots=0), supervisor("plain", 4)), name)
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "parse" in answer.text
    assert "east" in answer.text
    assert answer.executors == [("t", task) for task in (3, 4, 5, 6)]


@each_planner
def test_a_site_that_is_not_required_is_given_up_and_that_is_said(name):
    model = cluster(east("e0", slots=0), supervisor("plain", 4))
    t = model.topologies[0]
    wish = msgspec.structs.replace(
        t, components=[msgspec.structs.replace(c, site_required=c.site is None) for c in t.components]
    )
    answer = planned(msgspec.structs.replace(model, topologies=[wish]), name)
    assert any("parse (east)" in note for note in answer.notes)


@each_planner
@pytest.mark.parametrize("slots", [0, 1])
def test_a_wish_that_nobody_can_meet_takes_no_other_from_its_site(name, slots):
    """In the north there is no slot, or too little CPU: who wishes for the east still gets it."""
    model = cluster(east("e0"), east("e1"), supervisor("plain", 6), supervisor("n", slots, mhz=50.0, site="north"))
    (t,) = model.topologies
    wish = [msgspec.structs.replace(c, site_required=False) for c in t.components]
    other = topology("other", {"a": 2}, workers=1, sites={"a": "north"})
    there = [msgspec.structs.replace(c, site_required=False) for c in other.components]
    both = [
        msgspec.structs.replace(t, components=wish),
        msgspec.structs.replace(other, components=there),
    ]
    answer = planned(msgspec.structs.replace(model, topologies=both), name)
    assert {located(answer, "t")[task][0] for task in (3, 4, 5, 6)} <= {"e0", "e1"}
    assert [note for note in answer.notes if "wishes" in note] == [
        "wishes for a site that are not required were given up: a (north)"
    ]


@pytest.mark.parametrize(("left_s", "most"), [(60.0, MOST_ROUNDS + 1), (0.0, 2)])
def test_many_wishes_that_cannot_be_met_cost_few_plans(
    monkeypatch: pytest.MonkeyPatch, left_s: float, most: int
) -> None:
    nodes = [supervisor(f"s{i}", 1, mhz=50.0, site=f"site{i}") for i in range(20)]
    wishes = topology("t", {f"c{i}": 1 for i in range(20)}, workers=4, sites={f"c{i}": f"site{i}" for i in range(20)})
    parts = [msgspec.structs.replace(c, site_required=False) for c in wishes.components]
    model = Model(
        supervisors=[*nodes, supervisor("plain", 4)], topologies=[msgspec.structs.replace(wishes, components=parts)]
    )
    runs, plan = [0], Planner._plan

    def counted(self, *arguments):
        runs[0] += 1
        return plan(self, *arguments)

    monkeypatch.setattr(Planner, "_plan", counted)
    answer = run(PLANNERS["default"], model, {}, 0, lambda: left_s)
    assert isinstance(answer, Plan) or not left_s
    assert 2 <= runs[0] <= most


@each_planner
def test_executors_spread_over_the_supervisors_of_their_site(name):
    """No supervisor of the site holds more than two of the four."""
    where = located(planned(cluster(east("e0"), east("e1"), supervisor("plain", 2)), name))
    on = [where[task][0] for task in (3, 4, 5, 6)]
    assert sorted(on) == ["e0", "e0", "e1", "e1"]


@each_planner
def test_executors_of_a_lost_supervisor_stay_in_their_site(name):
    whole = cluster(east("e0", mhz=400.0), east("e1", mhz=400.0), supervisor("plain", 2))
    running = assigned(planned(whole, name), whole)
    lost = msgspec.structs.replace(running, supervisors=[s for s in running.supervisors if s.id != "e0"])
    where = located(planned(lost, name))
    assert {where[task][0] for task in (3, 4, 5, 6)} == {"e1"}


@each_planner
def test_only_the_site_is_infeasible_when_it_lacks_cpu(name):
    """The site is 100 MHz short; the answer names what is tied to it, and other topologies are still planned."""
    model = cluster(east("e0", mhz=300.0), supervisor("plain", 4))
    other = topology("free", {"a": 2}, workers=1)
    both = msgspec.structs.replace(model, topologies=[*model.topologies, other])
    answer = compute(both, name)
    assert isinstance(answer, Infeasible)
    assert set(answer.executors) == {("t", task) for task in (3, 4, 5, 6)}
    rest = compute(both, name, partial=True)
    assert isinstance(rest, Plan)
    assert list(rest.left_out) == ["t"]
    assert set(located(rest, "free")) == {1, 2}


@pytest.mark.parametrize("seed", [4, 6])
def test_a_wish_for_a_site_that_nobody_has_moves_nothing_by_flows(seed: int) -> None:
    """What runs counted as forbidden, and was left for a plan that won nothing or overloaded a node."""
    t = topology("t", {"a": 2, "b": 4, "c": 2}, streams=[("a", "b"), ("b", "c")], workers=3)
    rng = random.Random(seed)
    pairs = [*itertools.product((1, 2), range(3, 7)), *itertools.product(range(3, 7), (7, 8))]
    rates = {pair: rng.choice([5.0, 10.0, 20.0]) for pair in pairs}
    model = Model(
        supervisors=[supervisor(f"n{i}", mhz=400.0) for i in range(3)], topologies=[t], traffic=traffic("t", rates)
    )
    placed = compute(model, "best", {"iterations": 20_000}, traffic="flow")
    assert isinstance(placed, Plan)
    running = assigned(placed, model)
    parts = [msgspec.structs.replace(c, site="west", site_required=False) for c in t.components]
    (now,) = running.topologies
    wishing = msgspec.structs.replace(running, topologies=[msgspec.structs.replace(now, components=parts)])
    again = compute(wishing, "best", {"iterations": 20_000}, traffic="flow")
    assert isinstance(again, Plan)
    assert again.metrics["moved_executors"] == 0
