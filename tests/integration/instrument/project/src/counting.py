"""Components that know nothing of load reports and do something countable, each in its own kind."""
# ruff: noqa: RUF012 (class attributes as streamparse's users write them)

from __future__ import annotations

from streamparse import BatchingBolt, Bolt, Spout, Stream, TicklessBatchingBolt


class Numbers(Spout):
    """Emits 400 numbers with an id, each once, and 100 without one to a stream of its own."""

    outputs = ["n", Stream(fields=["n"], name="untracked")]
    TRACKED = 400
    UNTRACKED = 100

    def initialize(self, storm_conf, context):
        print("a spout that prints")
        self.n = 0

    def next_tuple(self):
        if self.n < self.TRACKED:
            self.emit([self.n], tup_id=str(self.n))
        elif self.n < self.TRACKED + self.UNTRACKED:
            self.emit([self.n], stream="untracked")
        else:
            return
        self.n += 1


class Pass(Bolt):
    """Prints every number and sends it on."""

    outputs = ["n"]

    def process(self, tup):
        print("a bolt that prints", tup.values[0])
        self.emit([tup.values[0]])


class Batches(BatchingBolt):
    """Acks in batches, on ticks."""

    outputs = ["n"]
    ticks_between_batches = 0

    def process_batch(self, key, tups):
        for tup in tups:
            self.emit([tup.values[0]], anchors=[tup])


class Late(TicklessBatchingBolt):
    """Acks in batches, from a thread."""

    outputs = []
    secs_between_batches = 0.2

    def process_batch(self, key, tups):
        pass
