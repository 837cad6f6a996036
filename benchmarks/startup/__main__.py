"""Time of `stormpilot --help` and `stormpilot status`, beside an empty Python and a load of every command.

The variants take turns, so that a busy moment of the machine meets all of them. Own time is what a variant takes beyond
an empty Python. `status` asks a ZooKeeper of this run, with nothing in it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from stormpilot.cli.output import print_table
from stormpilot.errors import StormpilotError
from stormpilot.local.zookeeper import LocalZooKeeper

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
EMPTY, EVERYTHING = "empty Python", "every command loaded"
LOAD = "from stormpilot.cli.commands import ENTRIES; from stormpilot.cli.lazy import LazyCommand; "
LOAD += "[LazyCommand(e).real for e in ENTRIES]"
GOALS_S = {"stormpilot --help": 0.25, "stormpilot status": 0.5}
"""Own wall time on idle cores."""

console = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Ran:
    """One run, seconds."""

    wall_s: float
    cpu_s: float


def main() -> int:
    """Measure, print a table, write build/bench/startup.json."""
    parser = argparse.ArgumentParser(prog="make bench-startup", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    repetitions: int = parser.parse_args().repetitions
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
    setting = {
        "cores": os.cpu_count(),
        "loadAverage": os.getloadavg()[0],
        "python": platform.python_version(),
        "repetitions": repetitions,
    }
    (BENCH / "startup.json").write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")
    print_table(
        ["", "wall s, median", "least", "CPU s, median", "least", "own wall s", "goal s"],
        [
            [r["name"], *(f"{r[k]:.3f}" for k in ("wallS", "leastWallS", "cpuS", "leastCpuS", "ownWallS")), r["goalS"]]
            for r in rows
        ],
    )
    return 0


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
    try:
        code = main()
    except StormpilotError as e:
        console.print(f"[bold red]bench-startup:[/] {e}", soft_wrap=True)
        code = e.exit_code
    sys.exit(code)
