"""Rows of the traffic log for the observations of a window."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from stormpilot.messages.core import TopologySnapshot
from stormpilot.model.load import node_load_mhz
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import Edge, Model, Topology
from stormpilot.observe.acker import ACKER
from stormpilot.observe.edges import Rates
from stormpilot.observe.observer import Observation
from stormpilot.trafficlog.writer import TrafficLog

Row = dict[str, Any]
SILENT_S = 300.0
"""Age of the last report up to which a task is taken for one that is late, or starts."""


def log_window(traffic_log: TrafficLog, observation: Observation) -> None:
    """Hand one window of every topology to the traffic log."""
    belief = observation.belief
    if belief is None:
        return
    model = belief.model
    load_mhz = node_load_mhz(model)
    guessed = {s for t in model.topologies for s in _guessed(t, belief.readiness[t.id], observation)}
    host_of = {s.id: s.host for s in model.supervisors}
    edges = defaultdict(list)
    for e in model.traffic:
        edges[e.topology].append(e)
    for topology in model.topologies:
        snapshot = observation.seen.topologies[topology.id]
        head = _head(observation, snapshot)
        since = {"assigned_since": snapshot.assigned_since_ms}
        edge_rows = _edges(topology, edges[topology.id], host_of, {**head, **since})
        rates = observation.rates[topology.id]
        traffic_log.add("edges", edge_rows, topology.id)
        traffic_log.add("executors", _executors(model, topology, rates, edge_rows, {**head, **since}), topology.id)
        traffic_log.add("latency", _latency(rates, head), topology.id)
        whole = {**head, **since, "measured": belief.readiness[topology.id].ready}
        window = _window(model, topology, rates, edge_rows, load_mhz, whole)
        if guessed.intersection(a.supervisor for a in topology.assignment):
            window |= {"busiest_supervisor": None, "busiest_load_ratio": None}  # which is, and how much, is not known
        traffic_log.add("windows", [window], topology.id)
    traffic_log.add("nodes", _nodes(model, observation, load_mhz, guessed))


def _guessed(topology: Topology, readiness: Readiness, observation: Observation) -> set[str]:
    """Supervisors with tasks that report and do not just now: a worker that restarts would seem to use nothing.

    Those that tell nothing for long (of a topology that is not active) are believed to use no more than that.
    """
    rates, since_ms = observation.rates[topology.id], observation.seen.topologies[topology.id].assigned_since_ms
    placed_s = (observation.at_ms - since_ms) / 1000 if since_ms else math.inf
    late = {t for t in readiness.missing if (rates[t].age_s if t in rates else placed_s) <= SILENT_S}
    end_of = {e.start: e.end for e in topology.executors}
    return {a.supervisor for a in topology.assignment if not late.isdisjoint(range(a.start, end_of[a.start] + 1))}


def _head(observation: Observation, snapshot: TopologySnapshot) -> Row:
    return {
        "window_from": observation.since_ms[snapshot.id],
        "window_to": observation.at_ms,
        "topology_id": snapshot.id,
        "topology_name": snapshot.name,
    }


def _edges(topology: Topology, edges: list[Edge], host_of: Mapping[str, str], head: Row) -> list[Row]:
    place = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    component = {e.start: e.component for e in topology.executors}
    rows = []
    for e in edges:
        a, b = place.get(e.from_), place.get(e.to)
        rows.append(
            {
                **head,
                "from_executor": e.from_,
                "to_executor": e.to,
                "stream": e.stream,
                "rate_tps": e.rate,
                "from_component": component[e.from_],
                "to_component": component[e.to],
                "from_supervisor": None if a is None else a[0],
                "to_supervisor": None if b is None else b[0],
                "hop": None if a is None or b is None else _hop(a, b, host_of),
            }
        )
    return rows


def _hop(a: tuple[str, int], b: tuple[str, int], host_of: Mapping[str, str]) -> str:
    """Distance between two slots; supervisors of one host have no network between them."""
    if a == b:
        return "worker"
    return "node" if host_of.get(a[0], a[0]) == host_of.get(b[0], b[0]) else "network"


def _executors(model: Model, topology: Topology, rates: Rates, edge_rows: list[Row], head: Row) -> list[Row]:
    place = {a.start: a for a in topology.assignment}
    core_mhz = {s.id: s.mhz for s in model.supervisors}
    sent_tps: defaultdict[int, float] = defaultdict(float)
    for edge in edge_rows:
        if edge["to_component"] != ACKER:
            sent_tps[edge["from_executor"]] += edge["rate_tps"]
    rows = []
    for e in topology.executors:
        own = [rates[t] for t in range(e.start, e.end + 1) if t in rates and rates[t].covered_s > 0]
        at = place.get(e.start)
        row: Row = {
            **head,
            "executor": e.start,
            "last_task": e.end,
            "component": e.component,
            "supervisor": None if at is None else at.supervisor,
            "port": None if at is None else at.port,
            "cpu_mhz": e.cpu_mhz,
            "memory_mb": e.memory_mb,
            "measured": e.measured,
            "core_mhz": None if at is None else core_mhz.get(at.supervisor),
        }
        if own:
            queues = [r.queue for r in own if r.queue is not None]
            memory_mb = [r.memory_mb for r in own if r.memory_mb is not None]
            row |= {
                "python_cpu_cores": sum(r.cpu_cores for r in own),
                "covered_s": min(r.covered_s for r in own),
                "received_tps": sum(sum(r.received_tps.values()) for r in own),
                "acked_tps": sum(r.acked_tps for r in own),
                "emitted_tps": sum(r.emitted_tps for r in own),
                "completed_tps": sum(r.completed_tps for r in own),
                "failed_tps": sum(r.failed_tps for r in own),
                "queue": sum(queues) if queues else None,
                "sent_tps": sent_tps[e.start],
                "measured_memory_mb": sum(memory_mb) if len(memory_mb) == e.end - e.start + 1 else None,
            }
        rows.append(row)
    return rows


def _latency(rates: Rates, head: Row) -> list[Row]:
    return [
        {
            **head,
            "component": r.component,
            "task": r.task,
            "upper_ms": None if upper_ms < 0 else upper_ms,
            "tuples": tuples,
        }
        for r in rates.values()
        if r.covered_s > 0
        for upper_ms, tuples in r.latency_ms
        if tuples
    ]


def _window(
    model: Model,
    topology: Topology,
    rates: Rates,
    edge_rows: list[Row],
    load_mhz: Mapping[str, float],
    head: Row,
) -> Row:
    known = [r for r in rates.values() if r.covered_s > 0]
    buckets: defaultdict[float, int] = defaultdict(int)
    for r in known:
        for upper_ms, tuples in r.latency_ms:
            buckets[math.inf if upper_ms < 0 else upper_ms] += tuples
    histogram = sorted(buckets.items())
    used = {a.supervisor for a in topology.assignment}
    ratios = {s.id: load_mhz[s.id] / s.cpu_mhz for s in model.supervisors if s.id in used and s.cpu_mhz > 0}
    busiest = max(ratios, key=lambda s: (ratios[s], s), default=None)
    return {
        **head,
        "executors": len(topology.executors),
        "workers": topology.workers,
        "used_workers": len({(a.supervisor, a.port) for a in topology.assignment}),
        "total_tps": sum(e["rate_tps"] for e in edge_rows),
        "inter_node_tps": sum(e["rate_tps"] for e in edge_rows if e["hop"] == "network"),
        "inter_worker_tps": sum(e["rate_tps"] for e in edge_rows if e["hop"] in ("node", "network")),
        "emitted_tps": sum(r.emitted_tps for r in known),
        "completed_tps": sum(r.completed_tps for r in known),
        "failed_tps": sum(r.failed_tps for r in known),
        "latency_tuples": sum(n for _, n in histogram),
        "latency_p50_ms": _quantile_ms(histogram, 0.5),
        "latency_p95_ms": _quantile_ms(histogram, 0.95),
        "latency_p99_ms": _quantile_ms(histogram, 0.99),
        "busiest_supervisor": busiest,
        "busiest_load_ratio": None if busiest is None else ratios[busiest],
        "owner": topology.owner,
        "priority": topology.priority,
        "loadaware": topology.loadaware,
        "components": msgspec.json.encode(topology.components).decode(),
    }


def _quantile_ms(histogram: list[tuple[float, int]], q: float) -> float | None:
    """The q-quantile of (upper bound, tuples): the geometric middle of its bucket; None without tuples.

    Above the last bound it is that bound.
    """
    rank = q * sum(n for _, n in histogram)
    seen, lower_ms = 0, 0.0
    for upper_ms, n in histogram:
        seen += n
        if n and seen >= rank:
            return lower_ms if upper_ms == math.inf else math.sqrt(lower_ms * upper_ms) or upper_ms
        lower_ms = upper_ms
    return None


def _nodes(
    model: Model, observation: Observation, load_mhz: Mapping[str, float], guessed: Collection[str]
) -> list[Row]:
    """`guessed`: supervisors whose load is not known."""
    used = {(a.supervisor, a.port) for t in model.topologies for a in t.assignment}
    return [
        {
            "window_from": min(observation.since_ms.values(), default=observation.at_ms),
            "window_to": observation.at_ms,
            "supervisor": s.id,
            "host": s.host,
            "rack": s.rack,
            "storm_rack": s.storm_rack,
            "site": s.site,
            "cores": s.cores,
            "mhz": s.mhz,
            "limit_mhz": s.limit_mhz,
            "load_mhz": None if s.id in guessed else load_mhz[s.id],
            "memory_mb": s.memory_mb,
            "slots": len(s.slots),
            "ports": s.slots,
            "used_slots": sum(1 for supervisor, _ in used if supervisor == s.id),
        }
        for s in model.supervisors
    ]
