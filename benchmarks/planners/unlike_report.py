"""The page and the JSON of clusters whose nodes differ: `docs/results/planners-unlike.md`, `.json`."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence, Set
from pathlib import Path
from statistics import median

from benchmarks.planners.published import SPEED, write_rows
from benchmarks.planners.rows import Row
from benchmarks.planners.tables import markdown
from benchmarks.planners.targets import COST
from benchmarks.planners.unlike import HOT, KNOWN, SCANNING, TABLES

PARTS = ("unlike", "set", "anytime", "replan", "speed")
FLOW_PARTS = ("set-flows",)
BOUND_PARTS = ("set-bounds", "set-groups")
ALL_PARTS = (*PARTS, *FLOW_PARTS, *BOUND_PARTS)
PAGES = ("planners-unlike", "planners-flows", "planners-bounds")
BEST = "best 10 s"
TITLES = {
    "set": "Clusters whose best plan is known by long annealing",
    "unlike": "Generated clusters of unlike nodes",
    "anytime": "Quality against time",
    "replan": "A running cluster after the traffic of 1% of the executors changed",
    "set-flows": "Against hot annealing on flows",
    "set-bounds": "By semidefinite programming, topologies spread over nodes in fractions",
    "set-groups": "With topologies assigned to groups of nodes",
}
REFERENCES = {"set": KNOWN, "replan": "best 10 s", "set-flows": HOT, "set-bounds": KNOWN, "set-groups": KNOWN}
INTRODUCTION = (
    'Written by `make bench-planners ARGS="--only unlike,set,anytime,replan,speed --set FOLDER --publish"`; every '
    "figure is made of rows of `planners-unlike.json`. Traffic is tuples/s between executors on different nodes, by "
    "measured pairs, as a part of the reference's; each plan of `best`, `partition`, `online` and Storm's scheduler in "
    "the first tables is a whole process. CPU: seconds of all threads."
)
FLOW_INTRODUCTION = (
    'Written by `make bench-planners ARGS="--only set-flows --set FOLDER --publish"`; every figure is a row of '
    "`planners-flows.json`. Traffic is tuples/s between executors on different nodes as the flow model predicts it, "
    "which the controller plans by, as a part of the reference's: annealing on flows alone, hot from a greedy "
    "placement, for ten times as long on every core. No node lacks CPU by its flows, or the cell says so. Clusters "
    "where that annealing ends with a plan that breaks a constraint (a site, say) are left out."
)
BOUND_INTRODUCTION = (
    'Written by `make bench-planners ARGS="--only set-bounds,set-groups --set FOLDER --publish"`; every figure is a '
    "row of `planners-bounds.json`. The bounds, as parts of the best known plan, are what is proved of every plan that "
    "keeps the limits of CPU and memory (`planner/bounds/semidefinite.py`), and what is proved together with an "
    "assignment of topologies to groups of nodes by integer programming (`planner/bounds/groups.py`). Both hold: the "
    "higher one counts, and `plan compare` names its gap. The best known plan is that of long annealing. The optimum "
    "is between the two."
)
SPEED_TEXT = (
    "Million tries per CPU second of one run on one core, hot to cold: with what each executor exchanges with every "
    "worker kept in a table, and without, as before there were tables."
)


def write(rows: Sequence[Row], earlier: Set[str], machine: dict[str, str], folder: Path) -> None:
    """Pages and JSON of these parts, where anything of them was measured; the pages are printed.

    `earlier`: parts that were measured with earlier sources.
    """
    texts = (
        (PARTS, "Clusters whose nodes differ", INTRODUCTION),
        (FLOW_PARTS, "Clusters whose nodes differ, by flows", FLOW_INTRODUCTION),
        (BOUND_PARTS, "How much can be left to win", BOUND_INTRODUCTION),
    )
    for name, (parts, heading, introduction) in zip(PAGES, texts, strict=True):
        own = [r for r in rows if r.part in parts]
        if own:
            page = _page(own, heading, introduction, earlier & set(parts), machine)
            (folder / f"{name}.md").write_text(page)
            print(page)
            write_rows(own, folder / f"{name}.json")


def measured_earlier(parts: Set[str]) -> list[str]:
    """The lines of a page that name the parts that were measured with earlier sources."""
    names = ", ".join(f"`{p}`" for p in sorted(parts))
    text = f"Measured with earlier sources of planners or models, and not again since: parts {names}."
    return [*textwrap.wrap(text, 120), ""] if parts else []


def _page(own: Sequence[Row], heading: str, introduction: str, earlier: Set[str], machine: dict[str, str]) -> str:
    lines = [f"# {heading}", "", *textwrap.wrap(introduction, 120), ""]
    lines += textwrap.wrap("Machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()) + ".", 120)
    lines += ["", *measured_earlier(earlier)[:-1]] if earlier else []
    for part, title in TITLES.items():
        body = compared([r for r in own if r.part == part], REFERENCES.get(part, "best 60 s"))
        if body:
            lines += ["", f"## {title}", "", body]
    speed = {(r.instance, r.contestant): r.metrics[SPEED] / 1e6 for r in own if r.part == "speed"}
    fast = [
        [r.instance, f"{r.executors:,}", *(f"{speed.get((r.instance, n), math.nan):.2f}" for n in (TABLES, SCANNING))]
        for r in own
        if r.part == "speed" and r.contestant == TABLES
    ]
    if fast:
        lines += [
            "",
            "## Tries",
            "",
            *textwrap.wrap(SPEED_TEXT, 120),
            "",
            markdown(["instance", "executors", TABLES, SCANNING], fast),
        ]
    return "\n".join(lines) + "\n"


def compared(rows: Sequence[Row], reference: str) -> str:
    """Every contestant's traffic / the reference's, seed by seed: median, and least to largest."""
    base = {i: median(c) for i, c in _costs(rows, reference).items()}
    names = [n for n in dict.fromkeys(r.contestant for r in rows) if n != reference]
    table = []
    for instance in sorted(base):
        own = [r for r in rows if r.instance == instance]
        cells = [instance, f"{max((r.executors for r in own), default=0):,}", f"{base[instance]:,.1f}"]
        for name in names:
            mine = [r for r in own if r.contestant == name]
            sound = [r for r in mine if r.held or r.kind == "bound"]
            held = sorted(_part(r.metrics[COST], base[instance]) for r in sound)
            cells.append(_ratios(held) + ("" if sound == mine else " (breaks a constraint)") if mine else "-")
        best = [r for r in own if r.contestant == BEST and r.process_s and r.cpu_s]
        cells.append(", ".join(f"{r.process_s:.1f} / {r.cpu_s:.1f}" for r in best if r.process_s and r.cpu_s))
        table.append(cells)
    header = ["instance", "executors", f"{reference}, tuples/s", *names, f"{BEST}: s / CPU s"]
    width = len(header) if any(cells[-1] for cells in table) else len(header) - 1
    return markdown(header[:width], [cells[:width] for cells in table])


def _part(cost: float, base: float) -> float:
    """Of the reference; of one that is 0, nothing or infinitely much."""
    return cost / base if base else 1.0 if cost == 0 else math.inf


def _ratios(held: Sequence[float]) -> str:
    if not held:
        return "no plan"
    if len(held) == 1:
        return f"{held[0]:.4f}"
    return f"{median(held):.4f} ({held[0]:.4f} to {held[-1]:.4f})"


def _costs(rows: Sequence[Row], contestant: str) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {}
    for r in rows:
        if r.contestant == contestant and COST in r.metrics and (r.held or r.kind == "known"):
            costs.setdefault(r.instance, []).append(r.metrics[COST])
    return costs
