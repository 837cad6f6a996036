"""Synthetic traffic for a cluster of which only structure and declared load are known (no measurement was published).

Made for the three production clusters of Storm's own test jar: rates are ours, component graph, groupings, parallelism,
CPU and memory are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.generate.models.traffic import Spread, flows
from stormpilot.model.values import Edge, Model, Topology

CONTROL_TPS = 0.02


@dataclass(frozen=True)
class Production:
    """Parameters of `with_traffic`.

    `spout_tps`: median tuples/s of a spout executor; `fan_out`: the most targets of one source executor on one stream
    (all pairs of the largest cluster would be 14 million); `floor_tps`: pairs below it are left out.
    """

    spout_tps: float = 150.0
    fan_out: int = 12
    floor_tps: float = 0.05

    def __post_init__(self) -> None:
        if self.spout_tps <= 0 or self.fan_out < 1 or self.floor_tps < 0:
            raise UsageError("expected spout_tps above 0, fan_out of at least 1 and floor_tps of at least 0")


def with_traffic(model: Model, params: Production, rng: np.random.Generator) -> Model:
    """The model with the traffic of all its topologies made up anew.

    A component emits in the mean about as many tuples as it takes, over all its streams together. Streams that only
    ALL groupings receive are taken to be control streams: a tuple now and then.
    """
    edges: list[Edge] = []
    for topology in model.topologies:
        edges.extend(_traffic(topology, params, rng))
    return msgspec.structs.replace(model, traffic=edges)


def _traffic(topology: Topology, params: Production, rng: np.random.Generator) -> list[Edge]:
    members: dict[str, int] = {}
    for e in topology.executors:
        members[e.component] = members.get(e.component, 0) + 1
    groupings: dict[tuple[str, str], list[str]] = {}
    for c in topology.components:
        for i in c.inputs:
            groupings.setdefault((i.component, i.stream), []).append(i.grouping)
    spouts = {
        c.id: params.spout_tps * float(rng.lognormal(0.0, 0.8)) * members.get(c.id, 0)
        for c in topology.components
        if c.kind == "spout" and members.get(c.id)
    }
    selectivity: dict[tuple[str, str], float] = {}
    for c in topology.components:
        data = [s for s in sorted(groupings) if s[0] == c.id and set(groupings[s]) != {"ALL"}]
        control = [s for s in sorted(groupings) if s[0] == c.id and set(groupings[s]) == {"ALL"}]
        if data:
            total = float(rng.lognormal(-0.1, 0.4))
            shares = rng.dirichlet(np.ones(len(data)))
            selectivity.update({s: total * float(x) / len(groupings[s]) for s, x in zip(data, shares, strict=True)})
        selectivity.update(dict.fromkeys(control, CONTROL_TPS / params.spout_tps))
    spread = Spread(fan_out=params.fan_out, floor_tps=params.floor_tps)
    return flows(topology, spouts, selectivity, spread, rng).edges
