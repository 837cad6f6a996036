"""Ctrl-C in tests: a handler for a while, and planners in the middle of which it is pressed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stormpilot import planner
from stormpilot.model import compiling
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner.search.warm import TINY


@contextmanager
def sigint(handler: Any = signal.default_int_handler) -> Iterator[None]:
    """Ctrl-C does what `handler` says; by default as in a shell in the foreground.

    A runner that was begun in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        compiling.stop(stopped=False)  # where it is ignored otherwise, the next command would not begin anew


def ctrl_c() -> None:
    """Press it, from whatever thread: the main one handles it."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def interrupt(monkeypatch: pytest.MonkeyPatch, *, after: int, times: int = 1) -> None:
    """Let Ctrl-C be pressed when a planner asks for the time that is left for so many times."""
    usual, asked = planner.compute, 0

    def interrupted(
        model: Model, *given: Any, left_s: Callable[[], float] | None = None, **more: Any
    ) -> Plan | Infeasible:
        if left_s is None or model is TINY:  # what is compiled first plans a tiny model
            return usual(model, *given, **more)

        def counted() -> float:
            nonlocal asked
            asked += 1
            if asked == after:
                for _ in range(times):
                    ctrl_c()
            return left_s()

        return usual(model, *given, left_s=counted, **more)

    monkeypatch.setattr(planner, "compute", interrupted)
