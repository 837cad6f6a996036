"""Counting by key with counts that follow their keys: no count is lost when stormpilot moves work to another task."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

from stormpilot.instrument import KeyedState
from word_count.bolts import CountWord


class KeyedCountWord(KeyedState, CountWord):
    """Counts words, and gives the counts of partitions that leave to the task that has them from then on.

    That task has counted some words already when it gets them: counts are added. With `wordcount.counts.dir` each task
    leaves its counts there with every tick, for whoever wants to look.
    """

    def initialize(self, storm_conf, context):
        """Begin at zero."""
        super().initialize(storm_conf, context)
        self.by_partition: defaultdict[int, Counter[str]] = defaultdict(Counter)
        folder = storm_conf.get("wordcount.counts.dir")
        self._file = Path(folder) / f"{self.task_id}.json" if folder else None

    def process(self, tup):
        """Count one word, with its partition."""
        word = tup.values[0]
        self.by_partition[self.partition_of([word])][word] += 1

    def on_drain(self, partitions):
        """Give the counts of these partitions away."""
        return {p: self.by_partition.pop(p) for p in partitions if p in self.by_partition}

    def on_activate(self, partitions, states):
        """Add what another task counted of these partitions."""
        for partition, counts in states:
            self.by_partition[partition].update(counts)

    def process_tick(self, tup):
        """Log from time to time, and leave the counts for whoever looks."""
        self.counts = sum(self.by_partition.values(), Counter())
        if self._file is not None:
            partial = self._file.with_suffix(".part")
            partial.write_text(json.dumps(self.counts))
            partial.replace(self._file)
        super().process_tick(tup)
