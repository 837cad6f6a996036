"""Metrics as people read them."""

from __future__ import annotations

from stormpilot.printable import whole


def metric_text(name: str, value: float | None) -> str | None:
    """A metric of `METRICS` rounded for people: parts as per cents, counts whole, rates without digits nobody needs."""
    if value is None:
        return None
    if name.endswith(("_share", "_ratio")):
        return f"{value:.1%}"
    name = name.removeprefix("flow_")
    if name.endswith("_ms"):
        return f"{value:,.1f}"
    if name == "ras_network_metric":
        return f"{value:.3f}"
    if name.endswith("_tps"):
        return rate_text(value)
    return whole(value)


def rate_text(tps: float) -> str:
    """Tuples/s."""
    return whole(tps) if abs(tps) >= 100 or tps == 0 else f"{tps:,.1f}"


def change_text(before: float | None, after: float) -> str:
    """By how much a metric changes, in per cent of what it was; `-` where that says nothing."""
    if before is None or (before == 0 and after != 0):
        return "-"
    return f"{(after - before) / before:+.1%}" if before else "0.0%"
