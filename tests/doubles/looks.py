"""Looks of a controller at a cluster in memory, when the daemon would look."""

from __future__ import annotations

from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.control.cycle import Cycle
from stormpilot.observe.observer import Observation
from stormpilot.zookeeper.client import Node
from stormpilot.zookeeper.paths import Paths


class Looks:
    """All is read before a cycle, while rollouts go on and after something was written; else load reports alone."""

    def __init__(self, cycle: Cycle, zookeeper: MemoryZooKeeper, paths: Paths):
        self._cycle, self._zookeeper, self._paths = cycle, zookeeper, paths
        self._last: Observation | None = None
        self._there: dict[str, Node] = {}

    def look(self, now_ms: int, *, anew: bool = False) -> Observation:
        there = self._zookeeper.besides(self._paths.load(), self._paths.controller)
        if anew or self._last is None or there != self._there or self._cycle.rollout_runner.wanted(self._last):
            self._last, self._there = self._cycle.observer.observe(now_ms), there
        else:
            self._cycle.observer.poll_loads(now_ms)
        return self._last
