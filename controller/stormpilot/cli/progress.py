"""Progress of a command that waits: what is done, and what is left, on stderr.

On a terminal one line that changes; elsewhere a line whenever the text changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.status import Status

from stormpilot.cli.output import console_err, note
from stormpilot.printable import age, printable


class Progress:
    """Tells how far a command is."""

    def __init__(self, what: str, line: Status | None = None, clock_s: Callable[[], float] = time.monotonic):
        self._what = what
        self._line = line
        self._clock_s = clock_s
        self._first: tuple[float, float] | None = None
        self._said = ""

    @property
    def live(self) -> bool:
        """Whether the line changes in place, so that it may be told often."""
        return self._line is not None

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Something changed; `done` of `total` tells how long the rest takes."""
        left = "" if done is None or total is None else self._left(done, total)
        if self._line is not None:
            self._line.update(escape(printable(f"{self._what}: {text}{left}")))
        elif text != self._said:
            note(f"{self._what}: {text}{left}")
        self._said = text

    def _left(self, done: float, total: float) -> str:
        """`, about 40 s left`, by what was done since the first time; empty while nothing was."""
        now_s = self._clock_s()
        if self._first is None:
            self._first = (now_s, done)
        began_s, before = self._first
        if done <= before or done >= total or now_s <= began_s:
            return ""
        return f", about {age((total - done) * (now_s - began_s) / (done - before))} left"


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A line for as long as something takes."""
    if not console_err.is_terminal:
        yield Progress(what)
        return
    with console_err.status(escape(printable(what))) as line:
        yield Progress(what, line)
