"""A component that acks in batches, behind the schedule of a trial's source."""

from __future__ import annotations

from collections.abc import Iterator

from stormpilot.instrument.trial import Schedule

STEP_S = 0.01


def acked_in_batches(schedule: Schedule, every_s: float, first_s: float, until_s: float) -> Iterator[float]:
    """The time (s), step by step; what is due is sent, and all that waits is acked at `first_s` and every `every_s`."""
    waiting = list[int]()
    now_s, flush_s = 0.0, first_s
    while now_s < until_s:
        due = schedule.due(now_s, len(waiting))
        waiting += range(schedule.sent, schedule.sent + due)
        schedule.sent += due
        if now_s >= flush_s:
            for number in waiting:
                schedule.done(number, now_s)
            waiting, flush_s = [], flush_s + every_s
        now_s += STEP_S
        yield now_s
