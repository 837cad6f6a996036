"""The components of `held`: a source that wants a rate, and work that takes CPU."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

import time
from pathlib import Path

from streamparse import Bolt, Spout

KEYS = 600
LOOK_S = 0.5
BEHIND_S = 2.0


class Source(Spout):
    """Emits keys at the rate in `held.rate.file`; what it could not emit is lost, but for two seconds of it."""

    outputs = ["key"]

    def initialize(self, storm_conf, context):
        """Read the file's name."""
        self._file = Path(storm_conf["held.rate.file"])
        self._rate_tps = float(self._file.read_text())
        self._number = 0
        self._looked = self._due = time.monotonic()

    def next_tuple(self):
        """Emit one tuple when it is due, and sleep a little when not."""
        now = time.monotonic()
        if now - self._looked > LOOK_S:
            self._looked = now
            self._rate_tps = float(self._file.read_text())
        if now < self._due:
            time.sleep(min(self._due - now, 0.005))
            return
        self._due = max(self._due + 1 / self._rate_tps, now - BEHIND_S)
        self._number += 1
        self.emit([f"key-{self._number % KEYS}"], tup_id=str(self._number))

    def fail(self, tup_id):
        """Nothing is emitted again: the source goes on."""


class Work(Bolt):
    """Takes `held.work.ms` of CPU for every tuple."""

    outputs = []

    def initialize(self, storm_conf, context):
        """Read how much a tuple takes."""
        self._cpu_s = float(storm_conf["held.work.ms"]) / 1000

    def process(self, tup):
        """Use the CPU, however long that takes on this node."""
        end = time.process_time() + self._cpu_s
        while time.process_time() < end:
            pass
