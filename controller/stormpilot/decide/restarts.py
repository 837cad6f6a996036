"""Downtime of a worker that restarts: measured in our own moves, the configured number until then."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stormpilot.messages.controller_state import Restart
from stormpilot.printable import counted

KEPT_RESTARTS = 50
OWN_MOVES = 3
"""So many moves of a topology tell more about it than those of all the others."""
WEIGHTLESS_PRIOR = 3
"""From so many moves on the configured number does not count any more."""


@dataclass(frozen=True)
class RestartTime:
    """Downtime in seconds, and the number of moves that it was measured in; 0 moves: it is `prior_from`."""

    seconds: float
    moves: int
    own: bool = False
    prior_from: str = "configured"

    @property
    def text(self) -> str:
        """The number with its origin."""
        if not self.moves:
            return f"{self.seconds:.0f} s, {self.prior_from}"
        moves = counted(self.moves, "move")
        return f"{self.seconds:.0f} s, measured in {moves}" + (" of this topology" if self.own else "")


def restart_time(
    restarts: Sequence[Restart], topology: str, prior_s: float, prior_from: str = "configured"
) -> RestartTime:
    """The median over the topology's own moves, else over all; few are weighed with `prior_s` as one more."""
    own = [r.downtime_s for r in restarts if r.topology == topology]
    if len(own) >= OWN_MOVES:
        return RestartTime(statistics.median(own), len(own), own=True)
    known = [r.downtime_s for r in restarts]
    prior = [prior_s] if len(known) < WEIGHTLESS_PRIOR else []
    return RestartTime(statistics.median([*known, *prior]), len(known), prior_from=prior_from)
