"""`exact`: the least inter-node traffic that the constraints allow, proved, for small models (OR-Tools CP-SAT).

Executors are assigned to nodes: which of a topology's workers on a node an executor is in matters only for inter-worker
traffic, and without a cap on executors one worker per topology and node is best. Where all min(W, E) workers must be
used, a second model splits the nodes' executors over workers with the least inter-worker traffic.

The bound comes from a linear relaxation with cuts (`bound.py`), which constraint programming then raises
(`assignment.py`). Nodes that are alike can be exchanged in any solution; only one order of them is searched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import RefusedError, UsageError
from stormpilot.model.compiled import NOWHERE, Compiled, Ints, compile_model
from stormpilot.model.values import Infeasible, Model
from stormpilot.planner import best
from stormpilot.planner.anneal import Annealer, LeftS, Limits, Objective, no_limits
from stormpilot.planner.assignment import Assignment
from stormpilot.planner.bound import relaxation
from stormpilot.planner.feasibility import refuted
from stormpilot.planner.layout import Frame, Layout, empty_layout, frame_of
from stormpilot.planner.objective import distance_of
from stormpilot.planner.result import Result

LARGEST = 20_000  # executors x nodes of a model that is worth a try


@dataclass(frozen=True)
class Params:
    """`budget_s` seconds for the proof (less by the caller's clock); `exact_workers`: use all min(W, E) workers.

    One thread proves these models faster than several: with more, CP-SAT spends them on strategies that do not use the
    linear relaxation that the bound rests on. It is also what makes a proof the same on every run.
    """

    budget_s: float = 30.0
    exact_workers: bool = False
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.budget_s > 0:
            raise UsageError(f"budget_s is {self.budget_s}, expected seconds > 0")
        if self.threads < 1:
            raise UsageError(f"threads is {self.threads}, expected at least 1")


@dataclass(frozen=True)
class Optimum:
    """Least inter-node traffic: that of the best plan found, a proved lower bound, and whether they meet (tuples/s)."""

    value: float
    bound: float
    proved: bool

    @property
    def gap(self) -> float:
        """How far the plan may be above the optimum, as a part of the bound (0 when proved)."""
        if self.proved or self.value == self.bound:
            return 0.0
        return (self.value - self.bound) / self.bound if self.bound > 0 else math.inf


def optimum(
    model: Model, budget_s: float, *, exact_workers: bool = False, seed: int = 0, left_s: LeftS = lambda: math.inf
) -> Optimum:
    """The least inter-node traffic of any plan of this model; `RefusedError` where no plan exists."""
    frame = frame_of(compile_model(model))
    params = Params(budget_s=budget_s, exact_workers=exact_workers)
    answer = solve(frame, params, np.random.default_rng(seed), left_s)
    if isinstance(answer, Infeasible):
        raise RefusedError(answer.text)
    return answer[1]


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """The best layout found, with its bound in the notes."""
    answer = solve(frame, params, rng, left_s)
    if isinstance(answer, Infeasible):
        return answer
    layout, found = answer
    if found.proved:
        note = f"optimal: no plan has less than {found.value:.6g} tuples/s between nodes"
    else:
        note = (
            f"not proved: this plan has {found.value:.6g} tuples/s between nodes, none has less than {found.bound:.6g}"
        )
    return Result(layout, (note,))


def solve(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> tuple[Layout, Optimum] | Infeasible:
    """Search for a good layout first, then prove or improve it."""
    c = frame.compiled
    if c.executors * c.nodes > LARGEST:
        raise UsageError(
            f"planner exact: {c.executors} executors x {c.nodes} nodes is more than it can do ({LARGEST}); use best"
        )
    reason = refuted(frame, exact_workers=params.exact_workers)
    if reason is not None:
        return reason
    limits = no_limits(c, exact_workers=params.exact_workers)
    hint = _hint(frame, limits, rng, left_s)
    problem = Assignment(frame, limits)
    relaxed = relaxation(c, left_s)
    problem.minimise_traffic(relaxed.triangles)
    if hint is not None:
        problem.hint(hint.node_of_executors())
    budget_s = min(params.budget_s, left_s())
    status, bound = problem.run(budget_s, params.threads)
    bound = max(bound, relaxed.bound_tps)
    if status == "infeasible":
        return problem.refuted()
    if status == "unknown":
        if hint is None:
            return problem.unknown()
        node = hint.node_of_executors()
    else:
        node = problem.nodes()
    value = _inter_node(c, node)
    if hint is not None and _inter_node(c, hint.node_of_executors()) < value:
        node = hint.node_of_executors()
        value = _inter_node(c, node)
    proved = status == "optimal"
    layout = split(frame, node, limits, rng, left_s)
    return layout, Optimum(value, value if proved else min(bound, value), proved)


def any_layout(frame: Frame, limits: Limits, budget_s: float) -> Layout | Infeasible:
    """Some layout that keeps every hard constraint, or a proof that there is none, or neither within the budget."""
    problem = Assignment(frame, limits)
    status, _ = problem.run(budget_s, 1)
    if status == "infeasible":
        return problem.refuted()
    if status == "unknown":
        return problem.unknown()
    return split(frame, problem.nodes(), limits, np.random.default_rng(0), lambda: math.inf)


def _hint(frame: Frame, limits: Limits, rng: np.random.Generator, left_s: LeftS) -> Layout | None:
    """What annealing finds: usually the optimum already."""
    search = best.Portfolio(frame, Objective(distance_of("inter_node")), limits, rng, left_s)
    search.run(best.default_iterations(frame.compiled.executors))
    return search.best


def _inter_node(c: Compiled, node: Ints) -> float:
    host = c.node_host[node]
    return float(c.pair_tps[host[c.pair_a] != host[c.pair_b]].sum())


def split(frame: Frame, node: Ints, limits: Limits, rng: np.random.Generator, left_s: LeftS) -> Layout:
    """Workers for executors that have their nodes: one per topology and node, more where limits ask for more.

    Further workers are split off by inter-worker traffic (local search inside the nodes).
    """
    c = frame.compiled
    layout = empty_layout(frame)
    free = c.slots_per_node() - np.bincount(layout.node[layout.node != NOWHERE], minlength=c.nodes)
    spare: list[list[int]] = []
    for t in range(c.topologies):
        own = np.arange(c.first_executor[t], c.first_executor[t + 1])
        own = own[~c.fixed[own]]
        unused = [w for w in range(int(frame.first_worker[t]), int(frame.first_worker[t + 1])) if not frame.fixed[w]]
        for n in np.unique(node[own]).tolist():
            here = own[node[own] == n]
            for part in _parts(here, int(limits.max_executors[t])):
                w = unused.pop(0)
                layout.worker[part] = w
                layout.node[w] = n
                free[n] -= 1
        spare.append(unused)
    for t in np.flatnonzero(limits.exact_workers).tolist():
        for w in spare[t]:
            sizes = layout.sizes()
            own = np.flatnonzero((frame.topology == t) & (sizes > 1) & ~frame.fixed)
            own = own[free[layout.node[own]] > 0]
            if not len(own):
                break
            largest = int(own[np.argmax(sizes[own])])
            members = np.flatnonzero(layout.worker == largest)
            layout.worker[members[-1]] = w
            layout.node[w] = layout.node[largest]
            free[layout.node[w]] -= 1
    if limits.exact_workers.any() or (limits.max_executors < np.diff(c.first_executor)).any():
        annealer = Annealer(frame, Objective((1.0, 1.0, 1.0)), limits)
        tries = min(1000 * c.executors, 5_000_000)
        return annealer.search(layout, rng, tries, left_s, inside_nodes=True).layout
    return layout


def _parts(executors: Ints, most: int) -> Sequence[Ints]:
    return np.array_split(executors, -(-len(executors) // most)) if len(executors) else []
