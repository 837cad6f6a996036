"""Source and sink of a trial topology (`stormpilot profile`): tuples at a rate that changes without a restart.

The source reads what to do from the znode `trials/<topology-id>/command` and writes what it measured beside it. Tuple n
of a trial is due at the start of the trial plus n / rate; its latency is counted from then, not from when it was sent.
So a source that is held up by back-pressure does not hide that the component falls behind.

    command:   {"trial": 3, "rateTps": 120.0, "seconds": 9.0}       rate 0: send nothing more; with "ahead": 100 at most
                                                                    so many tuples are under way
    source-0:  {"trial": 3, "task": 5, "startMs": .., "elapsedS": 4.2, "sent": 504, "completed": 498, "failed": 0,
                "inFlight": 6, "points": [[0.25, 0.011, 57], ...]}   middle of a bin (s), median latency (s), tuples
"""

from __future__ import annotations

import json
import logging
import threading
import time
from statistics import median
from typing import Any, ClassVar

from streamparse import Bolt, Spout

from stormpilot.instrument.worker_store import WorkerStore

TUPLES_KEY = "stormpilot.trial.tuples"
"""Configuration: the values of the tuples, a list of lists, sent in turn; without it, one number that goes up."""
BIN_S = 0.5
PERIOD_S = 0.25
MOST_AT_ONCE = 20
IDLE_S = 0.005
AHEAD_S = 3.0
"""Tuples that are under way at most: those of so many seconds at the trial's rate, so that a queue empties soon, and of
the longest time in which none was acked: a component that acks in batches takes in those of one."""
LONGEST_BATCH_S = 60.0
LEAST_AHEAD = 50
SAMPLES = 400
"""Latencies kept of a bin."""

log = logging.getLogger(__name__)


class Schedule:
    """The part of one source task in one trial: when tuples are due, what came back when.

    Times are seconds of a clock that never goes back.

    Parameters
    ----------
    trial
        Number of the trial.
    rate_tps
        Of this task; 0: nothing is due.
    seconds
        After which nothing more is due.
    start_s
        Now.
    phase
        Part of the time between two tuples by which this task is later than the first one.
    ahead
        Tuples that are under way at most; None: those of `AHEAD_S` and of the longest time without an ack.
    """

    def __init__(
        self,
        trial: int,
        rate_tps: float,
        seconds: float,
        start_s: float,
        phase: float = 0.0,
        ahead: int | None = None,
    ) -> None:
        self.trial, self.rate_tps, self.seconds, self.start_s = trial, rate_tps, seconds, start_s
        self._phase = phase
        self._ahead = ahead
        self._acked_s, self._longest_s = start_s, 0.0
        self.sent = self.completed = self.failed = 0
        self._counts: list[int] = []
        self._samples: list[list[float]] = []

    def due_s(self, number: int) -> float:
        """When a tuple is due."""
        return self.start_s + (number + self._phase) / self.rate_tps

    def due(self, now_s: float, in_flight: int) -> int:
        """Number of tuples that may be sent now."""
        if self.rate_tps <= 0:
            return 0
        elapsed_s = min(now_s - self.start_s, self.seconds)
        number = int(elapsed_s * self.rate_tps - self._phase + 1) if elapsed_s * self.rate_tps >= self._phase else 0
        ahead = self._ahead
        if ahead is None:
            ahead = max(int(self.rate_tps * (AHEAD_S + self._longest_s)), LEAST_AHEAD)
        return max(min(number - self.sent, ahead - in_flight, MOST_AT_ONCE), 0)

    def done(self, number: int, now_s: float) -> None:
        """A tuple was acked."""
        self.completed += 1
        self._longest_s = min(max(self._longest_s, now_s - self._acked_s), LONGEST_BATCH_S)
        self._acked_s = now_s
        i = int((now_s - self.start_s) / BIN_S)
        while len(self._counts) <= i:
            self._counts.append(0)
            self._samples.append([])
        self._counts[i] += 1
        if len(self._samples[i]) < SAMPLES:
            self._samples[i].append(now_s - self.due_s(number))

    def points(self) -> list[list[float]]:
        """[middle of the bin, median latency, tuples] of every bin in which tuples came back; seconds."""
        return [
            [(i + 0.5) * BIN_S, round(median(samples), 6), self._counts[i]]
            for i, samples in enumerate(list(self._samples))
            if samples
        ]


