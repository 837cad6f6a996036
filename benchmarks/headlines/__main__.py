"""Measures what is missing, and shows the table.

`connections` needs no cluster; `fewest` asks how many nodes hold a rate, `changing` what planning anew gains when the
traffic has changed. Of `chain`, `flights` and `wordcount`, of the chain under other `settings` and on `unlike` nodes,
it makes everybody's plan, then measures passes of every placement once. What was measured is kept after every
placement: a run that was interrupted, or that `--minutes` ended, goes on with what is missing when it is started again;
`--restart` begins anew.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import STARTED_S, console, exit_with, machine, results_of, resumable, say
from benchmarks.headlines import changing, connections, fewest, other_pages, page, runs
from benchmarks.headlines.cases import AIM, CASES, EVEN, LONG, measured_on

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
OUT = BENCH / "headlines"
RESULTS = REPOSITORY / "docs" / "results"
TOPOLOGIES = 1000
PASSES, REPETITIONS, CHANGES = 3, 2, 3
"""Of each topology, of the question how many nodes hold a rate, and of the traffic of the chain: in the short form."""
FEWEST, CHANGING = "fewest", "changing"
PARTS = ["connections", *CASES, FEWEST, CHANGING]


def main() -> int:
    """Run what is missing; 0 when everything that is wanted was measured."""
    parser = argparse.ArgumentParser(prog="make bench-headlines", description=__doc__)
    parser.add_argument(
        "--full",
        action="store_true",
        help=f"{AIM} of each of them, also of {' and '.join(LONG)}",
    )
    parser.add_argument("--only", action="append", choices=PARTS, default=[], help="a part, or several; else all")
    parser.add_argument("--passes", type=int, help=f"of each topology; {PASSES} by default, {AIM} with --full")
    parser.add_argument("--phase-s", type=float, help="of the rate, and of as fast as it goes")
    parser.add_argument("--topologies", type=int, default=TOPOLOGIES, help="random ones, of the network metric")
    resumable(parser, "docs/results/headlines.md")
    arguments = parser.parse_args()
    results_of(OUT, restart=arguments.restart)
    if not arguments.restart:
        restore(RESULTS / "headlines.json", OUT)
    passes = arguments.passes or (AIM if arguments.full else PASSES)
    if not arguments.report:
        measure(arguments, passes, STARTED_S + 60 * arguments.minutes)
    found = completed(collect(), RESULTS / "headlines.json")
    (BENCH / "headlines.json").write_text(json.dumps(found, indent=1) + "\n")
    page.show(found, Console(width=160))
    if arguments.publish:
        page.publish(found, RESULTS)
    asked = parts(arguments)
    whole = all(sum(p["complete"] for p in found["passes"] if p["case"] == c) >= passes for c in CASES if c in asked)
    return 0 if whole and not any(of_chain(arguments)) and found["connections"] else 1


def parts(arguments: argparse.Namespace) -> list[str]:
    """Parts that are asked for: by default all but those of the long form."""
    return arguments.only or [part for part in PARTS if arguments.full or part not in LONG]


def of_chain(arguments: argparse.Namespace) -> tuple[int, int]:
    """Repetitions of the fewest nodes, and changes of the traffic, that were asked for; 0 where none is missing."""
    asked = parts(arguments)
    repetitions, changes = (AIM, AIM) if arguments.full else (REPETITIONS, CHANGES)
    counted = FEWEST in asked and fewest.missing(OUT, repetitions)
    changed = CHANGING in asked and changing.missing(OUT, changes)
    return repetitions if counted else 0, changes if changed else 0


def measure(arguments: argparse.Namespace, passes: int, ends_s: float) -> None:
    """Measure the parts that are missing, as long as there is time."""
    asked = parts(arguments)
    if "connections" in asked:
        connections.measure(OUT / "connections", arguments.topologies, console, ends_s)
    chosen = {"phase_s": arguments.phase_s} if arguments.phase_s else {}
    wanted = [replace(c, **chosen) for name, c in CASES.items() if name in asked]
    left = {c.name: n for c in wanted if (n := runs.missing(c, passes, OUT))}
    clock = runs.Clock(ends_s, sum(left.values()))
    repetitions, changes = of_chain(arguments)
    if not (left or repetitions or changes) or not clock.allows(runs.PREPARED_S):
        return
    wanted = [case for case in wanted if case.name in left]
    for cores in dict.fromkeys([*([EVEN] if repetitions or changes else []), *(case.cores for case in wanted)]):
        if not clock.allows(runs.PREPARED_S):
            return
        with runs.isolated(cores, say) as cluster:
            if cores == EVEN and repetitions and clock.allows(fewest.MEASURED_S):
                fewest.measure(cluster, replace(CASES["chain"], **chosen), repetitions, OUT, clock, say)
            for case in wanted:
                if case.cores == cores:
                    runs.measure(cluster, case, passes, OUT, clock=clock, say=say)
            if cores == EVEN and changes and clock.allows(changing.MEASURED_S):
                changing.measure(cluster, CASES["chain"], changes, OUT, clock, say)


def restore(published: Path, out: Path) -> None:
    """Put what was published of a machine like this one where a run goes on from; cases that are there stay."""
    found = json.loads(published.read_text()) if published.exists() else {"cases": {}}
    cpu = machine()["cpu"]
    here = {name for name, plans in found["cases"].items() if measured_on(found, plans) == cpu}
    here -= {name for name in here if (out / f"{name}-plans.json").exists()}  # passes of other plans are others
    files = {out / f"{name}-plans.json": found["cases"][name] for name in here}
    files |= {out / f"{p['case']}-{p['pass']}.json": p for p in found.get("passes", []) if p["case"] in here}
    if found.get("machine", {}).get("cpu") == cpu:
        files[out / "connections.json"] = found["connections"]
    for key, file in ((FEWEST, fewest.FILE), (CHANGING, changing.FILE)):
        if (found.get(key) or {}).get("cpu") == cpu:
            files[out / file] = found[key]
    for file, content in files.items():
        if content and not file.exists():
            file.write_text(json.dumps(content, indent=1) + "\n")


def completed(found: dict[str, Any], published: Path) -> dict[str, Any]:
    """`found` with the parts that were published and are not measured here, of another machine perhaps."""
    if not published.exists():
        return found
    was = json.loads(published.read_text())
    kept = [name for name in CASES if name in was["cases"] and name not in found["cases"]]
    for name in kept:
        was["cases"][name]["parameters"]["cpu"] = measured_on(was, was["cases"][name])
    whole = {key: found.get(key) or was.get(key) for key in ("connections", FEWEST, CHANGING)}
    order = list(CASES)
    both = {name: was["cases"][name] for name in kept} | found["cases"]
    passes = [p for p in was["passes"] if p["case"] in kept] + found["passes"]
    return {
        **found,
        **whole,
        "machine": was["machine"] if kept or any(whole[key] != found.get(key) for key in whole) else found["machine"],
        "cases": {name: both[name] for name in order if name in both},
        "passes": sorted(passes, key=lambda p: order.index(p["case"])),
    }


def collect() -> dict[str, Any]:
    """Everything that was measured."""
    network, nodes, turns = OUT / "connections.json", OUT / fewest.FILE, OUT / changing.FILE
    plans = {name: OUT / f"{name}-plans.json" for name in CASES}
    return {
        "benchmark": "headlines",
        "machine": machine(),
        "connections": json.loads(network.read_text()) if network.exists() else None,
        FEWEST: json.loads(nodes.read_text()) if nodes.exists() else None,
        CHANGING: json.loads(turns.read_text()) if turns.exists() else None,
        "cases": {name: json.loads(file.read_text()) for name, file in plans.items() if file.exists()},
        "others": other_pages.lines(RESULTS),
        "missing": other_pages.missing(RESULTS),
        "passes": [json.loads(f.read_text()) for name in CASES for f in sorted(OUT.glob(f"{name}-[0-9]*.json"))],
    }


if __name__ == "__main__":
    exit_with("bench-headlines", main)
