"""Troubles of topologies, as `stormpilot status` and the page put them first: what somebody should look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stormpilot.printable import counted

SHOWN = 5


def worst_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of topologies of the status; those of one kind stay in their order."""
    return sorted(rows, key=lambda row: _KINDS.index(_kind(row)))


def trouble_lines(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Heads and texts; none where all is well."""
    by_kind = {kind: [row for row in rows if _kind(row) == kind] for kind in _KINDS if kind}
    return [(kind, _listed(kind, there)) for kind, there in by_kind.items() if there]


_KINDS = ("run nowhere", "not read", "rejected", "degraded", "")


def _kind(row: dict[str, Any]) -> str:
    if row["unplaced"]:
        return "run nowhere"
    if row["executors"] is None or row["plan"] == "UNREADABLE":
        return "not read"
    return {"rejected": "rejected", "degraded": "degraded"}.get(row["state"], "")


def _listed(kind: str, rows: Sequence[dict[str, Any]]) -> str:
    names = [
        f"{row['unplaced']} of {counted(row['executors'], 'executor')} of {row['name']}"
        if kind == "run nowhere"
        else row["name"]
        for row in rows[:SHOWN]
    ]
    more = f" and {counted(len(rows) - SHOWN, 'more topology', 'more topologies')}" if len(rows) > SHOWN else ""
    return ", ".join(names) + more
