"""Runs the slices, prints the table, writes `build/bench/instrument.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import timeit
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.instrument.drive import RUNNERS, SOURCES, Cost, Running, bolt_slice, spout_slice
from stormpilot.instrument.counters import BoltCounters
from stormpilot.instrument.reporting import cpu_mhz

COMPONENTS = {
    "Sink": "bolt: take, ack",
    "Pass": "bolt: take, emit, ack",
    "Batches": "batching bolt: take, ack later",
    "Numbers": "spout: next, emit, ack",
}
WARM_UP = 5
"""Slices that are not counted."""
RESULT = Path("build/bench/instrument.json")


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="make bench-instrument", description=__doc__)
    parser.add_argument("--tuples", type=int, default=1000, help="tuples of a slice")
    parser.add_argument("--slices", type=int, default=40, help="slices of a process")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of processes per component")
    parser.add_argument("--report-secs", type=float, default=1.0, help="seconds between reports")
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    rows = [row(name, what, arguments, console) for name, what in COMPONENTS.items()]
    report = [report_cost(sources) for sources in (8, 64, 512)]
    result = {
        "benchmark": "instrument",
        "machine": {"cores": os.cpu_count(), "mhz": cpu_mhz(), "python": platform.python_version()},
        "load_average": os.getloadavg(),
        "parameters": {
            "tuples": arguments.tuples,
            "slices": arguments.slices,
            "pairs": arguments.pairs,
            "report_s": arguments.report_secs,
            "source_tasks": SOURCES,
        },
        "components": rows,
        "report": report,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    show(result, arguments.output)


def row(name: str, what: str, arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure one component over several pairs of processes: each process has a speed of its own."""
    pairs = [pair(name, arguments) for _ in track(range(arguments.pairs), description=f"{what:32}", console=console)]
    plain, reporting = ([p[kind] for p in pairs] for kind in ("plain", "reporting"))
    added = [b.cpu_us - a.cpu_us for a, b in zip(plain, reporting, strict=True)]
    return {
        "component": what,
        "plain_cpu_us": spread([c.cpu_us for c in plain]),
        "reporting_cpu_us": spread([c.cpu_us for c in reporting]),
        "added_cpu_us": spread(added),
        "added_cpu_share": statistics.median(added) / statistics.median(c.cpu_us for c in plain),
        "plain_wall_us": spread([c.wall_us for c in plain]),
        "reporting_wall_us": spread([c.wall_us for c in reporting]),
        "added_memory_kib": statistics.median(b.rss_kib - a.rss_kib for a, b in zip(plain, reporting, strict=True)),
    }


def pair(name: str, arguments: argparse.Namespace) -> dict[str, Cost]:
    """Feed a plain and a reporting process slice by slice, now the one first and now the other; medians over slices."""
    make = spout_slice if name == "Numbers" else bolt_slice
    running = {kind: Running(kind, name, arguments.report_secs) for kind in RUNNERS}
    costs: dict[str, list[Cost]] = {kind: [] for kind in RUNNERS}
    for n in range(arguments.slices + WARM_UP):
        body = make(1 + n * arguments.tuples, arguments.tuples)
        for kind in sorted(running, reverse=bool(n % 2)):
            cost = running[kind].cost(body, arguments.tuples)
            if n >= WARM_UP:
                costs[kind].append(cost)
    for process in running.values():
        process.close()
    if not running["reporting"].reports:
        raise SystemExit(f"{name}: the reporting process sent no report, give it more slices")
    return {
        kind: Cost(
            statistics.median(c.cpu_us for c in slices),
            statistics.median(c.wall_us for c in slices),
            slices[-1].rss_kib,
        )
        for kind, slices in costs.items()
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "q1": low, "q3": high}


def report_cost(sources: int) -> dict[str, float]:
    """CPU and size of one report of a bolt that `sources` tasks send to."""

    class Tup:
        stream = "default"
        task = 0

    counters = BoltCounters()
    for task in range(sources):
        Tup.task = task
        counters.tuple_received(Tup)
    text = json.dumps(counters.values(), separators=(",", ":"))
    best = min(timeit.repeat(lambda: json.dumps(counters.values(), separators=(",", ":")), number=20, repeat=200)) / 20
    return {"sources": sources, "cpu_us": best * 1e6, "bytes": len(text)}


def show(result: dict[str, Any], output: Path) -> None:
    """Print the table."""
    head = ("plain", "reporting", "added", "share", "memory")
    print(f"{'CPU per tuple, us':31} " + " ".join(f"{n:>{w}}" for n, w in zip(head, (20, 20, 18, 6, 9), strict=True)))
    for r in result["components"]:
        print(
            f"{r['component']:31} {cell(r['plain_cpu_us']):>20} {cell(r['reporting_cpu_us']):>20}"
            f" {cell(r['added_cpu_us']):>18} {r['added_cpu_share']:6.1%} {r['added_memory_kib']:5.0f} KiB"
        )
    print(f"median (quartiles) over {result['parameters']['pairs']} pairs of processes")
    for r in result["report"]:
        print(f"one report with {r['sources']:4.0f} sources: {r['cpu_us']:7.1f} us CPU, {r['bytes']:,} bytes")
    print(f"written to {output}")


def cell(s: dict[str, float]) -> str:
    """Median with its quartiles."""
    return f"{s['median']:.2f} ({s['q1']:.2f}-{s['q3']:.2f})"


if __name__ == "__main__":
    main()
