"""`exact`: the least cost that the constraints allow, proved, for small models (OR-Tools CP-SAT).

What is proved is the first criterion of the objective: traffic between nodes, weighted network cost, or the RAS network
metric. Executors are assigned to nodes; one worker per topology and node is best for each of these. Where all min(W, E)
workers must be used, a local search then splits the nodes' executors over workers: traffic between nodes stays proved,
for the other two the bound still holds but the plan may be above it. So it may be where a host is in two racks.

The bound comes from a linear relaxation with cuts (`bounds/linear.py`), which constraint programming then raises
(`bounds/cpsat.py`). Nodes that are alike can be exchanged in any solution; only one order of them is searched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from stormpilot.errors import RefusedError, UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.places_cpu import may_need_less
from stormpilot.model.values import Infeasible, Model
from stormpilot.planner.bounds.cpsat import Assignment, split
from stormpilot.planner.bounds.linear import levels_of, relaxation
from stormpilot.planner.methods import best
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Frame, Layout, frame_of
from stormpilot.planner.placement.objective import ObjectiveName, checked, objective_of
from stormpilot.planner.placement.problem import (
    LeftS,
    Limits,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import given_up, wrong
from stormpilot.planner.search.annealing import (
    Annealer,
)

LARGEST = 20_000  # executors x nodes of a model that is worth a try
UNITS = {
    "inter_node": "{} tuples/s between nodes",
    "network_cost": "{} tuples/s x distance",
    "ras": "a RAS network metric of {}",
}
NEAR = 1e-6  # relative: rounding of the weights, and of the bound of the relaxation


@dataclass(frozen=True)
class Params:
    """`objective`: inter_node, network_cost or ras. `budget_s`: for the proof, less by the caller's clock.

    `exact_workers`: use all min(W, E) workers. `threads`: of CP-SAT.

    One thread proves these models faster than several: with more, CP-SAT spends them on strategies that do not use the
    linear relaxation that the bound rests on. It is also what makes a proof the same on every run.
    """

    objective: ObjectiveName = "inter_node"
    budget_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    exact_workers: bool = False
    threads: Annotated[int, msgspec.Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        checked(self.objective)
        if not self.budget_s > 0:
            raise UsageError(f"budget_s is {self.budget_s}, expected seconds > 0")
        if self.threads < 1:
            raise UsageError(f"threads is {self.threads}, expected at least 1")


@dataclass(frozen=True)
class Optimum:
    """Least cost: that of the best plan found, a proved lower bound, and whether they meet (unit of the objective)."""

    value: float
    bound: float
    proved: bool


def optimum(model: Model, budget_s: float) -> Optimum:
    """The least inter-node traffic of any plan of this model; `RefusedError` where no plan exists."""
    frame = frame_of(compile_model(model))
    answer = solve(frame, Params(budget_s=budget_s), np.random.default_rng(0), lambda: math.inf)
    if isinstance(answer, Infeasible):
        raise RefusedError(answer.text)
    return answer[1]


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """The best layout found, with its bound in the notes."""
    answer = solve(frame, params, rng, left_s)
    if isinstance(answer, Infeasible):
        return answer
    layout, found = answer
    unit = UNITS[params.objective]
    if found.proved:
        note = f"optimal: no plan has less than {unit.format(f'{found.value:.6g}')}"
    else:
        note = f"not proved: this plan has {unit.format(f'{found.value:.6g}')}, none has less than {found.bound:.6g}"
    return Result(layout, (note + scope_of(frame.compiled.model),))


def scope_of(model: Model) -> str:
    """The end of a note: wishes and measured CPU that a proof rests on beside hard constraints; empty without any."""
    nodes = any(t.favored_nodes or t.unfavored_nodes for t in model.topologies)
    sites = any(c.site is not None and not c.site_required for t in model.topologies for c in t.components)
    within = ", within the wishes for nodes and sites that the plan keeps" if nodes or sites else ""
    return within + (", with the CPU as measured" if may_need_less(model) else "")


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
    objective = objective_of(c, params.objective, first_only=True)
    cost = levels_of(c, objective)
    hint = _hint(frame, params.objective, limits, rng, left_s)
    problem = Assignment(frame, limits, by_rack=objective.distance[1] != objective.distance[2])
    relaxed = relaxation(c, cost, left_s)
    problem.minimise(cost, relaxed.triangles)
    if hint is not None:
        problem.hint(hint.node_of_executors())
    budget_s = min(params.budget_s, left_s())
    status, bound = problem.run(budget_s, params.threads)
    bound = max(bound, relaxed.bound)
    if status == "infeasible":
        return problem.refuted()
    annealer = Annealer(frame, objective, limits)
    layouts = [] if hint is None else [hint]
    found = None if status == "unknown" else split(frame, problem, limits, rng, left_s)
    if found is not None and not wrong(frame, found).any():  # what workers share is no part of the proof
        layouts.append(found)
    if not layouts:
        return problem.unknown() if found is None else given_up(frame, found, cut=status != "optimal")
    layout = min(layouts, key=annealer.traffic)
    value = annealer.traffic(layout)
    proved = value <= bound + NEAR * abs(bound) + 1e-9 * cost.total
    return layout, Optimum(value, value if proved else min(bound, value), proved)


def _hint(
    frame: Frame, objective: ObjectiveName, limits: Limits, rng: np.random.Generator, left_s: LeftS
) -> Layout | None:
    """Layout of annealing: usually the optimum already."""
    params = best.Params(objective=objective, exact_workers=bool(limits.exact_workers.any()))
    search = best.Portfolio(frame, params, rng, left_s)
    search.run(best.default_iterations(frame.compiled.executors))
    return search.best
