"""`dsm`: what S17 calls Storm's default mapping, threads round robin over the slots in a list [S17 7.2].

It differs from `default` in one thing: the slots of a node stand together in the list, as in figure 4 of the paper,
where Storm's EvenScheduler takes one slot of each node in turn. A result that breaks a hard constraint is repaired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.methods.default import deal
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout
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
    deal(frame, layout, range(frame.compiled.topologies), node_after_node)
    return repaired(frame, layout, no_limits(frame.compiled), None, left_s)


def node_after_node(free: Ints) -> Ints:
    """One node per free slot, all of a node before the next."""
    return np.repeat(np.arange(len(free)), np.maximum(free, 0))
