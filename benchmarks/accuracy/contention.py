"""Disturbances of a window: how busy the machine was, how fast its cores, how often a quota held a node's processes.

Nodes share the cores of one machine here, and a core that is busier does less in a second (threads of one core share
its units, cores its caches and clock; a virtual machine has neighbours). Nodes of a real cluster do not do that to one
another. So a `Filler` keeps all cores busy, and its loops tell how much work a second of CPU was at that time.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
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

    `throttled_ratio` by supervisor: of the periods of its quota, those in which it was used up. `loops_per_s`: what the
    filler did in a second of CPU; 0: nothing did.
    """

    busy_ratio: float = 0.0
    nice_ratio: float = 0.0
    steal_ratio: float = 0.0
    throttled_ratio: dict[str, float] = field(default_factory=dict)
    loops_per_s: float = 0.0

    def text(self) -> str | None:
        """Why a window tells little of what placements cost; None: it was not disturbed."""
        if self.steal_ratio > MOST_STOLEN:
            return f"{self.steal_ratio:.0%} of the CPU was taken by the hypervisor"
        if self.busy_ratio > MOST_BUSY:
            return f"the machine was {self.busy_ratio:.0%} busy"
        held = {s: r for s, r in self.throttled_ratio.items() if r > MOST_THROTTLED}
        return ", ".join(f"{s} was held by its quota in {r:.0%} of the time" for s, r in sorted(held.items())) or None


class Filler:
    """A process for each core that takes what nobody else wants, at the lowest priority, and counts what it does.

    `part`: of the time; less than 1 leaves the cores alone in between.
    """

    def __init__(self, part: float = 1.0) -> None:
        self._part = part

    _LOOP = """
import mmap, os, struct, sys, time
os.nice(19)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
with open(sys.argv[1], "r+b") as file:
    told = mmap.mmap(file.fileno(), 0)
at, loops, parent, part = 16 * int(sys.argv[2]), 0, int(sys.argv[3]), float(sys.argv[4])
while os.getppid() == parent:
    before = time.process_time()
    sum(range(100_000))
    loops, now = loops + 1, time.process_time()
    told[at : at + 16] = struct.pack("dd", loops, now)
    if part < 1:
        time.sleep((now - before) * (1 / part - 1))
"""

    def __enter__(self) -> Filler:
        cores = os.cpu_count() or 1
        self._told = tempfile.NamedTemporaryFile()
        self._told.write(bytes(16 * cores))
        self._told.flush()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", self._LOOP, self._told.name, str(i), str(os.getpid()), str(self._part)]
            )
            for i in range(cores)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._told.close()

    def done(self) -> tuple[float, float]:
        """Loops since the start, and the seconds of CPU that they took."""
        told = struct.iter_unpack("dd", Path(self._told.name).read_bytes())
        loops, seconds = zip(*told, strict=True)
        return sum(loops), sum(seconds)


@dataclass(frozen=True)
class Clocks:
    """Counters since the start: ticks of the machine by kind, and by supervisor periods of its quota, all and held.

    `filled`: loops of the filler, and the seconds of CPU that they took.
    """

    ticks: tuple[int, ...]
    periods: dict[str, tuple[int, int]]
    filled: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def now(cls, cluster: LocalCluster, filler: Filler) -> Clocks:
        """Read them."""
        ticks = tuple(int(x) for x in STAT.read_text().splitlines()[0].split()[1:9])
        isolation = cluster.description.isolation
        nodes = isolation.nodes if isolation is not None else []
        periods = {n.supervisor: _periods((n.group / "cpu.stat").read_text()) for n in nodes}
        return cls(ticks, periods, filler.done())

    def until(self, later: Clocks) -> Contention:
        """Disturbances from here to there."""
        ticks = [b - a for a, b in zip(self.ticks, later.ticks, strict=True)]
        whole = max(1, sum(ticks))
        idle = ticks[IDLE] + ticks[WAITING_FOR_DISK]
        throttled = {}
        for s, (periods, held) in later.periods.items():
            periods_before, held_before = self.periods.get(s, (0, 0))
            throttled[s] = (held - held_before) / max(1, periods - periods_before)
        loops, seconds = (b - a for a, b in zip(self.filled, later.filled, strict=True))
        return Contention(
            busy_ratio=(whole - idle - ticks[NICE]) / whole,
            nice_ratio=ticks[NICE] / whole,
            steal_ratio=ticks[STEAL] / whole,
            throttled_ratio=throttled,
            loops_per_s=loops / seconds if seconds > 0 else 0.0,
        )


def _periods(text: str) -> tuple[int, int]:
    """`nr_periods` and `nr_throttled` of `cpu.stat`, of either version of control groups."""
    counts = dict(line.split()[:2] for line in text.splitlines() if len(line.split()) > 1)
    return int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))
