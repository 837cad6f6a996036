"""Clusters whose nodes differ: generated ones, and a folder of ones whose best known plan is told (`--set FOLDER`).

A folder holds NAME.json or NAME.json.gz, and best-known.json: NAME -> {"best_known_inter_node_tps": tuples/s}.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.planners.baselines import BASELINES
from benchmarks.planners.bench import Bench, plan_of
from benchmarks.planners.contestants import Ours, best, best_by_flows, heuristics
from benchmarks.planners.instances import Instance
from benchmarks.planners.published import SPEED
from benchmarks.planners.rows import Row, judged
from benchmarks.planners.targets import COST
from stormpilot.generate.models import Unlike
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Infeasible
from stormpilot.planner.bounds.groups import grouped_bound
from stormpilot.planner.bounds.semidefinite import inter_node_bound
from stormpilot.planner.flow.annealing import FlowSearch
from stormpilot.planner.methods import online
from stormpilot.planner.methods.partition import divided
from stormpilot.planner.placement.layout import frame_of, present_layout
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import no_limits
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.repair import completed
from stormpilot.planner.search.annealing import LARGEST_TABLE, Annealer, Found
from stormpilot.planner.search.parallel import at_once, cores

KNOWN = "best known"
TABLES, SCANNING = "tables of connections", "neighbours scanned at each try"
MEDIUM = (
    Unlike(executors=250, topologies=4, slots=(6,)),
    Unlike(executors=500, topologies=4, slots=(4,), sites=2),
    Unlike(executors=1000, topologies=6, slots=(4,), load=0.45),
    Unlike(executors=2000, topologies=9, slots=(4,), sites=2, memory_load=0.5),
)
LARGE = Unlike(executors=20_000, topologies=30, slots=(8,), spread=4.5, fan_out=10, load=0.55)
ANYTIME_S = (0.1, 1.0, 10.0, 60.0)
REPLAN_S = (0.5, 1.0, 10.0)
CHANGED = 0.01  # part of the executors whose traffic changed
TRIES = 500  # per executor, to tell the speed by
HOT = "hot annealing 100 s"
HOT_S, HOT_FROM = 100.0, 0.3  # on every core; first temperature, in units of the mean traffic of an executor
HOT_MOST = 2_000  # executors
MANY = 1_000_000_000  # tries: the clock ends it


def unlike(bench: Bench) -> None:
    """Generated clusters of unlike nodes: everybody; the reference is `best` with a minute."""
    sizes = MEDIUM[:1] if bench.quick else MEDIUM
    for instance in (bench.instances.unlike(p, s) for p in sizes for s in range(min(2, bench.seeds))):
        bench.whole_process("unlike", instance, best(60.0))
        for seed in range(bench.seeds):
            bench.whole_process("unlike", instance, best(10.0), seed)
        for name in BASELINES:
            bench.baseline("unlike", instance, name)
        for planner in heuristics(10.0):
            bench.ours("unlike", instance, planner)
        bench.storm_process("unlike", instance, "ras-default")
    if not bench.quick:
        instance = bench.instances.unlike(LARGE, 0)
        for contestant in (best(60.0), best(10.0), Ours("partition", "partition"), Ours("online", "online")):
            bench.whole_process("unlike", instance, contestant)


def given(bench: Bench) -> None:
    """The folder's clusters: `best` with 10 s as a whole process, against the best plan known; then the others."""
    instances = list(_folder(bench))
    for instance, known_tps in instances:
        row = Row(part="set", instance=instance.name, contestant=KNOWN, kind="known")
        row.metrics = {COST: known_tps}
        bench.store.add([row])
        for seed in range(bench.seeds):
            bench.whole_process("set", instance, best(10.0), seed)
    for instance, _ in instances:
        for name in ("online", "partition"):
            bench.whole_process("set", instance, Ours(name, name))
        bench.storm_process("set", instance, "ras-default")
    for instance, _ in instances:
        bench.baseline("set", instance, "mt-kahypar+climb")


def bounds(bench: Bench) -> None:
    """Lower bounds on the folder's medium clusters, against the best plan known."""
    _bounds(bench, "set-bounds", inter_node_bound)


def group_bounds(bench: Bench) -> None:
    """The same, with topologies assigned to groups of nodes."""
    _bounds(bench, "set-groups", grouped_bound)


def _bounds(bench: Bench, part: str, prove: Callable[[Compiled], float]) -> None:
    for instance, known_tps in _folder(bench):
        if instance.executors <= HOT_MOST:
            row = Row(part=part, instance=instance.name, contestant=KNOWN, kind="known")
            row.metrics = {COST: known_tps}
            bench.store.add([row])
            bench.bound(part, instance, prove)


