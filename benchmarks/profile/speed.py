"""Speed of the machine while each trial ran: what a second of its CPU did, which neighbours of a virtual one change.

A peak rate is CPU that is used up, so it follows that speed; repetitions can be compared at one.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

from benchmarks.accuracy.contention import Probe

POLL_S = 0.2
RATE_STEP = 1.1
"""Between the rates that are tried."""


class Speeds:
    """Appends to `out` a line for each new line of `trials`: its number, and the probe's tuples per second of CPU."""

    def __init__(self, trials: Path, out: Path) -> None:
        self._trials, self._out = trials, out
        self._probe = Probe()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine-speed", daemon=True)

    def __enter__(self) -> Speeds:
        self._probe.__enter__()
        self._known, self._before = self._lines(), self._probe.done()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10.0)
        self._probe.__exit__()

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            lines, now = self._lines(), self._probe.done()
            tuples, seconds = now[0] - self._before[0], now[1] - self._before[1]
            if lines > self._known and seconds > 0:
                self._known, self._before = lines, now
                with self._out.open("a") as file:
                    file.write(json.dumps({"line": lines, "probe_tps": round(tuples / seconds, 1)}) + "\n")

    def _lines(self) -> int:
        return self._trials.read_bytes().count(b"\n") if self._trials.exists() else 0


def read(file: Path) -> dict[int, float]:
    """The probe's tuples per second of CPU by the line of the trials' file, from 1; empty where none was noted."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {x["line"]: x["probe_tps"] for x in map(json.loads, lines)}


def steps_apart(points: list[dict[str, Any]]) -> int | None:
    """Steps of the rate between peaks as they would be if the machine had been equally fast; None: it is not known."""
    if len(points) < 2 or any("probe_tps" not in p for p in points):
        return None
    work = [p["rate_tps"] / p["probe_tps"] for p in points]
    return round(math.log(max(work) / min(work)) / math.log(RATE_STEP))
