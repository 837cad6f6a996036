"""Rows of the weekly profile and of its error into the message that the controllers read. No engine in here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stormpilot.history.mine.days import of_days
from stormpilot.history.mine.log import Row
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import EdgeProfile, Profile

Edge = tuple[str | None, str | None, str | None]


def edge_of(row: Row) -> Edge:
    """From component, stream, to component; of the topology as a whole none of them."""
    return row["from_component"], row["stream"], row["to_component"]


def profile_of(head: Mapping[str, Any], rates: Sequence[Row], errors: Sequence[Row]) -> Profile | None:
    """The profile of a topology from its rows of `weekly_profile.profile` and `forecast_error`; None without any."""
    error = {edge_of(r): r for r in errors}
    by_edge: defaultdict[Edge, list[Row]] = defaultdict(list)
    for r in rates:
        by_edge[edge_of(r)].append(r)
    busiest = sorted(by_edge, key=lambda e: -sum(r["rate_tps"] * r["windows"] for r in by_edge[e]))
    edges = [_edge_profile(e, by_edge[e], error.get(e)) for e in busiest[: th.MAX_PROFILE_EDGES]]
    if not edges:
        return None
    whole = error.get((None, None, None))
    low, high = of_days(whole, "forecast_error_ratio")
    return Profile(
        **head,
        rows=sum(r["rows"] for e in by_edge.values() for r in e),
        forecast_error_ratio=None if whole is None else whole["forecast_error_ratio"],
        forecast_error_low=low,
        forecast_error_high=high,
        edges=edges,
    )


def _edge_profile(edge: Edge, rows: Sequence[Row], error: Row | None) -> EdgeProfile:
    rates: list[float | None] = [None] * th.HOURS_OF_WEEK
    for r in rows:
        rates[r["hour_of_week"]] = round(float(r["rate_tps"]), 4)
    from_, stream, to = edge
    return EdgeProfile(
        from_=from_ or "",
        stream=stream or "",
        to=to or "",
        rate_tps=rates,
        weeks=max(r["weeks"] for r in rows),
        forecast_error_ratio=None if error is None else error["forecast_error_ratio"],
    )
