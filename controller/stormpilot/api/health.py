"""`/healthz`: does the controller's thread go on? `/readyz`: can this process act, or take over at once?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from stormpilot.api.board import ProcessStatus
from stormpilot.config import Config
from stormpilot.operate.status import stuck_after_s

GROUPS = 4
"""A cycle plans at most so many groups of topologies, each within the planner's budget."""
LEAVING = 10
"""Beside them it plans topologies that must leave a host, for at most so many of these budgets: for each of two
modes two and the three plans of the last one (`control/drains.py`)."""
CALLS_S = 60.0
"""Limit for reading and writing while ZooKeeper answers slowly."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`ok`, and why (not)."""

    ok: bool
    text: str
    controller: str
    part: Literal["starting", "standby", "leading", "stopping"]


def fresh_for_s(config: Config) -> float:
    """The age at which the last cycle of a leader is too old."""
    return stuck_after_s(config.cycle.period_s) + (GROUPS + LEAVING) * config.planner.budget_s


def alive(board: ProcessStatus, config: Config) -> Health:
    """Whether the thread that runs the cycles has been seen lately; a standby waits without a sign of life."""
    silent_s = board.clock_s() - board.beat_s
    limit_s = fresh_for_s(config) + CALLS_S
    if board.part == "leading" and silent_s > limit_s:
        return _health(board, False, f"the cycle has hung for {silent_s:.0f} s (expected at most {limit_s:.0f} s)")
    return _health(board, True, "alive")


@dataclass(frozen=True)
class LeaderSeen:
    """The age of the state that the leader wrote last (seconds), and its name; or why that is not known."""

    name: str = ""
    age_s: float | None = None
    why_not: str = "which has written nothing yet"


def ready(board: ProcessStatus, config: Config, leader: LeaderSeen) -> Health:
    """Whether ZooKeeper is connected, and we lead with a fresh cycle or are standby of a leader with a fresh one."""
    limit_s, cycle_s = fresh_for_s(config), board.cycle_s  # once: it goes when the leadership ends
    if not board.zookeeper_connected():
        return _health(board, False, "ZooKeeper is not connected")
    if board.part == "leading":
        if cycle_s is None:
            return _health(board, False, "leading, and the first cycle is not over yet")
        age_s = board.clock_s() - cycle_s
        fresh = age_s <= limit_s
        return _health(board, fresh, f"leading; the last cycle was {age_s:.0f} s ago")
    if board.part == "standby":
        if leader.age_s is None:
            return _health(board, False, f"standby for {board.leader}, {leader.why_not}")
        fresh = leader.age_s <= limit_s
        return _health(board, fresh, f"standby for {leader.name}, whose last cycle was {leader.age_s:.0f} s ago")
    return _health(board, False, board.part)


def _health(board: ProcessStatus, ok: bool, text: str) -> Health:
    return Health(ok=ok, text=text, controller=board.name, part=board.part)
