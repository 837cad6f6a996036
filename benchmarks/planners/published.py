"""Rows beside a page: all that the page is made of, small enough to read, and read back to make the page again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.planners.rows import Row
from benchmarks.planners.targets import COST, RAS

SPEED = "tries_per_s"
COLUMNS = (
    "part",
    "instance",
    "contestant",
    "kind",
    "code",
    "seed",
    "executors",
    "nodes",
    "pairs",
    "placed",
    "held",
    "broken",
    "proved",
    "plan_s",
    "first_s",
    "process_s",
    "cpu_s",
    "peak_mb",
    "shared",
)
KEPT = (COST, RAS, SPEED, "inter_node_share", "workers", "restarted_workers", "moved_executors")  # metrics of a row


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """Write the names of the columns, then a row on a line; null: not measured."""
    data = [
        {k: round(v, 4) if isinstance(v, float) else v for k, v in (r.metrics | msgspec.to_builtins(r)).items()}
        for r in rows
    ]
    columns = [c for c in (*COLUMNS, *KEPT) if any(d.get(c) not in (None, [], "", False) for d in data)]
    lines = [msgspec.json.encode([d.get(c) for c in columns]) for d in data]
    file.write_bytes(b"[\n" + b",\n".join([msgspec.json.encode(columns), *lines]) + b"\n]\n")


def read_rows(file: Path) -> list[Row]:
    """The rows of a file that `write_rows` made; none where there is no file."""
    if not file.exists():
        return []
    columns, *lines = msgspec.json.decode(file.read_bytes(), type=list[list[Any]])
    return [_row(dict(zip(columns, line, strict=True))) for line in lines]


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Rows measured now, and of all else those that were published; by key."""
    rows = {r.key: r for r in old} | {r.key: r for r in new}
    return [rows[key] for key in sorted(rows)]


def _row(values: dict[str, Any]) -> Row:
    metrics = {k: values[k] for k in KEPT if values.get(k) is not None}
    fields = {k: v for k, v in values.items() if k in COLUMNS and v is not None}
    return msgspec.convert({**fields, "metrics": metrics}, Row)
