"""Events of moves: each is logged and notified once, when it begins."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class EventKind(enum.StrEnum):
    """Kinds of events."""

    MOVE_HELPED = "MOVE_HELPED"
    MOVE_WITHOUT_GAIN = "MOVE_WITHOUT_GAIN"
    MOVE_WORSE = "MOVE_WORSE"
    MOVE_NOT_JUDGED = "MOVE_NOT_JUDGED"
    ROLLBACK_IMPOSSIBLE = "ROLLBACK_IMPOSSIBLE"
    RESOURCES_INSUFFICIENT = "RESOURCES_INSUFFICIENT"
    RESOURCES_SUFFICIENT = "RESOURCES_SUFFICIENT"
    SIZE_PROPOSED = "SIZE_PROPOSED"
    SIZE_FITS = "SIZE_FITS"
    ROLLOUT_DONE = "ROLLOUT_DONE"
    ROLLOUT_ENDED = "ROLLOUT_ENDED"


ALERTS = frozenset(
    {
        EventKind.MOVE_WITHOUT_GAIN,
        EventKind.MOVE_WORSE,
        EventKind.ROLLBACK_IMPOSSIBLE,
        EventKind.RESOURCES_INSUFFICIENT,
        EventKind.SIZE_PROPOSED,
        EventKind.ROLLOUT_ENDED,
    }
)
"""Events that need a person's attention."""


@dataclass(frozen=True)
class Event:
    """One event of one topology; `value` against `threshold` is the number behind it, where there is one."""

    kind: EventKind
    topology_id: str
    topology: str
    text: str
    at_ms: int
    value: float | None = None
    threshold: float | None = None

    @property
    def alert(self) -> bool:
        """Whether a person should react."""
        return self.kind in ALERTS
