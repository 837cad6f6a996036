"""Finds and ends every process of one cluster, whoever its parent is by now.

All of them carry the cluster's id in an environment variable that children inherit: daemons, workers, the workers' log
writers and the Python components below them. A process that cleaned its environment is found as a descendant.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MARKER = "STORMPILOT_CLUSTER_ID"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KERNEL_THREAD = 0x00200000
_EXEC_S = 10.0
"""A process that becomes another program has no environment to read for a moment; no busy machine takes this long."""


@dataclass(frozen=True)
class Process:
    """A living process: `started_at` in seconds since the epoch, `argv` as it was started."""

    pid: int
    parent: int
    started_at: float
    argv: tuple[str, ...]


class _Stat(NamedTuple):
    """Of /proc/PID/stat; the environment ends at address 0 as long as exec has not set it up."""

    state: str
    parent: int
    flags: int
    started_ticks: int
    environment_end: int


def freeze(child: subprocess.Popen[bytes]) -> None:
    """Stop a child process (SIGSTOP), and return when all its threads have stopped or it has ended.

    `kill` returns before: on a busy machine a thread that is still running could answer several requests meanwhile.
    """
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def of_cluster(cluster_id: str) -> list[Process]:
    """All living processes of a cluster, oldest first. Zombies do not count; neither do other users' processes."""
    return _living(_members(cluster_id, {}))


def process(pid: int) -> Process | None:
    """A process by its id; None if it is gone or a zombie."""
    try:
        stat = _stat(pid)
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return None
    if stat.state in ("Z", "X"):
        return None
    started_at = _boot_time() + stat.started_ticks / _TICKS_PER_S
    return Process(pid, stat.parent, started_at, tuple(a.decode(errors="replace") for a in argv))


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
    members: dict[int, int] = {}  # whoever was found once is waited for, even when nothing shows any more whose it is
    asked: set[int] = set()
    kill_at = time.monotonic() + grace_s
    give_up_at = kill_at + 10.0
    while True:
        members = _members(cluster_id, members)
        left = [p for p in _living(members) if p.pid not in spare]
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


def _members(cluster_id: str, known: Mapping[int, int]) -> dict[int, int]:
    """Start (ticks) by id: the processes that carry the id, those `known` to be of the cluster, and all below them."""
    parents: dict[int, int] = {}
    started: dict[int, int] = {}
    members: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours to read
            stat = _stat(pid)
            parents[pid], started[pid] = stat.parent, stat.started_ticks
            if known.get(pid) == started[pid] or _carries(pid, cluster_id):
                members.add(pid)
    for pid in parents:
        if pid not in members and any(a in members for a in _ancestors(pid, parents)):
            members.add(pid)
    return {pid: started[pid] for pid in members}


def _living(pids: Collection[int]) -> list[Process]:
    found = (process(pid) for pid in pids)
    return sorted((p for p in found if p is not None), key=lambda p: (p.started_at, p.pid))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    chain: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in chain:
        chain.append(pid)
    return chain


def _carries(pid: int, cluster_id: str) -> bool:
    return f"{MARKER}={cluster_id}".encode() in _environment(pid).split(b"\0")


def _environment(pid: int) -> bytes:
    """Command line of a process; empty for zombies and kernel threads. Waits while it becomes another program."""
    give_up_at = time.monotonic() + _EXEC_S
    while True:
        before = _stat(pid)
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if environment or before.state in ("Z", "X") or before.flags & _KERNEL_THREAD:
            return environment
        if _stat(pid).environment_end == before.environment_end != 0 or time.monotonic() > give_up_at:
            return environment  # it was started without one
        time.sleep(0.001)


def _stat(pid: int) -> _Stat:
    # The name in parentheses may itself hold blanks and parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[1]), int(fields[6]), int(fields[19]), int(fields[48]))


def _boot_time() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise RuntimeError("/proc/stat has no line btime")
