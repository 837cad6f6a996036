"""What was observed in a window as rows of the traffic log."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from stormpilot.model.load import node_load_mhz
from stormpilot.model.messages import TopologySnapshot
from stormpilot.model.values import Model, Topology
from stormpilot.observe.build import Rates
from stormpilot.observe.observer import Observation
from stormpilot.observe.trafficlog import TrafficLog

Row = dict[str, Any]


def log_window(traffic_log: TrafficLog, observation: Observation) -> None:
    """Hand one window of every topology to the traffic log."""
    belief = observation.belief
    if belief is None:
        return
    model = belief.model
    edges = defaultdict(list)
    for e in model.traffic:
        edges[e.topology].append(e)
    for topology in model.topologies:
        snapshot = observation.seen.topologies[topology.id]
        head = _head(observation, snapshot)
        since = {"assigned_since": snapshot.assigned_since_ms}
        traffic_log.add(
            "edges",
            [
                {**head, **since, "from_executor": e.from_, "to_executor": e.to, "stream": e.stream, "rate_tps": e.rate}
                for e in edges[topology.id]
            ],
            topology.id,
        )
        rates = observation.rates[topology.id]
        traffic_log.add("executors", _executors(topology, rates, {**head, **since}), topology.id)
        traffic_log.add("latency", _latency(rates, head), topology.id)
    traffic_log.add("nodes", _nodes(model, observation))


def _head(observation: Observation, snapshot: TopologySnapshot) -> Row:
    return {
        "window_from": observation.since_ms[snapshot.id],
        "window_to": observation.at_ms,
        "topology_id": snapshot.id,
        "topology_name": snapshot.name,
    }


def _executors(topology: Topology, rates: Rates, head: Row) -> list[Row]:
    place = {a.start: a for a in topology.assignment}
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
        }
        if own:
            queues = [r.queue for r in own if r.queue is not None]
            row |= {
                "python_cpu_cores": sum(r.cpu_cores for r in own),
                "covered_s": min(r.covered_s for r in own),
                "received_tps": sum(sum(r.received_tps.values()) for r in own),
                "acked_tps": sum(r.acked_tps for r in own),
                "emitted_tps": sum(r.emitted_tps for r in own),
                "completed_tps": sum(r.completed_tps for r in own),
                "failed_tps": sum(r.failed_tps for r in own),
                "queue": sum(queues) if queues else None,
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


def _nodes(model: Model, observation: Observation) -> list[Row]:
    load_mhz = node_load_mhz(model)
    used = {(a.supervisor, a.port) for t in model.topologies for a in t.assignment}
    return [
        {
            "window_from": min(observation.since_ms.values(), default=observation.at_ms),
            "window_to": observation.at_ms,
            "supervisor": s.id,
            "host": s.host,
            "rack": s.rack,
            "site": s.site,
            "cores": s.cores,
            "mhz": s.mhz,
            "limit_mhz": s.limit_mhz,
            "load_mhz": load_mhz[s.id],
            "memory_mb": s.memory_mb,
            "slots": len(s.slots),
            "used_slots": sum(1 for supervisor, _ in used if supervisor == s.id),
        }
        for s in model.supervisors
    ]
