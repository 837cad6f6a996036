"""`default`: what Storm's EvenScheduler does, the baseline of every comparison [A13 2.3, S17 7.2].

Executors in component order are dealt round robin over the workers, workers round robin over the nodes with free slots,
nodes with more free slots first. Unlike Storm's own, a result that breaks a hard constraint is repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout, need_slot
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.repair import repaired


@dataclass(frozen=True)
class Params:
    """There is nothing to choose."""


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Layout | Infeasible:
    """Deal, topology after topology; then repair."""
    layout = empty_layout(frame)
    deal(frame, layout, range(frame.compiled.topologies))
    return repaired(frame, layout, no_limits(frame.compiled), None, left_s)


def deal(frame: Frame, layout: Layout, topologies: Sequence[int], order: Callable[[Ints], Ints] | None = None) -> None:
    """Deal topologies of which the layout has placed nothing but fixed workers; the others hold their slots.

    `order` (default `interleaved`): free slots per node -> the node of each free slot, in the order they are dealt.
    """
    compiled = frame.compiled
    free = compiled.slots_per_node() - np.bincount(layout.node[layout.node != NOWHERE], minlength=compiled.nodes)
    needy = need_slot(frame)
    left = int(needy[list(topologies)].sum())
    for t in topologies:
        left -= int(needy[t])  # those after it
        own = np.arange(frame.first_worker[t], frame.first_worker[t + 1])
        own = own[~frame.fixed[own]]
        nodes = (order or interleaved)(free)[: max(min(len(own), int(free.sum()) - left), 0)]
        workers = own[: len(nodes)]
        layout.node[workers] = nodes
        free -= np.bincount(nodes, minlength=compiled.nodes)
        executors = component_order(compiled, t)
        executors = executors[~compiled.fixed[executors]]
        if len(workers):
            layout.worker[executors] = workers[np.arange(len(executors)) % len(workers)]


def component_order(compiled: Compiled, t: int) -> Ints:
    """Executors of topology t: components by their lowest task, executors of each by theirs."""
    own = np.arange(compiled.first_executor[t], compiled.first_executor[t + 1])
    first: dict[int, int] = {}
    for e in own:
        first.setdefault(int(compiled.component[e]), int(e))
    return own[np.lexsort((own, np.array([first[int(c)] for c in compiled.component[own]], dtype=np.int64)))]


def interleaved(free: Ints) -> Ints:
    """One node per free slot: rounds over the nodes that have one left, those with most free slots first."""
    order = np.argsort(-free, kind="stable")
    rounds = [order[free[order] > i] for i in range(int(free.max(initial=0)))]
    return np.concatenate([np.zeros(0, dtype=np.int64), *rounds])
