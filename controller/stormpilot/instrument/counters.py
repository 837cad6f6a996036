"""The counters of one task: what `TaskLoad` of `messages/load.py` carries. Cumulative and bounded.

Several threads of a component may send (a batching thread, a user's own). There is no lock on purpose, this runs for
every tuple: each step below is one operation of CPython, which switches threads between operations.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from stormpilot.instrument.latency import LatencyHistogram

MIN_PAIRS = 4096
"""Distinct (source task, stream) pairs that a task may count in a small topology; as the next two in `PairCounts`."""
MAX_PAIRS = 50_000
"""Pairs of one task, with which its report still fits into a znode."""
MAX_PAIRS_OF_COMPONENT = 200_000
"""Pairs of one component, above all else: the controller reads a million of a topology, or nothing of it."""
MAX_PENDING = 50_000
"""Spout tuples whose latency is measured at a time; tuples emitted beyond it are counted, not timed."""
_MAX_TICKS = 64
_MOST_PROCESSES = 1000
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ProcessCpu:
    """CPU of this process and of what it started, such as a pool of processes, as it grows; `proc` is `/proc`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._told_s = self._last_s = 0.0
        self._fell = False

    def seconds(self) -> float:
        """CPU seconds (user and system) of this process, its children that ended, and its descendants that live.

        Never less than before: of a process that ends without being waited for the kernel forgets what it used. What
        comes after counts from there; one reading that is lower may have missed a process.
        """
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        live = sum(self._ticks(pid) for pid in self._descendants(os.getpid())) / _TICKS_PER_S
        now_s = time.process_time() + ended.ru_utime + ended.ru_stime + live
        if now_s >= self._last_s:
            self._told_s += now_s - self._last_s
        if now_s >= self._last_s or self._fell:
            self._last_s = now_s
        self._fell = now_s < self._last_s
        return self._told_s

    def _descendants(self, pid: int) -> list[int]:
        """Processes that this one started and that live, with those that they started; none where nobody tells."""
        found, parents = list[int](), [pid]
        while parents and len(found) < _MOST_PROCESSES:
            children = [c for parent in parents for c in self._children(parent) if c not in found]
            found += children
            parents = children
        return found

    def _children(self, pid: int) -> list[int]:
        try:
            texts = [_text(thread / "children") for thread in (self._proc / str(pid) / "task").iterdir()]
        except OSError:
            return []
        return sorted({int(word) for text in texts for word in text.split() if word.isdecimal()})

    def _ticks(self, pid: int) -> int:
        """Of a process, and of its children that ended."""
        try:
            fields = _text(self._proc / str(pid) / "stat").rpartition(") ")[2].split()
            return sum(int(field) for field in fields[11:15])
        except (OSError, ValueError):
            return 0  # it ended


def _text(file: Path) -> str:
    return file.read_text(encoding="latin-1")


