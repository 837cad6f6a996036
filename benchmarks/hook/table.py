"""Pairs of runs into the cost of the hook: of each pair the ratio, of the ratios the median and the quartiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.hook.runs import Measured

Pair = tuple[Measured, Measured]
"""Without the hook, and with it."""


@dataclass(frozen=True)
class Row:
    """A phase: medians without and with the hook; `cost` are quartiles of the pairs' added cost, in percent."""

    phase: str
    measure: str
    unit: str
    plain: float
    hooked: float
    cost: tuple[float, float, float]
    limit: float | None

    @property
    def good(self) -> bool:
        """Whether the median is below the limit."""
        return self.limit is None or self.cost[1] < self.limit


def rows(pairs: Mapping[str, Sequence[Pair]], limits: dict[tuple[str, str], float]) -> list[Row]:
    """Two rows per phase: tuples/s, and CPU of the worker per tuple."""
    found = []
    for phase, of_phase in pairs.items():
        tps = np.array([[m.tuples_tps for m in pair] for pair in of_phase])
        cpu_us = np.array([[m.cpu_us for m in pair] for pair in of_phase])
        found.append(_row(phase, "throughput", "tuples/s", tps, 100 * (1 - tps[:, 1] / tps[:, 0]), limits))
        found.append(_row(phase, "CPU per tuple", "µs", cpu_us, 100 * (cpu_us[:, 1] / cpu_us[:, 0] - 1), limits))
    return found


def _row(phase: str, measure: str, unit: str, values: Any, cost: Any, limits: dict[tuple[str, str], float]) -> Row:
    low, middle, high = (float(q) for q in np.quantile(cost, [0.25, 0.5, 0.75]))
    plain, hooked = (float(v) for v in np.median(values, axis=0))
    return Row(phase, measure, unit, plain, hooked, (low, middle, high), limits.get((phase, measure)))


def cells(row: Row) -> list[str]:
    """A row as text."""
    digits = 0 if row.unit == "tuples/s" else 2
    low, middle, high = row.cost
    return [
        row.phase,
        f"{row.measure}, {row.unit}",
        f"{row.plain:,.{digits}f}",
        f"{row.hooked:,.{digits}f}",
        f"{middle:+.1f}%",
        f"{low:+.1f}% to {high:+.1f}%",
        "" if row.limit is None else f"< {row.limit:g}%" + ("" if row.good else " (missed)"),
    ]


HEAD = ["phase", "measure", "without", "with", "cost, median", "quartiles", "wanted"]


def show(found: Sequence[Row], console: Console) -> None:
    """The table on screen."""
    shown = Table(*HEAD)
    for row in found:
        shown.add_row(*cells(row))
    console.print(shown)


def markdown(found: Sequence[Row]) -> list[str]:
    """The table as a page has it."""
    return [
        "| " + " | ".join(HEAD) + " |",
        "|---|---|---:|---:|---:|---|---|",
        *("| " + " | ".join(cells(row)) + " |" for row in found),
    ]


def as_json(found: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows for build/bench/hook.json."""
    return [asdict(row) | {"good": row.good} for row in found]


def from_json(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that `as_json` told."""
    return msgspec.convert(found, list[Row])
