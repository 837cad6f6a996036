"""The loop of a leadership, turn by turn."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import structlog

from doubles.world import World
from stormpilot.control.leadership import Leadership


def leadership(w: World, now_ms: Any) -> Leadership:
    """A leadership whose session stands."""
    nothing: Any = None
    service: Any = SimpleNamespace(beat=lambda: None)
    return Leadership(
        cycle=w.cycle,
        recorder=nothing,
        service=service,
        audit_log=nothing,
        cleaner=nothing,
        connected=lambda: True,
        same_session=lambda: True,
        take_up_configuration=lambda: False,
        wake=threading.Event(),
        stopping=threading.Event(),
        now_ms=now_ms,
    )


def test_a_clock_that_is_set_begins_another_leadership() -> None:
    """Its memory has times that have not come yet, or were a day ago a moment ago."""
    for hours in (-1, 24):
        w = World("a")
        led = leadership(w, lambda w=w: w.now_ms)
        assert led._goes_on()
        assert led._goes_on()
        w.now_ms += hours * 3_600_000
        with structlog.testing.capture_logs() as lines:
            assert not led._goes_on()
        (line,) = lines
        assert line["event"] == "the clock was set; all that was observed begins anew"
        assert abs(line["by_s"] - hours * 3600) < 60


def test_a_clock_that_is_nudged_does_not() -> None:
    w = World("a")
    led = leadership(w, lambda: w.now_ms)
    assert led._goes_on()
    w.now_ms -= 2_000
    assert led._goes_on()
