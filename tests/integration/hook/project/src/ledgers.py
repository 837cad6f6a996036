"""Python components that keep an exact ledger of what they do, as `Ledger.java` does: one file per task and process."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from streamparse import Bolt, Spout


class Ledger:
    """Counts by name, on disk after every one."""

    def __init__(self, storm_conf, context):
        self.file = Path(storm_conf["test.ledger"]) / f"{context['taskid']}-{os.getpid()}.json"
        self.counts = Counter()

    def count(self, what):
        self.counts[what] += 1
        following = self.file.with_suffix(".next")
        following.write_text(json.dumps(self.counts))
        following.rename(self.file)


class Numbers(Spout):
    """Emits so many numbers with an id, each once per process."""

    outputs = ["n"]

    def initialize(self, storm_conf, context):
        self.ledger = Ledger(storm_conf, context)
        self.numbers = storm_conf["test.numbers"]
        self.n = 0

    def next_tuple(self):
        if self.n < self.numbers:
            self.emit([self.n], tup_id=str(self.n))
            self.n += 1
            self.ledger.count("emitted")

    def ack(self, tup_id):
        self.ledger.count("acked")

    def fail(self, tup_id):
        self.ledger.count("failed")


class Pass(Bolt):
    """Sends every number on; burns some CPU for each."""

    outputs = ["n"]

    def initialize(self, storm_conf, context):
        self.ledger = Ledger(storm_conf, context)

    def process(self, tup):
        self.ledger.count(f"{tup.task} {tup.stream}")
        sum(i * i for i in range(2000))
        self.emit([tup.values[0]])
