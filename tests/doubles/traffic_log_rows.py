"""Rows of a traffic log, and what its folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from doubles.snapshots import T0_MS


def edge(at_ms: int = T0_MS, rate: float = 1.0) -> dict[str, Any]:
    return {
        "window_from": at_ms - 60_000,
        "window_to": at_ms,
        "topology_id": "flights-1",
        "topology_name": "flights",
        "from_executor": 1,
        "to_executor": 2,
        "stream": "default",
        "rate_tps": rate,
    }


def files(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.rglob("*") if p.is_file())


def rates(directory: Path) -> list[float]:
    return sorted(pq.read_table(directory / "edges").column("rate_tps").to_pylist())
