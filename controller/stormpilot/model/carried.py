"""The rate that a placement carries: how many times the present one, until a node or an executor is full.

CPU follows the rate. The first of a topology's nodes that has no CPU left, or the first of its executors (one thread)
that fills a core, ends it; what other topologies use stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import Compiled, Floats, Ints
from stormpilot.model.values import Model

MOST_RATIO = 100.0
"""More than so many times the present rate is not told."""


@dataclass(frozen=True)
class Carried:
    """`ratio`: times the present rate; `tps`: tuples/s from the sources at it; `bound` names what is full then."""

    ratio: float
    tps: float
    bound: str


def carried_ratio(compiled: Compiled, placement: Ints) -> float:
    """Of all topologies together: how many times their present rates a complete placement (E slots) carries."""
    c = compiled
    cpu = c.cpu_mhz
    if not len(cpu):
        return MOST_RATIO
    node = c.slot_node[placement]
    has_mhz, of_a_core = _node_mhz(c), core_mhz(c)
    grows = _measured(c)
    load = np.bincount(node, cpu * grows, c.nodes)
    fixed = np.bincount(node, cpu * ~grows, c.nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_node = np.where(load > 0, np.maximum(has_mhz - fixed, 0.0) / load, MOST_RATIO)
        by_thread = np.where(grows & (cpu > 0), c.lanes * of_a_core[node] / cpu, MOST_RATIO)
    return float(min(by_node.min(), by_thread.min(), MOST_RATIO))


class Capacity:
    """Rates that placements of a model carry, topology by topology; what all of them need is computed once."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._has_mhz, self._of_a_core = _node_mhz(compiled), core_mhz(compiled)
        self._measured = _measured(compiled)
        self.source_tps = source_tps(compiled.model)

    def carried(
        self, placement: Ints, topology: int, cpu_mhz: Floats | None = None, thread_mhz: Floats | None = None
    ) -> Carried:
        """Of one topology (its number), while the others go on as they are.

        `thread_mhz`: CPU of executors by themselves (E), where `cpu_mhz` is right only in the sum over a node.
        """
        c = self._compiled
        cpu = c.cpu_mhz if cpu_mhz is None else cpu_mhz
        thread = cpu if thread_mhz is None else thread_mhz
        node = c.slot_node[placement]
        grows = self._measured & (c.topology == topology)
        own = np.bincount(node, cpu * grows, c.nodes)
        room = np.maximum(self._has_mhz - np.bincount(node, cpu * ~grows, c.nodes), 0.0)
        full = np.flatnonzero(own > 0).tolist()
        found = [(float(room[n] / own[n]), f"{c.node_ids[n]} has no CPU left") for n in full]
        for e in np.flatnonzero(grows & (thread > 0)).tolist():
            filled = "a core" if c.lanes[e] == 1 else f"{c.lanes[e]} cores"
            found.append(
                (float(c.lanes[e] * self._of_a_core[node[e]] / thread[e]), f"{c.describe([e])} fills {filled}")
            )
        ratio, bound = min(found, key=lambda x: x[0], default=(MOST_RATIO, "nothing measured uses CPU"))
        if ratio >= MOST_RATIO:
            ratio, bound = MOST_RATIO, f"more than {MOST_RATIO:.0f} times the present rate"
        return Carried(ratio, ratio * self.source_tps[c.model.topologies[topology].id], bound)


def source_tps(model: Model) -> dict[str, float]:
    """Tuples/s that the sources of each topology (id) send, those to ackers left out."""
    kinds = {(t.id, x.id): x.kind for t in model.topologies for x in t.components}
    kind = {(t.id, e.start): kinds.get((t.id, e.component)) for t in model.topologies for e in t.executors}
    found = {t.id: 0.0 for t in model.topologies}
    for e in model.traffic:
        if kind.get((e.topology, e.from_)) == "spout" and kind.get((e.topology, e.to)) != "system":
            found[e.topology] += e.rate
    return found


def core_mhz(c: Compiled) -> Floats:
    """N -> MHz of one core of the node; of a node with less than a core: all of it."""
    return np.array([s.mhz * min(1.0, s.cores) for s in c.supervisors], dtype=np.float64)


def _node_mhz(c: Compiled) -> Floats:
    """N -> CPU(n), MHz."""
    return np.array([s.cpu_mhz for s in c.supervisors], dtype=np.float64)


def _measured(c: Compiled) -> np.ndarray:
    """E -> whether its CPU is measured: only that follows the rate."""
    own = [sorted(t.executors, key=lambda e: e.start) for t in c.model.topologies]
    return np.array([e.measured for es in own for e in es], dtype=np.bool_)
