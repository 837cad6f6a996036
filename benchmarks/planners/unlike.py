"""Clusters whose nodes differ: generated ones, and a folder of ones whose best known plan is told (`--set FOLDER`).

A folder holds NAME.json or NAME.json.gz, and best-known.json: NAME -> {"best_known_inter_node_tps": tuples/s}.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.planners.baselines import BASELINES
from benchmarks.planners.bench import Bench
from benchmarks.planners.contestants import Ours, best, heuristics
from benchmarks.planners.instances import Instance
from benchmarks.planners.rows import Row
from benchmarks.planners.targets import COST
from stormpilot.generate.models import Unlike
from stormpilot.model.compiled import compile_model
from stormpilot.planner.methods.partition import divided
from stormpilot.planner.placement.layout import frame_of, present_layout
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import (
    no_limits,
)
from stormpilot.planner.repair import completed
from stormpilot.planner.search.annealing import (
    Annealer,
)

KNOWN = "best known"
SPEED = "tries_per_s"
MEDIUM = (
    Unlike(executors=250, topologies=4, slots=(6,)),
    Unlike(executors=500, topologies=4, slots=(4,), sites=2),
    Unlike(executors=1000, topologies=6, slots=(4,), load=0.45),
    Unlike(executors=2000, topologies=9, slots=(4,), sites=2, memory_load=0.5),
)
LARGE = Unlike(executors=20_000, topologies=30, slots=(8,), spread=4.5, fan_out=10, load=0.55)
ANYTIME_S = (0.1, 1.0, 10.0, 60.0)
TRIES = 500  # per executor, to tell the speed by


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


def anytime(bench: Bench) -> None:
    """What a tenth of a second buys, and a minute."""
    chosen = [i for i, _ in _folder(bench)][2::4] or [bench.instances.unlike(p, 0) for p in MEDIUM[::2]]
    for instance in chosen:
        for budget_s in ANYTIME_S[:2] if bench.quick else ANYTIME_S:
            bench.whole_process("anytime", instance, best(budget_s))


def speed(bench: Bench) -> None:
    """Tries per second of one run on one core, hot to cold, per size."""
    sizes = MEDIUM[:2] if bench.quick else (*MEDIUM, LARGE)
    for instance in (bench.instances.unlike(p, 0) for p in sizes):
        row = Row(part="speed", instance=instance.name, contestant="annealing", kind="ours", shared=True)
        if bench.store.has(row):
            continue
        frame = frame_of(compile_model(instance.model))
        c = frame.compiled
        limits = no_limits(c)
        objective = objective_of(c, "inter_node")
        start = present_layout(frame, limits.exact_workers) or completed(frame, divided(frame, objective, 0), limits)
        annealer = Annealer(frame, objective, limits)
        for tries in (1000, TRIES * c.executors):  # the first loads what is compiled
            begin = time.process_time()
            found = annealer.search(start, np.random.default_rng(1), tries, lambda: float("inf"))
            took_s = time.process_time() - begin
        row.executors, row.nodes, row.pairs = c.executors, c.nodes, len(instance.model.traffic)
        row.metrics = {SPEED: found.tries / took_s}
        row.plan_s = took_s
        bench.store.add([row])
        bench.console.print(f"speed {instance.name}: {found.tries / took_s / 1e6:.2f} million tries/s")


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
