"""Strategy a plan is to be carried out, and what either way costs: worked out in `migrate/manner.py`, weighed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["restart", "rolling"]


@dataclass(frozen=True)
class MoveStrategy:
    """Strategy a plan of one topology is carried out, and why so.

    `steps` is how many steps nonstop takes, `around_tps` the tuples/s that arrive at executors that are routed around,
    a step at a time, summed over the steps. `fixed` names what cannot be emptied, with the reasons. `forbidden`: the
    plan needs restarts, and those are not wanted (`decide.move_strategy`).
    """

    how: Strategy
    text: str
    steps: int = 0
    around_tps: float = 0.0
    fixed: tuple[str, ...] = ()
    forbidden: bool = False


SWITCH_S = 0.2
"""Strategy long tuples are on their way to a task that was routed around: 0.13 to 0.18 s (measured on Storm 2.8.3)."""