class TrialSource(Spout):  # type: ignore[misc]
    """Sends tuples as it is told to."""

    outputs: ClassVar[list[str]] = ["message_id"]
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def initialize(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        """Begin to listen, from a thread of its own: ZooKeeper may be slow."""
        tasks = sorted(int(task) for task, name in context["task->component"].items() if name == self.component_name)
        self._index, self._tasks = tasks.index(int(self.task_id)), len(tasks)
        self._values = storm_conf.get(TUPLES_KEY) or None
        self._number = 0
        self._in_flight = 0
        self._start_ms = int(time.time() * 1000)
        self._wanted: dict[str, Any] = {"trial": 0, "rateTps": 0.0, "seconds": 0.0}
        self._schedule = Schedule(0, 0.0, 0.0, self.monotonic())
        store = WorkerStore(storm_conf, str(storm_conf["storm.id"]))
        threading.Thread(target=self._talk, args=(store,), name="stormpilot-trial", daemon=True).start()

    def next_tuple(self) -> None:
        """Send what is due by now."""
        now_s = self.monotonic()
        wanted = self._wanted
        if wanted["trial"] != self._schedule.trial:
            rate_tps = float(wanted["rateTps"]) / self._tasks
            self._schedule = Schedule(
                int(wanted["trial"]),
                rate_tps,
                float(wanted["seconds"]),
                now_s,
                phase=self._index / self._tasks,
                ahead=wanted.get("ahead"),
            )
        due = self._schedule.due(now_s, self._in_flight)
        for _ in range(due):
            self.emit(self._next_values(), tup_id=f"{self._schedule.trial}.{self._schedule.sent}")
            self._schedule.sent += 1
            self._in_flight += 1
        if not due:
            self.sleep(IDLE_S)

    def ack(self, tup_id: Any) -> None:
        """Count a tuple that came through, with its latency if it is of this trial."""
        self._in_flight -= 1
        trial, _, number = str(tup_id).partition(".")
        if int(trial) == self._schedule.trial:
            self._schedule.done(int(number), self.monotonic())

    def fail(self, tup_id: Any) -> None:
        """Count a tuple that failed or timed out; it is not sent again."""
        self._in_flight -= 1
        if int(str(tup_id).partition(".")[0]) == self._schedule.trial:
            self._schedule.failed += 1

    def _next_values(self) -> list[Any]:
        number, self._number = self._number, self._number + 1
        if self._values is None:
            return [number * self._tasks + self._index]
        values = self._values
        return list(values[(number * self._tasks + self._index) % len(values)])

    def _talk(self, store: WorkerStore) -> None:
        mine = store.paths.trial(store.topology_id, f"source-{self._index}")
        command = store.paths.trial(store.topology_id, "command")
        told = False
        while True:
            try:
                data = store.get(command)
                if data:
                    self._wanted = json.loads(data)
                store.put(mine, json.dumps(self._measured(), separators=(",", ":")).encode())
            except Exception as e:  # noqa: BLE001 (the trial is given up where nothing is heard of it)
                if not told:
                    log.warning("stormpilot: the source of this trial is not heard (said once): %s", e)
                told = True
            time.sleep(PERIOD_S)

    def _measured(self) -> dict[str, Any]:
        s = self._schedule
        return {
            "trial": s.trial,
            "task": int(self.task_id),
            "startMs": self._start_ms,
            "elapsedS": round(self.monotonic() - s.start_s, 3),
            "sent": s.sent,
            "completed": s.completed,
            "failed": s.failed,
            "inFlight": self._in_flight,
            "points": s.points(),
        }


class TrialSink(Bolt):  # type: ignore[misc]
    """Takes in whatever the component sends."""

    outputs: ClassVar[list[str]] = []

    def process(self, tup: Any) -> None:
        """Nothing more to do: it is acked."""
