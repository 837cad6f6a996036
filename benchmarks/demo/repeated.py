"""Repeated runs of the demo: does every node stay within its limit after the plan? `docs/results/demo.md`."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.command import machine, results_of, say
from benchmarks.markdown import filled, table
from stormpilot.cli.output import print_table
from stormpilot.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]
KEPT = REPOSITORY / "build" / "bench" / "demo"
RESULTS = REPOSITORY / "docs" / "results"
HEAD = [
    "run",
    "tuples/s between nodes: before, after",
    "busiest node: before, planned, after",
    "limit",
    "kept",
    "p50 ms: before, after",
    "below half",
    "lost",
    "load average",
]


def main(arguments: argparse.Namespace, run: Callable[[], dict[str, Any]]) -> int:
    """Run demos until there are `arguments.runs`; 0 where no node was above its limit after any plan."""
    results_of(KEPT, restart=arguments.restart)
    file = KEPT / f"{arguments.cpu_points}.json"
    found = json.loads(file.read_text()) if file.exists() else {"machine": machine(), "runs": []}
    if not arguments.report and found["machine"] != machine():
        raise UsageError(f"{file}: expected runs of this machine, --restart forgets these ({found['machine']['cpu']})")
    found["cpu_points"] = arguments.cpu_points
    end_s = time.monotonic() + 60 * arguments.minutes
    while not arguments.report and len(found["runs"]) < (arguments.runs or 0) and time.monotonic() < end_s:
        say(f"run {len(found['runs']) + 1} of {arguments.runs}")
        found["runs"].append(row(run(), os.getloadavg()[0]))
        file.write_text(json.dumps(found, indent=1) + "\n")
    if not found["runs"]:
        raise UsageError(f"{file}: expected runs with --cpu-points {arguments.cpu_points}, there are none (--runs N)")
    (KEPT.parent / "demo.json").write_text(json.dumps(found, indent=1) + "\n")
    if arguments.publish:
        (RESULTS / "demo.md").write_text(page(found))
        (RESULTS / "demo.json").write_text(json.dumps(found, indent=1) + "\n")
    print_table(HEAD, cells(found["runs"]))
    print("\n" + kept(found["runs"]))
    return 0 if all(r["within_limit"] for r in found["runs"]) else 1


def row(report: dict[str, Any], load_average: float) -> dict[str, Any]:
    """Figures of a run, CPU in percent of what a node declares."""
    before, after, busiest = report["before"], report["after"], report["busiest_node"]
    return {
        "taken": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "load_average": round(load_average, 1),
        "inter_node_tps": [before["inter_node_tps"], after["inter_node_tps"]],
        "busiest_before_percent": max(before["cpu_per_node_percent"].values()),
        "busiest_planned_percent": busiest["predicted_busiest_percent"],
        "busiest_after_percent": busiest["cpu_percent"],
        "limit_percent": busiest["limit_percent"],
        "within_limit": busiest["within_limit"],
        "latency_p50_ms": [side["complete_latency_ms"]["p50"] for side in (before, after)],
        "downtime_s": report["downtime_s"],
        "lost": report["lost"],
    }


def cells(runs: list[dict[str, Any]]) -> list[list[str]]:
    """Rows as text."""
    return [
        [
            str(number),
            ", ".join(f"{tps:,.0f}" for tps in r["inter_node_tps"]),
            ", ".join(f"{r[f'busiest_{when}_percent']:.0f}%" for when in ("before", "planned", "after")),
            f"{r['limit_percent']:.0f}%",
            "yes" if r["within_limit"] else "**no**",
            ", ".join("-" if ms is None else f"{ms:.1f}" for ms in r["latency_p50_ms"]),
            f"{r['downtime_s']:.0f} s",
            str(r["lost"]),
            f"{r['load_average']:g}",
        ]
        for number, r in enumerate(runs, 1)
    ]


def kept(runs: list[dict[str, Any]]) -> str:
    """Number of runs that kept the limit, and how far from the plan the busiest node was, in a sentence."""
    within = sum(r["within_limit"] for r in runs)
    beyond = [r["busiest_after_percent"] - r["busiest_planned_percent"] for r in runs]
    return (
        f"The busiest node was at or below its limit in {within} of {len(runs)} runs, at {min(beyond):+.0f} to "
        f"{max(beyond):+.0f} points from the busiest one of the plan."
    )


def page(found: dict[str, Any]) -> str:
    """`docs/results/demo.md`."""
    runs, on = found["runs"], found["machine"]
    how = (
        f"`make bench-demo ARGS='--cpu-points {found['cpu_points']} --runs {len(runs)}'`; the JSON is "
        f"[demo.json](demo.json). The demo of the README, on supervisors that declare {found['cpu_points']} points of "
        "CPU each and not the 200 of `make demo`, so that a plan has no room to spare: `before` is Storm's own "
        "placement in the same run, `planned` the CPU of the busiest node as the plan predicted it, `after` as the "
        "kernel counted it once the plan ran. CPU is that of all worker processes on a node, as a part of what it "
        f"declares. Below half: seconds with less than half of the usual throughput. Taken {runs[0]['taken']} to "
        f"{runs[-1]['taken']} UTC on {on['cores']} cores ({on['cpu']}), Python {on['python']}."
    )
    return (
        "\n\n".join(["# The demo, again and again", filled(how), table(HEAD, cells(runs)), filled(kept(runs))]) + "\n"
    )
