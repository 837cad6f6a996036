"""A placement in the making: executors in workers, workers on nodes, before workers get their slots.

Worker numbers `first_worker[t]:first_worker[t + 1]` belong to topology t, min(W, E) of them. A worker without executors
has no node. Fixed workers come first among their topology's and never change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Ints


@dataclass(frozen=True)
class Frame:
    """Frame of every layout of a model: the numbering of workers, and how they stand now.

    `home[e]` is the worker of e in the present assignment (-1: none, or more workers run than are allowed),
    `home_node[w]` and `home_slot[w]` where that worker runs; `fixed[w]` marks workers that must stay so. `proves`: who
    finds no room looks for a proof that there is none, where the model is small.
    """

    compiled: Compiled
    first_worker: Ints
    topology: Ints
    home: Ints
    home_node: Ints
    home_slot: Ints
    fixed: Bools
    proves: bool = True

    @property
    def workers(self) -> int:
        """Number of worker numbers."""
        return len(self.topology)


@dataclass
class Layout:
    """`worker[e]`: worker of executor e, -1 while unplaced; `node[w]`: node of worker w, -1 while it has none."""

    worker: Ints
    node: Ints

    def copy(self) -> Layout:
        """An independent copy."""
        return Layout(self.worker.copy(), self.node.copy())

    def node_of_executors(self) -> Ints:
        """E -> node, or -1."""
        placed = self.worker != NOWHERE
        return np.where(placed, self.node[np.where(placed, self.worker, 0)], NOWHERE)

    def sizes(self) -> Ints:
        """Executors per worker."""
        return np.bincount(self.worker[self.worker != NOWHERE], minlength=len(self.node))


def frame_of(compiled: Compiled) -> Frame:
    """Number the workers; the present ones get numbers in slot order, fixed ones first."""
    first = np.concatenate([[0], np.cumsum(compiled.workers)]).astype(np.int64)
    topology = np.repeat(np.arange(compiled.topologies, dtype=np.int64), compiled.workers)
    home = np.full(compiled.executors, NOWHERE, dtype=np.int64)
    home_slot = np.full(len(topology), NOWHERE, dtype=np.int64)
    fixed = np.zeros(len(topology), dtype=np.bool_)
    for t in range(compiled.topologies):
        lo, hi = int(compiled.first_executor[t]), int(compiled.first_executor[t + 1])
        current, is_fixed = compiled.current[lo:hi], compiled.fixed[lo:hi]
        fixed_slots = np.unique(current[is_fixed])
        other_slots = np.setdiff1d(np.unique(current[current != NOWHERE]), fixed_slots)
        for i, slot in enumerate(np.concatenate([fixed_slots, other_slots])[: int(compiled.workers[t])]):
            w = int(first[t]) + i
            home[lo:hi][current == slot] = w
            home_slot[w] = slot
            fixed[w] = i < len(fixed_slots)
    home_node = np.where(home_slot == NOWHERE, NOWHERE, compiled.slot_node[home_slot])
    return Frame(compiled, first, topology, home, home_node, home_slot, fixed)


def need_slot(frame: Frame) -> Bools:
    """T -> whether it has executors to place, and no fixed worker."""
    c = frame.compiled
    fixed = np.bincount(frame.topology[frame.fixed], minlength=c.topologies)
    needy: Bools = (np.diff(c.first_executor) > 0) & (fixed == 0)
    return needy


def empty_layout(frame: Frame) -> Layout:
    """Nothing placed but the fixed workers."""
    layout = Layout(
        np.full(frame.compiled.executors, NOWHERE, dtype=np.int64), np.full(frame.workers, NOWHERE, dtype=np.int64)
    )
    layout.worker[frame.compiled.fixed] = frame.home[frame.compiled.fixed]
    layout.node[frame.fixed] = frame.home_node[frame.fixed]
    return layout


def running_layout(frame: Frame) -> Layout:
    """Everything where it runs now; executors without a place (`home` -1) and workers without executors have none."""
    layout = Layout(frame.home.copy(), np.full(frame.workers, NOWHERE, dtype=np.int64))
    used = layout.sizes() > 0
    layout.node[used] = frame.home_node[used]
    return layout


def present_layout(frame: Frame, exact_workers: Bools) -> Layout | None:
    """The present placement, where it is complete and keeps to slots and numbers of workers (T: all must be used)."""
    c = frame.compiled
    if (frame.home == NOWHERE).any() or not c.executors:
        return None
    used = np.bincount(frame.home, minlength=frame.workers) > 0
    if (exact_workers & (np.bincount(frame.topology[used], minlength=c.topologies) < c.workers)).any():
        return None
    return Layout(frame.home.copy(), np.where(used, frame.home_node, NOWHERE))


def layout_of(frame: Frame, placement: Ints) -> Layout:
    """The layout of a complete placement that uses at most min(W, E) workers per topology.

    A worker keeps the number of the present worker with which it shares most executors (ties: lower number).
    """
    compiled = frame.compiled
    layout = empty_layout(frame)
    for t in range(compiled.topologies):
        lo, hi = int(compiled.first_executor[t]), int(compiled.first_executor[t + 1])
        own = placement[lo:hi]
        layout.worker[lo:hi], layout.node[frame.first_worker[t] : frame.first_worker[t + 1]] = _numbered(
            frame, t, own, compiled.slot_node
        )
    return layout


def relabel(frame: Frame, layout: Layout) -> Layout:
    """The same layout, its workers numbered so that as many as can be are like the present worker of that number."""
    compiled = frame.compiled
    result = empty_layout(frame)
    for t in range(compiled.topologies):
        lo, hi = int(compiled.first_executor[t]), int(compiled.first_executor[t + 1])
        result.worker[lo:hi], result.node[frame.first_worker[t] : frame.first_worker[t + 1]] = _numbered(
            frame, t, layout.worker[lo:hi], layout.node
        )
    return result


def _numbered(frame: Frame, t: int, group: Ints, node_of_group: Ints) -> tuple[Ints, Ints]:
    """Number the groups of topology t: greedily by executors in common with present workers, same node first."""
    lo = int(frame.compiled.first_executor[t])
    w0, w1 = int(frame.first_worker[t]), int(frame.first_worker[t + 1])
    groups = np.unique(group)
    home = frame.home[lo : lo + len(group)]
    known = home != NOWHERE
    each, common = np.unique(group[known] * frame.workers + home[known], return_counts=True)  # a pair as one number
    pairs = np.stack(np.divmod(each, frame.workers))
    same_node = node_of_group[pairs[0]] == frame.home_node[pairs[1]] if len(common) else np.zeros(0, dtype=np.bool_)
    fixed = frame.fixed[pairs[1]] if len(common) else np.zeros(0, dtype=np.bool_)
    order = np.lexsort((pairs[0], pairs[1], -common, ~same_node, ~fixed))
    number: dict[int, int] = {}
    taken: set[int] = set()
    for i in order:
        g, w = int(pairs[0, i]), int(pairs[1, i])
        if g not in number and w not in taken:
            number[g] = w
            taken.add(w)
    free = (w for w in range(w0, w1) if w not in taken)
    node = np.full(w1 - w0, NOWHERE, dtype=np.int64)
    for g in groups:
        w = number.setdefault(int(g), -1)
        if w == -1:
            w = number[int(g)] = next(free)
        node[w - w0] = node_of_group[g]
    lookup = np.array([number[int(g)] for g in groups], dtype=np.int64)
    return lookup[np.searchsorted(groups, group)], node
