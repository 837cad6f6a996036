"""Carries a spout task's progress to its store in the background, so that the spout never waits for it."""

from __future__ import annotations

import threading
from typing import Protocol

from kazoo.exceptions import KazooException

from flight_delays.progress import TaskProgress
from flight_delays.progress_store import DeposedError

CONNECT_S = 10.0  # until a store that does not connect is a problem


class Store(Protocol):
    """Where progress is kept; `flight_delays.progress_store.ZooKeeperStore`."""

    def claim(self) -> TaskProgress:
        """Take the task over and return its progress."""

    def save(self, progress: TaskProgress) -> None:
        """Write the progress."""


class Committer:
    """Claims the task, then writes the newest progress that was offered, once a period.

    The spout reads the attributes, a thread calls `step`; each attribute is set whole, so no lock is needed.

    Attributes
    ----------
    claimed : TaskProgress or None
        Where to go on from; None until the store has answered.
    deposed : bool
        A newer process runs this task; nothing is written any more.
    problem : str
        Why the last attempt came to nothing; empty when it succeeded. The next period tries again.
    """

    def __init__(self, store: Store, period_s: float) -> None:
        self._store = store
        self._period_s = period_s
        self._offered: TaskProgress | None = None
        self._written: TaskProgress | None = None
        self.claimed: TaskProgress | None = None
        self.deposed = False
        self.problem = ""

    def start(self, connected: threading.Event) -> None:
        """Begin in a thread of its own, which ends with the process; the store has time to connect first."""
        threading.Thread(target=self._run, args=[connected], name="progress-committer", daemon=True).start()

    def offer(self, progress: TaskProgress) -> None:
        """Leave the newest progress to be written; what was offered before and is not written yet is dropped."""
        self._offered = progress

    def step(self) -> None:
        """Claim or write once."""
        try:
            if self.claimed is None:
                self.claimed = self._store.claim()
            elif self._offered is not None and self._offered is not self._written:
                progress = self._offered
                self._store.save(progress)
                self._written = progress
            self.problem = ""
        except DeposedError as e:
            self.deposed = True
            self.problem = str(e)
        except (KazooException, ValueError) as e:
            self.problem = f"{type(e).__name__}: {e}"

    def _run(self, connected: threading.Event) -> None:
        connected.wait(CONNECT_S)
        pause = threading.Event()
        while not self.deposed:
            self.step()
            pause.wait(self._period_s)
