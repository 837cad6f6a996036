"""A job in a whole controller that moves by restarts: it runs spread out, and the planner wants it elsewhere."""

from __future__ import annotations

from doubles.wanted import Slots
from doubles.world import NEAR, SPREAD, World


def world(settings: str = "", *, wanted: Slots = NEAR) -> tuple[World, str]:
    """A job that runs spread out and is measured; the planner wants it so, or near."""
    w = World("a", "b", settings=settings)
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: wanted}
    return w, t
