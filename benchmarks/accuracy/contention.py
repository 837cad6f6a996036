"""Disturbances of a window: how busy the machine was, how fast its cores, how often a quota held a node's processes.

Nodes share the cores of one machine here, and a core that is busier does less in a second (threads of one core share
its units, cores its caches and clock; a virtual machine has neighbours). Nodes of a real cluster do not do that to one
another. So a `Filler` keeps all cores busy, and a `Probe` tells how much work a second of CPU was at that time.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
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

    `throttled_ratio` by supervisor: of the periods of its quota, those in which it was used up. `probe_tps`: tuples
    that the probe got through in a second of its CPU; 0: it does not run.
    """

    busy_ratio: float = 0.0
    nice_ratio: float = 0.0
    steal_ratio: float = 0.0
    throttled_ratio: dict[str, float] = field(default_factory=dict)
    probe_tps: float = 0.0

    def text(self) -> str | None:
        """Why a window tells little of what placements cost; None: it was not disturbed."""
        if self.steal_ratio > MOST_STOLEN:
            return f"{self.steal_ratio:.0%} of the CPU was taken by the hypervisor"
        if self.busy_ratio > MOST_BUSY:
            return f"the machine was {self.busy_ratio:.0%} busy"
        held = {s: r for s, r in self.throttled_ratio.items() if r > MOST_THROTTLED}
        return ", ".join(f"{s} was held by its quota in {r:.0%} of the time" for s, r in sorted(held.items())) or None


class Filler:
    """A process for each core that takes what nobody else wants, at the lowest priority."""

    _LOOP = """
import os, sys
os.nice(19)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = int(sys.argv[1])
while os.getppid() == parent:
    sum(range(100_000))
"""

    def __enter__(self) -> Filler:
        self._processes = [
            subprocess.Popen([sys.executable, "-c", self._LOOP, str(os.getpid())]) for _ in range(os.cpu_count() or 1)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Probe:
    """Python processes that do what those of topologies do: woken for each tuple, they read, count, emit and ack it.

    What such a process takes for a tuple depends on who had the core and its caches before, by a quarter from minute to
    minute on a machine with neighbours; a loop that never sleeps shows nothing of that.
    """

    _CHILD = """
import json, sys, time
counts = {}
while True:
    message = json.loads(sys.stdin.readline() or "null")
    sys.stdin.readline()
    if message is None:
        break
    word = message["tuple"][0]
    counts[word] = counts.get(word, 0) + 1
    emit = {"command": "emit", "anchors": [message["id"]], "tuple": [word, counts[word]], "need_task_ids": False}
    print(json.dumps(emit), "end", sep="\\n", flush=True)
    ack = {"command": "ack", "id": message["id"], "cpu_s": time.process_time()}
    print(json.dumps(ack), "end", sep="\\n", flush=True)
"""
    PROCESSES, PAUSE_S = 4, 0.008
    """Each gets a tuple about thirty times a second, and is asleep in between."""

    def __enter__(self) -> Probe:
        self._done = (0.0, 0.0)
        self._stop = threading.Event()
        self._children = [
            subprocess.Popen(
                [sys.executable, "-c", self._CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(self.PROCESSES)
        ]
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10.0)
        for child in self._children:
            child.kill()
            child.communicate()

    def done(self) -> tuple[float, float]:
        """Tuples since the first of each process, and the seconds of CPU that they took."""
        return self._done

    def _run(self) -> None:
        started_s: dict[int, float] = {}
        now_s = dict.fromkeys(range(self.PROCESSES), 0.0)
        for number in itertools.count():
            which = number % self.PROCESSES
            now_s[which] = self._tuple(self._children[which], number)
            started_s.setdefault(which, now_s[which])
            tuples = float(number + 1 - len(started_s))
            self._done = (tuples, sum(now_s.values()) - sum(started_s.values()))
            if self._stop.wait(self.PAUSE_S):
                break

    @staticmethod
    def _tuple(child: subprocess.Popen[str], number: int) -> float:
        """Send one; CPU seconds of the process when it had acked it."""
        assert child.stdin is not None
        assert child.stdout is not None
        message = {"id": str(number), "comp": "split", "stream": "default", "task": 9, "tuple": [f"word{number % 977}"]}
        child.stdin.write(json.dumps(message) + "\nend\n")
        child.stdin.flush()
        _emit, _, ack, _ = (child.stdout.readline() for _ in range(4))
        return float(json.loads(ack)["cpu_s"])


@dataclass(frozen=True)
class Clocks:
    """Counters since the start: ticks of the machine by kind, and by supervisor periods of its quota, all and held.

    `probed`: tuples of the probe, and the seconds of CPU that they took.
    """

    ticks: tuple[int, ...]
    periods: dict[str, tuple[int, int]]
    probed: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def now(cls, cluster: LocalCluster, probe: Probe) -> Clocks:
        """Read them."""
        ticks = tuple(int(x) for x in STAT.read_text().splitlines()[0].split()[1:9])
        isolation = cluster.description.isolation
        nodes = isolation.nodes if isolation is not None else []
        periods = {n.supervisor: _periods((n.group / "cpu.stat").read_text()) for n in nodes}
        return cls(ticks, periods, probe.done())

    def until(self, later: Clocks) -> Contention:
        """Disturbances from here to there."""
        ticks = [b - a for a, b in zip(self.ticks, later.ticks, strict=True)]
        whole = max(1, sum(ticks))
        idle = ticks[IDLE] + ticks[WAITING_FOR_DISK]
        throttled = {}
        for s, (periods, held) in later.periods.items():
            periods_before, held_before = self.periods.get(s, (0, 0))
            throttled[s] = (held - held_before) / max(1, periods - periods_before)
        tuples, seconds = (b - a for a, b in zip(self.probed, later.probed, strict=True))
        return Contention(
            busy_ratio=(whole - idle - ticks[NICE]) / whole,
            nice_ratio=ticks[NICE] / whole,
            steal_ratio=ticks[STEAL] / whole,
            throttled_ratio=throttled,
            probe_tps=tuples / seconds if seconds > 0 else 0.0,
        )


def _periods(text: str) -> tuple[int, int]:
    """`nr_periods` and `nr_throttled` of `cpu.stat`, of either version of control groups."""
    counts = dict(line.split()[:2] for line in text.splitlines() if len(line.split()) > 1)
    return int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))
