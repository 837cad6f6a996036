"""Measures what is missing, piece by piece, and shows the table; a piece takes five minutes.

Pieces: `connections` (no cluster), and of `chain` and `flights` the plans, then passes of every placement once, each
piece on a cluster of its own. A run that was interrupted, or that `--minutes` ended, goes on with the next piece when
it is started again; `--restart` begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import cpu_name
from benchmarks.headlines import connections, page, runs
from stormpilot.errors import StormpilotError

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
OUT = BENCH / "headlines"
RESULTS = REPOSITORY / "docs" / "results"
TOPOLOGIES = 1000
PASSES, FULL_PASSES = 3, 6
PIECE_S = 150
"""A piece is not begun with less time left."""

console = Console(stderr=True, highlight=False)
STARTED = time.monotonic()


def say(text: str) -> None:
    """One line, with the time since the start."""
    console.print(f"[dim]{time.monotonic() - STARTED:5.0f} s[/]  {text}", soft_wrap=True)


def main() -> int:
    """Run what is missing; 0 when everything that is wanted was measured."""
    parser = argparse.ArgumentParser(prog="make bench-headlines", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more passes, longer phases, the papers' other settings")
    parser.add_argument("--only", choices=["connections", *runs.CASES], help="one part")
    parser.add_argument("--passes", type=int, help=f"of each topology; {PASSES} by default, {FULL_PASSES} with --full")
    parser.add_argument("--topologies", type=int, default=TOPOLOGIES, help="random ones, of the network metric")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after that; start again to go on")
    parser.add_argument("--restart", action="store_true", help="forget what was measured")
    parser.add_argument("--report", action="store_true", help="measure nothing, show what is there")
    parser.add_argument("--publish", action="store_true", help="write docs/results/headlines.md too")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.restart:
        shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    passes = arguments.passes or (FULL_PASSES if arguments.full else PASSES)
    if not arguments.report:
        measure(arguments, passes, STARTED + 60 * arguments.minutes)
    found = collect()
    (BENCH / "headlines.json").write_text(json.dumps(found, indent=1) + "\n")
    page.show(found, Console(width=160))
    if arguments.publish:
        page.publish(found, RESULTS)
    whole = all(sum(p["complete"] for p in found["passes"] if p["case"] == case) >= passes for case in runs.CASES)
    return 0 if whole and found["connections"] else 1


def measure(arguments: argparse.Namespace, passes: int, ends_s: float) -> None:
    """The pieces that are missing, as long as there is time."""
    if arguments.only in (None, "connections"):
        connections.measure(OUT / "connections", arguments.topologies, console, ends_s)
    wanted = [name for name in runs.CASES if arguments.only in (None, name)]
    for number in range(passes + 1):
        for name in wanted:
            case = runs.longer(runs.CASES[name]) if arguments.full else runs.CASES[name]
            plans, file = OUT / f"{name}-plans.json", OUT / f"{name}-{number}.json"
            if plans.exists() if number == 0 else file.exists() and json.loads(file.read_text())["complete"]:
                continue
            if time.monotonic() > ends_s - PIECE_S:
                say("the time is over; start again to go on")
                return
            if number == 0:
                runs.prepare(case, plans, swept=arguments.full, say=say)
            else:
                runs.run_pass(case, plans, number, file, ends_s=ends_s, say=say)


def collect() -> dict[str, Any]:
    """Everything that was measured."""
    plans = {name: OUT / f"{name}-plans.json" for name in runs.CASES}
    return {
        "benchmark": "headlines",
        "machine": {"cores": os.cpu_count(), "cpu": cpu_name(), "python": platform.python_version()},
        "connections": connections.collected(OUT / "connections"),
        "cases": {name: json.loads(file.read_text()) for name, file in plans.items() if file.exists()},
        "passes": [json.loads(f.read_text()) for name in runs.CASES for f in sorted(OUT.glob(f"{name}-[0-9]*.json"))],
    }


if __name__ == "__main__":
    try:
        code = main()
    except StormpilotError as e:
        console.print(f"[bold red]bench-headlines:[/] {e}", soft_wrap=True)
        code = e.exit_code
    sys.stdout.flush()
    sys.exit(code)