def by_flows(bench: Bench) -> None:
    """The folder's medium clusters by what shuffles will send: `best`, and annealing on flows for ten times as long."""
    for instance, _ in _folder(bench):
        if instance.executors <= HOT_MOST:
            for seed in range(bench.seeds):
                bench.ours("set-flows", instance, best_by_flows(10.0), seed)
            _hot(bench, instance)


def _hot(bench: Bench, instance: Instance) -> None:
    """Annealing on flows alone, hot from a greedy placement: a run on each core, the better one counts."""
    row = Row(part="set-flows", instance=instance.name, contestant=HOT, kind="ours")
    if bench.store.has(row):
        return
    flow = flow_model(instance.model)
    frame, objective = frame_of(flow.compiled), objective_of(flow.compiled, "inter_node")
    start = completed(frame, online.greedy(frame, 0.0), no_limits(flow.compiled))
    if isinstance(start, Infeasible):
        return
    search = FlowSearch(frame, flow, objective.distance, 0.0, exact_workers=False)
    begin = time.monotonic()

    def run(seed: int) -> Found:
        left = np.random.default_rng(seed), MANY, lambda: HOT_S - (time.monotonic() - begin)
        return search.search(start, *left, timed=True, first_temperature=HOT_FROM)

    found = min(at_once([partial(run, seed) for seed in range(cores())], cores()), key=lambda f: (f.violation, f.cost))
    row.plan_s = time.monotonic() - begin
    bench.keep(judged(row, instance.model, flow.compiled.plan_of(to_slots(frame, found.layout)), "flow"))


def anytime(bench: Bench) -> None:
    """Results of a tenth of a second, and of a minute."""
    chosen = [i for i, _ in _folder(bench)][2::4] or [bench.instances.unlike(p, 0) for p in MEDIUM[::2]]
    for instance in chosen:
        for budget_s in ANYTIME_S[:2] if bench.quick else ANYTIME_S:
            bench.whole_process("anytime", instance, best(budget_s))


def speed(bench: Bench) -> None:
    """Tries per second of one run on one core, hot to cold, per size: with tables of connections, and scanning."""
    sizes = MEDIUM[:2] if bench.quick else (*MEDIUM, LARGE)
    for instance in (bench.instances.unlike(p, 0) for p in sizes):
        frame = frame_of(compile_model(instance.model))
        c = frame.compiled
        limits = no_limits(c)
        objective = objective_of(c, "inter_node")
        start = present_layout(frame, limits.exact_workers) or completed(frame, divided(frame, objective, 0), limits)
        for name, entries in ((TABLES, LARGEST_TABLE), (SCANNING, 0)):
            row = Row(part="speed", instance=instance.name, contestant=name, kind="ours", shared=True)
            if bench.store.has(row):
                continue
            annealer = Annealer(frame, objective, limits, largest_table=entries)
            for tries in (1000, TRIES * c.executors):  # the first loads what is compiled
                begin = time.process_time()
                found = annealer.search(start, np.random.default_rng(1), tries, lambda: float("inf"))
                took_s = time.process_time() - begin
            row.executors, row.nodes, row.pairs = c.executors, c.nodes, len(instance.model.traffic)
            row.metrics = {SPEED: found.tries / took_s, COST: found.cost}
            row.plan_s = took_s
            bench.store.add([row])
            bench.console.print(f"speed {instance.name}, {name}: {found.tries / took_s / 1e6:.2f} million tries/s")


def replan(bench: Bench) -> None:
    """A second for a running cluster on which the traffic of 1% of the executors changed, against ten of them."""
    large = [i for i, _ in _folder(bench) if i.executors > HOT_MOST] or [bench.instances.unlike(LARGE, 0)]
    for base in [bench.instances.unlike(MEDIUM[0], 0)] if bench.quick else large:
        running = bench.instances.running(base, "running", lambda base=base: plan_of(bench, base.model, "best"))
        changed = bench.instances.changed(running, CHANGED, 0)
        for budget_s in REPLAN_S:
            for seed in range(bench.seeds):
                bench.ours("replan", changed, best(budget_s), seed)


def _folder(bench: Bench) -> Iterator[tuple[Instance, float]]:
    """The clusters of the folder, if one was given, with the traffic of their best known plans."""
    if bench.given is None:
        return
    known = msgspec.json.decode((bench.given / "best-known.json").read_bytes())
    for file in sorted(bench.given.glob("*.json*")):
        name = file.name.partition(".")[0]
        if name in known:
            data = file.read_bytes()
            model = bench.instances.of_file(name, gzip.decompress(data) if file.suffix == ".gz" else data)
            yield model, float(known[name]["best_known_inter_node_tps"])


def folder(text: str) -> Path:
    """A folder of clusters, as an argument."""
    path = Path(text)
    if not (path / "best-known.json").is_file():
        raise ValueError(f"{text} has no best-known.json")
    return path
