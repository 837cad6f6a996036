"""CPU load of nodes, now and as planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from stormpilot.model.values import Model, TopologyPlan

NO_PLANS: Mapping[str, TopologyPlan] = {}


def node_load_mhz(model: Model) -> defaultdict[str, float]:
    """CPU load by supervisor id, MHz, of what is placed now."""
    return planned_load_mhz(model, NO_PLANS)


def planned_load_mhz(model: Model, plans: Mapping[str, TopologyPlan]) -> defaultdict[str, float]:
    """CPU load by supervisor id, MHz, with the topologies of `plans` placed so and the others as they are."""
    load: defaultdict[str, float] = defaultdict(float)
    for topology in model.topologies:
        cpu_mhz = {e.start: e.cpu_mhz for e in topology.executors}
        if topology.id not in plans:
            for a in topology.assignment:
                load[a.supervisor] += cpu_mhz.get(a.start, 0.0)
            continue
        for worker in plans[topology.id].workers:
            load[worker.supervisor] += sum(cpu_mhz.get(start, 0.0) for start, _ in worker.executors)
    return load


def own_load_ratio(
    model: Model, topology_id: str, nodes: Iterable[str], plans: Mapping[str, TopologyPlan] = NO_PLANS
) -> float:
    """The topology's own load on these supervisors, as a part of CPU(n): the largest; with `plans`, as planned."""
    alone = msgspec.structs.replace(model, topologies=[t for t in model.topologies if t.id == topology_id])
    load_mhz = planned_load_mhz(alone, plans)
    cpu_mhz = {s.id: s.cpu_mhz for s in model.supervisors}
    return max((load_mhz[s] / cpu_mhz[s] for s in nodes if cpu_mhz.get(s)), default=0.0)
