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
        """Compare with the reports before.

        What a task measured itself is seen up to a report period later: its first report of the phase may be from
        before it, and tells nothing of tuples that came in between.
        """
        for reading, load in now.items():
            before = self.last.get(reading)
            if before is None or not _is_another(load, before):
                self.last.setdefault(reading, load)
                continue
            in_jvm, first = reading[1], self.first.get(reading)
            if in_jvm or first is None or _is_another(before, first):
                self.idle[reading] = idle(before, load)
            self.last[reading] = load

    def idle_tasks(self) -> set[int]:
        """Tasks that did nothing between their last two reports, by all that measure them."""
        known = {task for task, _ in self.last}
        return known - {task for (task, jvm) in self.last if not self.idle.get((task, jvm), False)}

    def alive(self, now: Mapping[Reading, TaskLoad]) -> set[int]:
        """Tasks that reported since the phase began."""
        return {r[0] for r, load in now.items() if r not in self.first or _is_another(load, self.first[r])}


def _is_another(load: TaskLoad, before: TaskLoad) -> bool:
    """Whether it is another report."""
    return (load.seq, load.pid) != (before.seq, before.pid)
