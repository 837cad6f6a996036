"""Rows of the traffic log, summed up by step, into planning models.

What the log does not have: ports of nodes and groupings before version 2 (then nodes get the ports that were seen in
use and made-up ones up to their number of slots, and every pair keeps its traffic), racks of Storm before version 5
(then its shuffles go by those of network cost), exclusions, pins and guarantees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stormpilot.history.replay.values import PACES, Step
from stormpilot.model.values import Assigned, Component, Edge, Executor, Model, Supervisor, Topology

Row = Mapping[str, Any]
FIRST_PORT = 6700


@dataclass(frozen=True)
class Rows:
    """The log by step (an int, its number since the epoch): one row per pair and stream, executor, node, topology.

    `edges`: step, topology_id, from_executor, to_executor, stream, rate_tps. `executors`: step, topology_id,
    topology_name, executor, last_task, component, supervisor, port, cpu_mhz, memory_mb, measured, queue, spout.
    `nodes`: step and the columns of that table. `topologies`: step, topology_id, workers, owner, priority, loadaware,
    components (nulls where not known). `paces`: step, topology_id, pace (which part of the step), cpu_mhz (null: it was
    there, in no window that counts).
    """

    edges: Iterable[Row]
    executors: Iterable[Row]
    nodes: Iterable[Row]
    topologies: Iterable[Row] = ()
    paces: Iterable[Row] = ()
    unmeasured: Iterable[tuple[int, str]] = field(default_factory=tuple)


def steps_of(rows: Rows, step_ms: int) -> list[Step]:
    """The steps in time order; those without nodes, or with nothing measured, are left out."""
    nodes, executors, edges = (_by_step(r) for r in (rows.nodes, rows.executors, rows.edges))
    known = {(r["step"], r["topology_id"]): r for r in rows.topologies}
    missing: defaultdict[int, set[str]] = defaultdict(set)
    for number, topology_id in rows.unmeasured:
        missing[number].add(topology_id)
    own = {n: _by_topology(executors[n]) for n in nodes.keys() & executors.keys()}
    parts: defaultdict[tuple[int, str], dict[int, float | None]] = defaultdict(dict)
    for r in rows.paces:
        parts[r["step"], r["topology_id"]][r["pace"]] = r["cpu_mhz"]
    ends = {key: max(found) for key, found in parts.items()}
    seen_ports: defaultdict[str, set[int]] = defaultdict(set)
    most_workers: dict[str, int] = {}
    components: dict[str, list[Component]] = {}
    steps = []
    for number in sorted(own):
        _add_ports(seen_ports, executors[number])
        supervisors = sorted((_supervisor(r, seen_ports) for r in nodes[number]), key=lambda s: s.id)
        live = {s.id for s in supervisors}
        before, after = own.get(number - 1), own.get(number + 1)
        followed = _followed(own[number], {t: ends.get((number, t), 0) for t in own[number]}, after)
        topologies = []
        pace = {}
        for topology_id, members in sorted(own[number].items()):
            if topology_id in followed:
                continue
            began, ended = (side is not None and topology_id not in side for side in (before, after))
            if found := _pace(parts[number, topology_id], began=began, ended=ended):
                pace[topology_id] = found
            row = known.get((number, topology_id))
            used = len({(r["supervisor"], r["port"]) for r in members if r["supervisor"] is not None})
            most_workers[topology_id] = max(used, 1, most_workers.get(topology_id, 1))
            if row is not None and row["components"]:
                components[topology_id] = msgspec.json.decode(row["components"], type=list[Component])
            graph = components.get(topology_id)
            topologies.append(_topology(topology_id, members, row, graph, live, most_workers[topology_id]))
        there = {(t.id, e.start) for t in topologies for e in t.executors}
        traffic = [
            Edge(topology=t, from_=a, to=b, rate=r["rate_tps"], stream=r["stream"])
            for r in edges.get(number, ())
            for t, a, b in ((r["topology_id"], r["from_executor"], r["to_executor"]),)
            if r["rate_tps"] > 0 and (t, a) in there and (t, b) in there
        ]
        traffic.sort(key=lambda e: (e.topology, e.from_, e.to, e.stream or ""))
        model = Model(supervisors=supervisors, topologies=topologies, traffic=traffic)
        steps.append(
            Step(
                from_ms=number * step_ms,
                to_ms=(number + 1) * step_ms,
                model=model,
                unmeasured=sorted(missing[number] & own[number].keys() | followed),
                pace=pace,
            )
        )
    return steps


def _by_step(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for r in rows:
        found[r["step"]].append(r)
    return found


def _by_topology(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for r in rows:
        found[r["topology_id"]].append(r)
    return found


def _followed(own: Mapping[str, list[Row]], ends: Mapping[str, int], after: Container[str] | None) -> set[str]:
    """Topologies that another one followed within the step: it has their name or one of their slots at its end."""
    names = {t: members[0]["topology_name"] for t, members in own.items()}
    slots = {t: {(r["supervisor"], r["port"]) for r in ms if r["port"] is not None} for t, ms in own.items()}
    gone = {t for t in own if after is not None and t not in after}
    return {
        t
        for t in own
        for other in own
        if ends[t] < ends[other] and (names[t] == names[other] or (t in gone and slots[t] & slots[other]))
    }


def _pace(parts: Mapping[int, float | None], *, began: bool, ended: bool) -> list[float]:
    """CPU in each part of a step against the mean; a part without a window goes on at the mean.

    Not before the first one of a topology that `began` in this step, and not after the last one of one that `ended`:
    there it is 0. Empty where no CPU is known.
    """
    known = [cpu for cpu in parts.values() if cpu is not None]
    mean = sum(known) / len(known) if known else 0.0
    if mean <= 0:
        return []
    first, last = min(parts) if began else 0, max(parts) if ended else PACES - 1
    found = (parts.get(i) for i in range(PACES))
    return [(mean if c is None else c) / mean if first <= i <= last else 0.0 for i, c in enumerate(found)]


def _add_ports(seen: defaultdict[str, set[int]], rows: Sequence[Row]) -> None:
    """Ports in use until now: what comes later is not known yet."""
    for r in rows:
        if r["supervisor"] is not None and r["port"] is not None:
            seen[r["supervisor"]].add(r["port"])


def _supervisor(r: Row, seen: Mapping[str, set[int]]) -> Supervisor:
    ports = sorted(r["ports"] or ()) or _made_up(sorted(seen.get(r["supervisor"], ())), r["slots"])
    return Supervisor(
        id=r["supervisor"],
        host=r["host"],
        rack=r["rack"] or "/default-rack",
        storm_rack=r["storm_rack"],
        site=r["site"],
        slots=ports,
        cores=r["cores"],
        mhz=r["mhz"],
        memory_mb=r["memory_mb"] or 0.0,
        cpu_limit_mhz=r["limit_mhz"],
    )


def _made_up(seen: list[int], slots: int) -> list[int]:
    free = (p for p in range(FIRST_PORT, FIRST_PORT + slots + len(seen)) if p not in seen)
    return sorted([*seen, *(next(free) for _ in range(slots - len(seen)))])


def _topology(
    topology_id: str,
    members: Sequence[Row],
    row: Row | None,
    components: list[Component] | None,
    live: set[str],
    workers: int,
) -> Topology:
    members = sorted(members, key=lambda r: r["executor"])
    known = {} if row is None else {k: v for k, v in row.items() if v is not None}
    if components is None:
        spouts = {r["component"] for r in members if r["spout"]}
        components = [Component(id=c, kind=_kind(c, spouts)) for c in dict.fromkeys(r["component"] for r in members)]
    # What supervisors offer is not in the log: asked for, nothing could be placed.
    components = [msgspec.structs.replace(c, resources={}) for c in components]
    return Topology(
        id=topology_id,
        name=members[0]["topology_name"],
        workers=known.get("workers", workers),
        components=components,
        executors=[
            Executor(
                start=r["executor"],
                end=r["last_task"],
                component=r["component"],
                cpu_mhz=r["cpu_mhz"] or 0.0,
                memory_mb=r["memory_mb"] or 0.0,
                measured=bool(r["measured"]),
                queue_tuples=r["queue"],
            )
            for r in members
        ],
        assignment=[
            Assigned(start=r["executor"], supervisor=r["supervisor"], port=r["port"])
            for r in members
            if r["supervisor"] in live and r["port"] is not None
        ],
        owner=known.get("owner"),
        priority=known.get("priority", 29),
        loadaware=known.get("loadaware", True),
    )


def _kind(component: str, spouts: set[str]) -> Any:
    return "system" if component.startswith("__") else "spout" if component in spouts else "bolt"
