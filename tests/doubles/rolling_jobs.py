"""Jobs that can be routed, in a whole controller: where they run, and where the planner wants them."""

from __future__ import annotations

import msgspec

from doubles.world import Slots, World
from stormpilot.config.rollout import MoveStrategyName
from stormpilot.operate import Operator

APART: Slots = {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("c", 6700): (3,)}
"""All that `source` sends to `parse` (2, 3), and what that sends to `sink`, crosses nodes."""


TOGETHER: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("a", 6702): (3,)}


HALF: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("c", 6700): (3,)}


SOURCE_TOO: Slots = {("b", 6701): (1, 4, 5, 6), ("b", 6700): (2,), ("b", 6702): (3,)}
"""As good as TOGETHER, but the spout's worker restarts."""


def world(moves: MoveStrategyName = "auto", wanted: Slots = TOGETHER, hands_over: bool = False) -> tuple[World, str]:
    """A job that runs on three nodes and is measured; the planner wants it elsewhere."""
    w = World("a", "b", "c", settings="rollout: {task_refresh_s: 4, step_interval_s: 2, start_timeout_s: 60}\n")
    w.config = msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, move_strategy=moves))
    w.new_leader()
    t = w.submit(APART, routed=True, hands_over=hands_over)
    w.tell(40)
    w.wanted = {t: wanted}
    return w, t


def nodes(slots: Slots) -> set[tuple[str, tuple[int, ...]]]:
    return {(node, tasks) for (node, _), tasks in slots.items()}


def all_active(w: World, t: str) -> bool:
    table = w.routes(t)
    return table is None or all(
        c.active == {"parse": [2, 3], "sink": [4]}[c.component] and not c.draining for c in table.components
    )


def begun(w: World, t: str, phase: str = "") -> None:
    """Until a rollout runs (in this phase)."""
    for _ in range(60):
        m = w.rollout(t)
        if m is not None and m.running and phase in ("", m.phase):
            return
        w.tell(2)
    raise AssertionError("no rollout began")


def operator(w: World) -> Operator:
    return Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]


def two() -> tuple[World, str, str]:
    """Rollouts of two topologies begin."""
    w, first = world()
    w.wanted = {}
    second = w.submit({("b", 6701): (1, 4, 5, 6), ("c", 6701): (2,), ("c", 6702): (3,)}, name="words", routed=True)
    w.tell(40)
    w.wanted = {first: TOGETHER, second: {("b", 6701): (1, 4, 5, 6), ("b", 6702): (2,), ("b", 6703): (3,)}}
    begun(w, second)
    return w, first, second