def most_pairs(tasks: Collection[int], tasks_of_component: int) -> int:
    """Pairs that each task of a component may count in a topology of these tasks: two per task, as far as they fit."""
    wanted = max(MIN_PAIRS, min(MAX_PAIRS, 2 * (max(tasks, default=0) + 1)))
    return min(wanted, max(1, MAX_PAIRS_OF_COMPONENT // max(1, tasks_of_component)))


class BoltCounters:
    """Counters of a bolt's task: tuples received by (source task, stream), and the acks and fails that it sent.

    An ack or fail of a tick is not counted: no acker hears of it.

    Parameters
    ----------
    most
        Limit of pairs (`most_pairs`); tuples of further ones stay uncounted.
    say
        Takes one sentence when the limit is reached.
    """

    def __init__(
        self, count_acks: bool = True, most: int = MIN_PAIRS, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._received: dict[tuple[int, str], int] = {}
        self._most = most
        self._full = False
        self._say = say
        self._acked = 0
        self._count_acks = count_acks
        self._ticks: dict[Any, None] = {}

    def tuple_received(self, tup: Any) -> None:
        """Count a tuple that was read (`pystorm.component.Tuple`); ticks and heartbeats come from task -1."""
        if tup.task >= 0:
            source = (tup.task, tup.stream)
            try:
                self._received[source] += 1
            except KeyError:
                if len(self._received) < self._most:
                    self._received[source] = 1
                elif not self._full:
                    self._full = True
                    self._say(f"tuples come from more than {self._most} tasks and streams: the rest is not counted")
        elif tup.stream == "__tick":
            if len(self._ticks) >= _MAX_TICKS:
                self._ticks.pop(next(iter(self._ticks)), None)
            self._ticks[tup.id] = None

    def message_sent(self, message: Any) -> None:
        """Count a message to Storm (pystorm refuses those that are no dictionaries)."""
        command = message.get("command") if type(message) is dict else None
        if (command == "ack" or command == "fail") and self._count_acks:
            if self._ticks and message.get("id") in self._ticks:
                self._ticks.pop(message["id"], None)
            else:
                self._acked += 1

    def values(self) -> dict[str, Any]:
        """The counters by their name in a report."""
        received: dict[str, tuple[list[int], list[int]]] = {}
        for (task, stream), n in self._received.items():
            tasks, tuples = received.setdefault(stream, ([], []))
            tasks.append(task)
            tuples.append(n)
        return {"received": received, "acked": self._acked}


class SpoutCounters:
    """Counters of a spout's task: tuples emitted with an id, acked or failed, and how long the acked took.

    Parameters
    ----------
    give_up_s
        Age after which a pending tuple is forgotten: Storm fails tuples after its message time-out, so that one twice
        as old will never be heard of (its id came back in another shape).
    clock
        Seconds that never go back.
    """

    def __init__(self, give_up_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._emitted = 0
        self._completed = 0
        self._failed = 0
        self._latency = LatencyHistogram()
        self._pending: dict[str | int, float] = {}
        self._give_up_s = give_up_s
        self._clock = clock

    def message_sent(self, message: Any) -> None:
        """Count an emit with an id; one without is not tracked by Storm, and its receivers count it."""
        if type(message) is not dict or message.get("command") != "emit":
            return
        tuple_id = message.get("id")
        if tuple_id is None:
            return
        self._emitted += 1
        if type(tuple_id) in (str, int) and (len(self._pending) < MAX_PENDING or tuple_id in self._pending):
            self._pending[tuple_id] = self._clock()

    def message_refused(self, message: Any) -> None:
        """Count an emit no more that could not be sent after all."""
        if type(message) is dict and message.get("command") == "emit" and message.get("id") is not None:
            self._emitted -= 1
            self._take(message["id"])

    def command_received(self, command: Mapping[str, Any], now_s: float) -> None:
        """Count an ack or a fail from Storm, read at `now_s` of the clock."""
        kind = command["command"]
        if kind == "ack":
            self._completed += 1
            emitted_s = self._take(command.get("id"))
            if emitted_s is not None:
                self._latency.add((now_s - emitted_s) * 1000.0)
        elif kind == "fail":
            self._failed += 1
            self._take(command.get("id"))

    def values(self) -> dict[str, Any]:
        """The counters by their name in a report."""
        if len(self._pending) >= MAX_PENDING:
            self._forget_old()
        return {
            "emitted": self._emitted,
            "completed": self._completed,
            "failed": self._failed,
            "latencyMs": self._latency.buckets(),
        }

    def _take(self, tuple_id: Any) -> float | None:
        return self._pending.pop(tuple_id, None) if type(tuple_id) in (str, int) else None

    def _forget_old(self) -> None:
        expired_s = self._clock() - self._give_up_s
        for tuple_id, emitted_s in list(self._pending.items()):
            if emitted_s <= expired_s:
                self._pending.pop(tuple_id, None)
