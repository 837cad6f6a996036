"""Numbers at a chosen rate, each replayed until it is acknowledged."""

from __future__ import annotations

import time
from collections import deque

from streamparse import Spout

from pacing import Pacer

RATE_KEY = "micro.rate.tps"
RATE_TPS = 20.0
MOST_AT_ONCE = 20
IDLE_S = 0.005


class NumberSource(Spout):
    """Emits numbers, which are also the ids of the tuples; the task with index i of n emits i, i + n, ..."""

    outputs = ["number"]
    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def initialize(self, storm_conf, context):
        """Begin with this task's first number."""
        rate_tps = storm_conf.get(RATE_KEY, RATE_TPS)
        if isinstance(rate_tps, bool) or not isinstance(rate_tps, (int, float)) or rate_tps <= 0:
            raise ValueError(f"{RATE_KEY}: expected a number above 0, got {rate_tps!r}")
        tasks = sorted(int(task) for task, name in context["task->component"].items() if name == self.component_name)
        self._pacer = Pacer(rate_tps / len(tasks))
        self._next, self._step = tasks.index(self.task_id), len(tasks)
        self._failed: deque[int] = deque()

    def next_tuple(self):
        """Emit what the rate allows by now, failed numbers first; sleep a little if that is nothing."""
        due = min(self._pacer.due(self.clock()), MOST_AT_ONCE)
        for _ in range(due):
            number = self._failed.popleft() if self._failed else self._next
            if number == self._next:
                self._next += self._step
            self.emit([number], tup_id=str(number))
        self._pacer.spend(due)
        if not due:
            self.sleep(min(self._pacer.wait_s(), IDLE_S))

    def fail(self, tup_id):
        """Queue a number that got lost or timed out."""
        self._failed.append(int(tup_id))
