"""Which components may be routed around, by what is known of them."""

from __future__ import annotations

from doubles.rolling import BEFORE, WORK, snapshot
from stormpilot.rollout.peer_capacity import routable


def test_a_component_with_a_task_that_reports_nothing_moves_by_restarts() -> None:
    """Nobody would see when the task works again, and gave it its tuples before."""
    seen = snapshot(BEFORE)
    assert "work" not in routable(seen, None, {1, *WORK}).why_not
    found = routable(seen, None, {1, 2, 3, 5})
    assert found.why_not["work"] == "task 4 reports no load"
    assert "work" not in found.active
    assert "work" not in routable(seen, None).why_not, "not asked"
