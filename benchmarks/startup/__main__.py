"""Time of `stormpilot --help` and `stormpilot status`, beside an empty Python and a load of every command.

The variants take turns, so that a busy moment of the machine meets all of them. Own time is what a variant takes beyond
an empty Python. `status` asks a ZooKeeper of this run, with nothing in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import console, exit_with, machine
from stormpilot.cli.output import print_table
from stormpilot.errors import StormpilotError
from stormpilot.local.zookeeper import LocalZooKeeper

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
RESULTS = REPOSITORY / "docs" / "results"
EMPTY, EVERYTHING = "empty Python", "every command loaded"
LOAD = "from stormpilot.cli.commands import ENTRIES; from stormpilot.cli.lazy import LazyCommand; "
LOAD += "[LazyCommand(e).real for e in ENTRIES]"
GOALS_S = {"stormpilot --help": 0.25, "stormpilot status": 0.5}
"""Own wall time on idle cores."""
HEAD = ["command", "wall s, median", "least", "CPU s, median", "least", "own wall s", "goal s"]


@dataclass(frozen=True)
class Ran:
    """One run, seconds."""

    wall_s: float
    cpu_s: float


def main() -> int:
    """Measure, print a table, write `build/bench/startup.json`."""
    parser = argparse.ArgumentParser(prog="make bench-startup", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--publish", action="store_true", help="write docs/results/startup.md too")
    arguments = parser.parse_args()
    repetitions: int = arguments.repetitions
    stormpilot = [sys.executable, "-m", "stormpilot"]
    with tempfile.TemporaryDirectory() as folder:
        zookeeper = LocalZooKeeper(Path(folder) / "zookeeper", console.print)
        try:
            zookeeper.start()
            variants = {
                EMPTY: [sys.executable, "-c", "pass"],
                EVERYTHING: [sys.executable, "-c", LOAD],
                "stormpilot --help": [*stormpilot, "--help"],
                "stormpilot status": [*stormpilot, "status", "--zookeeper", zookeeper.hosts],
            }
            for command in variants.values():
                run(command)  # bytecode and the cache of files
            runs: dict[str, list[Ran]] = {name: [] for name in variants}
            for i in range(repetitions):
                console.print(f"repetition {i + 1} of {repetitions}")
                for name, command in variants.items():
                    runs[name].append(run(command))
        finally:
            zookeeper.close()
    rows = [row(name, found, runs[EMPTY]) for name, found in runs.items()]
    BENCH.mkdir(parents=True, exist_ok=True)
    found = {
        "machine": machine(),
        "loadAverage": round(os.getloadavg()[0], 1),
        "repetitions": repetitions,
        "rows": rows,
    }
    (BENCH / "startup.json").write_text(json.dumps(found, indent=1) + "\n")
    if arguments.publish:
        publish(found)
    print_table(HEAD, cells(rows))
    return 0


def cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows as text."""
    measures = ("wallS", "leastWallS", "cpuS", "leastCpuS", "ownWallS")
    return [[r["name"], *(f"{r[m]:.3f}" for m in measures), _goal(r)] for r in rows]


def _goal(row: dict[str, Any]) -> str:
    if row["goalS"] is None:
        return ""
    return f"{row['goalS']:g}" + ("" if row["ownWallS"] <= row["goalS"] else " (missed)")


def publish(found: dict[str, Any]) -> None:
    """Write the page and, beside it, its JSON."""
    on = found["machine"]
    lines = [
        "# Start of the command",
        "",
        '`make bench-startup ARGS="--publish"` writes this page with its table, and its JSON beside it. Variants took '
        f"turns, {found['repetitions']} times each, on a machine of {on['cores']} cores ({on['cpu']}) with Python "
        f"{on['python']}, at a load average of {found['loadAverage']:g}.",
        "",
        "Own time is what a variant takes beyond an empty Python. `status` asks a ZooKeeper of this run, with "
        "nothing in it. Goals are for idle cores.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in cells(found["rows"])),
    ]
    folded = [part for line in lines for part in (textwrap.wrap(line, 120) if line and line[0] not in "#|" else [line])]
    (RESULTS / "startup.md").write_text("\n".join(folded) + "\n")
    (RESULTS / "startup.json").write_text(json.dumps(found, indent=1) + "\n")


def run(command: list[str]) -> Ran:
    """One run of a command to its end; `StormpilotError` where it fails."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    wall_s, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise StormpilotError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    return Ran(wall_s, cpu_s)


def row(name: str, found: list[Ran], empty: list[Ran]) -> dict[str, Any]:
    """Medians and least of a variant; `ownWallS` is the median beyond that of an empty Python."""
    wall_s, cpu_s = [r.wall_s for r in found], [r.cpu_s for r in found]
    return {
        "name": name,
        "wallS": statistics.median(wall_s),
        "leastWallS": min(wall_s),
        "cpuS": statistics.median(cpu_s),
        "leastCpuS": min(cpu_s),
        "ownWallS": statistics.median(wall_s) - statistics.median(r.wall_s for r in empty),
        "goalS": GOALS_S.get(name),
    }


if __name__ == "__main__":
    exit_with("bench-startup", main)
