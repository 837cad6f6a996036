"""Waiting for what must come: with a deadline that only something broken misses, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
LOOK_S = 0.1


def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition; a shorter deadline is for what has to happen in time, not for what is quick as a rule."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(LOOK_S)
