"""Move strategy of a plan and its cost: computed in `rollout/feasibility.py`, weighed in `evaluate.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["restart", "rolling"]


@dataclass(frozen=True)
class MoveStrategy:
    """The strategy by which a plan of one topology is carried out, with the reason.

    `steps` is the number of rolling moves. `around_tps` are the tuples/s that arrive at executors while they are routed
    around, summed over the steps. `fixed` names the workers that cannot be emptied, with the reasons. `forbidden`: the
    plan needs restarts, and `decide.move_strategy` does not allow them.
    """

    how: Strategy
    text: str
    steps: int = 0
    around_tps: float = 0.0
    fixed: tuple[str, ...] = ()
    forbidden: bool = False

    @property
    def sentence(self) -> str:
        """Strategy and reason, as messages and `status` have them."""
        return f"{self.how}: {self.text}"


SWITCH_S = 0.2
"""Time that tuples are on their way to a task that was routed around: 0.13 to 0.18 s (measured on Storm 2.8.3)."""
