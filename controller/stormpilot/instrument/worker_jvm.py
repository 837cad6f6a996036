"""CPU of the worker's JVM, as a child process of it sees it: Python components are children of their worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_BETWEEN = 4
"""Processes between a component and its worker: a shell, an interpreter's launcher."""


class _Process(NamedTuple):
    name: str
    parent: int
    cpu_ticks: int
    started_ticks: int


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
        self._pid = 0
        self._started_ticks: int | None = None
        process = self._read(os.getpid() if pid is None else pid)
        for _ in range(_MOST_BETWEEN + 1):
            if process is None:
                return
            self._pid = process.parent
            process = self._read(self._pid)
            if process is not None and process.name == "java":
                self._started_ticks = process.started_ticks
                return

    def cpu_s(self) -> float | None:
        """CPU seconds of the whole JVM since its start (user and system); None: not known, and never again."""
        if self._started_ticks is None:
            return None
        process = self._read(self._pid)
        if process is None or process.started_ticks != self._started_ticks:
            self._started_ticks = None
            return None
        return process.cpu_ticks / _TICKS_PER_S

    def _read(self, pid: int) -> _Process | None:
        """Fields of its `stat` (proc(5)); None where it is gone, or tells something else."""
        try:
            head, _, rest = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")
            fields = rest.split()
            ticks = int(fields[11]) + int(fields[12])
            return _Process(head.partition("(")[2], int(fields[1]), ticks, int(fields[19]))
        except (OSError, ValueError, IndexError):
            return None
