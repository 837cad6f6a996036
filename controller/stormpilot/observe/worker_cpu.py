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

import msgspec
import numpy as np

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.flow.places_cpu import TRANSFER_S
from stormpilot.model.values import CpuLaw, Edge, Topology
from stormpilot.observe.acker import ACKER
from stormpilot.observe.cpu_law import Row
from stormpilot.observe.task_rates import TaskRates

Place = tuple[str, int]
"""Supervisor and port of a worker."""
MOST_BY_PLACE = 0.9
"""Of what workers use, at most so much follows from places. It is nearly all of it where bolts only pass tuples on: a
chain of them took 1.2 cores on four nodes and 0.37 in one worker (docs/results/headlines.json, `fewest`)."""


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
        starts = sorted({e.start for e in topology.executors} | at.keys())
        row = {start: i for i, start in enumerate(starts)}
        places = list(dict.fromkeys(at.values()))
        slot_of, host_of = (
            {name: i for i, name in enumerate(dict.fromkeys(names))}
            for names in (places, [hosts.get(supervisor) for supervisor, _ in places])
        )
        slots = np.array([slot_of[at[s]] if s in at else NOWHERE for s in starts], dtype=np.int64)
        slot_hosts = np.array([host_of[hosts.get(supervisor)] for supervisor, _ in places], dtype=np.int64)
        a, b = (np.array([row[x] for x in ends], dtype=np.int64) for ends in _ends(edges))
        tps = np.array([e.rate for e in edges], dtype=np.float64)
        received, sent = (np.bincount(x, weights=tps, minlength=len(starts)).tolist() for x in (b, a))
        placed = (slots[a] != NOWHERE) & (slots[b] != NOWHERE) if len(edges) else np.zeros(0, dtype=np.bool_)
        a, b, tps = a[placed], b[placed], tps[placed]
        slot_a, slot_b = slots[a], slots[b]
        outside = slot_a != slot_b
        far = np.where(outside, 1 + (slot_hosts[slot_a] != slot_hosts[slot_b]), 0)
        near = np.zeros(3 * len(starts))
        for end in (a, b):
            near += np.bincount(3 * end + far, weights=tps / 2, minlength=len(near))
        leaving, coming = (
            np.bincount(x[outside], weights=tps[outside], minlength=len(places)).tolist() for x in (slot_a, slot_b)
        )
        return cls(
            at,
            dict(zip(starts, received, strict=True)),
            dict(zip(starts, sent, strict=True)),
            dict(zip(starts, near.reshape(-1, 3).tolist(), strict=True)),
            dict(zip(places, leaving, strict=True)),
            dict(zip(places, coming, strict=True)),
        )


def _ends(edges: Sequence[Edge]) -> tuple[list[int], list[int]]:
    return [e.from_ for e in edges], [e.to for e in edges]


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


def within_measured(
    law: CpuLaw, by_law: Mapping[int, float], used: Mapping[Place, float], topology: Topology
) -> CpuLaw:
    """A law of which nothing was learned yet, with constants so much smaller that workers use what it says.

    Measured elsewhere, they are too large where many tuples are sent at once: then executors would seem to use nothing
    in a better place.

    Parameters
    ----------
    by_law
        As `places_cores` says with it, cores by executor (first task).
    used
        As `jvm_cores` tells.
    topology
        With the present assignment.
    """
    known = {a.start for a in topology.assignment if (a.supervisor, a.port) in used}
    expected = sum(cores for e, cores in by_law.items() if e in known)
    most = MOST_BY_PLACE * sum(used.values())
    if expected <= most:
        return law
    names = [name for name in CpuLaw.__struct_fields__ if name.endswith("_mhz")]
    return msgspec.structs.replace(law, **{name: getattr(law, name) * most / expected for name in names})


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
    if not any(r.jvm_cores is not None or r.shared_cores is not None for r in rates.values()):
        return {}
    seen: defaultdict[Place, list[float]] = defaultdict(list)
    measured: defaultdict[Place, float] = defaultdict(float)
    at = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    unseen, apart = set(), set()
    for executor in topology.executors:
        place = at.get(executor.start)
        if place is None:
            continue
        own = [r for t in range(executor.start, executor.end + 1) if (r := rates.get(t)) and r.covered_s > 0]
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
