"""Objective of our planners, as pairs of executors with weights times distances between workers."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import Compiled, Floats, Ints, unordered
from stormpilot.planner.placement.problem import (
    Objective,
)

ObjectiveName = Literal["inter_node", "network_cost", "ras"]
LATENCY: Literal["latency"] = "latency"
"""Network cost and queueing together: an objective of `best` alone (`least_latency.py`)."""

TIE = 1e-9  # of the whole cost: what a restart costs at least, so that of equal plans the one with fewest restarts wins
SECOND = 1e-4  # weight of what decides between plans whose first criterion is equal
MOST_CONNECTIONS = 5_000_000


def checked(objective: str) -> None:
    """`UsageError` for a name that is no objective."""
    if objective not in get_args(ObjectiveName):
        names = ", ".join(get_args(ObjectiveName))
        raise UsageError(f"objective is {objective!r}, expected one of {names}")


def objective_of(c: Compiled, name: ObjectiveName, restart: float = 0.0, *, first_only: bool = False) -> Objective:
    """Objective of the search (docs/planners/best.md); `first_only` leaves out what comes second.

    - `inter_node`: tuples/s between nodes; second, tuples/s between workers.
    - `network_cost`: tuples/s weighted by distance (same worker 0, same node 1, same rack 2, other rack 3); second,
      tuples/s between workers.
    - `ras`: Storm's RAS network metric, the mean over executors of the mean distance to those they send to, in units
      of the metric; second, the weighted network cost of the tuples.

    `restart`: what the restart of a worker costs in the unit of the objective; at least `TIE` of all.
    """
    second = 0.0 if first_only else SECOND
    if name == "inter_node":
        return Objective((second, 1.0, 1.0), max(restart, TIE * c.total_tps))
    if name == "network_cost":
        return Objective((1.0 + second, 2.0 + second, 3.0 + second), max(restart, TIE * c.total_tps))
    a, b, weight = connections(c)
    if second and c.total_tps:
        both = np.concatenate([weight, second / c.total_tps * c.pair_tps])
        a, b, weight = unordered(c.executors, np.concatenate([a, c.pair_a]), np.concatenate([b, c.pair_b]), both)
    return Objective((1.0, 2.0, 3.0), max(restart, TIE), (a, b, weight))


def weights(c: Compiled, objective: Objective) -> tuple[Ints, Ints, Floats]:
    """The pairs of an objective (a, b, weight): the model's traffic unless it brings its own."""
    return (c.pair_a, c.pair_b, c.pair_tps) if objective.pairs is None else objective.pairs


def connections(c: Compiled) -> tuple[Ints, Ints, Floats]:
    """Unordered pairs and their part in the RAS network metric: 1 / (senders x targets of the sender).

    The metric of a placement is the sum of weight x distance. Connections are those of the component graph; in a
    topology whose graph is not known, the measured ones (as in `cost.ras_network_metric`).
    """
    order = np.argsort(c.component, kind="stable")
    cuts = np.searchsorted(c.component[order], np.arange(len(c.component_names) + 1))
    of = {name: order[cuts[i] : cuts[i + 1]] for i, name in enumerate(c.component_names)}
    empty = np.zeros(0, dtype=np.int64)
    sources: list[Ints] = [empty]
    targets: list[Ints] = [empty]
    count = 0
    for t, topology in enumerate(c.model.topologies):
        edges = {(i.component, x.id) for x in topology.components for i in x.inputs if i.component != x.id}
        if not edges:
            own = c.topology[c.sent_from] == t
            sources.append(c.sent_from[own])
            targets.append(c.sent_to[own])
        for source, target in sorted(edges):
            a, b = of.get((t, source), empty), of.get((t, target), empty)
            count += len(a) * len(b)
            if count > MOST_CONNECTIONS:
                raise UsageError(
                    f"objective ras: the topologies have more than {MOST_CONNECTIONS:,} connections of executors; "
                    "use inter_node or network_cost"
                )
            sources.append(np.repeat(a, len(b)))
            targets.append(np.tile(b, len(a)))
    senders, receivers = np.concatenate(sources), np.concatenate(targets)
    sent = np.bincount(senders, minlength=c.executors)
    weight = 1.0 / (sent[senders] * max(int((sent > 0).sum()), 1))
    return unordered(c.executors, senders, receivers, weight)
