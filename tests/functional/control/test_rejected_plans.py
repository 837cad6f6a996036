"""Plans that the scheduler plug-in rejects: they moved nothing, and are in nobody's way."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.rolling_jobs import operator
from doubles.rolling_jobs import world as rolling
from doubles.world import HALF, NEAR, SPREAD, World
from stormpilot import operate
from stormpilot.control.rollout_gates import unanswered_withdrawal
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.errors import RefusedError
from stormpilot.model.values import Infeasible, Model, Plan


def rejecting() -> tuple[World, str]:
    """A topology that could be placed better, and a plug-in that carries out nothing."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted, w.apply_after_s = {t: NEAR}, 1_000_000
    return w, t


def improved_once(w: World, t: str) -> None:
    """Its first plan runs; then its traffic goes another way, and the plug-in carries out nothing more."""
    w.apply_after_s = 1
    w.tell(400)
    assert w.slots(t) == NEAR
    w.traffic = {(1, 2): 10.0, (1, 3): 90.0, (2, 4): 90.0, (3, 4): 10.0}
    w.tell(60)
    w.wanted, w.apply_after_s = {t: HALF}, 1_000_000
    operate.replan(operator(w), t)


def rejected(w: World, t: str, within_s: int) -> str:
    """The id of the plan that is published within that time, which the plug-in rejects."""
    known = {e.plan.plan_id for e in w.history(t)}
    for _ in range(within_s // 10):
        w.tell(10)
        if (entry := w.history(t)[-1]).plan.plan_id not in known:
            w.answer(t, "rejected", "SLOT_TAKEN")
            w.tell(10)
            return entry.plan.plan_id
    raise AssertionError(f"no plan within {within_s} s: {w.decision(t)}")


def test_what_is_rejected_again_and_again_is_tried_less_and_less_often() -> None:
    w, t = rejecting()
    rejected(w, t, 20)
    rejected(w, t, 100)
    w.tell(30)
    assert w.decision(t).reason is Reason.COOL_DOWN
    assert w.decision(t).text.startswith("the last of 2 plans that were rejected in a row is")
    rejected(w, t, 30)
    w.tell(90)
    assert [e.rejected for e in w.history(t)] == ["SLOT_TAKEN: "] * 3
    w.apply_after_s = 1
    w.tell(40)
    assert w.slots(t) == NEAR
    assert w.moves(t).rejections == 0


def test_a_plan_for_another_number_of_workers_than_is_asked_for_undoes_no_rebalance() -> None:
    """`storm rebalance -n 1` while it is planned for two. Clocks do not tell: it is published after that."""
    w, t = rejecting()
    w.apply_after_s = 1
    planner, one = w.planner, {("b", 6701): (1, 2, 3, 4, 5, 6)}

    def slow(model: Model) -> Plan | Infeasible:
        plan = planner(model)
        if w.wanted:
            w.wanted = {}
            w.rebalance(t, 1, one)
            w.now_ms += 10_000
        return plan

    w.planner = slow
    w.tell(100)
    assert [(e.reason, len(e.plan.workers), e.rejected) for e in w.history(t)] == [
        ("GAIN", 2, "WORKERS_CHANGED: "),
        ("REBALANCED", 1, ""),
    ]
    assert w.slots(t) == one


def test_a_rollback_goes_past_what_was_rejected() -> None:
    """The newest plan was the rejected one, so that a rollback led to what ran anyway."""
    w, t = rejecting()
    improved_once(w, t)
    never = rejected(w, t, 100)
    steps = operate.history(operator(w), t)
    assert [(s.back, s.entry.plan.plan_id == never) for s in steps] == [(None, True), (0, False)]
    with pytest.raises(RefusedError, match="there is no plan 2 back, the history holds 1"):
        operate.rollback(operator(w), t, 2)
    change = operate.rollback(operator(w), t)
    assert change.text.startswith("flights: back to what ran before its first plan")


def test_what_ran_before_is_known_where_the_first_plan_was_rejected() -> None:
    w, t = rejecting()
    rejected(w, t, 20)
    w.apply_after_s = 1
    w.tell(100)
    assert w.slots(t) == NEAR
    assert "what ran before its first plan" in operate.rollback(operator(w), t).text


def test_a_plan_that_is_applied_after_it_was_rejected_is_no_rejected_one() -> None:
    """The plug-in tries plans again whose slots were taken."""
    w, t = rejecting()
    rejected(w, t, 20)
    w.place(t, NEAR, "applied")
    w.tell(20)
    assert [(s.back, s.entry.rejected) for s in operate.history(operator(w), t)] == [(0, "")]
    assert w.moves(t).text == "applied after it was rejected"


def test_many_rejected_plans_cost_no_plan_to_go_back_to() -> None:
    w, t = rejecting()
    improved_once(w, t)
    (first,) = w.history(t)
    for _ in range(45):
        rejected(w, t, 100)
        operate.replan(operator(w), t)
    kept = w.history(t)
    assert kept[0].plan.plan_id == first.plan.plan_id
    assert len(kept) == 1 + 20 + 1  # the newest was no rejected one when the history was shortened


def test_plans_that_nobody_answers_to_cost_no_plan_to_go_back_to_and_no_budget() -> None:
    """A Nimbus without the plug-in leads: in hours the history was full of plans that never ran."""
    w, t = rejecting()
    improved_once(w, t)
    first = w.history(t)[0].plan.plan_id
    while len(w.history(t)) < 2:
        w.tell(10)
    assert w.tell(130) == ["PLAN_MOVING", "COOL_DOWN", "MOVE_BEING_EVALUATED"]
    assert "has not answered to plan" in w.decision(t).text
    w.tell(2600)
    published = w.history(t)
    assert published[0].plan.plan_id == first
    assert len(published) <= 5, "one within each time in which it might still be applied"
    assert all(e.rejected.startswith("the scheduler plug-in has not answered within") for e in published[1:-1])
    assert {s.plan for s in w.moves(t).spent} <= {first, published[-1].plan.plan_id}
    assert [e.kind for e in w.events].count(EventKind.MOVE_NOT_JUDGED) == 1
    w.apply_after_s = 1
    w.tell(300)
    assert w.slots(t) == HALF
    assert w.history(t)[-1].rejected == ""
    assert w.moves(t).rejections == 0


def test_steps_that_nobody_answers_to_cost_no_budget() -> None:
    """Each was withdrawn, and counted as a plan that moved the topology within the hour."""
    w, t = rolling()
    w.apply_after_s = 1_000_000
    w.tell(300)
    operate.replan(operator(w), t)
    w.tell(300)
    assert len({e.rollout_of for e in w.history(t)}) == 2
    assert len(w.moves(t).spent) <= 1


@pytest.mark.parametrize("drained", [False, True])
def test_a_rollout_that_nobody_answers_to_is_not_begun_again_until_the_plug_in_is_back(drained: bool) -> None:
    """It was begun and withdrawn after each cool-down, for a drain each two minutes, and told by an alert."""
    w, t = rolling(wanted={("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)})
    if drained:
        operate.drain(operator(w), "host-c")
    w.apply_after_s = 1_000_000
    w.tell(900)
    assert len(w.history(t)) == 2
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_ENDED]
    assert w.decision(t).reason is Reason.MOVE_BEING_EVALUATED
    assert f"has not answered to plan {w.history(t)[-1].plan.plan_id} for" in w.decision(t).text
    w.apply_after_s = 1
    w.tell(300)
    assert w.slots(t) == w.wanted[t]


@pytest.mark.parametrize("drained", [False, True])
def test_a_topology_whose_status_cannot_be_written_is_not_held_for_ever(drained: bool) -> None:
    """No answer ever comes where the plug-in is denied that znode: rollouts and drains waited for it without end."""
    w, t = rolling(wanted={("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)})
    if drained:
        operate.drain(operator(w), "host-c")
    w.apply_after_s = 1_000_000
    while (m := w.rollout(t)) is None or not m.outcome:
        w.tell(10)
    w.tell(200)
    held = w.decision(t)
    assert held.reason is Reason.MOVE_BEING_EVALUATED
    assert f"cannot write status/{t}; another rollout is tried" in held.text
    assert held.until_ms is not None
    w.tell((held.until_ms - w.now_ms) / 1000 - 20)
    assert len(w.history(t)) == 2
    w.tell(60)
    assert len(w.history(t)) == 3


def test_rollouts_that_nobody_answers_to_are_told_once_in_a_silence() -> None:
    """One was tried, and told, every quarter of an hour for as long as the plug-in was away."""
    w, t = rolling(wanted={("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)})
    w.apply_after_s = 1_000_000
    w.tell(2300)
    assert len(w.history(t)) > 4
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_ENDED]
    assert w.moves(t).unanswered
    w.apply_after_s = 1
    while w.slots(t) != w.wanted[t]:
        w.tell(50)
    assert not w.moves(t).unanswered


def test_a_rebalance_does_not_wait_for_an_answer_to_what_was_withdrawn() -> None:
    """Drains waited all the same, for a plan of executors that are gone."""
    w, t = rolling(wanted={("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("a", 6701): (3,)})
    operate.drain(operator(w), "host-c")
    w.apply_after_s = 1_000_000
    w.tell(300)
    situation = w.situation()
    state = situation.topologies[t]
    assert unanswered_withdrawal(state, situation) is not None
    fewer = msgspec.structs.replace(state.topology, executors=state.topology.executors[:-1])
    assert unanswered_withdrawal(replace(state, topology=fewer), situation) is None


def test_a_plan_that_is_replaced_before_anybody_answered_to_it_is_told_as_not_applied() -> None:
    """An operator's replan during a silence left it in the history as one that ran, for a rollback to go back to."""
    w, t = rejecting()
    w.tell(100)
    (silent,) = w.history(t)
    w.wanted = {t: HALF}
    operate.replan(operator(w), t)
    w.tell(20)
    old, new = w.history(t)
    assert old.plan.plan_id == silent.plan.plan_id
    assert old.rejected == f"the scheduler plug-in had not answered when plan {new.plan.plan_id} was published"
    assert [s.back for s in operate.history(operator(w), t)] == [0, None]
    assert [s.plan for s in w.moves(t).spent] == [new.plan.plan_id]


@pytest.mark.parametrize("drained", [False, True])
def test_a_repair_or_drain_that_nobody_answers_to_is_not_planned_again_each_minute(drained: bool) -> None:
    """In 20 minutes every plan that had run was gone from the history."""
    w, t = rejecting()
    improved_once(w, t)
    first = w.history(t)[0].plan.plan_id
    w.supervisors("a", "b", "c")
    w.wanted = {t: {("a", 6700): (1, 2, 4), ("c", 6700): (3, 5, 6)}}
    if drained:
        operate.drain(operator(w), "host-b")
    else:
        w.place(t, {("a", 6700): (1, 2, 4)})
    w.tell(2400)
    assert w.history(t)[0].plan.plan_id == first
    assert 3 <= len(w.history(t)) <= 5
    assert [e.rejected == "" for e in w.history(t)] == [True, *[False] * (len(w.history(t)) - 2), True]
    assert [e.text for e in w.events if e.kind is EventKind.MOVE_NOT_JUDGED] == [
        f"plan {w.history(t)[1].plan.plan_id}: {w.history(t)[1].rejected}"
    ], "told once, though these plans promise nothing"
    w.apply_after_s = 1
    w.tell(60)
    assert w.slots(t) == w.wanted[t]
    assert [s.back for s in operate.history(operator(w), t)] == [0, *[None] * (len(w.history(t)) - 2), 1]


def test_a_silence_after_a_rejected_plan_is_told() -> None:
    """It was taken for one that had been told, since both counted as plans that were rejected in a row."""
    w, t = rejecting()
    rejected(w, t, 20)
    w.tell(1200)
    assert [e.kind for e in w.events] == [EventKind.MOVE_NOT_JUDGED]
    assert "has not answered within" in w.events[0].text
    w.tell(1000)
    assert len(w.events) == 1
    assert w.moves(t).rejections == 1


def test_a_plan_that_is_rejected_long_after_it_was_published_says_why() -> None:
    """The plug-in is back, and what was planned before does not fit any more."""
    w, t = rejecting()
    w.tell(20)
    w.wanted = {}
    w.tell(1200)
    assert (w.moves(t).phase, w.moves(t).unanswered) == ("none", True)
    w.answer(t, "rejected", "SLOT_TAKEN")
    w.tell(20)
    assert [e.rejected for e in w.history(t)] == ["SLOT_TAKEN: "]
    assert (w.moves(t).rejections, w.moves(t).unanswered) == (1, False)
    w.wanted = {t: NEAR}
    w.apply_after_s = 1
    w.tell(60)
    assert w.slots(t) == NEAR


def test_a_plan_that_runs_is_no_rejected_one_though_no_status_can_be_written() -> None:
    w, t = rejecting()
    w.tell(40)
    w.place(t, NEAR)
    w.tell(1200)
    assert w.moves(t).verdict == "TOO_LATE"
    assert w.moves(t).text.startswith("the plan runs, but the scheduler plug-in has not said so within")
    assert w.history(t)[-1].rejected == ""


def test_the_hold_of_a_rollback_that_was_rejected_tells_so() -> None:
    """Nothing was rolled back: "rolled back by ops" alone would say that the former placement runs."""
    w, t = rejecting()
    w.apply_after_s = 1
    w.tell(400)
    assert w.slots(t) == NEAR
    w.apply_after_s = 1_000_000
    operate.rollback(operator(w), t, 1)
    w.tell(10)
    w.answer(t, "rejected", "SLOT_TAKEN")
    w.tell(10)
    assert w.slots(t) == NEAR
    held = w.decision(t)
    assert held.reason is Reason.OPERATOR_HOLD
    assert held.text == "the rollback was rejected (SLOT_TAKEN: ), asked for by ops"
