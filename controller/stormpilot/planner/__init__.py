"""Where executors should run: one file per method, all behind `Planner`, listed in `PLANNERS`.

    answer = compute(model, "online", {"alpha": 0.2}, seed=1)      # Plan or Infeasible

- methods: `default.py`, `online.py`, `partition.py`, `best.py`, `exact.py` (with `assignment.py`, `bound.py`), each
  with a page in docs/planners/
- `registry.py`: what a planner is; `check.py`: does a plan keep the hard constraints
- `layout.py`, `slots.py`: placements in the making, and how they become slots
- `search.py`, `anneal.py`, `repair.py`, `feasibility.py`, `pairs.py`: parts that methods share

Everything here is pure: no clock (what is left of the time is asked from the caller), no chance but the seeded
generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from stormpilot.errors import UsageError
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import best, default, exact, online, partition
from stormpilot.planner.anneal import LeftS
from stormpilot.planner.registry import Planner, Value, run

__all__ = ["PLANNERS", "Planner", "compute", "planner_named"]

PLANNERS: dict[str, Planner] = {
    p.name: p
    for p in (
        Planner(
            "default",
            "Storm's own: executors round robin over workers, workers round robin over nodes",
            "EvenScheduler; A13 2.3",
            default.Params,
            default.place,
        ),
        Planner(
            "online",
            "greedy by measured traffic: executors to workers, workers to nodes",
            "A13 3.2",
            online.Params,
            online.place,
            exact_workers=True,
        ),
        Planner(
            "partition",
            "graph partitioning (Mt-KaHyPar), then local search on the true objective",
            "algorithms.md 10 (ours)",
            partition.Params,
            partition.place,
        ),
        Planner(
            "best",
            "cheapest plan of a portfolio, improved by annealing; never worse than the present placement",
            "algorithms.md 10 (ours)",
            best.Params,
            best.place,
        ),
        Planner(
            "exact",
            "proved optimum of small models (CP-SAT), or its bound",
            "algorithms.md 10 (ours)",
            exact.Params,
            exact.place,
        ),
    )
}


def planner_named(name: str) -> Planner:
    """The planner of that name; `UsageError` lists those there are."""
    if name not in PLANNERS:
        raise UsageError(f"there is no planner {name!r}; there are: {', '.join(PLANNERS)}")
    return PLANNERS[name]


def compute(
    model: Model,
    planner: str,
    params: Mapping[str, Value] | None = None,
    *,
    seed: int = 0,
    left_s: LeftS = lambda: math.inf,
) -> Plan | Infeasible:
    """Plan with the planner of that name. `left_s` says how many seconds are left (by the caller's clock)."""
    return run(planner_named(planner), model, params or {}, seed, left_s)
