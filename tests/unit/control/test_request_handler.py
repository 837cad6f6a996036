"""Requests of operators: answered, done in the transaction of their plan, and closed when they are over."""

from __future__ import annotations

import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.situation import approved
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.operate import Operator

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
BESIDE: Slots = {("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}
TO: Slots = {("b", 6703): (1, 2, 3, 4, 5, 6)}


def operator(w: World) -> Operator:
    return Operator(w.zookeeper, w.paths, "olga", now_ms=w.now_ms)  # type: ignore[arg-type]


def results(w: World) -> list[str]:
    return [r.result for r in operate.audit(operator(w)) if r.result != "asked for"]


def pending(w: World, t: str) -> bool:
    return w.zookeeper.read([w.paths.request(t)]) != [None]


def propose(w: World, t: str, slots: Slots) -> None:
    """A plan of this topology waits for approval."""
    situation = w.situation()
    model = situation.part_for({t})
    decision = Decision(t, "advise", Reason.APPROVAL_NEEDED, "GAIN", moved_executors=6)
    verdict = Verdict.of_one(decision, plan_in(model, {t: slots}), situation.memory, model)
    w.cycle.dispatcher.publish(approved(verdict, situation), situation)


@pytest.fixture
def two() -> tuple[World, str, str]:
    """Two topologies, each with a proposal for the same slot."""
    w = World("a", "b")
    first, second = w.submit(HERE), w.submit(BESIDE, name="wordcount")
    for t in (first, second):
        propose(w, t, TO)
    return w, first, second


def test_two_plans_for_one_slot_that_are_approved_at_once_are_not_both_published(two: tuple[World, str, str]) -> None:
    w, first, second = two
    operate.approve(operator(w), "flights")
    operate.approve(operator(w), "wordcount")
    w.tell(10)
    assert w.plan(first) is not None
    assert w.plan(second) is None
    assert not pending(w, second)
    refused = next(r for r in results(w) if r.startswith("refused"))
    assert "slot b:6703 is held by flights, whose plan is on its way" in refused


def test_a_plan_for_a_slot_that_a_plan_on_its_way_will_have_is_refused(two: tuple[World, str, str]) -> None:
    w, first, second = two
    w.apply_after_s = 600
    operate.approve(operator(w), "flights")
    w.tell(10)
    operate.approve(operator(w), "wordcount")
    w.tell(10)
    assert (w.plan(first) is not None, w.plan(second)) == (True, None)


def test_a_refused_request_does_not_stop_a_plan_of_the_same_cycle() -> None:
    """Its znode goes when it is refused; the plan must not delete it once more."""
    w = World("a", "b")
    t = w.submit(HERE)
    w.tell(40)
    propose(w, t, TO)
    operate.approve(operator(w), "flights")
    w.submit({("b", 6703): (1, 2, 3, 4, 5, 6)}, name="wordcount")
    w.wanted = {t: {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}}
    w.tell(10)
    assert any(r.startswith("refused: plan") for r in results(w))
    assert w.decision(t).reason == "GAIN"
    assert w.plan(t) is not None


def test_a_request_that_cannot_be_read_is_closed() -> None:
    w = World("a", "b")
    t = w.submit(HERE)
    w.zookeeper.put(w.paths.request(t), b"{nonsense")
    w.tell(10)
    assert not pending(w, t)
    assert results(w) == ["refused: the request cannot be read"]


def test_a_request_for_a_plan_now_gets_the_decision_as_its_answer() -> None:
    w = World("a", "b")
    t = w.submit(HERE)
    w.tell(40)
    operate.replan(operator(w), "flights")
    w.tell(10)
    assert not pending(w, t)
    assert results(w) == ["skip: NO_BETTER_PLAN: the planner finds no better placement"]


def test_a_request_waits_while_the_plan_before_is_on_its_way(two: tuple[World, str, str]) -> None:
    w, first, _ = two
    w.apply_after_s = 600
    operate.approve(operator(w), "flights")
    w.tell(10)
    operate.replan(operator(w), "flights")
    w.tell(10)
    assert pending(w, first)
    assert w.decision(first).reason == "PLAN_MOVING"
