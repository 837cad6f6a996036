"""A steady stream of keys, and a bolt that takes them."""

from __future__ import annotations

import time
from pathlib import Path

from streamparse import Bolt, Spout


class Keys(Spout):
    """Emits 200 tuples/s of 97 keys with ids, until the file `keys.stop.file` is there."""

    outputs = ["key"]  # noqa: RUF012 (as streamparse's users write it)
    RATE_TPS = 200

    def initialize(self, storm_conf, context):
        self.stop = Path(storm_conf["keys.stop.file"])
        self.begun = time.monotonic()
        self.n = 0

    def next_tuple(self):
        if not self.stop.exists() and self.n < (time.monotonic() - self.begun) * self.RATE_TPS:
            self.emit([f"key-{self.n % 97}"], tup_id=str(self.n))
            self.n += 1
        else:
            time.sleep(0.001)


class Take(Bolt):
    """Takes them."""

    outputs = []  # noqa: RUF012

    def process(self, tup):
        pass


class Pass(Bolt):
    """Passes them on."""

    outputs = ["key"]  # noqa: RUF012

    def process(self, tup):
        self.emit([tup.values[0]])
