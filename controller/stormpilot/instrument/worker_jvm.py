"""CPU of the worker's JVM, as a child process of it sees it: Python components are children of their worker."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_BETWEEN = 4
"""Processes between a component and its worker: a shell, an interpreter's launcher."""


class WorkerJvm:
    """The nearest ancestor that is a `java`; none where there is none, or `/proc` does not show it.

    Parameters
    ----------
    pid
        Of the process whose worker it is.
    proc
        Where the kernel tells of processes.
    """

    def __init__(self, pid: int | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._jvm: tuple[int, str] | None = None  # process id, and when it started
        found = os.getpid() if pid is None else pid
        for _ in range(_MOST_BETWEEN + 1):
            stat = self._stat(found)
            if stat is None:
                return
            found = int(stat[1][1])
            parent = self._stat(found)
            if parent is not None and parent[0] == "java":
                self._jvm = found, parent[1][19]
                return

    def cpu_s(self) -> float | None:
        """CPU seconds of the whole JVM since its start (user and system); None: not known, and never again."""
        if self._jvm is None:
            return None
        pid, started = self._jvm
        stat = self._stat(pid)
        if stat is None or stat[1][19] != started:
            self._jvm = None
            return None
        return (int(stat[1][11]) + int(stat[1][12])) / _TICKS_PER_S

    def _stat(self, pid: int) -> tuple[str, list[str]] | None:
        """Name of a process, and what follows it in its `stat`: state, parent, ..."""
        try:
            name, _, rest = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            return None
        return name.partition("(")[2], rest.split()
