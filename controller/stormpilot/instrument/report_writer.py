"""Writes load reports to ZooKeeper from a thread of its own, so that the collector never waits for it.

One slot, latest wins: while ZooKeeper is gone, late or never there, nothing piles up and nothing is raised; the newest
report is written when it is back. One request is under way at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from stormpilot.instrument.reports import encode_reports
from stormpilot.instrument.worker_store import MAX_BACKOFF_S, MIN_BACKOFF_S, WorkerStore

log = logging.getLogger(__name__)


class ReportStore(Protocol):
    """Where reports go; every method raises `StoreUnavailable` when it cannot do it now."""

    def write(self, reporter: str, data: bytes) -> None:
        """Create or replace the report of a reporter."""

    def delete(self, reporter: str) -> None:
        """Remove the report of a reporter; none is fine."""

    def reporters(self) -> list[str]:
        """The reporters of this topology that have a report."""

    def close(self) -> None:
        """End the session."""


class ReportWriter:
    """The thread.

    Parameters
    ----------
    store
        Where reports go.
    topology_id, reporter
        Names in the report and of its znode.
    """

    def __init__(self, store: ReportStore, topology_id: str, reporter: str, clock: Callable[[], float] = time.time):
        self._store = store
        self._topology_id = topology_id
        self._reporter = reporter
        self._clock = clock
        self._changed = threading.Condition()
        self._slot: list[str] | None = None
        self._closing = False
        self._seq = 0
        self._mine: set[str] | None = None
        self._backoff_s = MIN_BACKOFF_S
        self._available = True
        self._thread = threading.Thread(target=self._run, name="stormpilot-report-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, loads: list[str]) -> None:
        """Hand over the newest loads; replaces those that were not written yet. Returns at once."""
        with self._changed:
            self._slot = loads
            self._changed.notify()

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread and the session."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        self._store.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._slot is not None or self._closing)
                if self._closing:
                    return
                loads, self._slot = self._slot, None
            try:
                self._write(loads or [])
            except Exception as e:  # noqa: BLE001 (whatever the client raises, the next report may get through)
                self._note(False, str(e) or type(e).__name__)
                with self._changed:
                    if self._slot is None:
                        self._slot = loads
                    self._changed.wait_for(lambda: self._closing, self._backoff_s)
                self._backoff_s = min(MAX_BACKOFF_S, self._backoff_s * 2)
            else:
                self._backoff_s = MIN_BACKOFF_S
                self._note(True, "")

    def _write(self, loads: list[str]) -> None:
        self._seq += 1
        reports = encode_reports(self._topology_id, self._reporter, self._seq, int(self._clock() * 1000), loads)
        for name, data in reports.items():
            self._store.write(name, data)
        if self._mine is None:  # what an earlier process of this collector left
            self._mine = {r for r in self._store.reporters() if r == self._reporter or self._is_part(r)}
        for name in self._mine - reports.keys():
            self._store.delete(name)
        self._mine = set(reports)

    def _is_part(self, name: str) -> bool:
        prefix, dash, number = name.rpartition("-")
        return prefix == self._reporter and bool(dash) and number.isdigit()

    def _note(self, available: bool, why: str) -> None:
        if available != self._available:
            self._available = available
            if available:
                log.warning("stormpilot: load reports reach ZooKeeper again")
            else:
                log.warning("stormpilot: load reports do not reach ZooKeeper, will go on trying: %s", why)


class ZooKeeperReports(WorkerStore):
    """The reports of one topology in ZooKeeper: `load/<topology-id>/<reporter>`."""

    def write(self, reporter: str, data: bytes) -> None:
        """See `ReportStore`."""
        self.put(self.paths.load(self.topology_id, reporter), data)

    def delete(self, reporter: str) -> None:
        """See `ReportStore`."""
        self.remove(self.paths.load(self.topology_id, reporter))

    def reporters(self) -> list[str]:
        """See `ReportStore`."""
        return self.names(self.paths.load(self.topology_id))
