"""CPU of workers in a window, and the part of it that follows from places: equations for `cpu_law.py`, and shares.

The CPU of a worker's JVM is known where its hook measured it, or where all of its components are child processes that
see it around them. What each executor has of it is what the law says, and the rest by tuples.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stormpilot.model.flow.places_cpu import TRANSFER_S
from stormpilot.model.values import CpuLaw, Edge, Topology
from stormpilot.observe.acker import ACKER
from stormpilot.observe.cpu_law import Row
from stormpilot.observe.task_rates import TaskRates

Place = tuple[str, int]
"""Supervisor and port of a worker."""


@dataclass(frozen=True)
class _Ends:
    """Tuples/s of executors (by first task) and workers: `near` are in worker, in node, far, half of each end."""

    at: Mapping[int, Place]
    received: Mapping[int, float]
    sent: Mapping[int, float]
    near: Mapping[int, list[float]]
    leaving: Mapping[Place, float]
    coming: Mapping[Place, float]

    @classmethod
    def of(cls, topology: Topology, edges: Sequence[Edge], hosts: Mapping[str, str]) -> _Ends:
        at = {a.start: (a.supervisor, a.port) for a in topology.assignment}
        received: defaultdict[int, float] = defaultdict(float)
        sent: defaultdict[int, float] = defaultdict(float)
        near: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        leaving: defaultdict[Place, float] = defaultdict(float)
        coming: defaultdict[Place, float] = defaultdict(float)
        for e in edges:
            received[e.to] += e.rate
            sent[e.from_] += e.rate
            a, b = at.get(e.from_), at.get(e.to)
            if a is None or b is None:
                continue
            far = 0 if a == b else 1 if hosts.get(a[0]) == hosts.get(b[0]) else 2
            near[e.from_][far] += e.rate / 2
            near[e.to][far] += e.rate / 2
            if far:
                leaving[a] += e.rate
                coming[b] += e.rate
        return cls(at, received, sent, near, leaving, coming)


def _awake(tps: float, wakes_s: float) -> float:
    return 1.0 - math.exp(-tps * wakes_s)


def places_cores(
    law: CpuLaw, topology: Topology, edges: Sequence[Edge], hosts: Mapping[str, str], *, shared_only: bool = False
) -> dict[int, float]:
    """CPU that follows from its place, of every executor that has one, by first task; `law` in cores (of 1 MHz).

    `shared_only`: without what its own thread does (to stay awake, and to hand tuples over within the worker).
    """
    ends = _Ends.of(topology, edges, hosts)
    size = Counter(ends.at.values())
    spouts = {c.id for c in topology.components if c.kind == "spout"}
    found = {}
    for e in topology.executors:
        place = ends.at.get(e.start)
        if place is None:
            continue
        of_worker = law.worker_mhz + law.transfer_mhz * _awake(ends.leaving.get(place, 0.0), TRANSFER_S)
        of_worker += law.receive_mhz * _awake(ends.coming.get(place, 0.0), TRANSFER_S)
        waits = e.component not in spouts
        here, node, far = ends.near.get(e.start, (0.0, 0.0, 0.0))
        found[e.start] = of_worker / size[place] + node * law.in_node_mhz + far * law.far_mhz
        if shared_only:
            continue
        found[e.start] += here * law.in_worker_mhz
        found[e.start] += law.awake_mhz * _awake(ends.received.get(e.start, 0.0), law.awake_s) if waits else 0.0
    return found


def shared_by_law(
    shared: Mapping[int, float], by_law: Mapping[int, float], tuples_tps: Mapping[int, float], worker: Sequence[int]
) -> dict[int, float]:
    """The CPU of a worker's threads that belong to no executor, shared out anew over its executors; the sum stays.

    The hook shares it out by tuples, so that an executor with many tuples would take a worker's timers along when it
    moves. Here everyone gets what follows from its place, and only the rest goes by tuples.

    Parameters
    ----------
    shared
        As the hook shared it out, cores by executor (first task).
    by_law
        What `places_cores` says with `shared_only`.
    worker
        The executors of one worker.
    """
    total, expected = sum(shared[e] for e in worker), sum(by_law[e] for e in worker)
    if expected > total:
        return {e: by_law[e] * total / expected for e in worker}
    tuples = sum(tuples_tps[e] for e in worker)
    parts = {e: tuples_tps[e] / tuples if tuples > 0 else 1 / len(worker) for e in worker}
    return {e: by_law[e] + (total - expected) * parts[e] for e in worker}


def jvm_cores(topology: Topology, rates: Mapping[int, TaskRates]) -> dict[Place, float]:
    """CPU of workers' JVMs, cores: of those whose tasks were all measured in it, or saw it around them.

    Parameters
    ----------
    topology
        With the present assignment.
    """
    seen: defaultdict[Place, list[float]] = defaultdict(list)
    measured: defaultdict[Place, float] = defaultdict(float)
    at = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    unseen, apart = set(), set()
    for executor in topology.executors:
        place = at.get(executor.start)
        if place is None:
            continue
        own = [rates[t] for t in range(executor.start, executor.end + 1) if t in rates]
        whole = len(own) == executor.end - executor.start + 1
        if whole and all(r.jvm_cores is not None for r in own):
            seen[place] += [r.jvm_cores or 0.0 for r in own]
        elif executor.component != ACKER:  # it works in the JVM, and nobody says how much
            unseen.add(place)
        if whole and all(r.in_jvm and r.shared_cores is not None for r in own):
            measured[place] += sum(r.cpu_cores - (r.child_cores or 0.0) + (r.shared_cores or 0.0) for r in own)
        else:
            apart.add(place)
    found = {place: cores for place, cores in measured.items() if place not in apart}
    found |= {place: statistics.median(cores) for place, cores in seen.items() if place not in unseen}
    return {place: cores for place, cores in found.items() if cores > 0}


def rows_of(
    topology: Topology, edges: Sequence[Edge], rates: Mapping[int, TaskRates], hosts: Mapping[str, str], wakes_s: float
) -> list[Row]:
    """One row for every worker of whose JVM is known what it used (`jvm_cores`).

    Parameters
    ----------
    topology, edges
        As in the model, with the present assignment.
    hosts
        By supervisor.
    wakes_s
        As `awake_s` tells.
    """
    used = jvm_cores(topology, rates)
    if not used:
        return []
    ends = _Ends.of(topology, edges, hosts)
    spouts = {c.id for c in topology.components if c.kind == "spout"}
    of: defaultdict[Place, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for executor in topology.executors:
        place = ends.at.get(executor.start)
        if place is None or place not in used:
            continue
        mix, is_spout = of[place], executor.component in spouts
        received = ends.received.get(executor.start, 0.0)
        mix["asleep"] += 1.0
        if not is_spout:
            mix["awake"] += _awake(received, wakes_s)
        mix[f"own:{executor.component}"] += ends.sent.get(executor.start, 0.0) if is_spout else received
        for name, tps in zip(("in_worker", "in_node", "far"), ends.near.get(executor.start, (0, 0, 0)), strict=True):
            mix[name] += tps
    for place, mix in of.items():
        mix["worker"] = 1.0
        mix["transfer"] = _awake(ends.leaving.get(place, 0.0), TRANSFER_S)
        mix["receive"] = _awake(ends.coming.get(place, 0.0), TRANSFER_S)
    return [Row(dict(of[place]), used[place]) for place in sorted(of)]
