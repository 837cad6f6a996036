"""The components of `step`: nothing but traffic."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

import time
from pathlib import Path

from streamparse import Bolt, Spout, Stream

KEYS = 64
LOOK_S = 0.5


def favoured(now, period_s):
    """Return which side most tuples go to: east and west take turns, by the wall clock."""
    return ("east", "west")[int(now // period_s) % 2]


class Source(Spout):
    """Emits (key, side) at its rate; the favoured side gets its part of them.

    `step.east.file` names a file with the part that goes to the east, for whoever wants to turn the traffic himself.
    """

    outputs = ["key", "side"]

    def initialize(self, storm_conf, context):
        """Read rate, part and period."""
        tasks = [task for task, name in context["task->component"].items() if name == self.component_name]
        self._gap_s = len(tasks) / float(storm_conf["step.rate.tps"])
        self._favour = float(storm_conf["step.favour.ratio"])
        self._period_s = float(storm_conf["step.period.secs"])
        self._file = storm_conf.get("step.east.file")
        self._looked = 0.0
        self._number = 0
        self._due = time.monotonic()

    def next_tuple(self):
        """Emit one tuple when it is due, and sleep a little when not."""
        now = time.monotonic()
        if now < self._due:
            time.sleep(min(self._due - now, 0.005))
            return
        self._due = max(self._due + self._gap_s, now - 1.0)
        self._number += 1
        if self._file and now - self._looked > LOOK_S:
            self._looked = now
            self._favour = float(Path(self._file).read_text())
        side = "east" if self._file else favoured(time.time(), self._period_s)
        if self._number * (1 - self._favour) % 1 < 1 - self._favour:  # every so-manieth goes to the other side
            side = "west" if side == "east" else "east"
        self.emit([f"key-{self._number % KEYS}", side], tup_id=str(self._number))


class Sort(Bolt):
    """Sends every tuple to its side, `step.expand` times."""

    outputs = [Stream(fields=["key"], name="east"), Stream(fields=["key"], name="west")]

    def initialize(self, storm_conf, context):
        """Read how many tuples become of one."""
        self._expand = int(storm_conf.get("step.expand", 1))

    def process(self, tup):
        """Send it on."""
        key, side = tup.values
        for _ in range(self._expand):
            self.emit([key], stream=side)


class Deliver(Bolt):
    """Takes what comes."""

    outputs = []

    def process(self, tup):
        """Nothing to do but acknowledge."""
