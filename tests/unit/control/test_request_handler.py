"""Requests of operators: answered, done in the transaction of their plan, and closed when they are over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import HALF, NEAR, World
from stormpilot import operate
from stormpilot.control.situation import approved
from stormpilot.decide.decision import Decision
from stormpilot.decide.events import EventKind
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import HistoryEntry, encode
from stormpilot.messages.settings import ModeSetting
from stormpilot.operate import Operator
from stormpilot.zookeeper.client import DeniedError
from stormpilot.zookeeper.transaction import Delete, Step

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


def test_a_request_whose_answer_cannot_be_written_stops_no_cycle(
    two: tuple[World, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody locked its znode: it can be read, and not removed."""
    w, first, second = two
    operate.approve(operator(w), "flights")
    operate.approve(operator(w), "wordcount")
    locked, usual = w.paths.request(second), w.zookeeper.commit

    def commit(steps: Sequence[Step]) -> None:
        if any(isinstance(s, Delete) and s.path == locked for s in steps):
            raise DeniedError(locked)
        usual(steps)

    monkeypatch.setattr(w.zookeeper, "commit", commit)
    w.tell(10)
    assert w.plan(first) is not None
    assert pending(w, second)
    monkeypatch.setattr(w.zookeeper, "commit", usual)
    w.tell(10)
    assert not pending(w, second)


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


def approved_plan_that_made_it_worse(mode: Literal["advise", "act"]) -> tuple[World, str, list[str]]:
    """Traffic turns once the approved plan is applied; and what was decided then."""
    w = World("a", "b")
    w.traffic = {(1, 2): 100.0, (1, 3): 50.0, (2, 4): 100.0, (3, 4): 50.0}
    t = w.submit(HALF)
    w.configure(t, {"stormpilot.approval": True})
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode=mode)))
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(10)
    assert w.plan(t) is None
    w.traffic_when_applied = {(1, 2): 0.0, (1, 3): 150.0, (2, 4): 0.0, (3, 4): 150.0}
    operate.approve(operator(w), "flights")
    return w, t, w.tell(120)


def test_an_approved_plan_that_made_it_worse_is_undone() -> None:
    w, t, said = approved_plan_that_made_it_worse("act")
    assert "ROLLBACK_EFFECT" in said
    assert [e.reason for e in w.history(t)] == ["APPROVED", "ROLLBACK_EFFECT"]
    effect = w.history(t)[0].effect
    assert effect is not None
    assert effect.verdict == "WORSE"
    assert w.slots(t) == HALF


def test_in_mode_advise_an_approved_plan_that_made_it_worse_is_left_to_the_operator() -> None:
    w, t, said = approved_plan_that_made_it_worse("advise")
    assert said[-1] == "BACK_OFF"
    assert [e.kind for e in w.events] == [EventKind.MOVE_WORSE]
    assert "worse than before; not undone in mode advise: `stormpilot rollback flights` does it" in w.decision(t).text
    assert w.slots(t) == NEAR


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


# --- topologies that trade places -------------------------------------------------------------------------------------

OF_FIRST: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}
OF_SECOND: Slots = {("a", 6701): (1, 2, 4), ("b", 6701): (3, 5, 6)}


def trading(*approve: str) -> tuple[World, str, str]:
    """Each of two topologies wins by the slots of the other one; those of these names need an approval."""
    w = World("a", "b")
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, approve=approve)))
    first, second = w.submit(HERE), w.submit(BESIDE, name="wordcount")
    w.tell(40)
    w.wanted = {first: OF_SECOND, second: OF_FIRST}
    w.tell(10)
    return w, first, second


def proposed(w: World, *ids: str) -> list[HistoryEntry | None]:
    return [w.proposal(t) for t in ids]


def texts(w: World, *ids: str) -> list[Any]:
    return [w.decision(t).text for t in ids]


def traded(w: World, first: str, second: str) -> bool:
    """Both moved by one plan set, and nothing is left to approve."""
    plans = [w.plan(first), w.plan(second)]
    assert None not in plans
    assert {p.plan_set for p in plans if p is not None} == {plans[0].plan_set}  # type: ignore[union-attr]
    assert proposed(w, first, second) == [None, None]
    assert not pending(w, first)
    w.tell(20)
    return (w.slots(first), w.slots(second)) == (OF_SECOND, OF_FIRST)


def test_approval_of_one_of_two_that_trade_places_lets_both_move() -> None:
    w, first, second = trading("flights")
    before = proposed(w, first, second)
    assert None not in before
    w.tell(60)
    assert proposed(w, first, second) == before, "both wait"
    assert [w.decision(t).reason for t in (first, second)] == ["APPROVAL_NEEDED"] * 2
    assert all("waits for `stormpilot approve flights`" in text for text in texts(w, first, second))
    operate.approve(operator(w), "flights")
    w.tell(10)
    assert [w.decision(t).reason for t in (first, second)] == ["APPROVED"] * 2
    assert w.plan(first).plan_id == before[0].plan.plan_id  # type: ignore[union-attr]
    assert traded(w, first, second)


def test_where_both_need_an_approval_the_first_one_waits_for_the_second() -> None:
    w, first, second = trading("flights", "wordcount")
    w.tell(10)
    assert "waits for `stormpilot approve wordcount`" in texts(w, second)[0]
    operate.approve(operator(w), "flights")
    w.tell(30)
    assert pending(w, first)
    assert "trades places with wordcount: needs `stormpilot approve wordcount` too" in texts(w, first)[0]
    assert [w.plan(t) for t in (first, second)] == [None, None]
    operate.approve(operator(w), "wordcount")
    w.tell(10)
    assert not pending(w, second)
    assert traded(w, first, second)


def test_approval_of_the_one_that_needs_none_waits_for_the_other_one() -> None:
    w, first, second = trading("flights")
    operate.approve(operator(w), "wordcount")
    w.tell(10)
    assert "needs `stormpilot approve flights` too" in texts(w, second)[0]
    operate.approve(operator(w), "flights")
    w.tell(10)
    assert traded(w, first, second)


def test_what_keeps_one_of_two_that_trade_places_is_the_answer_to_the_approval_of_the_other_one() -> None:
    w, first, second = trading("flights")
    operate.pause(operator(w), "wordcount")
    operate.approve(operator(w), "flights")
    w.tell(10)
    assert results(w)[-1] == "refused: wordcount, with which it trades places: PAUSED: paused by an operator"
    assert [w.plan(t) for t in (first, second)] == [None, None]
