"""Moves after which workers do not start at their new place: told, blamed on nothing else, and not tried for ever."""

from __future__ import annotations

import msgspec
import pytest

from doubles import moving_jobs, rolling_jobs
from doubles.wanted import Slots
from doubles.world import NEAR, SPREAD, World
from stormpilot import operate
from stormpilot.decide.events import EventKind
from stormpilot.errors import UnreachableError


def test_a_move_after_which_a_worker_does_not_come_up_is_taken_back() -> None:
    """It was not judged, and its worker stayed down until an operator rolled it back."""
    w, t = moving_jobs.world("verify: {timeout_s: 300}\n")
    w.restart_s = 100_000
    w.tell(200)
    decision = w.decision(t)
    assert decision.reason == "MOVE_BEING_EVALUATED"
    assert "is being measured: 1 of 4 tasks has no recent report (parse 1)" in decision.text
    w.restart_s = 12  # where it ran before, it starts
    w.tell(200)
    assert [e.kind for e in w.events] == [EventKind.MOVE_WORSE]
    said = "its workers do not stay up, or do not report, after 330 s: 1 of 4 tasks has no recent report (parse 1)"
    assert said in w.events[0].text
    gain, back = w.history(t)
    assert gain.effect is not None
    assert (gain.effect.verdict, gain.effect.measured, back.reason) == ("WORSE", None, "ROLLBACK_EFFECT")
    assert w.slots(t) == SPREAD
    assert (w.moves(t).failures, w.state().restarts) == (1, [])


@pytest.mark.parametrize(("crashing", "blamed"), [((1, 2, 4), True), ((1, 2, 3, 4), False)])
def test_a_move_after_which_workers_end_again_and_again_is_taken_back(crashing: tuple[int, ...], blamed: bool) -> None:
    """Unless one that did not move ends as well: then it is not for the move."""
    before: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 5), ("c", 6700): (3,)}
    w = World("a", "b", "c", settings="verify: {timeout_s: 300}\n")
    t = w.submit(before)
    w.rebalance(t, 3, before)
    w.tell(40)
    w.wanted = {t: {("a", 6700): (1, 2, 4, 6), ("b", 6700): (5,), ("c", 6700): (3,)}}
    w.tell(40)
    assert w.moves(t).phase == "measuring"
    for _ in range(20):
        w.crash(t, *crashing)
        w.tell(20)
    told = [EventKind.MOVE_WORSE] if blamed else [EventKind.MOVE_NOT_JUDGED]
    assert [e.kind for e in w.events] == told
    assert (w.slots(t) == before) is blamed


def test_a_move_of_all_workers_is_not_taken_back_because_a_new_leader_has_measured_nothing_yet() -> None:
    """Nobody led for a while; the workers ran well all the time, and were restarted once more."""
    w, t = moving_jobs.world("verify: {timeout_s: 300}\n")
    w.tell(20)
    assert w.moves(t).phase == "measuring"
    w.pass_time(400)
    w.new_leader()
    w.tell(60)
    assert [e.kind for e in w.events] == [EventKind.MOVE_NOT_JUDGED]
    assert w.slots(t) == NEAR
    assert w.moves(t).failures == 0


@pytest.mark.parametrize("asked", [False, True])
def test_workers_that_went_silent_after_a_rollout_are_taken_back_by_a_restart(asked: bool) -> None:
    """The rollout back waited for spare capacity of tasks that were down, until it was given up."""
    w, t = rolling_jobs.world()
    verify = msgspec.structs.replace(w.config.verify, timeout_s=100, rollback=not asked)
    w.use(msgspec.structs.replace(w.config, verify=verify))
    rolling_jobs.begun(w, t)
    while w.rollout(t).running:  # type: ignore[union-attr]
        w.tell(2)
    w.crash(t, 2, 3, back_after_s=100_000)
    w.tell(150)
    if asked:
        operate.rollback(rolling_jobs.operator(w), t)
    w.tell(60)
    assert w.slots(t) == rolling_jobs.APART
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_DONE, EventKind.MOVE_WORSE]
    assert w.history(t)[-1].reason == ("ROLLBACK" if asked else "ROLLBACK_EFFECT")
    assert w.state().restarts == [], "the time that it was down is none of a restart"


def test_workers_that_came_back_by_themselves_are_rolled_back_without_a_restart() -> None:
    """A rollback that is asked for later restarted them, since they had not stayed up after the move."""
    w, t = rolling_jobs.world()
    w.use(
        msgspec.structs.replace(
            w.config, verify=msgspec.structs.replace(w.config.verify, timeout_s=100, rollback=False)
        )
    )
    rolling_jobs.begun(w, t)
    while w.rollout(t).running:  # type: ignore[union-attr]
        w.tell(2)
    w.crash(t, 2, 3, back_after_s=200)
    w.tell(300)
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_DONE, EventKind.MOVE_WORSE]
    operate.rollback(rolling_jobs.operator(w), t)
    rolling_jobs.begun(w, t)


@pytest.mark.parametrize("lost", [False, True])
def test_a_node_on_which_workers_do_not_start_is_not_tried_again_and_again(lost: bool) -> None:
    """It was, after every cool-down; where the supervisor itself ends there is nothing to hold against the plan."""
    w, t = moving_jobs.world(wanted={("a", 6701): (1, 2, 4), ("c", 6701): (3, 5, 6)})
    w.supervisors("a", "b", "c")
    w.restart_s = 100_000
    w.tell(60)
    assert len(w.applied) == 1
    w.restart_s = 12
    if lost:
        w.supervisors("a", "b")
    w.place(t, SPREAD, state="degraded", code="SUPERVISOR_LOST")
    w.tell(300)
    assert w.moves(t).failures == (0 if lost else 1)
    if not lost:
        assert [e.reason for e in w.history(t)] == ["GAIN", "REPAIR"]
        assert w.decision(t).reason == "BACK_OFF"
        assert "workers did not start at their new place" in w.decision(t).text


