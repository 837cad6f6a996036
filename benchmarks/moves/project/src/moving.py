"""A source that writes down, second by second, what became of its tuples; and bolts that are moved under it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from streamparse import Bolt, Spout

CONFIG = {
    "topology.workers": 3,
    "topology.acker.executors": 1,
    "topology.message.timeout.secs": 15,
    "topology.bolt.wait.progressive.level2.count": 0,
}
"""Of the topologies: with Java targets and with Python ones."""


class Source(Spout):
    """Emits `bench.rate.tps` tuples/s of 97 keys with ids, none of them twice; no catching up after a pause.

    Appends a line of JSON for every second in which something happened to `bench.source.file`.
    """

    outputs = ["key"]  # noqa: RUF012 (as streamparse's users write it)

    def initialize(self, storm_conf, context):
        """Begin with the first tuple now."""
        self.period_s = 1 / float(storm_conf["bench.rate.tps"])
        self.file = Path(storm_conf["bench.source.file"])
        self.begun_ms = int(time.time() * 1000)
        self.due_s = time.monotonic()
        self.n = 0
        self.sent_s: dict[str, float] = {}
        self.begin(int(time.time()))

    def begin(self, second):
        """Count a second from zero."""
        self.second = second
        self.emitted = self.acked = self.failed = 0
        self.latency_ms: list[float] = []
        self.failed_sent_s: list[float] = []

    def now(self):
        """The present second, after the one before was written down."""
        second = int(time.time())
        if second != self.second:
            line = {"second": self.second, "emitted": self.emitted, "acked": self.acked, "failed": self.failed}
            line |= {"latency_ms": self.latency_ms, "failed_sent_s": self.failed_sent_s}
            with self.file.open("a") as out:
                out.write(json.dumps(line) + "\n")
            self.begin(second)
        return time.monotonic()

    def next_tuple(self):
        """Emit a tuple when it is due."""
        now_s = self.now()
        if now_s < self.due_s:
            time.sleep(min(self.due_s - now_s, 0.002))
            return
        self.due_s = max(self.due_s + self.period_s, now_s - 1.0)
        tuple_id = f"{self.begun_ms}-{self.n}"
        self.sent_s[tuple_id] = now_s
        self.emit([f"key-{self.n % 97}"], tup_id=tuple_id)
        self.n += 1
        self.emitted += 1

    def ack(self, tup_id):
        """Count a tuple that went through, and how long that took."""
        now_s = self.now()
        sent_s = self.sent_s.pop(tup_id, None)
        self.acked += 1
        if sent_s is not None:
            self.latency_ms.append(round((now_s - sent_s) * 1000, 1))

    def fail(self, tup_id):
        """Count a tuple that was lost or too late, and when it was sent."""
        now_s = self.now()
        sent_s = self.sent_s.pop(tup_id, None)
        self.failed += 1
        if sent_s is not None:
            self.failed_sent_s.append(round(time.time() - (now_s - sent_s), 1))


class Forward(Bolt):
    """Sends on what comes."""

    outputs = ["key"]  # noqa: RUF012

    def process(self, tup):
        """Send it on."""
        self.emit([tup.values[0]])


class Count(Bolt):
    """Takes it."""

    outputs = []  # noqa: RUF012

    def process(self, tup):
        """Nothing is to be done."""
