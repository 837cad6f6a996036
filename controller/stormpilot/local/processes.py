"""Finds and ends every process of one cluster, whoever its parent is by now.

All of them carry the cluster's id in an environment variable that children inherit: daemons, workers, the workers' log
writers and the Python components below them. A process that cleaned its environment is found as a descendant.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

MARKER = "STORMPILOT_CLUSTER_ID"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A living process: `started_at` in seconds since the epoch, `argv` as it was started."""

    pid: int
    parent: int
    started_at: float
    argv: tuple[str, ...]


def of_cluster(cluster_id: str) -> list[Process]:
    """All living processes of a cluster, oldest first. Zombies do not count; neither do other users' processes."""
    parents: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
            parents[pid] = _stat(pid)[1]
            if _carries(pid, cluster_id):
                members.add(pid)
    for pid in parents:
        if pid not in members and any(a in members for a in _ancestors(pid, parents)):
            members.add(pid)
    found = (process(pid) for pid in members)
    return sorted((p for p in found if p is not None), key=lambda p: (p.started_at, p.pid))


def process(pid: int) -> Process | None:
    """A process by its id; None if it is gone or a zombie."""
    try:
        state, parent, started_ticks = _stat(pid)
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    if state in ("Z", "X"):
        return None
    started_at = _boot_time() + started_ticks / _TICKS_PER_S
    return Process(pid, parent, started_at, tuple(a.decode(errors="replace") for a in argv))


def belongs(pid: int, cluster_id: str) -> bool:
    """Whether a process id noted earlier is still that of a living process of the cluster."""
    try:
        return _carries(pid, cluster_id) and process(pid) is not None
    except OSError:
        return False


def end_cluster(cluster_id: str, *, grace_s: float = 2.0, spare: Collection[int] = ()) -> list[Process]:
    """End all processes of a cluster: SIGTERM, after `grace_s` SIGKILL, until none is left.

    Parameters
    ----------
    cluster_id
        The id that the processes carry.
    grace_s
        Seconds between SIGTERM and SIGKILL.
    spare
        Process ids to leave alone (the caller's own).

    Returns
    -------
    list of Process
        What could not be ended (stuck in the kernel, or another user's); empty as a rule.
    """
    asked: set[int] = set()
    kill_at = time.monotonic() + grace_s
    give_up_at = kill_at + 10.0
    while True:
        left = [p for p in of_cluster(cluster_id) if p.pid not in spare]
        now = time.monotonic()
        if not left or now > give_up_at:
            return left
        for p in left:
            if now >= kill_at:
                _signal(p.pid, signal.SIGKILL)
            elif p.pid not in asked:
                _signal(p.pid, signal.SIGTERM)
                asked.add(p.pid)
        time.sleep(0.05)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    chain: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in chain:
        chain.append(pid)
    return chain


def _carries(pid: int, cluster_id: str) -> bool:
    return f"{MARKER}={cluster_id}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _stat(pid: int) -> tuple[str, int, int]:
    # The name in parentheses may itself hold blanks and parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])


def _boot_time() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise RuntimeError("/proc/stat has no line btime")
