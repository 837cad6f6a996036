"""Routable components of a topology, and their active tasks."""

from __future__ import annotations

from stormpilot.messages.core import ComponentPart, TopologySnapshot
from stormpilot.messages.handover import HANDOVER_KEY
from stormpilot.messages.routes import STANDBY_KEY, ComponentRoute, Routes, first_route

ROUTABLE = ("SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS")
"""Groupings that one of ours can stand in for."""


def why_not_routable(component: ComponentPart) -> str:
    """Why a component's tuples cannot be routed; empty if they can. A load report's stream does not count."""
    if component.kind == "system":
        return "it is Storm's own"
    if component.kind != "bolt":
        return f"it is a {component.kind}: nothing is sent to it that could go elsewhere"
    if not component.inputs:
        return "it has no input"
    fixed = [i for i in component.inputs if not i.routed]
    if not fixed:
        return ""
    what = ", ".join(f"{i.component}:{i.stream} ({i.grouping})" for i in fixed)
    could = all(i.grouping in ROUTABLE for i in fixed)
    return f"{what} does not follow routes" + ("; submit with --routable" if could else "")


def tasks_of(snapshot: TopologySnapshot, component: str) -> list[int]:
    """The tasks of a component, rising."""
    return sorted(t for e in snapshot.executors if e.component == component for t in range(e.start, e.end + 1))


def route_in_force(snapshot: TopologySnapshot, component: str, table: Routes | None) -> ComponentRoute:
    """The route of a routable component: the table's, else what workers do without one."""
    if table is not None and (route := table.of(component)) is not None:
        return route
    part = next(c for c in snapshot.components if c.id == component)
    standby = part.config.get(STANDBY_KEY)
    keyed = any(i.grouping == "FIELDS" for i in part.inputs)
    declared = standby if isinstance(standby, int) and not isinstance(standby, bool) else 0
    hands_over = part.config.get(HANDOVER_KEY) is True
    return first_route(component, tasks_of(snapshot, component), declared, keyed, hands_over)
