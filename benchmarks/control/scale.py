"""A cluster of any size, played through a real ZooKeeper to a real controller process that only advises.

Everything is real but the cluster: the controller reads the snapshots and load reports of all topologies, plans them
all, judges the plan and writes its proposal.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from benchmarks.command import cpu_s
from stormpilot.generate.models.loaded import Loaded, loaded
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.subset import with_plans
from stormpilot.model.values import Edge, Model, Plan
from stormpilot.planner import compute

ROOT = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
REPORT_S = 10.0
PERIOD_S = 30.0
LOAD = 0.4
"""Of the CPU of all nodes, what components use; their JVMs use a quarter of the nodes more."""
WITHOUT_PLAN = {"None", "INSUFFICIENT_METRICS", "NOT_INSTRUMENTED"}
"""Decisions for all topologies in a cycle that plans none."""


def run(supervisors: int, executors: int, topologies: int, cycles: int, seed: int) -> dict[str, Any]:
    """One size: a row of figures."""
    with playing(running_model(supervisors, executors, topologies, seed)) as played:
        controller, feeder = played.controller.pid, played.feeder.pid
        lines = _cycles(played.log, 1, 300)
        before, fed, started = tcp_bytes(controller), tcp_bytes(feeder), time.monotonic()
        planners = children(controller)
        used_s = cpu_s(controller), sum(cpu_s(p) for p in planners)
        lines = _cycles(played.log, 1 + cycles, 120 + 3 * cycles * PERIOD_S)
        seconds = time.monotonic() - started
        after, fed_after = tcp_bytes(controller), tcp_bytes(feeder)
        own_s = cpu_s(controller) - used_s[0]
        planner_s = sum(cpu_s(p) for p in planners) - used_s[1]
        if not math.isfinite(planner_s):
            raise RuntimeError("a planner's process ended: its CPU cannot be told")
        peak_mb = sum(memory_mb(p, "VmHWM") for p in (controller, *children(controller)))
    took_s = [line["took_ms"] / 1000 for line in lines[1:]]
    return {
        "supervisors": supervisors,
        "executors": executors,
        "topologies": topologies,
        "pairs": played.pairs,
        "cycles": len(took_s),
        "cycle_s": {"median": statistics.median(took_s), "min": min(took_s), "max": max(took_s)},
        "cpu_s_per_cycle": {"controller": own_s / len(took_s), "planners": planner_s / len(took_s)},
        "controller_cpu_share": own_s / seconds,
        "controller_reads_kb_per_s": (after[1] - before[1]) / seconds / 1e3,
        "controller_writes_kb_per_s": (after[0] - before[0]) / seconds / 1e3,
        "reports_kb_per_s": (fed_after[0] - fed[0]) / seconds / 1e3,
        "controller_peak_mb": peak_mb,
        "decided": Counter(str(line["reason"]) for line in lines[1:]),
        "last": lines[-1],
    }


def running_model(supervisors: int, executors: int, topologies: int, seed: int) -> Model:
    """A loaded cluster as Storm's own scheduler would have placed it, with the traffic and CPU of that placement."""
    rng = np.random.default_rng(seed)
    model = loaded(
        Loaded(executors=executors, topologies=topologies, nodes=supervisors, load=LOAD, slots=8, ackers=0.0), rng
    )
    plan = compute(model, "default", {}, seed=seed)
    if not isinstance(plan, Plan):
        raise RuntimeError(f"the generated cluster cannot be placed: {plan.text}")
    return as_measured(with_plans(model, {t.id: t for t in plan.topologies}))


def as_measured(model: Model) -> Model:
    """The model with the pairs and the CPU that its shuffles make of its placement, as a running cluster has them."""
    compiled = compile_model(model)
    flow = flow_model(model, compiled)
    names = [compiled.name(e) for e in range(len(compiled.start))]
    cpu_mhz = dict(zip(names, flow.predict(compiled.current).cpu_mhz.tolist(), strict=True))
    pairs = zip(*(x.tolist() for x in flow.pairs(compiled.current)), strict=True)
    return msgspec.structs.replace(
        model,
        topologies=[
            msgspec.structs.replace(
                t, executors=[msgspec.structs.replace(e, cpu_mhz=cpu_mhz[t.id, e.start]) for e in t.executors]
            )
            for t in model.topologies
        ],
        traffic=[Edge(topology=names[a][0], from_=names[a][1], to=names[b][1], rate=tps) for a, b, tps in pairs],
    )


