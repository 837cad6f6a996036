"""Reader of a cluster's messages, second by second, beside what a benchmark does with the cluster."""

from __future__ import annotations

import contextlib
import threading
import time

from stormpilot.errors import UnreachableError
from stormpilot.observe.load import LoadHistory
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

PERIOD_S = 1.0


class SecondReader:
    """Thread that reads every second from a session of its own, until closed.

    A class that derives from it says in `read` what, and calls this constructor when the rest of it is there.

    Attributes
    ----------
    seen
        The newest snapshots.
    history
        Counters of the last `window_s` seconds; `lock` guards both.
    """

    def __init__(self, hosts: str, window_s: float) -> None:
        self.seen: StoreSnapshot | None = None
        self.history = LoadHistory(window_s)
        self.lock = threading.Lock()
        self.zookeeper = ZooKeeper(hosts)
        self.zookeeper.start()
        self.zookeeper.wait_connected(10.0)
        self.reader = Reader(self.zookeeper, Paths())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the reading."""
        self._stop.set()
        self._thread.join(10.0)
        self.zookeeper.stop()

    def read(self) -> None:
        """Read once; after an `UnreachableError` the next reading counts what was missed."""
        raise NotImplementedError("a subclass says what it reads")

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            with contextlib.suppress(UnreachableError):
                self.read()
            due = max(due + PERIOD_S, time.monotonic())
            self._stop.wait(due - time.monotonic())
