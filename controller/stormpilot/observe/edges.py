"""Rates of tasks into edges between executors: as receivers counted them, and what ackers must see of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import msgspec

from stormpilot.messages.core import TopologySnapshot
from stormpilot.model.values import LOAD_STREAM, Edge, Executor
from stormpilot.observe.acker import ACK_ACK, ACK_INIT, ACKER, acker_edges
from stormpilot.observe.task_rates import TaskRates

Rates = Mapping[int, TaskRates]


def measured_edges(snapshot: TopologySnapshot, rates: Rates, ignored: Counter[str]) -> list[Edge]:
    """Counted traffic between executors, by stream; `ignored` gets what names tasks that are not there."""
    executor_of = {t: e.start for e in snapshot.executors for t in range(e.start, e.end + 1)}
    # by start, and in order within: two sorts of what is nearly sorted cost less than one of all
    found: defaultdict[int, list[tuple[int, str, float]]] = defaultdict(list)
    for task, r in rates.items():
        to = executor_of.get(task)
        for (source, stream), rate in r.received_tps.items():
            if stream == LOAD_STREAM:
                continue
            start = executor_of.get(source)
            if to is None or start is None:
                ignored["unknown_task"] += 1
            elif start != to and rate > 0:
                found[start].append((to, stream, rate))
        for (destination, stream), rate in r.sent_tps.items():
            start = executor_of.get(destination)
            if to is None or start is None:
                ignored["unknown_task"] += 1
            elif start != to and rate > 0:
                found[to].append((start, stream, rate))
    edges: list[Edge] = []
    for a, own in sorted(found.items()):
        last_to, last_stream = None, ""
        for b, stream, rate in sorted(own):
            if b == last_to and stream == last_stream:  # of several tasks of an executor
                edges[-1] = msgspec.structs.replace(edges[-1], rate=edges[-1].rate + rate)
            else:
                edges.append(Edge(topology=snapshot.id, from_=a, to=b, rate=rate, stream=stream))
            last_to, last_stream = b, stream
    return edges


def derived_edges(snapshot: TopologySnapshot, executors: list[Executor], rates: Rates) -> list[Edge]:
    """Traffic from and to ackers that nobody counted."""
    sent: dict[int, dict[str, float]] = {}
    completed: dict[int, float] = {}
    ackers = {e.start for e in executors if e.component == ACKER}
    if not ackers or _tracks_nothing(snapshot, rates):
        return []
    for e in executors:
        own = [rates[t] for t in range(e.start, e.end + 1) if t in rates]
        sent[e.start] = {ACK_ACK: sum(r.acked_tps for r in own), ACK_INIT: sum(r.emitted_tps for r in own)}
        completed[e.start] = sum(r.completed_tps for r in own)
    jvm = {t for t, r in rates.items() if r.in_jvm}
    counted = {e.start for e in executors if e.start in ackers and jvm.issuperset(range(e.start, e.end + 1))}
    derived = acker_edges(snapshot.id, executors, sent, completed)
    return [e for e in derived if e.from_ not in counted and e.to not in counted]


def _tracks_nothing(snapshot: TopologySnapshot, rates: Rates) -> bool:
    """Whether all sources are measured and none emits with an id: then nothing is anchored, and no ack is sent."""
    spouts = {c.id for c in snapshot.components if c.kind == "spout"}
    tasks = [t for e in snapshot.executors if e.component in spouts for t in range(e.start, e.end + 1)]
    return bool(tasks) and all(t in rates and rates[t].emitted_tps <= 0 for t in tasks)
