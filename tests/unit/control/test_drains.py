"""Drains: as little as possible moves beside what must leave, and who cannot leave is told why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.drains import DrainProposer
from stormpilot.control.situation import Situation
from stormpilot.decide.reasons import Reason
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.operate import Operator

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
AWAY: Slots = {("a", 6700): (1, 4, 6), ("c", 6700): (2, 3, 5)}


@pytest.fixture
def drained() -> tuple[World, str]:
    w = World("a", "b", "c")
    t = w.submit(HERE)
    w.tell(40)
    operate.drain(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "host-b")  # type: ignore[arg-type]
    return w, t


def proposer(w: World, t: str, answers: Callable[[int], bool]) -> tuple[DrainProposer, list[Model]]:
    """One whose planner finds a plan at the n-th question where `answers` says so; and what it was asked."""
    asked: list[Model] = []

    def planner(model: Model) -> Plan | Infeasible:
        asked.append(model)
        return plan_in(model, {t: AWAY}) if answers(len(asked)) else Infeasible(constraint="cpu", text="no room")

    w.planner = planner
    return next(p.__self__ for p in w.cycle.proposers if isinstance(getattr(p, "__self__", None), DrainProposer)), asked


def test_the_first_question_is_the_strictest_and_its_plan_is_taken(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: True)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (verdict.decisions[t].reason, verdict.decisions[t].action) == (Reason.DRAIN, "publish")
    assert len(asked) == 1


def test_where_the_rest_cannot_stand_still_it_may_keep_its_nodes_and_then_move(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: n == 3)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "publish"
    assert len({id(m) for m in asked}) == 3
    assert asked[0] != asked[1] != asked[2], "each question forbids less than the one before"


def test_who_cannot_leave_stays_and_is_told_why(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: False)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "skip"
    assert "host-b" in verdict.decisions[t].text
    assert "no room" in verdict.decisions[t].text
    assert len(asked) == 3


def test_where_the_planner_fails_nobody_else_moves_for_it_and_it_is_asked_again(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: n > 1)
    answer, failing = w.planner, [True]

    def planner(model: Model) -> Plan | Infeasible:
        found = answer(model)
        if failing:
            failing.pop()
            raise RuntimeError("no answer 17 s after it began")
        return found

    w.planner = planner
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (verdict.decisions[t].reason, verdict.decisions[t].action) == (Reason.PLANNER_FAILED, "skip")
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "publish"
    assert len(asked) == 2
    assert asked[0] == asked[1], "the strictest question both times"


def test_where_the_answer_breaks_a_constraint_a_looser_question_is_asked(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: True)
    answer = w.planner

    def planner(model: Model) -> Plan | Infeasible:
        answer(model)
        nowhere: Slots = {("a", 6700): (1, 4, 6), ("z", 6700): (2, 3, 5)}
        return plan_in(model, {t: AWAY if len(asked) == 2 else nowhere})

    w.planner = planner
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (len(asked), verdict.decisions[t].action) == (2, "publish")


def test_without_anybody_on_the_host_nothing_is_proposed(drained: tuple[World, str]) -> None:
    w, t = drained
    w.place(t, AWAY)
    situation: Situation = w.situation()
    drains, asked = proposer(w, t, lambda n: True)
    assert drains.propose(situation) is None
    assert asked == []
