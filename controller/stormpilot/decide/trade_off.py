"""Trade-off of a move: what it saves for as long as that is expected to last, against what its kind of move costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stormpilot.decide.move_strategy import SWITCH_S, MoveStrategy
from stormpilot.decide.restarts import RestartTime, held_up_tps, restarting
from stormpilot.model.values import Edge, Topology, TopologyPlan
from stormpilot.printable import counted, tuples


@dataclass(frozen=True)
class MoveCost:
    """Cost of a plan of one topology: tuples held up by restarts and by rolling moves (one of the two is 0).

    `restarted_workers` start or restart; `by` says what holds the tuples up.
    """

    held_up: tuple[float, float] = (0.0, 0.0)
    restarted_workers: int = 0
    by: str = ""


def move_cost(
    topology: Topology, plan: TopologyPlan, traffic: Sequence[Edge], strategy: MoveStrategy, restart: RestartTime
) -> MoveCost:
    """The cost of a plan by which executors that run move, by its strategy."""
    if strategy.how == "rolling":
        around = f"{tuples(strategy.around_tps)} tuples/s are led around, {SWITCH_S:g} s"
        by = f"{counted(strategy.steps, 'step')} without restarts ({around})"
        return MoveCost((0.0, strategy.around_tps * SWITCH_S), 0, by)
    workers = len(restarting(topology, plan))
    held_up = held_up_tps(topology, plan, traffic) * restart.seconds
    return MoveCost((held_up, 0.0), workers, f"restarts ({restart.text}) of {counted(workers, 'worker')}")


@dataclass(frozen=True)
class TradeOff:
    """`saved_tps` fewer tuples/s between nodes for `lasts_s`, against `held_up` tuples by what `by` says."""

    saved_tps: float
    lasts_s: float
    held_up: float
    by: str

    @property
    def saved(self) -> float:
        """Tuples that are not sent between nodes."""
        return self.saved_tps * self.lasts_s

    @property
    def text(self) -> str:
        """Its terms, as `explain` shows them."""
        return (
            f"{tuples(self.saved_tps)} tuples/s less between nodes, taken to last {self.lasts_s:.0f} s, are "
            f"{tuples(self.saved)} tuples; {tuples(self.held_up)} are held up by {self.by}"
        )
