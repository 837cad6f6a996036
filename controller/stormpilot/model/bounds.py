"""Numbers that a model may have: what is beyond them is a mistake, or somebody's attempt to break what reads it."""

from __future__ import annotations

from stormpilot.model.values import Executor

MOST = 1e12
"""Tuples/s, MHz, MB: more than any cluster has, and sums of millions of them are exact enough."""
MOST_CORES = 1e6
MOST_INT = 2**31 - 1
"""Storm numbers tasks, workers and priorities in 32 bits."""
MOST_TASKS = 1_000_000
"""Of one executor."""
MOST_PORT = 65_535


def is_amount(number: float | None) -> bool:
    """Whether a rate, CPU or memory can be that; one that is not there can."""
    return number is None or 0 <= number <= MOST


def is_port(port: int) -> bool:
    """Whether a slot can have this port."""
    return 0 <= port <= MOST_PORT


def wrong_tasks(executor: Executor, before: Executor | None) -> tuple[str, str] | None:
    """Which field of an executor cannot be, and why; `before` is the one with the tasks below its own."""
    start, end = executor.start, executor.end
    if not 0 <= start <= MOST_INT:
        return "start", f"is {start}, expected 0 to {MOST_INT}"
    if end < start:
        return "end", f"is {end}, expected at least start ({start})"
    if end - start >= MOST_TASKS or end > MOST_INT:
        return "end", f"is {end}, expected at most {MOST_TASKS} tasks from start ({start})"
    if before is not None and before.start < start <= before.end:
        return "start", f"is {start}, but the executor of tasks {before.start} to {before.end} has that task too"
    return None
