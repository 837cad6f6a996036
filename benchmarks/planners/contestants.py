"""Who plans: our planners with their settings. Storm's are in `storm.py`, partitioners in `baselines.py`.

A planner that is not in the registry, or lacks a parameter, is left out of the run and the report says so.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from stormpilot.planner import PLANNERS


@dataclass(frozen=True)
class Ours:
    """A planner of ours by the name in the tables; `budget_s`: seconds that it is given (None: as long as it takes)."""

    name: str
    planner: str
    budget_s: float | None = None
    params: dict[str, float | int | str | bool] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        """Why it cannot run, if it cannot."""
        if self.planner not in PLANNERS:
            return f"there is no planner {self.planner} yet"
        known = {f.name for f in dataclasses.fields(PLANNERS[self.planner].params)}
        unknown = sorted(set(self.params) - known)
        return f"planner {self.planner} has no parameter {unknown[0]}" if unknown else None


def best(budget_s: float, **params: float | int | str | bool) -> Ours:
    """The portfolio with a time budget."""
    setting = "".join(f" {k}={v}" for k, v in params.items())
    return Ours(f"best {budget_s:g} s{setting}", "best", budget_s, params)


def exact(budget_s: float, **params: float | int | str | bool) -> Ours:
    """The proved optimum."""
    setting = "".join(f" {k}={v}" for k, v in params.items())
    return Ours(f"exact{setting}", "exact", budget_s, params)


def heuristics(budget_s: float) -> list[Ours]:
    """Every planner that places, except the portfolio and the proof."""
    return [Ours(name, name, budget_s) for name in PLANNERS if name not in ("best", "exact")]
