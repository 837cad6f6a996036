"""B(n) of a supervisor: what its knee says, whether that is sure enough to be in force, and why not."""

from __future__ import annotations

from stormpilot.history.mine.entries import MiningCriteria, entry, lacking
from stormpilot.history.mine.log import Row
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import ThresholdEntry

LEAST_CPU_LIMIT = 0.3
WAITS = "it waits for `thresholds freeze`"
FAR_BELOW = 0.1
"""A B(n) so much below the configured one costs much capacity: on little data it waits for an operator."""
TRUSTED_DAYS, TRUSTED_WINDOWS, TRUSTED_WIDTH = 7, 50, 0.1
"""Enough for a B(n) far below: days, windows above the knee, and the width of its interval."""
PART_OF_A_DAY = 0.1
"""So much may be missing of the first day and of the last one together."""
LEAST_FOUND = 0.5
"""Of the draws of days so many have a knee, or nobody knows."""
TRUSTED_FOUND = 0.9
"""Of the draws so many have a knee, or a B(n) far below waits for an operator."""
LEAST_RISE = 0.1


def cpu_limit(supervisor: str, row: Row | None, criteria: MiningCriteria, seen: int = 0) -> ThresholdEntry:
    """B(n) from a row of `knee.knees`: mined, proposed, or the default with why. `seen`: windows of the topology."""
    cap = criteria.config.decide.cpu_limit_ratio
    where = {"scope": "supervisor", "of": [supervisor]}
    why = lacking(row, criteria.enough, ("rows", criteria.enough.knee_windows, "windows as the busiest node"))
    if row is None and seen:
        why = f"of {seen} windows none was measured whole with a latency and this node as the busiest"
    why = f"not known: {why}" if why else _why_no_knee(row, cap)
    if why or row is None:
        return entry(th.CPU_LIMIT_RATIO, row, None, None, why, default=cap, **where)  # type: ignore[arg-type]
    knee = float(row["knee_ratio"])
    value = min(max(knee, LEAST_CPU_LIMIT), cap)
    text = "latency leaves its band above this"
    if value != knee:
        text = f"latency leaves its band above {knee:.3f}, " + (
            "capped by the configuration" if knee > cap else "too low"
        )
    text += f"; {row['windows_above']} windows in {row['bins_above']} bins above it on {row['days']} days"
    if row["low"] is not None:
        text += f", from {row['low']:.3f} to {row['high']:.3f} in 90% of draws of days"
    unsure = _unsure(row) if value < cap - FAR_BELOW else ""
    if unsure:
        text += f"; far below {cap:g} on {unsure}: {WAITS}"
    interval = (row["low"], row["high"])
    return entry(
        th.CPU_LIMIT_RATIO,
        row,
        value,
        text,
        "",
        interval=interval,
        proposed=bool(unsure),
        **where,  # type: ignore[arg-type]
    )


def _why_no_knee(row: Row | None, cap: float) -> str:
    """Why the default stays: it is fine (seen up to it and beyond), or nobody knows."""
    assert row is not None
    highest, knee = row["highest_ratio"], row["knee_ratio"]
    if highest is None or "rise_ratio" not in row:
        return "not known: windows are too few at any utilisation"
    if row["rise_ratio"] <= max(row["band_ratio"], LEAST_RISE):
        if highest >= cap:
            return f"the default is fine: latency stays in its band up to a utilisation of {highest:.2f}"
        return f"not known: latency stays in its band up to a utilisation of {highest:.2f}, and none higher was seen"
    if knee is None and row["at_foot"]:
        return f"not known: latency rises from {row['lowest_ratio']:.2f} on, and hardly any lower utilisation was seen"
    if knee is None and row["smooth"]:
        return "not known: latency rises smoothly with utilisation, as a queue's does: a knee fits no better"
    if knee is None:
        return (
            f"not known: latency rises, and too few windows up to a utilisation of {highest:.2f} tell where it begins"
        )
    if row["found_share"] < LEAST_FOUND:
        return f"not known: a knee at {row['knee_ratio']:.3f} is in only {row['found_share']:.0%} of draws of days"
    return ""


def _unsure(row: Row) -> str:
    """Evidence that is missing for a B(n) far below the configured one; empty: none."""
    span_days = (row["last"] - row["first"]).total_seconds() / 86_400
    if min(row["days"], span_days + PART_OF_A_DAY) < TRUSTED_DAYS:  # a log of six days may touch seven dates
        return f"{min(row['days'], span_days):.3g} days, {TRUSTED_DAYS} needed"
    if row["windows_above"] < TRUSTED_WINDOWS:
        return f"{row['windows_above']} windows above it, {TRUSTED_WINDOWS} needed"
    if row["low"] is None or row["high"] - row["low"] > TRUSTED_WIDTH:
        return "an interval that is too wide"
    if row["found_share"] < TRUSTED_FOUND:
        return f"a knee in only {row['found_share']:.0%} of draws of days"
    return ""
