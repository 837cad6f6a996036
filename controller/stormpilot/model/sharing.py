"""Rules on sharing a worker, and resources of nodes beside CPU and memory, as arrays.

A *kind* is a component that a rule of its topology names. Rules: heap and executors of a worker, components that are
kept apart (never in one worker), and amounts: what executors of a kind take of a node, either a resource that it has
(`gpu`) or one of so many places (most executors of a component on a node). Fixed workers are as they are: nothing in
them breaks a rule, and a node has at least what they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stormpilot.errors import UsageError
from stormpilot.model.bounds import is_amount
from stormpilot.model.values import Model, Supervisor, Topology

SLACK = 1 + 1e-9
NO_KIND = -1


@dataclass(frozen=True)
class Sharing:
    """E executors, T topologies, N nodes, K kinds, R amounts, L kinds of the largest topology that keeps some apart.

    Executors of topology t have the kinds `first_kind[t]:first_kind[t + 1]`. `room` is infinite nowhere: a node that
    does not name a resource has 0 of it. `apart[k, i]`: kind k and kind `first_kind[t] + i` of its topology t.
    """

    heap_mb: NDArray[np.float64]  # E
    most_heap_mb: NDArray[np.float64]  # T: of one worker; infinite where there is no limit
    most_executors: NDArray[np.int64]  # T: of one worker
    kind: NDArray[np.int64]  # E, or -1
    first_kind: NDArray[np.int64]  # T + 1
    apart: NDArray[np.bool_]  # K x L
    demand: NDArray[np.float64]  # K x R
    room: NDArray[np.float64]  # R x N
    names: list[str]  # R: the resource, or the component

    @property
    def of_workers(self) -> bool:
        """Whether a rule says who may be in one worker, beyond a number."""
        return bool(self.apart.any() or np.isfinite(self.most_heap_mb).any())

    @property
    def any(self) -> bool:
        """Whether there is a rule."""
        return self.of_workers or bool(self.names) or bool((self.most_executors < max(len(self.kind), 1)).any())

    def keeps_apart(self) -> NDArray[np.bool_]:
        """T -> whether some of its components are kept apart."""
        some = np.concatenate([[0], np.cumsum(self.apart.any(axis=1))])
        return some[self.first_kind[1:]] > some[self.first_kind[:-1]]

    def taken(self, node: NDArray[np.int64]) -> NDArray[np.float64]:
        """R x N -> what executors on these nodes take (E -> node, or -1)."""
        taken = np.zeros_like(self.room)
        here = np.flatnonzero((self.kind != NO_KIND) & (node >= 0))
        for r in range(len(self.names)):
            taken[r] = np.bincount(node[here], self.demand[self.kind[here], r], self.room.shape[1])
        return taken

    def breakers(
        self, worker: NDArray[np.int64], node: NDArray[np.int64], topology: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """E -> whether it is in a worker or on a node that breaks a rule. E -> worker, node and topology."""
        wrong: NDArray[np.bool_] = np.bincount(worker)[worker] > self.most_executors[topology]
        if np.isfinite(self.most_heap_mb).any():
            heap = np.bincount(worker, self.heap_mb)
            wrong |= heap[worker] > self.most_heap_mb[topology] * SLACK
        ruled = np.flatnonzero(self.kind != NO_KIND)
        if self.apart.any():
            some = ruled[self.keeps_apart()[topology[ruled]]]
            inside = np.zeros((int(worker.max()) + 1, self.apart.shape[1]), dtype=np.bool_)
            inside[worker[some], self.kind[some] - self.first_kind[topology[some]]] = True
            wrong[some] |= (inside[worker[some]] & self.apart[self.kind[some]]).any(axis=1)
        if self.names:
            over = self.taken(node) > self.room * SLACK
            wrong[ruled] |= (over[:, node[ruled]].T & (self.demand[self.kind[ruled]] > 0)).any(axis=1)
        return wrong


def sharing_of(
    model: Model, nodes: Sequence[Supervisor], component: NDArray[np.int64], fixed_node: NDArray[np.int64]
) -> Sharing:
    """The rules of a model.

    Parameters
    ----------
    nodes
        Supervisors in the order of the arrays.
    component
        E -> component, numbered through all topologies.
    fixed_node
        E -> node of an executor whose worker is fixed, else -1.

    Raises
    ------
    UsageError
        Names what is no amount, or no component of its topology.
    """
    kinds: dict[tuple[int, str], int] = {}
    first_kind = [0]
    heap: list[float] = []
    kind: list[int] = []
    takes: list[tuple[int, str, float, float | None]] = []  # kind, name, amount, places of a node
    for t, topo in enumerate(model.topologies):
        _checked(topo)
        named = {c for pair in topo.apart for c in pair}
        for c in topo.components:
            heap.append(c.heap_mb)
            if not topo.all_apart and c.id not in named and c.most_per_node is None and not c.resources:
                kind.append(NO_KIND)
                continue
            k = kinds[t, c.id] = len(kinds)
            kind.append(k)
            takes += [(k, name, amount, None) for name, amount in sorted(c.resources.items()) if amount > 0]
            if c.most_per_node is not None:
                takes.append((k, f"{topo.id}/{c.id}", 1.0, float(c.most_per_node)))
        first_kind.append(len(kinds))
    names = sorted({(name, places) for _, name, _, places in takes}, key=str)
    number = {n: r for r, n in enumerate(names)}
    widths = [
        first_kind[t + 1] - first_kind[t] for t, topo in enumerate(model.topologies) if topo.apart or topo.all_apart
    ]
    apart = np.zeros((len(kinds), max(widths, default=0)), dtype=np.bool_)
    for t, topo in enumerate(model.topologies):
        first, end = first_kind[t], first_kind[t + 1]
        if topo.all_apart:
            apart[first:end, : end - first] = ~np.eye(end - first, dtype=np.bool_)
        for names_apart in topo.apart:
            a, b = (kinds[t, name] for name in names_apart)
            apart[a, b - first] = apart[b, a - first] = True
    demand = np.zeros((len(kinds), len(names)))
    for k, name, amount, places in takes:
        demand[k, number[name, places]] = amount
    room = np.zeros((len(names), len(nodes)))
    for (name, places), r in number.items():
        room[r] = [s.resources.get(name, 0.0) for s in nodes] if places is None else places
    limits = [t.worker_heap_mb for t in model.topologies]
    most = [t.worker_executors for t in model.topologies]
    every = max(len(component), 1)
    found = Sharing(
        heap_mb=np.array(heap, dtype=np.float64)[component] if len(component) else np.zeros(0),
        most_heap_mb=np.array([np.inf if x is None else x for x in limits], dtype=np.float64),
        most_executors=np.array([every if x is None else min(x, every) for x in most], dtype=np.int64),
        kind=np.array(kind, dtype=np.int64)[component] if len(component) else np.zeros(0, dtype=np.int64),
        first_kind=np.array(first_kind, dtype=np.int64),
        apart=apart,
        demand=demand,
        room=room,
        names=[name for name, _ in names],
    )
    if names:
        np.maximum(room, found.taken(fixed_node), out=room)
    return found


def _checked(topology: Topology) -> None:
    known = {c.id for c in topology.components}
    for pair in topology.apart:
        for name in pair:
            if name not in known:
                raise UsageError(f"topology {topology.id}: apart names the component {name!r}, not listed")
        if pair[0] == pair[1]:
            raise UsageError(
                f"topology {topology.id}: apart: {pair[0]!r} is apart from itself, expected two components"
            )
    for m in topology.shared_memory:
        if not all(map(is_amount, (m.heap_mb, m.worker_mb, m.node_mb))):
            raise UsageError(f"topology {topology.id}: shared memory {m.name}: expected MB >= 0")
    for c in topology.components:
        for what, amount in {"heap_mb": c.heap_mb, **c.resources}.items():
            if not is_amount(amount):
                raise UsageError(f"topology {topology.id}: component {c.id}: {what} is {amount:g}, expected >= 0")
