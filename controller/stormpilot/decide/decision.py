"""The decision about one topology: what is done with a plan, or why none is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.effect import Promise
from stormpilot.decide.expectation import Expectation
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.reasons import Reason

Action = Literal["publish", "advise", "skip"]


@dataclass(frozen=True)
class Decision:
    """The decision about one topology. `value` against `threshold` is the number that decided, where there is one.

    `until_ms` is when the reason goes away by itself, where that is known. `inter_node_tps` are those of the topology
    now and in the plan; `promise` is the expected effect of the move, where it is measured. `threshold_from` names the
    source of the threshold, empty: the configuration. `strategy` is the strategy of the move (None: not known),
    `held_up` the tuples that the move holds up, by restarts and by rolling moves, and `restarted_workers` how many
    workers it restarts (None: not known). `trade_off` weighs the two as a sentence. `expectation` is what a plan that
    moves does to latency and to the rate that is carried.
    """

    topology_id: str
    action: Action
    reason: Reason
    text: str = ""
    value: float | None = None
    threshold: float | None = None
    until_ms: int | None = None
    moved_executors: int = 0
    inter_node_tps: tuple[float | None, float | None] = (None, None)
    promise: Promise | None = None
    threshold_from: str = ""
    strategy: MoveStrategy | None = None
    held_up: tuple[float, float] = (0.0, 0.0)
    restarted_workers: int | None = None
    trade_off: str = ""
    expectation: Expectation | None = None


def skip(
    topology_id: str,
    reason: Reason,
    text: str,
    *,
    value: float | None = None,
    threshold: float | None = None,
    until_ms: int | None = None,
) -> Decision:
    """A decision to leave a topology as it is."""
    return Decision(topology_id, "skip", reason, text, value=value, threshold=threshold, until_ms=until_ms)
