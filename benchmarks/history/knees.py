"""Error of mined B(n) against the planted ones, over many synthetic logs; only table `windows` is read."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.generate.logs.truth import Truth
from stormpilot.history import frames
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.knee import knees, latency_bins
from stormpilot.history.mine.limit import cpu_limit
from stormpilot.history.mine.reading_duckdb import open_log

LOGS = 24
NEAR, LOW = 0.03, 0.05
CAP = MiningCriteria().config.decide.cpu_limit_ratio


def accuracy(folder: Path, days: float, first_seed: int, logs: int = LOGS) -> dict[str, Any]:
    """Of `logs` logs of so many days: supervisors that a knee was mined for, and how far these are off."""
    found = [k for seed in range(first_seed, first_seed + logs) for k in _of_log(folder, days, seed)]
    mined = [k for k in found if k["source"] != "default"]
    off = [k["value"] - k["planted"] for k in mined]
    held = [k for k in mined if k["low"] is not None]
    return {
        "part": "knees",
        "days": days,
        "logs": logs,
        "first_seed": first_seed,
        "at": int(time.time()),
        "supervisors": len(found),
        "mined": len(mined),
        "proposed": sum(k["source"] == "proposed" for k in mined),
        "near": sum(abs(o) <= NEAR for o in off),
        "low": sum(o < -LOW for o in off),
        "high": sum(o > LOW for o in off),
        "in_force_low": sum(k["value"] - k["planted"] < -LOW for k in mined if k["source"] == "mined"),
        "intervals": len(held),
        "covered": sum(k["low"] <= min(k["planted"], CAP) <= k["high"] for k in held),
        "each": found,
    }


def _of_log(folder: Path, days: float, seed: int) -> Iterator[dict[str, Any]]:
    log = folder / f"knees-{days:g}-{seed}"
    truth: Truth = generate(log, Spec(days=days, parallelism=1, nodes=4), seed=seed)
    criteria = MiningCriteria()
    with frames.engine("duckdb"), open_log(str(log)) as opened:
        rows = {r["supervisor"]: r for r in knees(opened.rows(opened.query(latency_bins, opened.table("windows"))))}
    shutil.rmtree(log)
    for planted in truth.topologies[0].knees:
        entry = cpu_limit(planted.supervisor, rows.get(planted.supervisor), criteria)
        yield {
            "seed": seed,
            "supervisor": planted.supervisor,
            "planted": planted.knee_ratio,
            "above": planted.above,
            "source": entry.source,
            "value": entry.value,
            "low": entry.low,
            "high": entry.high,
        }
