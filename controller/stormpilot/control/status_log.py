"""Logs what the scheduler plug-in did with plans, and what in ZooKeeper cannot be read: each thing once."""

from __future__ import annotations

import structlog

from stormpilot.control.outbox import Outbox
from stormpilot.decide.status_changes import StatusChange, StatusChangeDetector
from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.observe.reader import StoreSnapshot

log = structlog.get_logger(__name__)


class StatusLog:
    """Finds the changes of status in every snapshot, logs them, and keeps them for the report."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._detector = StatusChangeDetector()
        self._problems: set[str] = set()

    def observe(self, snapshot: StoreSnapshot) -> None:
        """Log what is new."""
        names = {t: s.name for t, s in snapshot.topologies.items()}
        for change in self._detector.observe(snapshot.statuses, names):
            self._outbox.status_changes.append(change)
            _log(change, snapshot)
        for path, why in sorted(snapshot.problems.items()):
            if path not in self._problems:
                log.warning("cannot be read, left out", path=path, why=why)
        self._problems = set(snapshot.problems)


def _log(change: StatusChange, snapshot: StoreSnapshot) -> None:
    status, plan = change.status, snapshot.plan(change.topology_id)
    if plan is None or status.plan_id is None:
        return
    say = log.warning if change.failed else log.info
    say(
        f"plan {status.state}",
        topology=change.topology,
        plan=status.plan_id,
        code=status.code,
        **_after(status, plan),
        text=status.text,
    )


def _after(status: StatusMessage, plan: PlanMessage) -> dict[str, float]:
    """Seconds from publishing the plan to its status; Nimbus and the controller may have different clocks."""
    if status.plan_id != plan.plan_id:
        return {}  # of a plan before: its time of publishing is gone
    after_s = round((status.since_ms - plan.created_at_ms) / 1000, 1)
    return {"after_s": after_s} if after_s >= 0 else {"after_s": 0.0, "nimbus_clock_behind_s": -after_s}
