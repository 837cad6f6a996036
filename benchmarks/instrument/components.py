"""Measured components: bolts and a spout that do nothing but take, emit and acknowledge. No load reports."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from __future__ import annotations

import time
from typing import Any

from streamparse import BatchingBolt, Bolt, Spout


class Watch:
    """CPU seconds between two calls of `lap`."""

    def __init__(self) -> None:
        self._since = time.process_time()

    def lap(self) -> float:
        """CPU seconds since the last call."""
        now = time.process_time()
        since, self._since = self._since, now
        return now - since


def rss_kib() -> int:
    """Resident memory of this process, KiB."""
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


class Sink(Bolt):
    """Acknowledges."""

    outputs = ["cpu"]

    def initialize(self, storm_conf: Any, context: Any) -> None:
        """Begin to watch."""
        self.watch = Watch()

    def process(self, tup: Any) -> None:
        """Answer a mark with the CPU seconds since the last one."""
        if tup.stream == "mark":
            self.emit([self.watch.lap(), rss_kib()])


class Pass(Sink):
    """Emits what it gets, anchored, and acknowledges."""

    def process(self, tup: Any) -> None:
        """Send on, or answer a mark."""
        if tup.stream == "mark":
            super().process(tup)
        else:
            self.emit([tup.values[0]])


class Batches(BatchingBolt):
    """Acknowledges in batches."""

    outputs = ["cpu"]
    ticks_between_batches = 0

    def initialize(self, storm_conf: Any, context: Any) -> None:
        """Begin to watch."""
        self.watch = Watch()

    def process_batch(self, key: Any, tups: list[Any]) -> None:
        """Answer the mark that the batch ends with."""
        if tups[-1].stream == "mark":
            self.emit([self.watch.lap(), rss_kib()])


class Numbers(Spout):
    """Emits a number with an id at every `next`."""

    outputs = ["n"]

    def initialize(self, storm_conf: Any, context: Any) -> None:
        """Begin to watch."""
        self.n = 0
        self.watch = Watch()

    def next_tuple(self) -> None:
        """Emit."""
        self.n += 1
        self.emit(["x" * 20], tup_id=str(self.n))

    def deactivate(self) -> None:
        """Answer with the CPU seconds since the start or the last time."""
        self.emit([self.watch.lap(), rss_kib()])
