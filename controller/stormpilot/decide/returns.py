"""Executors that a plan would bring back to a node which they left because it was overloaded."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from stormpilot.decide.effect import HOUR_MS, spent_by
from stormpilot.messages.moves import MoveState
from stormpilot.model.values import Topology, TopologyPlan
from stormpilot.printable import counted

Returns = Mapping[int, tuple[str, int]]
"""By executor (first task): the node (supervisor id) to which it returns, and when it left that last, ms."""


def coming_back(topology: Topology, plan: TopologyPlan, move: MoveState | None, now_ms: int) -> Returns:
    """Executors that return by the plan to a node that was overloaded with them within the hour."""
    left_ms = {} if move is None else left_within_the_hour(move, now_ms)
    at = {a.start: a.supervisor for a in topology.assignment}
    planned = {start: w.supervisor for w in plan.workers for start, _ in w.executors}
    return {e: (s, left_ms[e, s]) for e, s in planned.items() if (e, s) in left_ms and at.get(e) != s}


def comes_back(back: Returns, now_ms: int) -> str:
    """A clause about executors that return, of which there are some."""
    nodes, last_ms = sorted({s for s, _ in back.values()}), max(at_ms for _, at_ms in back.values())
    return (
        f"{counted(len(back), 'executor')} would come back to {', '.join(nodes)}, which was left "
        f"{(now_ms - last_ms) / 60_000:.0f} min ago because it was overloaded"
    )


def left_within_the_hour(state: MoveState, now_ms: int) -> dict[tuple[int, str], int]:
    """Executors (first tasks) and the overloaded nodes that they left within the hour, with when that was last."""
    return {
        (start, node): past.at_ms
        for past in sorted(spent_by(state), key=lambda past: past.at_ms)
        if now_ms - past.at_ms < HOUR_MS
        for start, node in itertools.product(past.left, past.relieved)
    }
