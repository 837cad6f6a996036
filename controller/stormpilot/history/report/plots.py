"""The drawings of the report: matplotlib figures as SVG text, the same bytes for the same data."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stormpilot.history.replay.choose import Verdict
from stormpilot.history.report.gather import Hour, Knee, Pair

BLUE, ORANGE, GREEN, GREY, RED = "#4e79a7", "#f28e2b", "#59a14f", "#9aa7b4", "#e15759"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "history",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # names of components and topologies may hold a `$`
}
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
matplotlib.rcParams.update(STYLE)


def heat(pairs: Sequence[Pair]) -> str:
    """Traffic from component (row) to component (column); under each rate the part of it between nodes."""
    names = sorted({n for p in pairs for n in (p.from_, p.to)}, key=lambda n: (n.startswith("__"), n))
    rates = np.full((len(names), len(names)), np.nan)
    for p in pairs:
        rates[names.index(p.from_), names.index(p.to)] = p.rate_tps
    size = 1.4 + 0.85 * len(names)
    figure, axis = plt.subplots(figsize=(min(size + 1.2, 11), min(size, 9)))
    image = axis.imshow(rates, cmap="Blues", vmin=0)
    most = np.nanmax(rates)
    for p in pairs:
        share = "" if p.inter_node_share is None else f"\n{p.inter_node_share:.0%}"
        colour = "white" if p.rate_tps > 0.6 * most else "#1c2733"
        at = names.index(p.to), names.index(p.from_)
        axis.text(*at, f"{p.rate_tps:,.0f}{share}", ha="center", va="center", color=colour, fontsize=8)
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right")
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("to")
    axis.set_ylabel("from")
    figure.colorbar(image, label="tuples/s", shrink=0.7)
    return _svg(figure)


def over_time(hours: Sequence[Hour]) -> str:
    """All traffic and that between nodes; load of the busiest node; latency."""
    at = _times([h.at_ms for h in hours])
    figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(11, 5.6), sharex=True)
    top.plot(at, [h.total_tps for h in hours], color=GREY, label="all")
    top.plot(at, [h.inter_node_tps for h in hours], color=BLUE, label="between nodes")
    top.set_ylabel("tuples/s")
    top.legend(frameon=False, ncols=2, loc="lower right")
    middle.plot(at, [_none(h.busiest_load_ratio) for h in hours], color=ORANGE)
    middle.set_ylabel("busiest node,\nhighest load")
    middle.set_ylim(0, 1.05 * max([1.0, *(h.busiest_load_ratio or 0.0 for h in hours)]))
    middle.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    bottom.plot(at, [_none(h.latency_p95_ms) for h in hours], color=GREEN)
    bottom.set_ylabel("latency p95, ms")
    top.set_ylim(bottom=0)
    bottom.set_ylim(bottom=0)
    _dates(bottom)
    return _svg(figure)


def week(rates: Sequence[float | None]) -> str:
    """The mean rate by hour of the week."""
    figure, axis = plt.subplots(figsize=(11, 2.4))
    axis.plot(range(168), [_none(r) for r in rates], color=BLUE, drawstyle="steps-mid")
    axis.set_xticks([24 * d + 12 for d in range(7)], DAYS)
    for d in range(1, 7):
        axis.axvline(24 * d - 0.5, color="#e3e8ed", zorder=0)
    axis.tick_params(axis="x", length=0)
    axis.set_ylim(bottom=0)
    axis.set_xlim(-0.5, 167.5)
    axis.set_ylabel("all tuples/s")
    return _svg(figure)


def knee(found: Sequence[Knee], limits: Mapping[str, float]) -> str:
    """Latency against load of each node; a line at the B(n) that was mined of it, by supervisor."""
    columns = min(len(found), 4)
    rows = -(-len(found) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.75 * columns, 2.2 * rows), squeeze=False, sharex=True)
    for axis, k in zip(axes.flat, found, strict=False):
        axis.scatter(k.load_ratio, k.latency_ratio, s=8, color=BLUE)
        limit = limits.get(k.supervisor)
        if limit is not None:
            axis.axvline(limit, color=RED, linewidth=1)
            axis.text(limit, axis.get_ylim()[1], f" {limit:.2f}", color=RED, va="top", fontsize=8)
        axis.set_title(k.supervisor, fontsize=8)
        axis.set_ylim(bottom=0)
    for axis in list(axes.flat)[len(found) :]:
        axis.axis("off")
    axes[-1][0].set_xlabel("load / CPU of the node")
    axes[0][0].set_ylabel("latency / usual")
    return _svg(figure)


def settings(verdict: Verdict, default: str | None, limit: int = 14) -> str:
    """The cost of what was tried, the best first, the parts of it, and of what really happened."""
    rows = [t for t in (verdict.as_it_was, *verdict.tried[:limit]) if t.chosen_by.tuples]
    if default is not None and verdict.default not in rows and verdict.default.chosen_by.tuples:
        rows.append(verdict.default)
    figure, axis = plt.subplots(figsize=(11, 0.6 + 0.27 * len(rows)))
    network = [t.chosen_by.network_cost / t.chosen_by.tuples for t in rows]
    rest = [max(t.score - n, 0.0) for t, n in zip(rows, network, strict=True)]
    axis.barh(range(len(rows)), network, color=[GREY if t.setting is None else BLUE for t in rows], label="network")
    axis.barh(range(len(rows)), rest, left=network, color=ORANGE, label="overload and restarts")
    axis.set_yticks(range(len(rows)), [t.name + (" (default)" if t.name == default else "") for t in rows])
    axis.invert_yaxis()
    axis.set_xlabel("cost per tuple; blue: network, orange: overload and restarts")
    return _svg(figure)


def played(lines: Sequence[tuple[str, Sequence[int], Sequence[float]]]) -> str:
    """Network cost over time: (name, times ms, cost per tuple)."""
    figure, axis = plt.subplots(figsize=(11, 2.6))
    for (name, at_ms, values), colour in zip(lines, (GREY, ORANGE, BLUE), strict=False):
        axis.plot(_times(at_ms), values, color=colour, label=name, linewidth=1.2)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("network cost per tuple")
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    _dates(axis)
    return _svg(figure)


def _dates(axis: Axes) -> None:
    locator = mdates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _times(at_ms: Sequence[int]) -> Any:
    """UTC, as matplotlib takes them."""
    return np.array(at_ms, dtype="datetime64[ms]")


def _none(value: float | None) -> float:
    return float("nan") if value is None else value


def _svg(figure: Figure) -> str:
    figure.tight_layout()
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]
