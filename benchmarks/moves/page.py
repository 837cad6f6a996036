"""Rows of the variants as a table on screen and as docs/results/moves.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.moves.measured import DOWN_BY

HEAD = ["move", "targets", "moves", "executors", *(f">= {by}%" for by in DOWN_BY), "failed", "p99, calm", "p99, moves"]
PERIOD_S = 60.0
"""From one move to the next, where a row does not say it."""
WANTED_DOWN_BY = "40"
WANTED_P99_MS = 1000.0
WANTED_LESS = 0.87
NONSTOP = ("switch", "rolling")


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row as text."""
    return [
        title(row),
        row["targets"],
        f"{row['moves']} in {row['measured_s']} s",
        f"{row['executors_per_move']:g}",
        *(str(row["seconds_down_by"][str(by)]) for by in DOWN_BY),
        str(row["failed"]),
        _ms(row["p99_calm_ms"]),
        _ms(row["p99_ms"]),
    ]


def title(row: Mapping[str, Any]) -> str:
    """Name of the row, with how often it moves where that is not once a minute."""
    return row["title"] + ("" if row["period_s"] == PERIOD_S else f", {60 / row['period_s']:.2g} a minute")


def judged(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Targets of rolling moves, and whether they were reached; a line each."""
    lines = []
    for row in rows:
        if row["variant"] not in NONSTOP:
            continue
        down, name = row["seconds_down_by"][WANTED_DOWN_BY], f"{title(row)}, {row['targets']}"
        lines.append(f"{name}: seconds with 40% or more missing: {down} (wanted 0){_mark(down == 0)}")
        lines.append(f"{name}: failed tuples: {row['failed']} (wanted 0){_mark(row['failed'] == 0)}")
        if row["p99_ms"] is not None:
            lines.append(f"{name}: p99 {_ms(row['p99_ms'])} (wanted < 1 s){_mark(row['p99_ms'] < WANTED_P99_MS)}")
        if (less := less_degraded(row, rows)) is not None:
            lines.append(
                f"{name}: degraded time against the assignment change: -{less:.0%} (wanted -87%)"
                + _mark(less >= WANTED_LESS)
            )
    return lines


def less_degraded(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """By how much less time with 40% or more missing a move has than an assignment change; None: that had none."""
    wanted = ("assignment", row["targets"], row["period_s"])
    plain = next((r for r in rows if (r["variant"], r["targets"], r["period_s"]) == wanted), None)
    if plain is None or not plain["seconds_down_by"][WANTED_DOWN_BY]:
        return None
    down = {r["variant"]: r["seconds_down_by"][WANTED_DOWN_BY] / r["moves"] for r in (row, plain)}
    return 1.0 - float(down[row["variant"]] / down["assignment"])


def show(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """The table, and what was wanted."""
    table = Table(*HEAD)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    for line in judged(rows):
        console.print(line, highlight=False)


def markdown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same as a page has it."""
    return [
        "| " + " | ".join(HEAD) + " |",
        "|---|---|---|" + "---:|" * (len(HEAD) - 3),
        *("| " + " | ".join(cells(row)) + " |" for row in rows),
        "",
        *(f"- {line}" for line in judged(rows)),
    ]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f} ms"


def _mark(good: bool) -> str:
    return "" if good else ", missed"
