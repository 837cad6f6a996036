"""Which tasks work and which do nothing, told from their reports one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stormpilot.messages.load import TaskLoad, idle

Reading = tuple[int, bool]
"""A task, and whether its worker's JVM measured it (else it did itself)."""


@dataclass
class IdleTracker:
    """Idle tasks of a topology in the present phase."""

    phase: object
    first: Mapping[Reading, TaskLoad]
    last: dict[Reading, TaskLoad] = field(default_factory=dict)
    idle: dict[Reading, bool] = field(default_factory=dict)
    due_since_ms: int | None = None

    def take(self, now: Mapping[Reading, TaskLoad]) -> None:
        """Compare with the reports before."""
        for reading, load in now.items():
            before = self.last.get(reading)
            if before is None or (load.seq, load.pid) == (before.seq, before.pid):
                self.last.setdefault(reading, load)
                continue
            self.idle[reading] = idle(before, load)
            self.last[reading] = load

    def idle_tasks(self) -> set[int]:
        """Tasks that did nothing between their last two reports, by all that measure them."""
        known = {task for task, _ in self.last}
        return known - {task for (task, jvm) in self.last if not self.idle.get((task, jvm), False)}

    def alive(self, now: Mapping[Reading, TaskLoad]) -> set[int]:
        """Tasks that reported since the phase began."""
        return {
            r[0]
            for r, load in now.items()
            if r not in self.first or (load.seq, load.pid) != (self.first[r].seq, self.first[r].pid)
        }
