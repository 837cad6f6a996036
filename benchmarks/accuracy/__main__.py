"""Placements on isolated nodes: CPU of every node and latency, predicted before each and measured after it."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.accuracy import latency, page, table, windows
from benchmarks.accuracy.cases import SETS, WORKERS, Case
from benchmarks.accuracy.constants import constants, executor_threads
from benchmarks.accuracy.contention import Filler, Probe
from benchmarks.accuracy.placements import ROUNDS
from benchmarks.accuracy.processes import age_s
from benchmarks.accuracy.windows import Measured, Windows
from benchmarks.command import exit_with, machine
from benchmarks.flow.jobs import Placer, part, until
from stormpilot.errors import UnreachableError, UsageError
from stormpilot.local.build import hook_jar
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec, NodeSpec
from stormpilot.model.values import Plan

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench" / "accuracy"
RESULTS = REPOSITORY / "docs" / "results"
CLUSTER = "bench-accuracy"
NODES = 4
NODE = NodeSpec(cores=1.0, mbit=100.0)
NODE_CPU_RATIO = 0.5
"""Of a topology's CPU, what planners may put on one node: else all of it would be in one worker."""
PATIENCE_S = 120.0

console = Console(stderr=True, highlight=False)
STARTED = time.monotonic()


def say(text: str) -> None:
    """One line, with the time since the start."""
    console.print(f"[dim]{time.monotonic() - STARTED:5.0f} s[/]  {text}", soft_wrap=True)


def main() -> int:
    """Measure the sets asked for, and judge both models on all that was measured; 0 where the goal is reached."""
    parser = argparse.ArgumentParser(prog="make bench-accuracy", description=__doc__)
    parser.add_argument("--settle-s", type=float, default=20.0, help="seconds without a gap before a window")
    parser.add_argument("--warm-s", type=float, default=40.0, help="age of every worker before a window")
    parser.add_argument("--window-s", type=float, default=60.0, help="length of a measured window")
    parser.add_argument("--seed", type=int, default=1, help="of the placements")
    parser.add_argument("--beside", type=int, action="append", default=[], help="seed of a run to judge as well")
    parser.add_argument("--set", dest="sets", action="append", choices=sorted(SETS), help="topologies side by side")
    parser.add_argument("--within-s", type=float, default=1200.0, help="of a set: no placement is begun after it")
    parser.add_argument("--more", action="store_true", help="go on after the placements that were measured before")
    parser.add_argument("--report", action="store_true", help="measure nothing: judge what is there")
    parser.add_argument("--publish", action="store_true", help="write docs/results/accuracy.md too")
    arguments = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    chosen = arguments.sets or sorted(SETS)
    kept = [w for seed in arguments.beside for name in chosen for w in _of_another_run(name, seed, arguments.seed)]
    for name in chosen:
        file = kept_in(name, arguments.seed)
        measured = windows.read(file) if (arguments.report or arguments.more) and file.exists() else []
        if not arguments.report:
            with Filler(), Probe() as probe:
                run(name, SETS[name], measured, probe, arguments)
        kept += measured
    by_length = {length_s: [w for w in kept if w.window_s == length_s] for length_s in {w.window_s for w in kept}}
    if arguments.window_s not in by_length:
        raise UsageError(f"--window-s {arguments.window_s:g}: expected one of {sorted(by_length)}, as was measured")
    kept = by_length.pop(arguments.window_s)
    others = [of_length(length_s, by_length[length_s]) for length_s in sorted(by_length)]
    judged = {w.seed for w in kept}.union(*(o["seeds"] for o in others))
    others += earlier(json.loads((RESULTS / "accuracy.json").read_text()), judged)
    as_counted, kept = table.summary(table.rows(kept)), windows.at_one_speed(kept)
    found = table.rows(kept)
    write(found, kept, as_counted, others, arguments)
    table.show(found, Console(width=160))
    return 0 if table.reached(found) else 1


def kept_in(set_name: str, seed: int) -> Path:
    """File of a set's windows in a run."""
    return BENCH / f"{set_name}-{seed}.msgpack"


def _of_another_run(set_name: str, seed: int, own_seed: int) -> list[Measured]:
    if seed == own_seed or not kept_in(set_name, seed).exists():
        raise UsageError(f"--beside {seed}: expected the seed of another run whose windows are kept in {BENCH}")
    return windows.read(kept_in(set_name, seed))


def earlier(published: dict[str, Any], judged: set[int]) -> list[dict[str, Any]]:
    """Runs of the published page that are not judged again, as when their windows are on another machine."""
    at, cpu = published["parameters"], published["machine"]["cpu"]
    summary, latencies = published["summary"], published["latency"].get("summary", {})
    own = {"window_s": at["window_s"], "seeds": at["seeds"], "summary": summary, "latency": latencies}
    runs = [{"cpu": cpu} | o for o in [own, *published["other_runs"]]]
    return [o for o in runs if not judged.intersection(o["seeds"])]


def of_length(length_s: float, measured: list[Measured]) -> dict[str, Any]:
    """Errors of the runs with other windows than those that are judged."""
    kept = windows.at_one_speed(measured)
    return {
        "window_s": length_s,
        "seeds": sorted({w.seed for w in kept}),
        "summary": table.summary(table.rows(kept)),
        "latency": latency.as_json(latency.rows(kept)).get("summary", {}),
    }


