"""Messages that seem to be from the future count as written when they were first read."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from doubles.models import NOW_MS, plan_message, status
from doubles.rolling import begun
from stormpilot.decide.effect import backing_off
from stormpilot.messages.moves import MoveState, Spent
from stormpilot.messages.settings import Hold, Request
from stormpilot.observe.past import Past
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot, Versioned
from stormpilot.observe.settings import Pending, Settings

HOUR_MS = 3_600_000
T = "flights-1"
HOLD = Hold(topology_id=T, since_ms=NOW_MS - 60_000, until_ms=NOW_MS + 540_000, cause="discard")
MOVE = MoveState(
    topology_id=T,
    published_at_ms=NOW_MS - 300_000,
    applied_at_ms=NOW_MS - 290_000,
    judged_at_ms=NOW_MS - 60_000,
    back_off_until_ms=NOW_MS + 540_000,
    spent=[Spent(at_ms=NOW_MS - 300_000, executors=1, workers=1)],
)
ENDED = msgspec.structs.replace(begun(), topology_id=T, phase="ended", since_ms=NOW_MS - 60_000)
ASKED = Request(id="r-1", verb="replan", topology_id=T, at_ms=NOW_MS - 60_000, by="ops")
SEEN = StoreSnapshot(
    plans={T: PublishedPlan(plan_message(age_s=60), 3, NOW_MS - 60_000), "y": PublishedPlan(None, 0, NOW_MS - 60_000)},
    moves={T: MOVE},
    statuses={T: msgspec.structs.replace(status("applied"), since_ms=NOW_MS - 60_000)},
    rollouts={T: Versioned(ENDED, 5)},
    settings=Settings(holds={T: HOLD}, requests={T: Pending(ASKED, 2), "y": Pending(None, 0)}),
)


def test_what_is_of_the_past_stays_as_it_is() -> None:
    assert Past().of(SEEN, NOW_MS) is SEEN


def test_what_is_from_the_future_counts_from_when_it_was_first_read() -> None:
    """The clock was set back by an hour a minute after all of it was written."""
    past, now_ms = Past(), NOW_MS - HOUR_MS
    for later_ms in (0, 10_000, 2 * HOUR_MS):  # when the clock has come there again, too
        seen = past.of(SEEN, now_ms + later_ms)
        assert (seen.plans[T].since_ms, seen.plans["y"].since_ms) == (now_ms, now_ms)
        assert seen.plans[T].message is SEEN.plans[T].message
        assert seen.statuses[T].since_ms == now_ms
        assert seen.rollouts[T] == Versioned(ENDED, 5, ahead_ms=HOUR_MS - 60_000)
        hold = seen.settings.holds[T]
        assert (hold.since_ms, hold.until_ms) == (HOLD.since_ms, now_ms + 600_000)
        assert seen.settings.requests == {
            T: Pending(msgspec.structs.replace(ASKED, at_ms=now_ms), 2),
            "y": Pending(None, 0),
        }
        move = seen.moves[T]
        assert backing_off(move, now_ms) == now_ms + 600_000
        assert (move.judged_at_ms, move.published_at_ms) == (now_ms, now_ms - 240_000)
        assert [s.at_ms for s in move.spent] == [move.published_at_ms]


def test_what_is_written_anew_is_not_from_the_future() -> None:
    past, now_ms = Past(), NOW_MS - HOUR_MS
    past.of(SEEN, now_ms)
    plan = msgspec.structs.replace(plan_message(), plan_id="p-2", created_at_ms=now_ms + 5_000)
    seen = past.of(replace(SEEN, plans={T: PublishedPlan(plan, 4, 0)}), now_ms + 6_000)
    assert seen.plans[T].since_ms == now_ms + 5_000
    assert seen.statuses[T].since_ms == now_ms
