"""Own gains of a closed loop: whether a topology runs faster because our last move placed it better."""

from __future__ import annotations

from stormpilot.decide.effect import Outcome
from stormpilot.decide.reasons import Reason, row_of
from stormpilot.messages.moves import MoveState
from stormpilot.model.closed_loop import Sources

LEAST_RISE = 0.1
"""A rate that rose by less than this part did not rise."""
NOT_WON = (Outcome.WORSE, Outcome.REJECTED, Outcome.OVERTAKEN)
"""After these a topology does not run as its last move wanted it."""


def made_for_traffic(move: MoveState) -> bool:
    """Whether a move was made for less traffic between nodes; one that was approved, by what it promised."""
    if move.reason == Reason.APPROVED:
        return move.metric is not None and not move.nodes
    row = row_of(move.reason)
    return row is not None and row.keeps_headroom


def before_own_gain(move: MoveState | None, sources: Sources, now_tps: float) -> float | None:
    """Tuples/s before our last move for traffic, where the rate rose by it; None where it did not, or by more input."""
    if move is None or not made_for_traffic(move) or move.verdict in NOT_WON:
        return None
    before_tps = move.throughput_before_tps
    if before_tps <= 0 or now_tps < before_tps * (1 + LEAST_RISE):
        return None
    if sources.held:
        return before_tps
    was_held = move.metric == "us_per_tuple"
    rose_once_more = now_tps > move.throughput_tps * (1 + LEAST_RISE)
    return before_tps if not rose_once_more and (was_held or sources.held is None) else None
