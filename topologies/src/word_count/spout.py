"""Sentences at a chosen rate, each replayed until it is acknowledged."""

from __future__ import annotations

import time
from collections import deque

from streamparse import Spout

from pacing import Pacer, RateSchedule
from word_count.sentences import Language
from word_count.settings import Settings

IDLE_S = 0.005  # longest sleep of a call that has nothing to emit


class SentenceSpout(Spout):
    """Emits (topic, sentence). The id of a tuple is the number of its sentence, so nothing is kept for a replay.

    The task with index i of n emits the sentences i, i + n, i + 2 n, ...; a restarted task begins anew.
    """

    outputs = ["topic", "sentence"]
    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    wall_clock = staticmethod(time.time)

    def initialize(self, storm_conf, context):
        """Begin with this task's first sentence."""
        tasks = sorted(int(task) for task, name in context["task->component"].items() if name == self.component_name)
        settings = Settings.from_storm_conf(storm_conf)
        self._language = Language(
            settings.seed, settings.vocabulary_words, settings.sentence_words, settings.topics, settings.word_bytes
        )
        self._most = settings.call_sentences
        self._pacer = Pacer(settings.rate_tps / len(tasks))
        self._schedule = RateSchedule(settings.rate_schedule) if settings.rate_schedule else None
        self._next, self._step = tasks.index(self.task_id), len(tasks)
        self._failed: deque[int] = deque()

    def next_tuple(self):
        """Emit what the rate allows by now, failed sentences first; sleep a little if that is nothing."""
        if self._schedule is not None:
            self._pacer.change(self._schedule.at(self.wall_clock()) / self._step)
        due = min(self._pacer.due(self.clock()), self._most)
        for _ in range(due):
            if self._failed:
                number = self._failed.popleft()
            else:
                number = self._next
                self._next += self._step
            self.emit(list(self._language.sentence(number)), tup_id=str(number))
        self._pacer.spend(due)
        if not due:
            self.sleep(min(self._pacer.wait_s(), IDLE_S))

    def fail(self, tup_id):
        """Queue a sentence that got lost or timed out."""
        self._failed.append(int(tup_id))