def write(
    found: list[table.Row],
    kept: list[Measured],
    as_counted: dict[str, Any],
    others: list[dict[str, Any]],
    arguments: argparse.Namespace,
) -> None:
    """`build/bench/accuracy.json`, and the page where asked for."""
    result: dict[str, Any] = {
        "benchmark": "accuracy",
        "machine": machine(),
        "parameters": {
            "settle_s": arguments.settle_s,
            "warm_s": arguments.warm_s,
            "window_s": arguments.window_s,
            "seeds": sorted({w.seed for w in kept}),
            "nodes": NODES,
            "cores": NODE.cores,
            "mbit": NODE.mbit,
        },
        "summary": table.summary(found),
        "as_counted": as_counted,
        "other_runs": others,
        "by_topology": table.by_topology(found),
        "disturbed": [f"{m.name}, {m.placement}: {text}" for m in kept if (text := m.contention.text()) is not None],
        "busy_ratio": [round(f(m.contention.busy_ratio for m in kept), 3) for f in (min, max)],
        "speed_ratio": speed_ratio(kept),
        "nice_ratio": [round(f(m.contention.nice_ratio for m in kept), 3) for f in (min, max)],
        "children_cores": windows.children_cores(kept),
        "constants": constants(kept),
        "threads": executor_threads(kept),
        "rows": table.as_json(found),
        "latency": latency.as_json(latency.rows(kept)),
    }
    file = BENCH.parent / "accuracy.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.publish:
        shutil.copyfile(file, RESULTS / "accuracy.json")
        (RESULTS / "accuracy.md").write_text(page.text(found, result))


def speed_ratio(kept: list[Measured]) -> list[float]:
    """Least and most work in a second of CPU, by the median of the run; 1 where nothing tells."""
    speeds = [s for s in windows.speed_ratios(kept) if s is not None] or [1.0]
    return [round(min(speeds), 3), round(max(speeds), 3)]


def run(
    set_name: str,
    cases: tuple[Case, ...],
    measured: list[Measured],
    probe: Probe,
    arguments: argparse.Namespace,
) -> None:
    """Run topologies side by side on isolated nodes, through the placements; windows are kept as they are measured."""
    began = time.monotonic()
    cluster: LocalCluster | None = None
    watch: Windows | None = None
    placer: Placer | None = None
    try:
        spec = ClusterSpec(
            name=CLUSTER,
            supervisors=NODES,
            slots=WORKERS * len(cases),
            isolate=True,
            nodes=(NODE,) * NODES,
            memory_mb=8192,
            extlib=(hook_jar(ClusterSpec()),),
            conf=PATIENT,
        )
        cluster = LocalCluster.up(spec, lambda _: None)
        say(f"{NODES} isolated nodes are up, {NODE.cores} cores and {NODE.mbit:.0f} Mbit/s each")
        ids = [case.submit(cluster, BENCH) for case in cases]
        watch = Windows(cluster, dict(zip(ids, (c.name for c in cases), strict=True)), probe)
        until("topologies report", lambda: _missing(watch, ids, windows.SHORT_S), PATIENCE_S)
        placer = Placer(cluster)
        done = {m.placement for m in measured}
        for place in (p for p in ROUNDS if p.__name__ not in done):
            if time.monotonic() - began > arguments.within_s:
                say(f"{place.__name__} and what follows is left out: {arguments.within_s:.0f} s are over")
                break
            plans = {}
            for i, t in enumerate(ids):
                own = part(watch.model(t, windows.SHORT_S), range(i * WORKERS, (i + 1) * WORKERS), NODE_CPU_RATIO)
                plans[t] = place(own, arguments.seed + i)
            _apply(watch, placer, plans)
            try:
                until("workers are warm", lambda: _young(watch, ids, arguments.warm_s), PATIENCE_S)
                until("topologies are steady", lambda: _missing(watch, ids, arguments.settle_s), PATIENCE_S)
            except UnreachableError as e:
                say(f"{place.__name__} is left out: {e}")
                continue
            found = watch.measure(place.__name__, arguments.window_s, arguments.seed)
            measured += found
            windows.write(kept_in(set_name, arguments.seed), measured)
            told = ", ".join(f"{m.name} {sum(m.node_cores().values()):.2f} cores" for m in found)
            disturbed = found[0].contention.text()
            say(f"{place.__name__}: {told}; {found[0].contention.busy_ratio:.0%} busy; {disturbed or 'undisturbed'}")
    finally:
        if watch is not None:
            watch.close()
        if placer is not None:
            placer.close()
        if cluster is not None:
            cluster.down()


def _apply(watch: Windows, placer: Placer, plans: dict[str, Plan]) -> None:
    plan_ids = placer.publish(plans)

    def missing() -> str | None:
        for t, plan_id in plan_ids.items():
            status = watch.seen.statuses.get(t) if watch.seen else None
            if status is None or status.plan_id != plan_id or status.state != "applied":
                return f"{t}: {'no answer' if status is None else f'{status.state} {status.code} {status.text}'}"
        return None

    until("placements are applied", missing, PATIENCE_S)


def _young(watch: Windows, ids: list[str], warm_s: float) -> str | None:
    """Which worker of the present placement does not run yet, or not for that long."""
    ages = {(w.supervisor, w.port): age_s(w.pid) for w in watch.cluster.workers() if w.topology_id in ids}
    for t in ids:
        executors = watch.seen.topologies[t].executors if watch.seen is not None else []
        for slot in sorted({(e.supervisor, e.port) for e in executors if e.supervisor and e.port}):
            if ages.get(slot, 0.0) < warm_s:
                return f"{watch.names[t]}: {slot[0]}:{slot[1]} runs for {ages.get(slot, 0.0):.0f} s"
    return None


def _missing(watch: Windows, ids: list[str], window_s: float) -> str | None:
    for t in ids:
        ready = watch.readiness(t, window_s)
        if not ready.ready:
            return f"{watch.names[t]}: {ready.text}"
    return None


if __name__ == "__main__":
    exit_with("bench-accuracy", main)
