"""Ctrl-C, which ends a command with `KeyboardInterrupt` wherever it is, also in a thread that compiles a planner."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from stormpilot.model import compiling

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Where Ctrl-C is Python's own, it ends a compilation too, as soon as nothing is half written. For the main thread.

    Whoever waits for a thread that compiles could not go before: that took minutes. A second one ends all at once.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    compiling.stop(stopped=False)

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        compiling.stop()
        if not compiling.running():
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
