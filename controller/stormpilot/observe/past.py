"""Times of stored messages by our clock: none is still to come.

After a clock was set back, or by a leader whose clock was ahead, a plan seems to be made later than now, and what waits
for a time after it would wait for longer than it may. Such a message counts as written when it was first read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from stormpilot.messages.moves import MoveState
from stormpilot.observe.reader import StoreSnapshot


class Past:
    """Leads of messages over our clock when they were first read, for as long as they are there."""

    def __init__(self) -> None:
        self._ahead_ms: dict[object, int] = {}

    def of(self, seen: StoreSnapshot, now_ms: int) -> StoreSnapshot:
        """The snapshot in which nothing is from the future; of plans and rollouts it tells by how much they are."""
        known, self._ahead_ms = self._ahead_ms, {}

        def ahead_ms(key: object, *at_ms: int | None) -> int:
            """By how much the newest of these times was ahead; a message that changed is another one."""
            newest_ms = max((ms for ms in at_ms if ms is not None), default=now_ms)
            found = known.get((key, newest_ms), newest_ms - now_ms)
            if found > 0:
                self._ahead_ms[key, newest_ms] = found
            return max(0, found)

        plans = {t: replace(p, ahead_ms=by) for t, p in seen.plans.items() if (by := ahead_ms(("plan", t), p.since_ms))}
        moves = {t: _earlier(m, by) for t, m in seen.moves.items() if (by := ahead_ms(("move", t), *_times(m)))}
        statuses = {
            t: msgspec.structs.replace(s, since_ms=s.since_ms - by)
            for t, s in seen.statuses.items()
            if (by := ahead_ms(("status", t), s.since_ms))
        }
        rollouts = {
            t: replace(v, ahead_ms=by)
            for t, v in seen.rollouts.items()
            if v.message is not None and (by := ahead_ms(("rollout", t), v.message.since_ms))
        }
        holds = {
            t: msgspec.structs.replace(h, until_ms=h.until_ms - by)
            for t, h in seen.settings.holds.items()
            if (by := ahead_ms(("hold", t), h.since_ms))
        }
        requests = {
            t: replace(p, request=msgspec.structs.replace(p.request, at_ms=p.request.at_ms - by))
            for t, p in seen.settings.requests.items()
            if p.request is not None and (by := ahead_ms(("request", t, p.request.id), p.request.at_ms))
        }
        if not (plans or moves or statuses or rollouts or holds or requests):
            return seen
        return replace(
            seen,
            plans={**seen.plans, **plans},
            moves={**seen.moves, **moves},
            statuses={**seen.statuses, **statuses},
            rollouts={**seen.rollouts, **rollouts},
            settings=replace(
                seen.settings,
                holds={**seen.settings.holds, **holds},
                requests={**seen.settings.requests, **requests},
            ),
        )


def _times(m: MoveState) -> Iterable[int | None]:
    return (m.published_at_ms, m.applied_at_ms, m.judged_at_ms, *(s.at_ms for s in m.spent))


def _earlier(m: MoveState, by_ms: int) -> MoveState:
    times = {"published_at_ms", "applied_at_ms", "judged_at_ms", "back_off_until_ms"}
    known = {name: at_ms - by_ms for name in sorted(times) if (at_ms := getattr(m, name)) is not None}
    spent = [msgspec.structs.replace(s, at_ms=s.at_ms - by_ms) for s in m.spent]
    return msgspec.structs.replace(m, **known, spent=spent)
