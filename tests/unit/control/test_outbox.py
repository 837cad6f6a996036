"""The outbox: every event, verified move and change of status is in one report, and in one only."""

from __future__ import annotations

from stormpilot.control.outbox import Outbox
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.report import CycleReport


def event(text: str) -> Event:
    return Event(EventKind.MOVE_HELPED, "flights-1", "flights", text, 1)


def test_what_happened_between_two_cycles_is_in_the_next_report_once() -> None:
    outbox = Outbox()
    outbox.add([event("a")])
    outbox.add([event("b")])
    assert [e.text for e in outbox.into(CycleReport(1)).events] == ["a", "b"]
    assert list(outbox.into(CycleReport(2)).events) == []


def test_what_comes_later_does_not_change_a_report_that_was_made() -> None:
    outbox = Outbox()
    report = outbox.into(CycleReport(1))
    outbox.add([event("a")])
    assert list(report.events) == []