@dataclass(frozen=True)
class Played:
    """A simulated cluster and what reads it; `log` of the controller, `pairs` of executors with traffic."""

    zookeeper: LocalZooKeeper
    feeder: subprocess.Popen[str]
    controller: subprocess.Popen[bytes]
    log: Path
    pairs: int


@contextmanager
def playing(model: Model, change_s: float = math.inf) -> Iterator[Played]:
    """A ZooKeeper, a process that plays the model's cluster through it, and a controller that advises."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        file, log = folder / "model.json", folder / "controller.log"
        file.write_bytes(msgspec.json.encode(model))
        pairs = len(model.traffic)
        del model
        zookeeper = LocalZooKeeper(folder / "zookeeper", options=["-Xmx2g"])
        try:
            zookeeper.start()
            with (
                _feeding(zookeeper.hosts, file, change_s) as feeder,
                _controlling(zookeeper.hosts, folder) as controller,
            ):
                yield Played(zookeeper, feeder, controller, log, pairs)
        finally:
            zookeeper.close()


@contextmanager
def _feeding(hosts: str, file: Path, change_s: float) -> Iterator[subprocess.Popen[str]]:
    """A process that plays the cluster of a model, from when it has written everything once."""
    command = [sys.executable, "-m", "benchmarks.control.feeder", hosts, str(file), str(REPORT_S), str(change_s)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "fed":
            raise RuntimeError("the feeder ended early")
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _controlling(hosts: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A controller that advises; its log is `controller.log` of the folder, one JSON object a line."""
    config = folder / "controller.yaml"
    config.write_text(
        f'zookeeper: {{hosts: "{hosts}"}}\n'
        f"cycle: {{period_s: {PERIOD_S:g}, poll_s: {REPORT_S / 2:g}}}\n"
        f"load: {{window_s: 30, settle_s: 0, max_report_age_s: {4 * REPORT_S:g}}}\n"
        "planner: {budget_s: 10}\n"
        "decide: {mode: advise}\n"
        "log: {format: json}\n"
        "api: {enabled: false}\n"
    )
    with (folder / "controller.log").open("wb") as log:
        process = subprocess.Popen([STORMPILOT, "run", str(config)], cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def cycles_of(log: Path) -> list[dict[str, Any]]:
    """The log lines of cycles; a line that is half written is left out."""
    lines = []
    for text in log.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "took_ms" in line:
            lines.append(line)
    return lines


def _cycles(log: Path, wanted: int, timeout_s: float) -> list[dict[str, Any]]:
    """The log lines of cycles that planned, as soon as there are so many."""
    deadline = time.monotonic() + timeout_s
    while True:
        lines = [x for x in cycles_of(log) if set(str(x.get("reason")).split(",")) - WITHOUT_PLAN]
        if len(lines) >= wanted:
            return lines
        if time.monotonic() > deadline:
            end = log.read_text()[-2000:]
            raise RuntimeError(f"{len(lines)} of {wanted} cycles in {timeout_s:.0f} s; the log ends: {end}")
        time.sleep(1.0)


def tcp_bytes(pid: int) -> tuple[int, int]:
    """Bytes that a process has sent and received over its TCP connections, by the kernel's count."""
    shown = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
    own = "\n".join(line for line in shown.splitlines() if f"pid={pid}," in line)
    sent = sum(int(n) for n in re.findall(r"\bbytes_sent:(\d+)", own))
    return sent, sum(int(n) for n in re.findall(r"\bbytes_received:(\d+)", own))


def memory_mb(pid: int, field: str) -> float:
    """Memory of a process alone, MB: `VmRSS` now, `VmHWM` at most so far; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(kb) for kb in re.findall(rf"{field}:\s+(\d+) kB", status)) / 1024


def children(pid: int) -> list[int]:
    """Started by any thread of it."""
    return [int(p) for file in Path(f"/proc/{pid}/task").glob("*/children") for p in file.read_text().split()]
