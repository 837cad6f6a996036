"""Pairs of runs of a fast Java topology with and without the hook, in turn, each in a worker process of its own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import console, cpu_name, exit_with
from benchmarks.hook import table
from benchmarks.hook.runs import Measured, Phase, run
from benchmarks.markdown import filled
from stormpilot.errors import UsageError
from stormpilot.local.build import hook_jar
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.nimbus import Nimbus

REPOSITORY = Path(__file__).resolve().parents[2]
BENCH = REPOSITORY / "build" / "bench"
RESULTS = REPOSITORY / "docs" / "results" / "hook.md"
FLAT_OUT = "flat out"
LIMITS = {(FLAT_OUT, "throughput"): 10.0}
RATE_LIMIT = 3.0


def main() -> int:
    """Run the pairs; 0 when every cost is below its limit."""
    parser = argparse.ArgumentParser(prog="make bench-hook", description=__doc__)
    parser.add_argument("--pairs", type=int, default=6, help="runs with and without the hook")
    parser.add_argument("--warm-s", type=float, default=8.0, help="flat out before anything is measured")
    parser.add_argument("--phase-s", type=float, default=8.0, help="length of each measured phase")
    parser.add_argument("--rate", type=float, default=100_000.0, help="tuples/s of the phase at a rate")
    parser.add_argument("--within-s", type=float, default=540.0, help="begin no pair that would end later than this")
    parser.add_argument("--publish", action="store_true", help="write docs/results/hook.md too")
    arguments = parser.parse_args()
    at_rate = f"{arguments.rate:,.0f} tuples/s"
    phases = [
        Phase(arguments.warm_s, 0),
        Phase(arguments.phase_s, 0, FLAT_OUT),
        Phase(2.0, arguments.rate),
        Phase(arguments.phase_s, arguments.rate, at_rate),
    ]
    limits = {**LIMITS, (at_rate, "throughput"): RATE_LIMIT, (at_rate, "CPU per tuple"): RATE_LIMIT}
    found: list[table.Row] = []
    for pairs in measure(arguments.pairs, arguments.within_s, phases):
        found = table.rows(pairs, limits)
        write(found, pairs, arguments)  # what was measured is kept when a later run fails
    table.show(found, Console(width=130))
    return 0 if all(row.good for row in found) else 1


def measure(count: int, within_s: float, phases: list[Phase]) -> Iterator[dict[str, list[table.Pair]]]:
    """The pairs so far by phase, after each pair; which of the two runs comes first changes from pair to pair."""
    started = time.monotonic()
    pairs: dict[str, list[table.Pair]] = {p.name: [] for p in phases if p.name}
    spec = ClusterSpec(
        name="bench-hook", supervisors=1, slots=1, scheduler="default", extlib=(hook_jar(ClusterSpec()),)
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    try:
        with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
            jar = nimbus.upload([topologies().read_bytes()])
        first = time.monotonic()
        for number in range(count):
            now = time.monotonic()
            if number and now + (now - first) / number > started + within_s:
                console.print(f"{number} of {count} pairs fit into {within_s:.0f} s")
                break
            done: dict[bool, dict[str, Measured]] = {}
            for hook in (False, True) if number % 2 == 0 else (True, False):
                done[hook] = run(cluster, jar, f"fast-{number}-{'hook' if hook else 'plain'}", hook, phases)
            for name, of_phase in pairs.items():
                plain, hooked = done[False][name], done[True][name]
                of_phase.append((plain, hooked))
                console.print(
                    f"pair {number + 1} of {count}, {name}: {plain.tuples_tps:,.0f} tuples/s at {plain.cpu_us:.2f} µs "
                    f"without, {hooked.tuples_tps:,.0f} at {hooked.cpu_us:.2f} µs with the hook"
                )
            yield pairs
    finally:
        cluster.down()


def topologies() -> Path:
    """The jar with the fast topology."""
    built = sorted((REPOSITORY / "storm-plugin" / "worker" / "target").glob("stormpilot-worker-*-topologies.jar"))
    if not built:
        raise UsageError("the topologies' jar is not built: run `make build`")
    return built[-1]


def write(found: list[table.Row], pairs: dict[str, list[table.Pair]], arguments: argparse.Namespace) -> None:
    """`build/bench/hook.json`, and the page where asked for."""
    done = len(next(iter(pairs.values())))
    machine = {"cores": os.cpu_count(), "cpu": cpu_name(), "load": os.getloadavg()[0]}
    result: dict[str, Any] = {
        "benchmark": "hook",
        "machine": {**machine, "python": platform.python_version()},
        "parameters": {"pairs": done, "warm_s": arguments.warm_s, "phase_s": arguments.phase_s},
        "rows": table.as_json(found),
        "pairs": {name: [[asdict(m) for m in pair] for pair in of_phase] for name, of_phase in pairs.items()},
    }
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "hook.json").write_text(json.dumps(result, indent=1) + "\n")
    if arguments.publish:
        shutil.copyfile(BENCH / "hook.json", RESULTS.with_suffix(".json"))
        RESULTS.write_text(page(result))


def page(result: Mapping[str, Any]) -> str:
    """`docs/results/hook.md`, from its JSON."""
    machine, lengths = result["machine"], result["parameters"]
    plain_tps = [plain["tuples_tps"] for plain, _ in result["pairs"][FLAT_OUT]]
    about = (
        f"`make bench-hook`, Storm 2.8.3, a shared virtual machine of {machine['cores']} cores ({machine['cpu']}). A "
        "spout, a relay and a sink in one worker do nothing with a tuple, without ackers: the most that a hook can "
        "cost. Tuples are counted at the sink; CPU is that of the worker's JVM, all threads. "
        f"{len(plain_tps)} pairs of runs with and without the hook, the order changing from pair to pair, each run in "
        f"a JVM of its own: {lengths['warm_s']:g} s flat out to warm up, then {lengths['phase_s']:g} s per phase. The "
        "cost is that of each pair; its median and quartiles are shown. [JSON](hook.json)."
    )
    noise = (
        f"Flat out, runs without the hook range from {min(plain_tps):,.0f} to {max(plain_tps):,.0f} tuples/s among "
        "themselves; a cost below 0 is that noise."
    )
    table_lines = "\n".join(table.markdown(table.from_json(result["rows"])))
    return "\n\n".join(("# What the hook costs", filled(about), table_lines, filled(noise))) + "\n"


if __name__ == "__main__":
    exit_with("bench-hook", main)
