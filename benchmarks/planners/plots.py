"""The plots beside the tables (SVG, the same bytes for the same rows)."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.planners.targets import BEST, COST, Table, excess, growth

matplotlib.rcParams.update({"svg.hashsalt": "planners", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3})
MARK = {"ours": "o", "storm": "s", "baseline": "^"}


def write(table: Table, folder: Path) -> list[Path]:
    """Every plot that there are rows for."""
    makers = {"quality": _quality, "size": _size, "time": _time, "moves": _moves}
    files = []
    for name, make in makers.items():
        figure, axes = plt.subplots(1, 2 if name == "size" else 1, figsize=(9, 4.5), squeeze=False)
        if make(table, list(axes[0])):
            figure.tight_layout()
            files.append(folder / f"planners-{name}.svg")
            figure.savefig(files[-1], metadata={"Date": None})
        plt.close(figure)
    return files


def _quality(table: Table, axes: list[Axes]) -> bool:
    """Loaded clusters: seconds against traffic in units of `best`'s, per contestant the medians over instances."""
    base = table.held("medium", BEST)
    drawn = False
    for contestant in table.contestants("medium"):
        costs = table.median("medium", contestant, lambda r: r.metrics.get(COST))
        ratios = [costs[i] / base[i] for i in costs if base.get(i, 0) > 0]
        rows = [r for rs in table.rows("medium", contestant).values() for r in rs]
        seconds = [r.plan_s or r.process_s for r in rows if r.plan_s or r.process_s]
        if not ratios or not seconds:
            continue
        held = all(r.held for r in rows)
        x, y = median([s for s in seconds if s is not None]), median(ratios)
        axes[0].scatter(x, y, marker=MARK[rows[0].kind], facecolors="C0" if held else "none", edgecolors="C0")
        axes[0].annotate(contestant, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)
        drawn = True
    axes[0].set(xscale="log", yscale="log", xlabel="seconds to plan (median)", ylabel=f"traffic between nodes / {BEST}")
    axes[0].set_title("Loaded clusters (hollow: some plans break a constraint)")
    return drawn


def _size(table: Table, axes: list[Axes]) -> bool:
    """Planted instances: seconds and distance from the planted cost by size."""
    hidden = table.held("planted", "planted")
    for contestant in table.contestants("planted"):
        sizes, seconds = growth(table, contestant)
        if not sizes or contestant == "planted":
            continue
        axes[0].plot(sizes, seconds, marker="o", label=contestant)
        costs = table.held("planted", contestant)
        gaps: dict[int, list[float]] = {}
        for i, cost in costs.items():
            if i in hidden:
                gaps.setdefault(int(i.split("-")[1]), []).append(100 * excess(cost, hidden[i]))
        known = sorted(gaps)
        axes[1].plot(known, [median(gaps[s]) for s in known], marker="o", label=contestant)
    drawn = bool(axes[0].lines)
    shared = any(r.shared for c in table.contestants("planted") for rs in table.rows("planted", c).values() for r in rs)
    seconds_of = "CPU seconds" if shared else "seconds"
    axes[0].set(xscale="log", yscale="log", xlabel="executors", ylabel=f"{seconds_of}, whole process")
    axes[1].set(xscale="log", yscale="symlog", xlabel="executors", ylabel="% above the planted cost")
    axes[1].set_ylim(bottom=-0.5)
    if drawn:
        axes[0].legend(fontsize=7)
        axes[1].legend(fontsize=7)
    return drawn


def _time(table: Table, axes: list[Axes]) -> bool:
    """Gain by more seconds: `best` as a line, others as points, per instance in units of the least found."""
    points: dict[str, list[tuple[float, float, str]]] = {}
    for contestant in table.contestants("budget"):
        for instance, rows in table.rows("budget", contestant).items():
            if rows[0].held and rows[0].plan_s:
                points.setdefault(instance, []).append((rows[0].plan_s, rows[0].metrics[COST], contestant))
    for i, (instance, found) in enumerate(sorted(points.items())):
        least = min(cost for _, cost, _ in found) or 1.0
        line = sorted((s, c / least) for s, c, name in found if name.startswith("best"))
        if line:
            axes[0].plot(*zip(*line, strict=True), marker="o", color=f"C{i}", label=instance)
        for seconds, cost, name in found:
            if not name.startswith("best"):
                axes[0].scatter(seconds, cost / least, marker="x", color=f"C{i}")
                axes[0].annotate(name, (seconds, cost / least), fontsize=6)
    axes[0].set(xscale="log", xlabel="seconds", ylabel="traffic between nodes / least found")
    if axes[0].lines:
        axes[0].legend(fontsize=7)
    return bool(points)


def _moves(table: Table, axes: list[Axes]) -> bool:
    """Restarted workers against the traffic that is left."""
    points: dict[str, list[tuple[float, float]]] = {}
    for contestant in table.contestants("moves"):
        for instance, rows in table.rows("moves", contestant).items():
            if rows[0].held:
                m = rows[0].metrics
                points.setdefault(instance, []).append((m["restarted_workers"], m[COST]))
    for instance, found in sorted(points.items()):
        axes[0].plot(*zip(*sorted(found), strict=True), marker="o", label=instance)
    axes[0].set(xlabel="workers restarted", ylabel="tuples/s between nodes")
    if points:
        axes[0].legend(fontsize=7)
    return bool(points)
