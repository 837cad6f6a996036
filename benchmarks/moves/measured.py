"""Figures of a variant from what a source wrote down, second by second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DOWN_BY = (20, 40, 60, 80, 100)
"""Percent of the normal throughput that is missing."""


@dataclass(frozen=True)
class Second:
    """Outcome of the tuples of one second of the clock; `failed_sent_s`: when those that failed in it were sent."""

    emitted: int = 0
    acked: int = 0
    failed: int = 0
    latency_ms: tuple[float, ...] = ()
    failed_sent_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Move:
    """One move: when it began and when it was over, in seconds of the clock; how many executors changed their place."""

    begun_s: float
    ended_s: float
    executors: int
    note: str = ""


def read(file: Path) -> dict[int, Second]:
    """The seconds by the clock; a source that ended in the middle of a line loses that second."""
    found: dict[int, Second] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        before = found.get(value["second"], Second())
        found[value["second"]] = Second(
            before.emitted + value["emitted"],
            before.acked + value["acked"],
            before.failed + value["failed"],
            (*before.latency_ms, *value["latency_ms"]),
            (*before.failed_sent_s, *value["failed_sent_s"]),
        )
    return found


def throughput(seconds: dict[int, Second], begin_s: float, end_s: float) -> np.ndarray[Any, Any]:
    """Acked tuples of each whole second from `begin_s` to before `end_s`; 0 where the source wrote nothing."""
    return np.array([seconds.get(s, Second()).acked for s in range(int(begin_s), int(end_s))], dtype=float)


def normal_tps(seconds: dict[int, Second], begin_s: float, end_s: float) -> float:
    """Acked tuples/s while nothing moves: the median."""
    return float(np.median(throughput(seconds, begin_s, end_s)))


def summary(
    seconds: dict[int, Second], moves: Sequence[Move], calm: tuple[float, float], end_s: float
) -> dict[str, Any]:
    """The figures of one variant.

    Parameters
    ----------
    calm
        Begin and end of the time before the first move: what is normal.
    end_s
        End of the measured time, which begins with the first move.
    """
    normal = normal_tps(seconds, *calm)
    begin_s = moves[0].begun_s
    acked = throughput(seconds, begin_s, end_s)
    down = {str(by): int(np.sum(acked <= normal * (1 - by / 100) + 1e-9)) for by in DOWN_BY}
    inside = [
        ms
        for move in moves
        for s in range(int(move.begun_s), int(move.ended_s) + 2)
        for ms in seconds.get(s, Second()).latency_ms
    ]
    calm_ms = [ms for s in range(int(calm[0]), int(calm[1])) for ms in seconds.get(s, Second()).latency_ms]
    whole = range(int(begin_s), int(end_s))
    return {
        "normal_tps": round(normal, 1),
        "measured_s": len(acked),
        "moves": len(moves),
        "executors_per_move": round(float(np.mean([m.executors for m in moves])), 1),
        "move_s": round(float(np.median([m.ended_s - m.begun_s for m in moves])), 1),
        "seconds_down_by": down,
        "lowest_ratio": round(float(acked.min() / normal), 3) if normal else None,
        "failed": sum(seconds.get(s, Second()).failed for s in whole),
        "failed_sent_s_into_move": [
            round(sent_s - max((m.begun_s for m in moves if m.begun_s <= sent_s), default=begin_s), 1)
            for s in whole
            for sent_s in seconds.get(s, Second()).failed_sent_s
        ],
        "p99_ms": round(float(np.quantile(inside, 0.99)), 1) if inside else None,
        "p99_calm_ms": round(float(np.quantile(calm_ms, 0.99)), 1) if calm_ms else None,
    }
