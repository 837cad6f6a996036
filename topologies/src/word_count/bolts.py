"""Split sentences into words (with or without a computation per sentence), and count the words."""

from __future__ import annotations

import time
from collections import Counter

from streamparse import Bolt

from word_count.settings import Settings
from word_count.work import HotTopics, harmonic


class SplitSentence(Bolt):
    """Sentence -> words; first adds up the harmonic number that its topic costs, if the topology asks for it."""

    outputs = ["word"]
    wall_clock = staticmethod(time.time)

    def initialize(self, storm_conf, context):
        """Read what a sentence costs."""
        self._topics = HotTopics(Settings.from_storm_conf(storm_conf))

    def process(self, tup):
        """Compute, then emit the words."""
        topic, sentence = tup.values
        harmonic(self._topics.terms(topic, self.wall_clock()))
        for word in sentence.split():
            self.emit([word])


class CountWord(Bolt):
    """Counts the words that the fields grouping sends here; logs the most frequent ones every `LOG_EVERY_TICKS` ticks.

    The counts live in memory and count what arrives: a replayed sentence counts twice.
    """

    outputs: list[str] = []
    LOG_EVERY_TICKS = 6

    def initialize(self, storm_conf, context):
        """Begin at zero."""
        self.counts: Counter[str] = Counter()
        self._ticks = 0

    def process(self, tup):
        """Count one word."""
        self.counts[tup.values[0]] += 1

    def process_tick(self, tup):
        """Log from time to time."""
        self._ticks += 1
        if self._ticks % self.LOG_EVERY_TICKS == 0:
            top = " ".join(f"{word}={n}" for word, n in self.counts.most_common(5))
            self.logger.info("words=%d distinct=%d top: %s", self.counts.total(), len(self.counts), top)
