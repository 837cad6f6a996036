"""Numbers at a chosen rate, each replayed until it is acknowledged."""

from __future__ import annotations

import time
from collections import deque

from streamparse import Spout

from micro_tasks.settings import Settings
from pacing import Pacer

MOST_AT_ONCE = 20
IDLE_S = 0.005


class NumberSource(Spout):
    """Emits numbers, which are also the ids of the tuples; the task with index i of n emits i, i + n, ..."""

    outputs = ["number"]
    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def initialize(self, storm_conf, context):
        """Begin with this task's first number."""
        tasks = sorted(int(task) for task, name in context["task->component"].items() if name == self.component_name)
        self._pacer = Pacer(Settings.from_storm_conf(storm_conf).rate_tps / len(tasks))
        self._next, self._step = tasks.index(self.task_id), len(tasks)
        self._failed: deque[int] = deque()

    def next_tuple(self):
        """Emit what the rate allows by now, failed numbers first; sleep a little if that is nothing."""
        due = min(self._pacer.due(self.clock()), MOST_AT_ONCE)
        for _ in range(due):
            if self._failed:
                number = self._failed.popleft()
            else:
                number = self._next
                self._next += self._step
            self.emit([number], tup_id=str(number))
        self._pacer.spend(due)
        if not due:
            self.sleep(min(self._pacer.wait_s(), IDLE_S))

    def fail(self, tup_id):
        """Queue a number that got lost or timed out."""
        self._failed.append(int(tup_id))
