"""The bolt that receives the load of every task of its topology and writes it to ZooKeeper."""

from __future__ import annotations

from typing import Any, ClassVar

from streamparse import Bolt

from stormpilot.instrument.counters import BoltCounters
from stormpilot.instrument.report_writer import ReportWriter, ZooKeeperReports
from stormpilot.instrument.reporting import LoadReporting
from stormpilot.instrument.reports import LoadBook


class LoadCollector(LoadReporting, Bolt):  # type: ignore[misc]
    """Parallelism 1. Writes once per report period (the period of its own load, which goes the same way).

    Never waits for ZooKeeper: a full queue here would stop every component of the topology.
    """

    outputs: ClassVar[list[str]] = []
    _book: LoadBook
    _writer: ReportWriter | None = None
    _bad_loads = 0

    def initialize(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        """Start the writer; a configuration without ZooKeeper is said once, and loads are dropped."""
        tasks = [int(t) for t in context.get("task->component", {})]
        self._book = LoadBook(tasks, self._stormpilot_period_s)
        topology_id = str(storm_conf.get("storm.id") or "")
        try:
            if not topology_id:
                raise ValueError("storm.id is not in the configuration")
            store = ZooKeeperReports(storm_conf, topology_id)
        except Exception as e:  # noqa: BLE001 (a measurement never ends a user's worker)
            self.logger.warning("stormpilot: no load of this topology is written: %s", e)
            return
        self._writer = ReportWriter(store, topology_id, f"collector-{self.task_id}")
        self._writer.start()

    def process(self, tup: Any) -> None:
        """Keep a task's load."""
        try:
            self._book.add(tup.values[0])
        except ValueError as e:
            self._bad_loads += 1
            if self._bad_loads == 1:
                self.logger.warning("stormpilot: %s (said once)", e)

    def _stormpilot_can_report(self, context: dict[str, Any]) -> bool:
        return True

    def _stormpilot_new_counters(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> BoltCounters:
        most = self._stormpilot_most_pairs(context)
        # loads are unanchored: no acker hears of their acks
        return BoltCounters(count_acks=False, most=most, say=self._stormpilot_log)

    def _stormpilot_send_load(self, load: str) -> None:
        self._book.add(load)
        if self._writer is not None:
            self._writer.offer(self._book.loads())
