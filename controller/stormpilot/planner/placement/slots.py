"""From workers on nodes to slots: unchanged workers keep theirs, changed ones get a port that is free now.

Which of several alike nodes a group of workers runs on is free as well: `keep_nodes` chooses so that most stays.
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Ints
from stormpilot.planner.placement.layout import Frame, Layout


def to_slots(frame: Frame, layout: Layout) -> Ints:
    """A placement (E slots) of a complete layout.

    On each node, a worker whose executors are exactly those of a present worker there keeps that slot; the others, in
    the order of their numbers, get ports that nobody uses now, then ports that workers leave, lowest first.
    """
    compiled = frame.compiled
    members = _members(layout)
    present = _present(compiled)
    slot_of = np.full(len(layout.node), NOWHERE, dtype=np.int64)
    taken = np.zeros(compiled.slots, dtype=np.bool_)
    for w, executors in members.items():
        slot = int(compiled.current[executors[0]])
        if (
            slot != NOWHERE
            and compiled.slot_node[slot] == layout.node[w]
            and np.array_equal(present[(int(frame.topology[w]), slot)], executors)
        ):
            slot_of[w] = slot
            taken[slot] = True
    in_use = np.zeros(compiled.slots, dtype=np.bool_)
    in_use[compiled.current[compiled.current != NOWHERE]] = True
    for w in members:
        if slot_of[w] != NOWHERE:
            continue
        lo, hi = int(compiled.first_slot[layout.node[w]]), int(compiled.first_slot[layout.node[w] + 1])
        free = lo + np.flatnonzero(~taken[lo:hi])
        if not len(free):
            raise AssertionError(f"node {compiled.node_ids[int(layout.node[w])]} has fewer slots than workers")
        fresh = free[~in_use[free]]
        slot_of[w] = fresh[0] if len(fresh) else free[0]
        taken[slot_of[w]] = True
    return slot_of[layout.worker]


def _members(layout: Layout) -> dict[int, Ints]:
    """Worker -> its executors in rising order; only workers that have some, in rising order."""
    order = np.argsort(layout.worker, kind="stable")
    used, starts = np.unique(layout.worker[order], return_index=True)
    ends = [*starts[1:], len(order)]
    return {int(w): order[a:b] for w, a, b in zip(used, starts, ends, strict=False)}


def _present(compiled: Compiled) -> dict[tuple[int, int], Ints]:
    """(topology, slot) -> executors that run there now, in rising order."""
    order = np.lexsort((np.arange(compiled.executors), compiled.current))
    order = order[compiled.current[order] != NOWHERE]
    keys = compiled.current[order]
    cuts = np.flatnonzero(np.diff(keys)) + 1
    return {
        (int(compiled.topology[part[0]]), int(compiled.current[part[0]])): part
        for part in np.split(order, cuts)
        if len(part)
    }


def keep_nodes(frame: Frame, layout: Layout, *, across_racks: bool = True) -> Layout:
    """The same layout with the contents of nodes exchanged so that most workers (then executors) stay where they are.

    Contents go only to nodes that may run them and have the CPU, memory and slots; nodes that share a host or hold
    fixed workers keep theirs, and with `across_racks` False nothing leaves its rack. Solved as an assignment problem.
    """
    from ortools.graph.python import linear_sum_assignment

    c = frame.compiled
    node = layout.node_of_executors()
    if (c.current == NOWHERE).all():
        return layout
    gain = np.zeros((c.nodes, c.nodes), dtype=np.int64)
    here = c.current != NOWHERE
    np.add.at(gain, (node[here], c.slot_node[c.current[here]]), 1)
    present = _present(c)
    most = c.executors + 1
    for w, executors in _members(layout).items():
        slot = int(c.current[executors[0]])
        if slot != NOWHERE and np.array_equal(present[(int(frame.topology[w]), slot)], executors):
            gain[layout.node[w], c.slot_node[slot]] += most
    fits = _may_exchange(frame, layout, node, across_racks)
    solver = linear_sum_assignment.SimpleLinearSumAssignment()
    rows, columns = np.nonzero(fits)
    solver.add_arcs_with_cost(rows, columns, -gain[rows, columns])
    if solver.solve() != solver.OPTIMAL:
        return layout
    target = np.array([solver.right_mate(n) for n in range(c.nodes)], dtype=np.int64)
    if gain[np.arange(c.nodes), target].sum() <= np.trace(gain):
        return layout
    moved = np.where(layout.node == NOWHERE, NOWHERE, target[np.maximum(layout.node, 0)])
    return Layout(layout.worker.copy(), moved)


def _may_exchange(frame: Frame, layout: Layout, node: Ints, across_racks: bool) -> Bools:
    """N x N: whether what is on the first node may go to the second."""
    c = frame.compiled
    cpu = np.bincount(node, c.cpu_mhz, c.nodes)
    memory = np.bincount(node, c.memory_mb, c.nodes)
    workers = np.bincount(layout.node[layout.node != NOWHERE], minlength=c.nodes)
    has = np.zeros((c.nodes, len(c.allowed)), dtype=np.int64)
    has[node, c.klass] = 1
    fits = (
        (cpu[:, None] <= c.node_limit_mhz[None, :] * (1 + 1e-9))
        & (memory[:, None] <= c.node_memory_mb[None, :] * (1 + 1e-9))
        & (workers[:, None] <= c.slots_per_node()[None, :])
        & (has @ (~c.allowed).astype(np.int64) == 0)
    )
    for taken, room in zip(c.sharing.taken(node), c.sharing.room, strict=True):
        fits &= taken[:, None] <= room[None, :] * (1 + 1e-9)
    stays = np.bincount(c.node_host, minlength=c.nodes)[c.node_host] > 1
    stays[frame.home_node[frame.fixed]] = True
    fits[stays, :] = False
    fits[:, stays] = False
    if not across_racks:
        fits &= c.node_rack[:, None] == c.node_rack[None, :]
    np.fill_diagonal(fits, True)
    return np.asarray(fits)
