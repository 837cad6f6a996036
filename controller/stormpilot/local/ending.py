"""End of a cluster, whichever version of stormpilot started it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress

from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.local import isolation, processes, state
from stormpilot.local.start_lock import one_start_at_a_time
from stormpilot.local.state import Layout, Remains

KEEPER_S = 15.0
"""Time in which the keeper ends the others and then itself; what it cannot, or if it is stuck, is ended after it."""


def end(layout: Layout, remains: Remains, *, purge: bool = False) -> bool:
    """End every process of a cluster and verify that none is left. Whether any was running.

    With `purge` its folder is removed too, logs and all, unless another command holds it.

    Raises
    ------
    UnreachableError
        A process could not be ended.
    """
    name, running = layout.directory.name, processes.of_cluster(remains.id)
    keeper = next((p for p in running if p.pid == _keeper_pid(layout)), None)
    if keeper:
        with suppress(ProcessLookupError):
            os.kill(keeper.pid, signal.SIGTERM)
        give_up_at = time.monotonic() + KEEPER_S
        while processes.process(keeper.pid) is not None and time.monotonic() < give_up_at:
            time.sleep(0.05)
    left = processes.end_cluster(remains.id)
    if left:
        raise UnreachableError(f"cluster {name}: could not end process {', '.join(str(p.pid) for p in left)}")
    if remains.isolation is not None:
        isolation.remove(isolation.token_of(layout.directory))
    shutil.rmtree(layout.data, ignore_errors=True)
    if purge:
        with suppress(RefusedError), one_start_at_a_time(layout) as lock:
            shutil.rmtree(layout.directory, ignore_errors=True)
            lock.unlink()
    return bool(running)


def _keeper_pid(layout: Layout) -> int | None:
    """Process id of the keeper; None where it is not known, or another version wrote it in its own way."""
    with suppress(UsageError):
        recorded = state.read_processes(layout)
        return None if recorded is None else recorded.keeper_pid
    return None
