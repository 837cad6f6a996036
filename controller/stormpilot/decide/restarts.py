"""Cost of restarts: the downtime of a worker and the tuples that it holds up.

The downtime is measured in our own moves; until then it is the configured number.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stormpilot.messages.controller_state import Restart
from stormpilot.messages.rollouts import running_workers
from stormpilot.model.values import Edge, Topology, TopologyPlan, Worker
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


def restarting(topology: Topology, plan: TopologyPlan) -> list[Worker]:
    """Workers of the plan that do not run now exactly so: Storm starts or restarts them."""
    now = running_workers({a.start: (a.supervisor, a.port) for a in topology.assignment})
    return [w for w in plan.workers if now.get((w.supervisor, w.port)) != {start for start, _ in w.executors}]


def held_up_tps(topology: Topology, plan: TopologyPlan, traffic: Sequence[Edge]) -> float:
    """Tuples/s held up by a plan: those that arrive in workers that it starts or restarts, and those of spouts there.

    Nothing arrives at a spout from another executor. What others would send follows from what arrives at them.
    """
    moved = {start for w in restarting(topology, plan) for start, _ in w.executors}
    sources = {c.id for c in topology.components if c.kind == "spout"}
    silent = {e.start for e in topology.executors if e.component in sources} & moved
    own = (e for e in traffic if e.topology == topology.id)
    return sum(e.rate for e in own if e.to in moved or e.from_ in silent)
