"""What the planners of ours can minimise."""

from __future__ import annotations

from typing import Literal

from stormpilot.errors import UsageError

ObjectiveName = Literal["inter_node", "network_cost"]

TIE = 1e-9  # of all traffic: what a restart costs at least, so that of equal plans the one with fewest restarts wins
SECOND = 1e-4  # weight of inter-worker traffic, which decides between plans of equal inter-node traffic


def distance_of(objective: str) -> tuple[float, float, float]:
    """Cost of a tuple between workers on the same node, in the same rack, in another rack.

    `inter_node`: tuples/s between nodes first, between workers second. `network_cost`: tuples/s weighted by distance
    (algorithms.md, section 0).
    """
    if objective == "inter_node":
        return (SECOND, 1.0, 1.0)
    if objective == "network_cost":
        return (1.0, 2.0, 3.0)
    raise UsageError(f"objective is {objective!r}, expected inter_node or network_cost")
