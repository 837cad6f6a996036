"""Runs the parts, prints their tables, writes `build/bench/control.json`; `--publish` also docs/results/control.md.

A part that is not run keeps the figures of its last run, which are in the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import exit_with, say
from benchmarks.control import cycles, hour, limits, page, rounds, scale, soak

RESULT = Path("build/bench/control.json")
PUBLISHED = Path("docs/results/control.md")
SIZES = ((50, 2_000, 4), (150, 6_000, 12), (500, 20_000, 40))
"""Supervisors, executors, topologies; the smallest is the baseline."""
LIMITS = (20_000, 100_000)
"""Executors of part limits."""
CYCLES_TOPOLOGIES = 100
"""Of part cycles: one of them is 1%."""
PARTS = ("shim", "scale", "cycles", "limits", "hour", "soak")
LONG = 2
"""Of these the last are run only where they are asked for."""


def main() -> int:
    """Run what is asked for; 0: measured."""
    parser = argparse.ArgumentParser(prog="make bench-control", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="parts to run [default: all but the last two]")
    parser.add_argument("--report", action="store_true", help="run nothing: the tables of the last runs")
    parser.add_argument("--largest", action="store_true", help="shim, scale, cycles: the largest size only")
    parser.add_argument("--cycles", type=int, default=6, help="scale: cycles measured per size, after the first")
    parser.add_argument("--rounds", type=int, default=100, help="shim: rounds of the plug-in measured per size")
    parser.add_argument("--repeat", type=int, default=3, help="cycles: how often each is measured")
    parser.add_argument("--minutes", type=float, default=30.0, help="hour, soak: how long")
    parser.add_argument("--executors", type=int, default=hour.EXECUTORS, help="hour: of the simulated cluster")
    parser.add_argument("--seed", type=int, default=1, help="scale, cycles: of the simulated cluster")
    parser.add_argument("--publish", action="store_true", help=f"write the tables to {PUBLISHED}")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    kept = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    results: dict[str, Any] = {part: kept[part] for part in PARTS if isinstance(kept.get(part), dict)}
    for part in () if arguments.report else arguments.only or PARTS[:-LONG]:
        say(f"part {part}")
        rows = _run(part, arguments)
        results[part] = {"machine": machine(), "rows": rows}
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps({"benchmark": "control", **results}, indent=1) + "\n")
    screen = Console()
    for table in page.tables(results):
        screen.print(table)
    screen.print(f"written to {arguments.output}")
    if arguments.publish:
        PUBLISHED.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(arguments.output, PUBLISHED.with_suffix(".json"))
        PUBLISHED.write_text(page.page(results))
    return 0


def _run(part: str, arguments: argparse.Namespace) -> Any:
    sizes = SIZES[-1:] if arguments.largest else SIZES
    match part:
        case "shim":
            return [rounds.run(s, t, e // t, arguments.rounds) for s, e, t in sizes]
        case "scale":
            return [scale.run(s, e, t, arguments.cycles, arguments.seed) for s, e, t in sizes]
        case "cycles":
            return [cycles.run(s, e, CYCLES_TOPOLOGIES, arguments.repeat, arguments.seed) for s, e, _ in sizes]
        case "limits":
            return [limits.run(n, arguments.seed) for n in LIMITS]
        case "hour":
            return hour.run(arguments.minutes, arguments.seed, say, arguments.executors)
        case _:
            return soak.run(arguments.minutes, say)


def machine() -> dict[str, Any]:
    """Machine of the figures, and its load by other things."""
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory_kb / 1e6),
        "python": platform.python_version(),
        "load_average": [round(x, 1) for x in os.getloadavg()],
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    exit_with("bench-control", main)
