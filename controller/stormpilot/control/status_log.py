"""Logs what the scheduler plug-in did with plans, and what in ZooKeeper cannot be read: each thing once."""

from __future__ import annotations

import structlog

from stormpilot.control.outbox import Outbox
from stormpilot.decide.status_changes import StatusChange, StatusChangeDetector
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
    status, published = change.status, snapshot.plans.get(change.topology_id)
    if published is None or published.message is None or status.plan_id is None:
        return
    say = log.warning if change.failed else log.info
    say(
        f"plan {status.state}",
        topology=change.topology,
        plan=status.plan_id,
        code=status.code,
        after_s=round((status.since_ms - published.message.created_at_ms) / 1000, 1),
        text=status.text,
    )
