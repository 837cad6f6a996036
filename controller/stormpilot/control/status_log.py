"""Says in the log what the scheduler plug-in did with plans, and what in ZooKeeper cannot be read: each thing once."""

from __future__ import annotations

import structlog

from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.observe.reader import StoreSnapshot

log = structlog.get_logger(__name__)


class StatusLog:
    """Compares what it sees with what it said last."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str | None, str, str]] = {}
        self._problems: set[str] = set()

    def look(self, seen: StoreSnapshot) -> None:
        """Log what is new."""
        for topology_id, status in sorted(seen.statuses.items()):
            now = (status.plan_id, status.state, status.code)
            if self._said.get(topology_id) == now:
                continue
            self._said[topology_id] = now
            published = seen.plans.get(topology_id)
            if published is None or published.message is None or status.plan_id is None:
                continue
            name = seen.topologies[topology_id].name if topology_id in seen.topologies else topology_id
            say = log.warning if status.state in ("rejected", "degraded", "fallback") else log.info
            say(
                f"plan {status.state}",
                topology=name,
                plan=status.plan_id,
                code=status.code,
                **_after(status, published.message),
                text=status.text,
            )
        self._said = {t: s for t, s in self._said.items() if t in seen.statuses}
        for path, why in sorted(seen.problems.items()):
            if path not in self._problems:
                log.warning("cannot be read, left out", path=path, why=why)
        self._problems = set(seen.problems)


def _after(status: StatusMessage, plan: PlanMessage) -> dict[str, float]:
    """Seconds from publishing the plan to its status; Nimbus and the controller may have different clocks."""
    if status.plan_id != plan.plan_id:
        return {}  # of a plan before: its time of publishing is gone
    after_s = round((status.since_ms - plan.created_at_ms) / 1000, 1)
    return {"after_s": after_s} if after_s >= 0 else {"after_s": 0.0, "nimbus_clock_behind_s": -after_s}
