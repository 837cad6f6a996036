"""Cost of a run: sums over steps, and one number to compare runs by.

    score = (network cost + overload_weight x tuples on overloaded nodes + restart_weight x tuples held up) / all tuples

Network cost is tuples x distance (1 same node, 2 same rack, 3 other rack: model/cost.py), so the score is the mean
distance of a tuple, plus what overload and restarts add to it. A tuple that waits for a restart waits seconds where one
that crosses the network waits under a millisecond, so one of the former counts as much as `restart_weight` distances;
so does one that arrives on a node that has no CPU left for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from stormpilot.history.replay.values import Played
from stormpilot.model.values import Value

NonNegative = Annotated[float, msgspec.Meta(ge=0)]


class Weights(Value, frozen=True, kw_only=True, rename="camel"):
    """Weight of a tuple on an overloaded node, and of one held up by a restart, in distances."""

    overload: NonNegative = 10.0
    restart: NonNegative = 10.0


class Totals(Value, frozen=True, kw_only=True, rename="camel"):
    """Sums over steps; `overload_minutes`: node minutes, `restart_s`: restarted workers x seconds that each stands."""

    steps: int = 0
    seconds: float = 0.0
    tuples: float = 0.0
    inter_node_tuples: float = 0.0
    network_cost: float = 0.0
    overload_minutes: float = 0.0
    overloaded_tuples: float = 0.0
    moves: int = 0
    moved_executors: int = 0
    restarted_workers: int = 0
    restart_s: float = 0.0
    held_up_tuples: float = 0.0
    refused: int = 0

    @property
    def inter_node_share(self) -> float:
        """Part of all tuples that goes between nodes."""
        return self.inter_node_tuples / self.tuples if self.tuples else 0.0


def totals(played: Iterable[Played], restart_s: float) -> Totals:
    """Add up."""
    rows = list(played)
    moves = [p.move for p in rows if p.move is not None]
    workers = sum(m.workers for m in moves)
    return Totals(
        steps=len(rows),
        seconds=sum(p.length_s for p in rows),
        tuples=sum(p.total_tps * p.length_s for p in rows),
        inter_node_tuples=sum(p.inter_node_tps * p.length_s for p in rows),
        network_cost=sum(p.network_cost_tps * p.length_s for p in rows),
        overload_minutes=sum(p.overloaded_node_s for p in rows) / 60,
        overloaded_tuples=sum(p.overloaded_tps * p.length_s for p in rows),
        moves=len(moves),
        moved_executors=sum(m.executors for m in moves),
        restarted_workers=workers,
        restart_s=workers * restart_s,
        held_up_tuples=sum(m.held_up_tuples for m in moves),
        refused=sum(bool(p.refused) for p in rows),
    )


def cost(p: Played, weights: Weights) -> float:
    """Cost of a step, in tuples x distance."""
    held_up = 0.0 if p.move is None else p.move.held_up_tuples
    return (p.network_cost_tps + weights.overload * p.overloaded_tps) * p.length_s + weights.restart * held_up


def score(t: Totals, weights: Weights) -> float:
    """The less, the better; 0 where nothing flowed."""
    cost = t.network_cost + weights.overload * t.overloaded_tuples + weights.restart * t.held_up_tuples
    return cost / t.tuples if t.tuples else 0.0
