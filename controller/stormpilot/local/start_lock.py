"""The lock by which a local cluster is started, or removed, by one command at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormpilot.errors import RefusedError, UsageError
from stormpilot.local.state import Layout


@contextmanager
def one_start_at_a_time(layout: Layout) -> Iterator[Path]:
    """Hold the lock of a cluster's folder; yields its file."""
    lock = layout.directory.parent / f".{layout.directory.name}.lock"
    try:
        layout.directory.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as e:
        raise UsageError(f"cannot make {e.filename} ({e.strerror}); STORMPILOT_STATE names another place") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"local cluster {layout.directory.name} is being started by another command") from None
        yield lock
