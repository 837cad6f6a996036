"""Rules of the model from a topology's settings for Storm's ResourceAwareScheduler.

Heap of a worker, one executor or one component per worker, components kept apart or counted per node, generic resources
(`gpu`), memory that components share, and CPU that is declared as a reservation. Only under that scheduler: no other
one of Storm's knows them. Source: Storm 2.8.3, `RasNode.wouldFit`, `ConstraintSolverConfig`, `NormalizedResources`,
`TopologyDetails.getSharedMemoryRequests`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stormpilot.messages.core import SupervisorPart, TopologySnapshot
from stormpilot.model.bounds import MOST
from stormpilot.model.sharing import SLACK
from stormpilot.model.values import RESERVED_CPU, Component, SharedMemory, Topology
from stormpilot.observe.storm_keys import (
    CONSTRAINTS,
    DEFAULT_HEAP_MB,
    FAVORED,
    HEAP,
    ONE_COMPONENT,
    ONE_EXECUTOR,
    RESOURCES,
    SPREAD,
    UNFAVORED,
    generic,
    incompatible,
    resource_aware,
)

if TYPE_CHECKING:
    from stormpilot.config.sections import CpuPolicy

POINTS, ON_HEAP, OFF_HEAP = "cpu.pcore.percent", "onheap.memory.mb", "offheap.memory.mb"
DEFAULTS = {POINTS: 10.0, ON_HEAP: 128.0, OFF_HEAP: 0.0}
"""Storm's needs of an executor that nobody told."""
MOST_ON_NODE = "maxNodeCoLocationCnt"


def ruled(
    topology: Topology, snapshot: TopologySnapshot, fallback: str, cpu: CpuPolicy, hosts: Mapping[str, str]
) -> Topology:
    """The topology with the rules that its settings make; as it is where Storm's own scheduler knows none of them.

    `hosts`: of the live supervisors, by id.
    """
    if not resource_aware(fallback):
        return topology
    conf = snapshot.config
    parts = {c.id: c for c in snapshot.components}
    known = {c.id for c in topology.components}
    most = dict(_most_on_node(conf))
    of_all = generic(conf)
    components: list[Component] = []
    for c in topology.components:
        part = parts.get(c.id)
        own = {} if part is None else part.config
        resources = {name: float(amount) for name, amount in {**of_all, **generic(own)}.items()}
        if part is not None and cpu in ("auto", "larger") and part.cpu_pcore_percent > 0:
            resources[RESERVED_CPU] = part.cpu_pcore_percent
        heap_mb = need_of(c.id, ON_HEAP, own, conf)
        components.append(
            msgspec.structs.replace(c, heap_mb=heap_mb, resources=resources, most_per_node=most.get(c.id))
        )
    pairs = {(min(a, b), max(a, b)) for a, b in incompatible(conf) if a in known and b in known and a != b}
    one = bool(conf.get(ONE_EXECUTOR))
    limit_mb = _number(conf.get(HEAP)) or DEFAULT_HEAP_MB
    heap_of = {c.id: c.heap_mb for c in components}
    shared = [
        SharedMemory(
            name=m.name,
            components=m.components,
            heap_mb=_number(m.on_heap_mb) or 0.0,
            worker_mb=_number(m.off_heap_worker_mb) or 0.0,
            node_mb=_number(m.off_heap_node_mb) or 0.0,
        )
        for m in snapshot.shared_memories
    ]
    favored = _named(conf.get(FAVORED), hosts)
    own_mb = limit_mb - sum(m.heap_mb for m in shared)
    needed = _workers([heap_of[e.component] for e in topology.executors], own_mb if own_mb > 0 else limit_mb)
    all_apart = bool(conf.get(ONE_COMPONENT))
    needed += len(known) if all_apart else len({c for pair in pairs for c in pair})
    return msgspec.structs.replace(
        topology,
        workers=len(topology.executors) if one else max(topology.workers, min(needed, len(topology.executors)), 1),
        components=components,
        worker_heap_mb=limit_mb,
        worker_executors=1 if one else None,
        apart=sorted(pairs),
        all_apart=all_apart,
        shared_memory=shared,
        favored_nodes=favored,
        unfavored_nodes=[s for s in _named(conf.get(UNFAVORED), hosts) if s not in favored],
    )


def _workers(heaps_mb: Iterable[float], limit_mb: float) -> int:
    """Workers into which executors with these heaps fit, best fit first: three of 512 MB share no heap of 768 MB."""
    left_mb: list[float] = []
    for mb in sorted(heaps_mb, reverse=True):
        tightest = bisect_left(left_mb, mb / SLACK)
        insort(left_mb, (left_mb.pop(tightest) if tightest < len(left_mb) else limit_mb) - mb)
    return len(left_mb)


def _named(names: object, hosts: Mapping[str, str]) -> list[str]:
    """Ids of the supervisors whose hosts are named."""
    known = {n for n in names if isinstance(n, str)} if isinstance(names, list) else set()
    return sorted(s for s, host in hosts.items() if host in known)


def offers(s: SupervisorPart, fallback: str, cpu: CpuPolicy) -> dict[str, float]:
    """Resources of a supervisor beside CPU and memory, and the points of CPU that may be reserved."""
    if not resource_aware(fallback):
        return {}
    return dict(s.resources) | ({RESERVED_CPU: s.cpu_pcore_percent} if cpu in ("auto", "larger") else {})


def most_workers(snapshot: TopologySnapshot, fallback: str) -> int:
    """`topology.workers`; the ResourceAwareScheduler ignores it, so there those that it made."""
    running = {(e.supervisor, e.port) for e in snapshot.executors if e.supervisor is not None}
    return len(running) if running and resource_aware(fallback) else max(1, snapshot.workers)


def need_of(component: str, what: str, own: Mapping[str, Any], conf: Mapping[str, Any]) -> float:
    """Declared need (`POINTS`, `ON_HEAP`, `OFF_HEAP`) of an executor of the component, in Storm's order.

    Its own configuration (`own`); the key for ackers or for metrics consumers; the topology's (`conf`) resources by
    name, then its key for all components, which hold for ackers and consumers too; Storm's default.
    """
    key = what if what == POINTS else f"resources.{what}"
    of_all = f"topology.component.{key}"
    told = [own.get(of_all), *_by_name(own, of_all, what)]
    if component == "__acker":
        told.append(conf.get(f"topology.acker.{key}"))
    elif component.startswith("__metrics"):
        told.append(conf.get(f"topology.metrics.consumer.{key}"))
    told += [*_by_name(conf, of_all, what), conf.get(of_all)]
    return next((number for number in map(_number, told) if number is not None), DEFAULTS[what])


def _by_name(conf: Mapping[str, Any], *names: str) -> list[object]:
    """Amounts of the resources with these names, Storm's older and newer; None where one is not told."""
    resources = conf.get(RESOURCES)
    return [resources.get(name) for name in names] if isinstance(resources, Mapping) else []


def _most_on_node(conf: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Components with the most executors of them on a node; the newer form wins over the older."""
    spread = conf.get(SPREAD)
    for name in spread if isinstance(spread, list) else []:
        yield str(name), 1
    rules = conf.get(CONSTRAINTS)
    for name, rule in rules.items() if isinstance(rules, Mapping) else []:
        most = _number(rule.get(MOST_ON_NODE)) if isinstance(rule, Mapping) else None
        if most is not None and most >= 1:
            yield str(name), int(most)


def _number(value: object) -> float | None:
    """Amount that a setting says, at most `MOST`; None where it says none."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (OverflowError, ValueError):
        return None
    return min(number, MOST) if math.isfinite(number) and number >= 0 else None
