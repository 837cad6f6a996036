"""Parts of the time that `best` and `partition` on flows give to what they do before and after the search."""

from __future__ import annotations

from stormpilot.planner.methods import candidates
from stormpilot.planner.registry import Planner


def large(executors: int) -> bool:
    """Whether a try costs so much that the search on flows adds little to the starts, and a partition takes seconds."""
    return executors > candidates.QUICK_BELOW


def pairs_part(planner: Planner, executors: int) -> float:
    """Of all time, what goes to measured pairs; the partition of a large model cannot be cut short."""
    if planner.composite:
        return 0.2 if executors < candidates.PARTITION_FROM else 0.1
    return 1.0 if large(executors) else 0.3


def matched_part(executors: int) -> float:
    """Of the time that is left after `_partition`, what goes to the plan on matched traffic."""
    return 0.75 if large(executors) else 0.45