def test_a_move_whose_workers_came_up_before_a_new_leader_is_not_blamed_for_what_is_lost_later() -> None:
    """The new leader had not seen them come back, and said that they did not start."""
    w, t = moving_jobs.world(wanted={("a", 6701): (1, 2, 4), ("c", 6701): (3, 5, 6)})
    w.supervisors("a", "b", "c")
    w.tell(20)
    w.pass_time(20)
    w.new_leader()
    w.tell(10)
    assert (w.moves(t).phase, w.moves(t).timed) == ("measuring", False)
    w.place(t, SPREAD, state="degraded", code="SUPERVISOR_LOST")
    w.tell(60)
    assert (w.moves(t).failures, w.moves(t).back_off_until_ms) == (0, None)


def test_a_node_on_which_a_task_does_not_start_is_not_tried_again_and_again() -> None:
    """The plug-in brings it elsewhere; a rollout took it there again after every cool-down."""
    w, t = rolling_jobs.world()
    w.restart_s = 100_000
    w.tell(100)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "TOO_LATE"
    w.restart_s = 12
    w.place(t, {("a", 6700): (1, 4, 5, 6), ("b", 6701): (2,), ("c", 6700): (3,)}, state="degraded", code="LOST")
    w.tell(250)
    assert (w.decision(t).reason, w.moves(t).failures) == ("BACK_OFF", 1)
    assert "workers did not start at their new place (tasks 2 did not report within" in w.decision(t).text
    assert rolling_jobs.all_active(w, t)


def test_a_task_that_is_placed_elsewhere_before_the_step_is_too_late_backs_off_as_well() -> None:
    """Nimbus takes a worker for dead that did not start in two minutes, and a step waits for three."""
    w, t = rolling_jobs.world()
    w.restart_s = 100_000
    rolling_jobs.begun(w, t, "moving")
    w.tell(20)
    w.restart_s = 12
    w.place(t, {("a", 6700): (1, 4, 5, 6), ("b", 6701): (2,), ("c", 6700): (3,)}, state="degraded", code="LOST")
    w.tell(100)
    m = w.rollout(t)
    assert m is not None
    assert (m.outcome, w.moves(t).failures) == ("DISTURBED", 1)
    assert "workers did not start at their new place (degraded: LOST" in w.moves(t).back_off_why


def test_the_history_tells_the_end_of_a_last_step_whose_task_does_not_start() -> None:
    """It said for ever that the plan is being measured."""
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "moving")
    while w.rollout(t).step == 0:  # type: ignore[union-attr]
        w.tell(2)
    w.restart_s = 100_000
    w.tell(100)
    effect = w.history(t)[1].effect
    assert effect is not None
    assert effect.verdict == "WORSE"
    assert "workers did not start at their new place (tasks 3 did not report within" in effect.text


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("starts", [False, True])
def test_tasks_that_stay_silent_after_a_step_go_back_once(last: bool, starts: bool) -> None:
    """The topology backed off, and they stayed down until an operator rolled it back."""
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "moving")
    while last and w.rollout(t).step == 0:  # type: ignore[union-attr]
        w.tell(2)
    w.restart_s = 100_000
    while w.rollout(t).running:  # type: ignore[union-attr]
        w.tell(2)
    w.restart_s = 12 if starts else 100_000
    w.tell(400)
    assert rolling_jobs.nodes(w.slots(t)) == rolling_jobs.nodes(rolling_jobs.APART)
    *_, moved, back = w.history(t)
    assert [e.reason for e in w.history(t)].count("ROLLBACK_EFFECT") == 1
    assert back.text.startswith("back to the former placement: workers did not start at their new place (tasks ")
    assert (None if moved.effect is None else moved.effect.verdict) == ("WORSE" if last else None)
    assert (w.decision(t).reason, w.moves(t).failures) == ("BACK_OFF", 1)
    assert rolling_jobs.all_active(w, t)


def test_a_leader_that_ends_as_a_rollout_does_leaves_the_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end was written, and then why: without that the next leader took the task there again after a cool-down."""
    w, t = rolling_jobs.world()
    w.restart_s = 100_000
    rolling_jobs.begun(w, t, "moving")

    def away(*_: object) -> None:
        raise UnreachableError("ZooKeeper is away")

    monkeypatch.setattr(w.cycle.publisher, "follow", away)
    with pytest.raises(UnreachableError):
        for _ in range(60):
            w.cycle.advance_rollouts(w.cycle.observer.observe(w.now_ms))
            w.pass_time(2)
    w.new_leader()
    w.tell(80)
    assert w.moves(t).failures == 1
    assert "workers did not start at their new place" in w.moves(t).back_off_why


def test_a_leader_that_ends_as_a_last_step_does_leaves_its_effect_in_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of the rollout was written, and then that of its plan, which stayed `being measured` for ever."""
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "moving")
    while w.rollout(t).step == 0:  # type: ignore[union-attr]
        w.tell(2)
    w.restart_s = 100_000

    def away(*_: object) -> None:
        raise UnreachableError("ZooKeeper is away")

    monkeypatch.setattr(w.cycle.publisher, "judge", away)
    with pytest.raises(UnreachableError):
        w.tell(100)
    w.new_leader()
    w.tell(80)
    effect = w.history(t)[1].effect
    assert effect is not None
    assert effect.verdict == "WORSE"
