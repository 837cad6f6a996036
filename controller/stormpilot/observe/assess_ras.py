"""Declarations for Storm's ResourceAwareScheduler, as Nimbus tells it by Thrift: rules of an estimated model.

Heap and number of workers, memory and reserved CPU of executors and nodes, generic resources, components kept apart or
counted per node. Memory that components share is not told by Thrift in a form that can be read here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from stormpilot.messages.core import ComponentPart, TopologySnapshot
from stormpilot.model.values import RESERVED_CPU, Model, Supervisor, Topology
from stormpilot.nimbus import SupervisorInfo
from stormpilot.observe.ras import OFF_HEAP, ON_HEAP, POINTS, need_of, ruled
from stormpilot.observe.storm_keys import resource_aware


@dataclass(frozen=True)
class Declared:
    """The configuration of a topology, and those of its components by name."""

    topology: Mapping[str, Any]
    components: Mapping[str, Mapping[str, Any]]


def with_declared(
    model: Model, declared: Mapping[str, Declared], supervisors: Iterable[SupervisorInfo], scheduler: str
) -> Model:
    """The model with what was declared; as it is where `scheduler`, Storm's own, keeps nothing of that.

    `declared` by topology id.
    """
    if not resource_aware(scheduler):
        return model
    by_host: defaultdict[str, list[SupervisorInfo]] = defaultdict(list)
    for s in supervisors:
        by_host[s.host].append(s)
    hosts = {s.id: s.host for s in model.supervisors}
    return msgspec.structs.replace(
        model,
        supervisors=[_offering(s, by_host[s.host]) for s in model.supervisors],
        topologies=[_ruled(t, declared[t.id], hosts, scheduler) for t in model.topologies],
    )


def _offering(node: Supervisor, supervisors: Iterable[SupervisorInfo]) -> Supervisor:
    """The node with the memory and the resources that its supervisors declare."""
    memory_mb, resources = 0.0, Counter[str]()
    for s in supervisors:
        memory_mb += s.memory_mb
        resources.update(s.resources)
        resources[RESERVED_CPU] += s.cpu_points  # type: ignore[assignment]
    return msgspec.structs.replace(node, memory_mb=memory_mb, resources=dict(resources))


def _ruled(t: Topology, declared: Declared, hosts: Mapping[str, str], scheduler: str) -> Topology:
    conf, own = declared.topology, declared.components
    points = {c.id: need_of(c.id, POINTS, own.get(c.id, {}), conf) for c in t.components}
    memory_mb = {
        c.id: sum(need_of(c.id, part, own.get(c.id, {}), conf) for part in (ON_HEAP, OFF_HEAP)) for c in t.components
    }
    snapshot = TopologySnapshot(
        written_at_ms=0,
        id=t.id,
        name=t.name,
        workers=t.workers,
        config=dict(conf),
        components=[
            ComponentPart(id=c.id, kind=c.kind, cpu_pcore_percent=points[c.id], config=dict(own.get(c.id, {})))
            for c in t.components
        ],
        executors=[],
    )
    made = len({(a.supervisor, a.port) for a in t.assignment})
    executors = [msgspec.structs.replace(e, memory_mb=memory_mb[e.component]) for e in t.executors]
    known = msgspec.structs.replace(t, workers=made or t.workers, executors=executors)
    return ruled(known, snapshot, scheduler, "larger", hosts)
