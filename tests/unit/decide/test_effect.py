"""Did a move help? Every transition of the state machine, and stories with a clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from doubles.models import NOW_MS, status
from stormpilot.config import VerifySection
from stormpilot.decide.effect import (
    Facts,
    Outcome,
    Promise,
    backing_off,
    give_up_rollback,
    noise_ratio,
    published,
    spent_by,
    step,
)
from stormpilot.decide.events import Event, EventKind
from stormpilot.messages.core import Worker
from stormpilot.messages.moves import MoveState

CONFIG = VerifySection(back_off_s=600, max_back_off_s=2000, timeout_s=300)
BEFORE = [Worker(supervisor="a", port=1, executors=[(1, 1), (2, 2)])]
HALVED = Promise("inter_node_share", before=0.4, predicted=0.2, noise_ratio=0.05, throughput_tps=1000.0)


def moving(promise: Promise | None = HALVED, state: MoveState | None = None, **fields: Any) -> MoveState:
    """Plan p-1 was just published; it moves executors 1 and 2."""
    return published(
        state or MoveState(topology_id="flights-1"),
        **{
            "plan_id": "p-1",
            "reason": "GAIN",
            "now_ms": NOW_MS,
            "window_s": 60.0,
            "moved": [1, 2],
            "workers": 1,
            "former": BEFORE,
            "promise": promise,
            **fields,
        },
    )


def facts(after_s: float = 100.0, state: str = "applied", **fields: Any) -> Facts:
    return replace(Facts("flights", NOW_MS + int(after_s * 1000), "p-1", status(state)), **fields)


def measured(share: float, after_s: float = 200.0) -> Facts:
    return facts(after_s, measured_s=60.0, measured=share, throughput_tps=1200.0)


def measuring(promise: Promise | None = HALVED, state: MoveState | None = None) -> MoveState:
    return step(moving(promise, state), facts(5), CONFIG)[0]


def kinds(events: list[Event]) -> list[EventKind]:
    return [e.kind for e in events]


# --- from publishing to measuring -------------------------------------------------------------------------------------


def test_nothing_is_followed_where_nothing_was_moved() -> None:
    idle = MoveState(topology_id="flights-1")
    assert step(idle, facts(), CONFIG) == (idle, [])
    assert moving(moved=[]).phase == "none"


def test_plan_on_its_way_is_waited_for() -> None:
    state = moving()
    for word in ("moving", "waiting"):
        assert step(state, facts(10, word), CONFIG) == (state, [])
    assert step(state, replace(facts(10), status=None), CONFIG) == (state, [])
    of_another_plan = replace(facts(10), status=status("applied", plan_id="p-0"))
    assert step(state, of_another_plan, CONFIG) == (state, [])


def test_applied_plan_is_measured() -> None:
    state, events = step(moving(), facts(12), CONFIG)
    assert (state.phase, state.applied_at_ms, events) == ("measuring", NOW_MS + 12_000, [])


@pytest.mark.parametrize("start", [moving(), measuring()])
@pytest.mark.parametrize(
    ("word", "outcome", "told"),
    [
        ("rejected", Outcome.REJECTED, []),
        ("degraded", Outcome.DISTURBED, [EventKind.MOVE_NOT_JUDGED]),
        ("fallback", Outcome.DISTURBED, [EventKind.MOVE_NOT_JUDGED]),
    ],
)
def test_what_does_not_run_as_planned_is_not_judged(
    start: MoveState, word: str, outcome: Outcome, told: list[EventKind]
) -> None:
    start = msgspec.structs.replace(start, timed=True)
    state, events = step(start, facts(20, word), CONFIG)
    assert (state.phase, state.verdict, state.failures, state.former) == ("none", outcome, 0, [])
    assert kinds(events) == told


@pytest.mark.parametrize("promise", [HALVED, None])
def test_a_move_after_which_workers_do_not_start_is_one_that_did_not_help(promise: Promise | None) -> None:
    """The plug-in places them elsewhere; nothing kept the next plan from moving them there again."""
    start = measuring(promise)
    state, (event,) = step(start, facts(300, "degraded", silent=True), CONFIG)
    assert (state.phase, state.verdict, state.failures) == ("none", Outcome.DISTURBED, 1)
    assert backing_off(state, NOW_MS + 300_000) == NOW_MS + 900_000
    assert "workers did not start at their new place" in event.text
    assert "nothing else is tried for 600 s" in event.text
    again = measuring(state=state)
    assert step(again, facts(300, "degraded", silent=True), CONFIG)[0].back_off_until_ms == NOW_MS + 1_500_000
    disturbed, _ = step(start, facts(300, "degraded"), CONFIG)  # they ran there, or their supervisor ended
    assert (disturbed.verdict, disturbed.failures) == (Outcome.DISTURBED, 0)


def test_rejected_plan_moved_nothing() -> None:
    """The budget of the hour has the move before it, not the one that never was; one that was applied counts."""
    before = moving(plan_id="p-0", now_ms=NOW_MS - 60_000)
    start = moving(state=before)
    assert [s.plan for s in spent_by(start)] == ["p-0", "p-1"]
    rejected = step(start, facts(20, "rejected"), CONFIG)[0]
    assert spent_by(rejected) == before.spent
    later = moving(state=rejected, plan_id="p-2", now_ms=NOW_MS + 60_000)
    assert [s.plan for s in spent_by(later)] == ["p-0", "p-2"]
    assert spent_by(step(measuring(state=before), facts(20, "rejected"), CONFIG)[0]) == start.spent
    assert spent_by(step(start, facts(20, "fallback"), CONFIG)[0]) == start.spent


def test_plan_that_is_applied_after_it_was_rejected_moved_executors() -> None:
    """The plug-in tries a plan whose slots are taken again for a minute."""
    start = moving()
    rejected = step(start, facts(20, "rejected"), CONFIG)[0]
    assert spent_by(rejected) == []
    assert step(rejected, facts(25, "rejected"), CONFIG)[0] is rejected
    applied = step(rejected, facts(30), CONFIG)[0]
    assert (applied.verdict, applied.phase) == (Outcome.DISTURBED, "none")
    assert spent_by(applied) == start.spent


@pytest.mark.parametrize("word", ["waiting", "moving", "degraded", "fallback"])
@pytest.mark.parametrize("late", [False, True])
def test_any_answer_ends_a_silence(word: str, late: bool) -> None:
    """After a plan that was on its way, or set aside, and was not applied, the next silence was not told."""
    silent, (told,) = step(moving(), replace(facts(361), status=None), CONFIG)
    assert (silent.unanswered, told.kind) == (True, EventKind.MOVE_NOT_JUDGED)
    if late and word != "waiting":  # that one may be rejected yet
        answered = step(silent, facts(400, word), CONFIG)[0]
    else:
        answered = step(moving(state=silent), facts(10, word), CONFIG)[0]
    assert not answered.unanswered
    again = moving(state=answered, now_ms=NOW_MS + 500_000)
    assert kinds(step(again, replace(facts(900), status=None), CONFIG)[1]) == [EventKind.MOVE_NOT_JUDGED]


@pytest.mark.parametrize("start", [moving(), measuring()])
def test_plan_that_another_one_replaced_is_not_judged(start: MoveState) -> None:
    for other in ("p-2", None):
        state, events = step(start, replace(measured(0.9), plan_id=other), CONFIG)
        assert (state.phase, state.verdict) == ("none", Outcome.OVERTAKEN)
        assert kinds(events) == [EventKind.MOVE_NOT_JUDGED]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (moving(), "not applied within 360 s"),
        (measuring(), "applied, and not measured within 360 s: task 2 is silent"),
    ],
)
def test_what_takes_too_long_is_not_judged(start: MoveState, said: str) -> None:
    """A plan that was applied was told as not applied, and nothing said what was missing."""
    waiting = replace(facts(360, "moving" if start.phase == "moving" else "applied"), missing="task 2 is silent")
    assert step(start, waiting, CONFIG)[0].phase == start.phase
    state, events = step(start, replace(waiting, now_ms=NOW_MS + 360_001), CONFIG)
    assert (state.phase, state.verdict, kinds(events)) == ("none", Outcome.TOO_LATE, [EventKind.MOVE_NOT_JUDGED])
    assert state.text == said


def test_a_move_whose_workers_do_not_stay_up_goes_back_where_something_ran_before() -> None:
    """It ended as not judged, and what it had broken stayed."""
    down = replace(facts(361, "applied"), down=True, missing="task 2 is silent")
    state, events = step(measuring(), down, CONFIG)
    assert (state.phase, state.verdict, state.former) == ("rollback", Outcome.WORSE, BEFORE)
    assert (state.judged_at_ms, state.failures) == (down.now_ms, 1)
    assert kinds(events) == [EventKind.MOVE_WORSE]
    said = "its workers do not stay up, or do not report, after 360 s: task 2 is silent; a rollback is pending"
    assert said in events[0].text
    waiting = step(moving(), replace(down, status=status("moving")), CONFIG)[0]
    assert waiting.verdict == Outcome.TOO_LATE, "it was not applied"


def test_workers_of_a_plan_that_was_applied_late_have_time_to_start() -> None:
    """The plug-in was away for as long; seconds after it had applied the plan, that was rolled back."""
    down = replace(facts(361), down=True)
    waiting, events = step(moving(), down, CONFIG)
    assert (waiting.phase, waiting.applied_at_ms, events) == ("measuring", down.now_ms, [])
    up = replace(down, now_ms=down.now_ms + 100_000, down=False)
    assert step(waiting, up, CONFIG)[0].verdict == Outcome.TOO_LATE
    still = replace(down, now_ms=down.now_ms + 300_001)
    assert step(waiting, still, CONFIG)[0].verdict == Outcome.WORSE


def test_move_that_is_not_judged_ends_when_its_restart_was_timed() -> None:
    state = measuring(promise=None)
    assert state.phase == "measuring"
    ended, events = step(msgspec.structs.replace(state, timed=True), facts(30), CONFIG)
    assert (ended.phase, ended.verdict, events) == ("none", Outcome.DONE, [])
    late, events = step(state, facts(361), CONFIG)
    assert (late.phase, late.verdict, events) == ("none", Outcome.DONE, [])


# --- the verdict ------------------------------------------------------------------------------------------------------


def test_judged_over_a_window_as_long_as_the_one_before() -> None:
    state = measuring()
    assert step(state, replace(measured(0.2), measured_s=58.0), CONFIG) == (state, [])
    assert step(state, replace(measured(0.2), measured=None), CONFIG) == (state, [])
    assert step(state, replace(measured(0.2), measured_s=59.0), CONFIG)[0].verdict == Outcome.HELPED


def test_move_that_helped_ends_the_back_off() -> None:
    failed = MoveState(topology_id="flights-1", failures=3, back_off_until_ms=NOW_MS - 1)
    state, events = step(measuring(state=failed), measured(0.22), CONFIG)
    assert (state.phase, state.verdict, state.measured) == ("none", Outcome.HELPED, 0.22)
    assert (state.failures, state.back_off_until_ms) == (0, None)
    assert (kinds(events), events[0].alert) == ([EventKind.MOVE_HELPED], False)


def test_worse_than_before_goes_back_backs_off_and_alerts_once() -> None:
    state, events = step(measuring(), measured(0.43), CONFIG)
    assert (state.phase, state.verdict, state.former) == ("rollback", Outcome.WORSE, BEFORE)
    assert (state.failures, state.back_off_until_ms) == (1, NOW_MS + 800_000)
    (event,) = events
    assert (event.kind, event.value, event.threshold, event.alert) == (EventKind.MOVE_WORSE, 0.43, 0.4, True)
    assert "0.400, predicted 0.200, is 0.430" in event.text
    assert step(state, measured(0.43, 230), CONFIG) == (state, [])


@pytest.mark.parametrize(("share", "verdict"), [(0.419, Outcome.NO_GAIN), (0.421, Outcome.WORSE)])
def test_difference_within_the_noise_is_not_worse(share: float, verdict: Outcome) -> None:
    assert step(measuring(), measured(share), CONFIG)[0].verdict == verdict


def test_noisier_topology_needs_a_larger_difference() -> None:
    noisy = replace(HALVED, noise_ratio=0.3)
    assert step(measuring(noisy), measured(0.5), CONFIG)[0].verdict == Outcome.NO_GAIN
    assert step(measuring(noisy), measured(0.53), CONFIG)[0].verdict == Outcome.WORSE


@pytest.mark.parametrize(("share", "verdict"), [(0.39, Outcome.NO_GAIN), (0.37, Outcome.HELPED)])
def test_move_without_the_gain_that_was_predicted_stays_and_holds_further_ones(share: float, verdict: Outcome) -> None:
    state, events = step(measuring(), measured(share), CONFIG)
    assert (state.phase, state.verdict) == ("none", verdict)
    if verdict is Outcome.NO_GAIN:
        assert (state.failures, kinds(events)) == (1, [EventKind.MOVE_WITHOUT_GAIN])
        assert backing_off(state, NOW_MS + 799_000) == NOW_MS + 800_000
        assert backing_off(state, NOW_MS + 800_000) is None


def test_move_that_promised_less_than_the_noise_is_not_blamed() -> None:
    small = replace(HALVED, predicted=0.39)
    assert step(measuring(small), measured(0.4), CONFIG)[0].verdict == Outcome.HELPED


def test_back_off_doubles_up_to_its_limit() -> None:
    state, waits = MoveState(topology_id="flights-1"), []
    for _ in range(4):
        state, _ = step(measuring(state=state), measured(0.9), CONFIG)
        waits.append((state.back_off_until_ms or 0) - NOW_MS - 200_000)
    assert waits == [600_000, 1_200_000, 2_000_000, 2_000_000]


# --- the rollback -----------------------------------------------------------------------------------------------------


def test_rollback_can_be_switched_off() -> None:
    config = VerifySection(rollback=False)
    state, events = step(measuring(), measured(0.9), config)
    assert (state.phase, state.failures, kinds(events)) == ("none", 1, [EventKind.MOVE_WORSE])
    assert "what runs is kept" in events[0].text


def test_rollback_itself_is_not_judged_so_that_it_happens_once() -> None:
    worse, _ = step(measuring(), measured(0.9), CONFIG)
    back = moving(None, worse, plan_id="p-2", reason="ROLLBACK_EFFECT", now_ms=NOW_MS + 210_000)
    assert (back.phase, back.metric, back.former, back.failures) == ("moving", None, [], 1)
    on = replace(measured(0.99, 400), plan_id="p-2", status=status("applied", plan_id="p-2"))
    state, events = step(msgspec.structs.replace(step(back, on, CONFIG)[0], timed=True), on, CONFIG)
    assert (state.phase, events) == ("none", [])
    assert backing_off(state, NOW_MS + 700_000) == NOW_MS + 800_000, "the back-off outlives it"


def test_rollback_that_is_held_for_too_long_is_given_up() -> None:
    worse, _ = step(measuring(), measured(0.9), CONFIG)
    state, events = step(worse, measured(0.9, 501), CONFIG)
    assert (state.phase, state.verdict, kinds(events)) == ("none", Outcome.WORSE, [EventKind.ROLLBACK_IMPOSSIBLE])


def test_rollback_is_forgotten_when_somebody_publishes_another_plan() -> None:
    worse, _ = step(measuring(), measured(0.9), CONFIG)
    state, events = step(worse, replace(measured(0.9, 210), plan_id="p-9"), CONFIG)
    assert (state.phase, state.verdict, state.former, events) == ("none", Outcome.WORSE, [], [])


def test_rollback_to_a_placement_that_is_not_possible_any_more_is_said() -> None:
    worse, _ = step(measuring(), measured(0.9), CONFIG)
    state, events = give_up_rollback(worse, facts(210), "slot-exists: a:1 is no slot")
    assert (state.phase, kinds(events)) == ("none", [EventKind.ROLLBACK_IMPOSSIBLE])
    assert "a:1 is no slot" in events[0].text


# --- noise and budget -------------------------------------------------------------------------------------------------


def test_noise_is_three_robust_sigmas_and_never_below_the_floor() -> None:
    assert noise_ratio([0.4] * 10, 0.05) == 0.05
    assert noise_ratio([0.4, 0.5, 0.3], 0.05) == 0.05, "too few to tell"
    assert noise_ratio([0.36, 0.38, 0.40, 0.42, 0.44], 0.05) == pytest.approx(3 * 1.4826 * 0.02 / 0.4)
    assert noise_ratio([0.0] * 9, 0.05) == 0.05


def test_what_was_moved_within_the_hour_is_kept_and_older_forgotten() -> None:
    first = moving()
    second = moving(state=first, now_ms=NOW_MS + 3_599_000, moved=[1], workers=2)
    assert [(s.executors, s.workers) for s in second.spent] == [(2, 1), (1, 2)]
    third = moving(state=second, now_ms=NOW_MS + 3_600_000, moved=[])
    assert [(s.executors, s.workers) for s in third.spent] == [(1, 2)]
