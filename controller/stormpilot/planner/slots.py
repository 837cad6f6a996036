"""From workers on nodes to slots: unchanged workers keep theirs, changed ones get a port that is free now.

Which of several alike nodes a group of workers runs on is free as well: `keep_nodes` chooses so that most stays.
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Ints
from stormpilot.planner.layout import Frame, Layout


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
    return {int(w): part for w, part in zip(used, np.split(order, starts[1:]), strict=True)}


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
