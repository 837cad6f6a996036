"""Disturbances of a window: how busy the machine was, and how often a node's quota held its processes.

Nodes share the cores of one machine here, and a core that is busier does less in a second (threads of one core share
its units, cores its caches and clock). Nodes of a real cluster do not do that to one another. So that placements do not
differ in it, all cores are kept busy (`cores_kept_busy`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stormpilot.local.cluster import LocalCluster

STAT = Path("/proc/stat")
NICE, IDLE, WAITING_FOR_DISK, STEAL = 1, 3, 4, 7
"""Columns of the line `cpu` of `/proc/stat` (proc(5))."""
MOST_BUSY, MOST_STOLEN, MOST_THROTTLED = 0.95, 0.02, 0.05


@dataclass(frozen=True)
class Contention:
    """Of the machine's CPU time: `busy_ratio` (without what runs at low priority), `nice_ratio` (that), `steal_ratio`.

    `throttled_ratio` by supervisor: of the periods of its quota, those in which it was used up.
    """

    busy_ratio: float = 0.0
    nice_ratio: float = 0.0
    steal_ratio: float = 0.0
    throttled_ratio: dict[str, float] = field(default_factory=dict)

    def text(self) -> str | None:
        """Why a window tells little of what placements cost; None: it was not disturbed."""
        if self.steal_ratio > MOST_STOLEN:
            return f"{self.steal_ratio:.0%} of the CPU was taken by the hypervisor"
        if self.busy_ratio > MOST_BUSY:
            return f"the machine was {self.busy_ratio:.0%} busy"
        held = {s: r for s, r in self.throttled_ratio.items() if r > MOST_THROTTLED}
        return ", ".join(f"{s} was held by its quota in {r:.0%} of the time" for s, r in sorted(held.items())) or None


@contextlib.contextmanager
def cores_kept_busy() -> Iterator[None]:
    """A process for each core takes what nobody else wants, at the lowest priority."""
    code = (
        "import os; os.nice(19); os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
        f"while os.getppid() == {os.getpid()}:\n"
        "    sum(range(100_000))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Clocks:
    """Counters since the start: ticks of the machine by kind, and by supervisor periods of its quota, all and held."""

    ticks: tuple[int, ...]
    periods: dict[str, tuple[int, int]]

    @classmethod
    def now(cls, cluster: LocalCluster) -> Clocks:
        """Read them."""
        ticks = tuple(int(x) for x in STAT.read_text().splitlines()[0].split()[1:9])
        isolation = cluster.description.isolation
        nodes = isolation.nodes if isolation is not None else []
        return cls(ticks, {n.supervisor: _periods((n.group / "cpu.stat").read_text()) for n in nodes})

    def until(self, later: Clocks) -> Contention:
        """Disturbances from here to there."""
        ticks = [b - a for a, b in zip(self.ticks, later.ticks, strict=True)]
        whole = max(1, sum(ticks))
        idle = ticks[IDLE] + ticks[WAITING_FOR_DISK]
        throttled = {}
        for s, (periods, held) in later.periods.items():
            periods_before, held_before = self.periods.get(s, (0, 0))
            throttled[s] = (held - held_before) / max(1, periods - periods_before)
        return Contention(
            busy_ratio=(whole - idle - ticks[NICE]) / whole,
            nice_ratio=ticks[NICE] / whole,
            steal_ratio=ticks[STEAL] / whole,
            throttled_ratio=throttled,
        )


def _periods(text: str) -> tuple[int, int]:
    """`nr_periods` and `nr_throttled` of `cpu.stat`, of either version of control groups."""
    counts = dict(line.split()[:2] for line in text.splitlines() if len(line.split()) > 1)
    return int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))
