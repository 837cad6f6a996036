"""Time of a planner that somebody waits for: told on a terminal, over at Ctrl-C."""

from __future__ import annotations

import io
import math
import signal

import pytest
from rich.console import Console

from interrupts import sigint
from stormpilot.cli import progress
from stormpilot.cli.planning_time import PlanningTime, planning_time
from stormpilot.model import compiling


class Line:
    """A line of a terminal: all that it showed."""

    def __init__(self, *, live: bool = True) -> None:
        self.live = live
        self.shown: list[str] = []

    def update(self, text: str) -> None:
        self.shown.append(text)


def test_a_terminal_shows_how_much_of_the_budget_is_over() -> None:
    now_s, line = 100.0, Line()
    clock = PlanningTime(100.0, 160.0, line, lambda: now_s)
    assert clock.left_s() == 60.0
    now_s = 100.5
    assert clock.left_s() == 59.5
    now_s = 130.0
    assert clock.left_s() == 30.0
    assert line.shown == [f"{n} s of 60 s (Ctrl-C: end with the best plan so far)" for n in (0, 30)]


def test_without_a_budget_it_shows_the_time_that_has_passed() -> None:
    now_s, line = 142.0, Line()
    assert PlanningTime(100.0, math.inf, line, lambda: now_s).left_s() == math.inf
    assert line.shown == ["42 s (Ctrl-C: end with the best plan so far)"]


def test_after_an_interruption_no_time_is_left() -> None:
    line = Line()
    clock = PlanningTime(100.0, math.inf, line, lambda: 100.0)
    clock.interrupt()
    assert (clock.left_s(), clock.interrupted) == (0.0, True)
    assert line.shown == ["ending with the best plan so far (Ctrl-C: end without one)"]


def test_a_file_gets_no_line() -> None:
    line = Line(live=False)
    clock = PlanningTime(100.0, math.inf, line, lambda: 100.0)
    clock.left_s()
    clock.interrupt()
    assert line.shown == []


@pytest.mark.parametrize("live", [True, False])
def test_an_interruption_while_something_is_compiled_says_at_once_what_comes_first(live: bool) -> None:
    """The first Ctrl-C seemed to do nothing for a minute."""
    line = Line(live=live)
    compiling.begins()
    try:
        PlanningTime(100.0, math.inf, line, lambda: 100.0).interrupt()
    finally:
        compiling.ends()
    assert line.shown == ["what is compiled now comes first, then the best plan so far (Ctrl-C: end without one)"]


def test_a_search_for_something_else_is_named_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(progress, "console_err", Console(file=terminal, force_terminal=True, color_system=None))
    with sigint(), planning_time(0.0, math.inf, "bound", sought="bound") as clock:
        clock.left_s()
        signal.raise_signal(signal.SIGINT)
    assert "ending with the best bound so far" in terminal.getvalue()
    assert "the search ended with the best that it had found" in capsys.readouterr().err


def test_the_first_signal_ends_the_time_and_the_second_one_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(progress, "console_err", Console(file=terminal, force_terminal=True, color_system=None))
    with sigint():
        with planning_time(0.0, math.inf) as clock:
            assert clock.left_s() == math.inf
            signal.raise_signal(signal.SIGINT)
            assert clock.left_s() == 0.0
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_that_ignores_the_signal_goes_on_ignoring_it() -> None:
    """A shell begins commands in the background so."""
    with sigint(signal.SIG_IGN), planning_time(0.0, math.inf) as clock:
        signal.raise_signal(signal.SIGINT)
        assert clock.left_s() == math.inf
