"""CPU load of nodes, now and as planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stormpilot.model.values import Model, TopologyPlan


def node_load_mhz(model: Model) -> defaultdict[str, float]:
    """CPU load by supervisor id, MHz, of what is placed now."""
    load: defaultdict[str, float] = defaultdict(float)
    for topology in model.topologies:
        cpu_mhz = {e.start: e.cpu_mhz for e in topology.executors}
        for a in topology.assignment:
            load[a.supervisor] += cpu_mhz.get(a.start, 0.0)
    return load


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
