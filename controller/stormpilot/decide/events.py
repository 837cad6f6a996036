"""What an operator is told once, when it begins: for the log, and for whoever notifies people."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class EventKind(enum.StrEnum):
    """What happened."""

    MOVE_HELPED = "MOVE_HELPED"
    MOVE_WITHOUT_GAIN = "MOVE_WITHOUT_GAIN"
    MOVE_WORSE = "MOVE_WORSE"
    MOVE_NOT_JUDGED = "MOVE_NOT_JUDGED"
    ROLLBACK_IMPOSSIBLE = "ROLLBACK_IMPOSSIBLE"
    RESOURCES_INSUFFICIENT = "RESOURCES_INSUFFICIENT"
    RESOURCES_SUFFICIENT = "RESOURCES_SUFFICIENT"
    MIGRATION_DONE = "MIGRATION_DONE"
    MIGRATION_ENDED = "MIGRATION_ENDED"


ALERTS = frozenset(
    {
        EventKind.MOVE_WITHOUT_GAIN,
        EventKind.MOVE_WORSE,
        EventKind.ROLLBACK_IMPOSSIBLE,
        EventKind.RESOURCES_INSUFFICIENT,
        EventKind.MIGRATION_ENDED,
    }
)
"""Those that want a person's attention."""


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
        """Whether a person should look."""
        return self.kind in ALERTS
