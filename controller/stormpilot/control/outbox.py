"""Events since the last report of a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from stormpilot.decide.events import Event
from stormpilot.decide.report import CycleReport
from stormpilot.decide.status_changes import StatusChange
from stormpilot.messages.moves import MoveState


@dataclass
class Outbox:
    """Events, verified moves and changes of status; a cycle that fails loses none of them."""

    events: list[Event] = field(default_factory=list)
    ended: list[MoveState] = field(default_factory=list)
    status_changes: list[StatusChange] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        """Keep events for the next report."""
        self.events += events

    def into(self, report: CycleReport) -> CycleReport:
        """The report with all of it; nothing is left."""
        full = replace(report, events=self.events, ended=self.ended, status_changes=self.status_changes)
        self.events, self.ended, self.status_changes = [], [], []
        return full
