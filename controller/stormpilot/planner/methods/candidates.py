"""The other planners as members of the portfolio of `best`: what they would answer is a candidate before it searches.

So `best` is by construction not dearer than those that it asks, with their default parameters: all where no clock runs
and there are at most `QUICK_BELOW` executors; with a clock, those for which it leaves time, and none of the greedy ones
where it leaves enough for searches that find more. Searches start from what `partition` and `online` find; the others
are judged only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from stormpilot.model.compiled import Bools
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.label_propagation import clustered
from stormpilot.planner.methods import default, dsm, offline, online, otd, partition, ras_order, rsm, sam
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.objective import weights
from stormpilot.planner.placement.problem import LeftS, Objective
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import wrong

Place = Callable[[np.random.Generator, LeftS], Result | Layout | Infeasible]

PARTITION_FROM = 150  # executors: in smaller models the answer of `partition` is judged only, no search starts from it
PARTITION_S = partition.DIVISION_S + partition.SEARCH_S  # seconds per executor that are left, for a partition
QUICK_BELOW = 3000  # executors: beyond, the greedy planners take too large a part of the time
QUICK_PART = 0.03  # of the time that is left: what one of them may take, most of it for repair


def time_for_partition(executors: int, left_s: LeftS) -> bool:
    """Whether a partition of so many executors leaves time for what comes after it."""
    return executors < PARTITION_FROM or left_s() >= PARTITION_S * executors


def partitioned(frame: Frame, params: partition.Params, rng: np.random.Generator, left_s: LeftS) -> Layout | None:
    """Answer of `partition` with the generator in this state (which stays as it is)."""
    c = frame.compiled
    if c.executors < PARTITION_FROM or not time_for_partition(c.executors, left_s):
        return None
    return _sound(frame, partition.place(frame, params, copy.deepcopy(rng), left_s), params.exact_workers)


def packed(frame: Frame, objective: Objective, rng: np.random.Generator) -> Layout:
    """Clusters of executors packed into nodes: a small part of the time that a partition takes."""
    return partition.seated(frame, clustered(frame, weights(frame.compiled, objective), rng))


def greedy(frame: Frame, *, exact_workers: bool, rng: np.random.Generator, left_s: LeftS) -> Iterator[Layout]:
    """Plans of the greedy planners, which look for no proof where they find none."""
    if frame.compiled.executors > QUICK_BELOW:
        return
    frame = replace(frame, proves=False)
    places: list[Place] = [
        lambda rng, left_s: online.place(frame, online.Params(), rng, left_s),
        lambda rng, left_s: default.place(frame, default.Params(), rng, left_s),
        lambda rng, left_s: offline.place(frame, offline.Params(), rng, left_s),
        lambda rng, left_s: otd.place(frame, otd.Params(exact_workers=exact_workers), rng, left_s),
        lambda rng, left_s: dsm.place(frame, dsm.Params(), rng, left_s),
        lambda rng, left_s: rsm.place(frame, rsm.Params(exact_workers=exact_workers), rng, left_s),
        lambda rng, left_s: sam.place(frame, sam.Params(), rng, left_s),
        lambda rng, left_s: ras_order.place(frame, ras_order.Params(exact_workers=exact_workers), rng, left_s),
    ]
    yield from _asked(frame, places, exact_workers, rng, left_s)


def small_partition(
    frame: Frame, params: partition.Params, rng: np.random.Generator, left_s: LeftS
) -> Iterator[Layout]:
    """Answer of `partition` on a model of which no search starts from it."""
    if frame.compiled.executors < PARTITION_FROM:
        frame = replace(frame, proves=False)
        places: list[Place] = [lambda rng, left_s: partition.place(frame, params, rng, left_s)]
        yield from _asked(frame, places, params.exact_workers, rng, left_s)


def _asked(
    frame: Frame, places: Sequence[Place], exact_workers: bool, rng: np.random.Generator, left_s: LeftS
) -> Iterator[Layout]:
    """Sound answers, each within its part of the time that is left."""
    for place in places:
        keep_s = left_s() * (1 - QUICK_PART)
        if keep_s <= 0:
            return
        own_s = left_s if math.isinf(keep_s) else lambda keep_s=keep_s: left_s() - keep_s
        layout = _sound(frame, place(copy.deepcopy(rng), own_s), exact_workers)
        if layout is not None:
            yield layout


def _sound(frame: Frame, answer: Result | Layout | Infeasible, exact_workers: bool) -> Layout | None:
    """The layout of an answer that is a plan under the constraints of `best`."""
    if isinstance(answer, Infeasible):
        return None
    layout = answer.layout if isinstance(answer, Result) else answer
    every: Bools = np.full(frame.compiled.topologies, exact_workers)
    used = np.bincount(frame.topology[layout.sizes() > 0], minlength=frame.compiled.topologies)
    if wrong(frame, layout).any() or (every & (used < frame.compiled.workers)).any():
        return None
    return layout
