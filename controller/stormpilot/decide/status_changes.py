"""Changes of the plug-in's answers to plans: found once, read by the log, the metrics and the webhook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stormpilot.messages.core import State, StatusMessage

ANSWERS: Mapping[State, tuple[str, ...]] = {
    "waiting": ("PLAN_SET_INCOMPLETE", "PAUSED", "MODE_OFF", "ISOLATED"),
    "moving": (
        "OK",
        "NO_FREE_SLOT",
        "MOVE_LIMIT",
        "GROUP_OVER_LIMIT",
        "WORKERS_SETTLING",
        "MOVE_REFUSED",
        "PAUSED",
        "MODE_OFF",
    ),
    "applied": ("OK",),
    "rejected": (
        "SUPERVISOR_GONE",
        "SUPERVISOR_BLACKLISTED",
        "SUPERVISOR_KEPT",
        "RULE_BROKEN",
        "PORT_UNKNOWN",
        "SLOT_OCCUPIED",
        "EXECUTOR_MISSING",
        "EXECUTOR_TWICE",
        "EXECUTOR_UNKNOWN",
        "EPOCH_OLD",
        "CHECKSUM",
        "SIGNATURE",
        "SCHEMA_NEWER",
        "MALFORMED",
        "PLAN_SET_INCOMPLETE",
        "WORKERS_CHANGED",
    ),
    "degraded": (
        "SUPERVISOR_LOST",
        "ASSIGNMENT_DIFFERS",
        "SUPERVISOR_GONE",
        "SUPERVISOR_BLACKLISTED",
        "SUPERVISOR_KEPT",
        "NO_FREE_SLOT",
        "NO_SLOT_IN_SITE",
        "RULE_BROKEN",
    ),
    "fallback": (
        "WORKERS_CHANGED",
        "EXECUTORS_CHANGED",
        "SET_ASIDE",
        "PAUSED",
        "MODE_OFF",
        "ISOLATED",
        "NO_FREE_SLOT",
        "NO_SLOT_IN_SITE",
        "LOWER_PRIORITY_HAS_PLAN",
        "RULE_BROKEN",
        "FALLBACK_FAILED",
    ),
}
"""Codes of the plug-in's answers to plans, by state; another version of the plug-in may have others."""
FAILURES = frozenset({"rejected", "degraded", "fallback"})
"""States in which a published plan is not in force."""


@dataclass(frozen=True)
class StatusChange:
    """A new plan, state or code in the plug-in's status of a topology; `before` is the status that it replaces."""

    topology_id: str
    topology: str
    status: StatusMessage
    before: StatusMessage | None = None

    @property
    def failed(self) -> bool:
        """Whether a plan of ours is not in force. A topology without a plan (`NO_PLAN`) runs as it should."""
        return self.status.plan_id is not None and self.status.state in FAILURES

    @property
    def newly_rejected(self) -> bool:
        """Whether the plug-in rejected a plan that it had not rejected before."""
        s, b = self.status, self.before
        was = b is not None and b.state == "rejected" and b.plan_id == s.plan_id
        return s.state == "rejected" and s.plan_id is not None and not was


class StatusChangeDetector:
    """Compares the statuses of a snapshot with those of the one before."""

    def __init__(self) -> None:
        self._before: dict[str, StatusMessage] = {}

    def observe(self, statuses: Mapping[str, StatusMessage], names: Mapping[str, str]) -> list[StatusChange]:
        """The changes; `names` of topologies by id. A topology that is not there yet is compared when it is."""
        before, self._before = self._before, {t: s for t, s in statuses.items() if t in names}
        return [
            StatusChange(t, names[t], s, before.get(t))
            for t, s in sorted(self._before.items())
            if t not in before or _key(before[t]) != _key(s)
        ]


def _key(status: StatusMessage) -> tuple[str | None, str, str]:
    return status.plan_id, status.state, status.code
