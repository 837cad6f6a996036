"""Runs the sizes, prints the tables, writes `build/bench/control.json`; `--publish` also docs/results/control.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.control import rounds, scale

RESULT = Path("build/bench/control.json")
PUBLISHED = Path("docs/results/control.md")
SIZES = ((50, 2_000, 4), (150, 6_000, 12), (500, 20_000, 40))
"""Supervisors, executors, topologies; the smallest is the baseline."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="make bench-control", description=__doc__)
    parser.add_argument("--cycles", type=int, default=6, help="cycles measured per size, after the first")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of the plug-in measured per size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help=f"write the tables to {PUBLISHED}")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    shim, control = [], []
    for supervisors, executors, topologies in SIZES:
        console.print(f"plug-in: {supervisors} supervisors, {executors} executors")
        shim.append(rounds.run(supervisors, topologies, executors // topologies, arguments.rounds))
    for supervisors, executors, topologies in SIZES:
        console.print(f"controller: {supervisors} supervisors, {executors} executors")
        control.append(scale.run(supervisors, executors, topologies, arguments.cycles, arguments.seed))
    result = {
        "benchmark": "control",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "load_average": os.getloadavg(),
        "parameters": {"cycles": arguments.cycles, "rounds": arguments.rounds, "report_s": scale.REPORT_S},
        "shim": shim,
        "controller": control,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    tables = [_shim(shim), _control(control)]
    screen = Console()
    for table in tables:
        screen.print(table)
    screen.print(f"written to {arguments.output}")
    if arguments.publish:
        PUBLISHED.parent.mkdir(parents=True, exist_ok=True)
        PUBLISHED.write_text(_page(result, tables))


def _shim(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="plug-in: milliseconds of a round, median (95th percentile, max)")
    for column in ("supervisors", "executors", "Storm's own, nothing to do", "ours, nothing changed", "ours, moving"):
        table.add_column(column)
    for row in rows:
        cells = [_spread(row["ms"][kind]) for kind in ("storm", "unchanged", "moving")]
        table.add_row(str(row["supervisors"]), f"{row['executors']:,}", *cells)
    return table


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):.1f} ({ordered[int(0.95 * (len(ordered) - 1))]:.1f}, {ordered[-1]:.1f})"


def _control(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="controller: a cycle that plans everything, and what it reads and writes")
    for column in (
        "supervisors",
        "executors",
        "pairs",
        "cycle s, median (min, max)",
        "reads kB/s",
        "writes kB/s",
        "reports kB/s",
        "peak MB",
    ):
        table.add_column(column)
    for row in rows:
        cycle = row["cycle_s"]
        table.add_row(
            str(row["supervisors"]),
            f"{row['executors']:,}",
            f"{row['pairs']:,}",
            f"{cycle['median']:.2f} ({cycle['min']:.2f}, {cycle['max']:.2f})",
            f"{row['controller_reads_kb_per_s']:.0f}",
            f"{row['controller_writes_kb_per_s']:.1f}",
            f"{row['reports_kb_per_s']:.0f}",
            f"{row['controller_peak_mb']:.0f}",
        )
    return table


def _page(result: dict[str, Any], tables: list[Table]) -> str:
    machine = result["machine"]
    lines = [
        "# Control loop: what it costs on a large cluster",
        "",
        f"`make bench-control`, {machine['cores']} cores, Python {machine['python']}, load average at the end "
        f"{result['load_average'][0]:.1f}. Reports of every task every {result['parameters']['report_s']:g} s; planner "
        "`best` with a budget of 10 s, every topology planned in every cycle. A cycle's time includes the planner's.",
        "",
    ]
    for table in tables:
        lines += [f"## {table.title}", ""]
        headers = [str(c.header) for c in table.columns]
        lines += ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
        lines += ["| " + " | ".join(cells) + " |" for cells in zip(*(c.cells for c in table.columns), strict=True)]  # type: ignore[arg-type]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
