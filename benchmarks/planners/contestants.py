"""Our planners with their settings. Storm's are in `storm.py`, partitioners in `baselines.py`.

A planner that is not in the registry, or lacks a parameter, is left out of the run and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stormpilot.errors import UsageError
from stormpilot.planner import PLANNERS, planner_named
from stormpilot.planner.flow.planning import Traffic
from stormpilot.planner.methods.best import default_iterations
from stormpilot.planner.registry import params_of


@dataclass(frozen=True)
class Ours:
    """A planner of ours by the name in the tables; `budget_s`: seconds that it is given (None: as long as it takes).

    `traffic`: what it minimises if it can, and what it is judged by.
    """

    name: str
    planner: str
    budget_s: float | None = None
    params: dict[str, float | int | str | bool] = field(default_factory=dict)
    traffic: Traffic = "measured"

    @property
    def missing(self) -> str | None:
        """Why it cannot run, if it cannot."""
        try:
            params_of(planner_named(self.planner), self.params)
        except UsageError as e:
            return str(e)
        return None


def best(budget_s: float, **params: float | int | str | bool) -> Ours:
    """The portfolio with a time budget and its own number of moves to try."""
    return Ours(f"best {budget_s:g} s" + _named(params), "best", budget_s, params)


def best_by_flows(budget_s: float) -> Ours:
    """The portfolio on what shuffles will really send."""
    return Ours(f"best {budget_s:g} s", "best", budget_s, traffic="flow")


def best_for(budget_s: float, executors: int) -> Ours:
    """The portfolio with moves to try in proportion to the budget: as many as by default in 10 s, six times in 60."""
    iterations = int(default_iterations(executors) * budget_s / 10)
    return Ours(f"best {budget_s:g} s", "best", budget_s, {"iterations": iterations})


def best_moving(budget_s: float, restart: float, tps: float) -> Ours:
    """Rollout-aware: the restart of a worker costs `restart` times the traffic of a mean executor, `tps`."""
    return Ours(f"best, restart {restart:g} x", "best", budget_s, {"restart_tps": restart * tps})


def exact(budget_s: float, **params: float | int | str | bool) -> Ours:
    """The proved optimum."""
    return Ours("exact" + _named(params), "exact", budget_s, params)


def heuristics(budget_s: float) -> list[Ours]:
    """Every planner that places, except the portfolio and the proof."""
    return [Ours(name, name, budget_s) for name in PLANNERS if name not in ("best", "exact")]


def _named(params: dict[str, float | int | str | bool]) -> str:
    return "".join(f" {name}={value}" for name, value in params.items())
