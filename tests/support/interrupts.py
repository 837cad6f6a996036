"""Handler of SIGINT for a while: a runner that was begun in the background ignores it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sigint(handler: Any = signal.default_int_handler) -> Iterator[None]:
    """Ctrl-C does what `handler` says; by default as in a shell in the foreground."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
