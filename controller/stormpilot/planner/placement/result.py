"""Result of a method, besides a layout."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.planner.placement.layout import Layout


@dataclass(frozen=True)
class Result:
    """A layout with what the planner has to say about it (for `Plan.notes`)."""

    layout: Layout
    notes: tuple[str, ...] = ()
