"""Placements of one topology, as different from one another as can be; the same seed gives the same ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stormpilot.errors import RefusedError
from stormpilot.model.compiled import Compiled, Ints, compile_model
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.flow.planning import Traffic

Maker = Callable[[Model, int], Plan]
Place = Callable[[Compiled, np.random.Generator], Ints]


def round_robin(model: Model, seed: int) -> Plan:
    """As Storm's own scheduler would."""
    return _computed(model, "default", seed)


def best(model: Model, seed: int) -> Plan:
    """Placement of our planner for the measured model, on flows."""
    return _computed(model, "best", seed, traffic="flow")


def scattered(model: Model, seed: int) -> Plan:
    """Every executor in a random one of as many workers as the topology has, each on another node."""

    def place(c: Compiled, rng: np.random.Generator) -> Ints:
        slots = _slots(c, [1] * c.nodes)
        return slots[rng.integers(len(slots), size=c.executors)]

    return _placed(model, seed, place)


def two_nodes(model: Model, seed: int) -> Plan:
    """Two workers on each of two nodes of different racks, executors at random."""

    def place(c: Compiled, rng: np.random.Generator) -> Ints:
        other = int(np.flatnonzero(c.node_rack != c.node_rack[0])[0])
        slots = _slots(c, [2 if n in (0, other) else 0 for n in range(c.nodes)])
        return slots[rng.integers(len(slots), size=c.executors)]

    return _placed(model, seed, place)


def hot_spots(model: Model, seed: int) -> Plan:
    """With each spout one executor of every other component in its worker, the rest on the nodes without a spout."""

    def place(c: Compiled, rng: np.random.Generator) -> Ints:
        slots = _slots(c, [1] * c.nodes)
        kinds = {x.id: x.kind for t in c.model.topologies for x in t.components}
        spouts = [e for e in range(c.executors) if kinds[c.component_names[int(c.component[e])][1]] == "spout"]
        near, far = slots[: len(spouts)], slots[len(spouts) :]
        placement = far[np.arange(c.executors) % len(far)]
        placement[spouts] = near
        for component in np.unique(c.component):
            own = np.setdiff1d(np.flatnonzero(c.component == component), spouts)
            if len(own) > len(near):
                placement[rng.permutation(own)[: len(near)]] = near
        return placement

    return _placed(model, seed, place)


def one_node(model: Model, seed: int) -> Plan:
    """All workers on one node."""

    def place(c: Compiled, rng: np.random.Generator) -> Ints:
        workers = int(c.workers[0])
        slots = _slots(c, [workers if n == seed % c.nodes else 0 for n in range(c.nodes)])
        return slots[np.arange(c.executors) % len(slots)]

    return _placed(model, seed, place)


def crowded(model: Model, seed: int) -> Plan:
    """All spouts and one executor of what they send to in a worker, everything else elsewhere."""

    def place(c: Compiled, rng: np.random.Generator) -> Ints:
        slots = _slots(c, [1] * c.nodes)
        topology = c.model.topologies[0]
        spouts = {x.id for x in topology.components if x.kind == "spout"}
        fed = {x.id for x in topology.components if any(i.component in spouts for i in x.inputs) and x.kind == "bolt"}
        names = [name for _, name in c.component_names]
        placement = slots[1 + np.arange(c.executors) % (len(slots) - 1)]
        for k, name in enumerate(names):
            own = np.flatnonzero(c.component == k)
            if name in spouts:
                placement[own] = slots[0]
            elif name in fed:
                placement[rng.choice(own)] = slots[0]
        return placement

    return _placed(model, seed, place)


FIRST = round_robin
ROUNDS: tuple[Maker, ...] = (scattered, best, two_nodes, hot_spots, one_node)
BUSY_ROUNDS: tuple[Maker, ...] = (crowded, two_nodes)


def _slots(c: Compiled, per_node: list[int]) -> Ints:
    return np.array([c.first_slot[n] + i for n, k in enumerate(per_node) for i in range(k)], dtype=np.int64)


def _placed(model: Model, seed: int, place: Place) -> Plan:
    c = compile_model(model)
    return c.plan_of(place(c, np.random.default_rng(seed)))


def _computed(model: Model, planner: str, seed: int, traffic: Traffic = "measured") -> Plan:
    answer = compute(model, planner, {}, seed=seed, traffic=traffic)
    if not isinstance(answer, Plan):
        raise RefusedError(f"{planner}: no plan for {model.topologies[0].name}: {answer.text}")
    return answer
