"""Rounds of placements on a local cluster: what is predicted before each, and what is then measured."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from benchmarks.command import exit_with, say
from benchmarks.flow import placements, table
from benchmarks.flow.jobs import ALONE, SHARED, WORKERS, Case, Job, Placer, applied, steady, submit, unplaced, until
from benchmarks.flow.table import Row
from benchmarks.markdown import filled
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model, Plan

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
MODELS = BENCH / "flow"
RESULTS = REPOSITORY / "docs" / "results"
CLUSTER = "bench-flow"
WINDOWS = 3
"""Attempts to measure a window without a gap."""

Place = Callable[[Model, int], Plan]


def main() -> int:
    """Run all rounds; 0 when every prediction is within the limit."""
    parser = argparse.ArgumentParser(prog="make bench-flow", description=__doc__)
    parser.add_argument("--settle-s", type=float, default=20.0, help="seconds without a gap before a window")
    parser.add_argument("--window-s", type=float, default=30.0, help="length of a measured window (at most 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the placements")
    parser.add_argument("--only", choices=["shared", "busy"], help="a part; its rows alone are then written")
    parser.add_argument("--report", action="store_true", help="measure nothing: predict from the models that are there")
    parser.add_argument("--publish", action="store_true", help="write docs/results/flow.md too")
    arguments = parser.parse_args()
    MODELS.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    parts: list[tuple[Sequence[Case], Sequence[Place]]] = []
    if arguments.only != "busy":
        parts.append((SHARED, placements.ROUNDS))
    if arguments.only != "shared":
        parts += [([case], placements.BUSY_ROUNDS) for case in ALONE]
    for cases, rounds in parts:
        rows += stored(cases, rounds) if arguments.report else run(cases, rounds, arguments)
        write(rows, arguments)  # what was measured is kept when a later part fails
    table.show(rows, Console(width=160))
    return 0 if all(r.good for r in counted(rows)) else 1


def counted(rows: Sequence[Row]) -> list[Row]:
    """The rows that count: without topologies that fill an executor (docs/concepts/flow-model.md, limits)."""
    full = {case.name for case in ALONE}
    return [r for r in rows if r.topology not in full]


def stored(cases: Sequence[Case], rounds: Sequence[Place]) -> list[Row]:
    """The rows of a run whose measured models were kept: a prediction needs nothing but the model before."""
    rows = []
    names = [place.__name__ for place in (placements.FIRST, *rounds)]
    for former, name in itertools.pairwise(names):
        for case in cases:
            files = [MODELS / f"{case.name}-{n}.json" for n in (former, name)]
            if not all(f.exists() for f in files):
                continue
            before, after = (msgspec.json.decode(f.read_bytes(), type=Model) for f in files)
            compiled = compile_model(after)
            rows.append(table.row(case.name, name, table.forecast(before, compiled.plan_of(compiled.current)), after))
    return rows


def run(cases: Sequence[Case], rounds: Sequence[Place], arguments: argparse.Namespace) -> list[Row]:
    """Run topologies side by side on a cluster of their own, through all placements."""
    cluster: LocalCluster | None = None
    jobs: list[Job] = []
    placer: Placer | None = None
    rows: list[Row] = []
    try:
        spec = ClusterSpec(name=CLUSTER, supervisors=4, slots=WORKERS * len(cases), scheduler="pilot")
        cluster = LocalCluster.up(spec, lambda _: None)
        for number, case in enumerate(cases):
            jobs.append(submit(cluster, case, number))
        say(f"a cluster is up and runs {', '.join(c.name for c in cases)}")
        until("topologies are placed", lambda: unplaced(jobs), 120.0)
        placer = Placer(cluster)
        before = {job.topology_id: job.watcher.model(10.0) for job in jobs}
        for number, place in enumerate((placements.FIRST, *rounds)):
            plans = {
                job.topology_id: place(job.part(before[job.topology_id]), arguments.seed + i)
                for i, job in enumerate(jobs)
            }
            expected = {t: table.forecast(before[t], plan) for t, plan in plans.items()}
            before = _measured(jobs, placer, plans, place.__name__, arguments)
            if number:
                for job in jobs:
                    t = job.topology_id
                    rows.append(table.row(job.name, place.__name__, expected[t], before[t]))
                for r in rows[-len(jobs) :]:
                    say(
                        f"{r.topology}, {r.placement}: {r.measured_tps:.0f} tuples/s between nodes, predicted "
                        f"{r.flow_tps:.0f} by flows, {r.pairs_tps:.0f} by pairs"
                    )
        return rows
    finally:
        for job in jobs:
            job.watcher.close()
        if placer is not None:
            placer.close()
        if cluster is not None:
            cluster.down()


def _measured(
    jobs: Sequence[Job], placer: Placer, plans: Mapping[str, Plan], name: str, arguments: argparse.Namespace
) -> dict[str, Model]:
    """Apply placements and measure a window under them, once more where reports were missing in it."""
    applied(jobs, placer.publish(plans))
    for _ in range(WINDOWS):
        steady(jobs, arguments.settle_s)
        with ThreadPoolExecutor(len(jobs)) as pool:
            windows = list(pool.map(lambda j: j.watcher.window(arguments.window_s, lambda _: None), jobs))
        gaps = [text for job in jobs if not (r := job.watcher.readiness(arguments.window_s)).ready and (text := r.text)]
        if not gaps:
            break
        say(f"{name}: measured again: {gaps[0]}")
    else:
        raise UnreachableError(f"{name}: no window without gaps in {WINDOWS} ({gaps[0]})")
    after = {}
    for job, window in zip(jobs, windows, strict=True):
        after[job.topology_id] = window.model
        file = MODELS / f"{job.name}-{name}.json"
        file.write_bytes(msgspec.json.format(msgspec.json.encode(window.model), indent=1))
    say(f"{name}: measured")
    return after


def write(rows: list[Row], arguments: argparse.Namespace) -> None:
    """`build/bench/flow.json`, and the page where asked for."""
    parameters = {"settle_s": arguments.settle_s, "window_s": arguments.window_s, "seed": arguments.seed}
    result: dict[str, Any] = {
        "benchmark": "flow",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "parameters": parameters,
        "summary": table.summary(counted(rows)),
        "rows": table.as_json(rows),
    }
    (BENCH / "flow.json").write_text(json.dumps(result, indent=1) + "\n")
    if arguments.publish:
        shutil.copyfile(BENCH / "flow.json", RESULTS / "flow.json")
        (RESULTS / "flow.md").write_text(page(result))


def page(result: Mapping[str, Any]) -> str:
    """`docs/results/flow.md`, from its JSON."""
    rows, took = table.from_json(result["rows"]), result["parameters"]
    judged = counted(rows)
    full = [r for r in rows if r not in judged]
    about = (
        f"`make bench-flow`, Storm 2.8.3 as processes on one machine with {result['machine']['cores']} cores, 4 "
        f"supervisors in 2 racks; {took['settle_s']:.0f} s without a gap before each window of {took['window_s']:.0f} "
        f"s, seed {took['seed']}. Each placement is predicted from what was measured under the one before (`by "
        "flows`: the flow model; `by pairs`: every pair of executors goes on as it was). `before` are all tuples/s "
        "then; where they differ from those measured afterwards, the sources themselves sent more or less, which no "
        "model knows. Threads without tuples look for them a hundred times a second, not a thousand as by Storm's "
        "default (`topology.bolt.wait.progressive.level3.sleep.millis: 10`). [JSON](flow.json)."
    )
    parts = ["# The flow model against a real cluster", filled(about), "\n".join(table.markdown(judged))]
    parts.append(filled(f"{table.sentence(judged)}."))
    if full:
        not_counted = (
            "Not counted: a topology whose spouts all sit beside one executor that needs more than a core for their "
            "tuples, with queues of 64 tuples and with Storm's default of 32,768 ([limits](../concepts/flow-model.md"
            "#limits)). It is held up, and lets through more or less under another placement (`before` against `all "
            "tuples/s`). That is not predicted; which part of it goes between nodes is."
        )
        parts += [filled(not_counted), "\n".join(table.markdown(full))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    exit_with("bench-flow", main)
