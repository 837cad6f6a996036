"""Sizes the dataflows of S17 by every pair of allocation and mapping, then carries sizes of measured tasks out.

The tables need no cluster. What was carried out is kept: a run that `--minutes` ended goes on when it is started
again; `--restart` forgets it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from benchmarks.command import STARTED_S, exit_with, machine, results_of, resumable, say
from benchmarks.sizes import cluster, day, outcome, page
from benchmarks.sizes.cases import cases
from benchmarks.sizes.compare import TASKS, measured_models, published_models, rows, with_predictions
from benchmarks.sizes.dags import ALL, MICRO_TPS, linear_of
from stormpilot.instrument.reporting import cpu_mhz

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
OUT = BENCH / "sizes"
RESULTS = REPOSITORY / "docs" / "results"
EXAMPLE = REPOSITORY / "docs" / "reference" / "sizing.example.yaml"


def main() -> int:
    """Make the tables, carry out what is missing; 0 when every size holds."""
    parser = argparse.ArgumentParser(prog="make bench-sizes", description=__doc__)
    parser.add_argument("--only", default="", help="carry out cases whose name has this, such as grid or linear*even")
    parser.add_argument("--repetitions", type=int, default=1, help="of every case that is carried out")
    resumable(parser, "docs/results/sizes.md")
    arguments = parser.parse_args()
    results_of(OUT, restart=arguments.restart)
    found: dict[str, Any] = {"machine": machine(), "cluster": []}
    found["rows"] = {"published": rows(ALL, published_models(EXAMPLE))}
    own = BENCH / "profile.json"
    if measured := measured_models(own if own.exists() else RESULTS / "profile.json"):
        tasks = [task for task in TASKS if task in measured.by_task]
        found |= {"tasks": tasks, "slot": msgspec.to_builtins(measured.slot)}
        found["rows"]["measured"] = rows(ALL if tasks == list(TASKS) else [linear_of(tasks, MICRO_TPS)], measured)
        times = range(1, arguments.repetitions + 1)
        known = cases(measured, tasks)
        asked = [case for case in known if fnmatch(case.name, f"*{arguments.only}*")]
        wanted = [(case, n) for n in times for case in asked[:: 1 if n % 2 else -1]]
        if not arguments.report:
            ends_s = STARTED_S + 60 * arguments.minutes
            # Nodes have the MHz that the models were measured on, whatever the machine.
            here = replace(measured, cores=round(measured.slot.cpu_mhz / (cpu_mhz() or 1.0), 4))
            cluster.measure(OUT, REPOSITORY / "topologies", wanted, here.cores, ends_s, say)
            day.measure(OUT, REPOSITORY / "topologies", here, ends_s, say)
        found["cluster"] = [
            with_predictions(case.problem, one) | {"placedAsNow": case.places(one["placement"])}
            for case in known
            for file in cluster.results(OUT, case)
            for one in [json.loads(file.read_text())]
        ]
        every = {cluster.result(OUT, case, n) for case, n in [*wanted, *((case, 1) for case in known)]}
        found["left"] = sum(not file.exists() for file in every)
    found["day"] = {v: json.loads(file.read_text()) for v in day.VARIANTS if (file := day.result(OUT, v)).exists()}
    published = json.loads((RESULTS / "sizes.json").read_text())
    if found["cluster"] == published["cluster"]:
        found["machine"] = published["machine"]  # they were measured there
    (BENCH / "sizes.json").write_text(json.dumps(found, indent=1) + "\n")
    page.show(found, Console(width=160))
    if arguments.publish:
        page.publish(found, RESULTS)
    held = [one["actualTps"] >= outcome.WANTED_PART * one["sizedForTps"] for one in found["cluster"]]
    return 0 if found["cluster"] and not found["left"] and all(held) else 1


if __name__ == "__main__":
    exit_with("bench-sizes", main)
