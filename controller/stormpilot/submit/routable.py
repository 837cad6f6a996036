"""Lets tuples follow routes: Storm's groupings in a topology become ours, which do the same until there is a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streamparse import Grouping

from stormpilot.errors import UsageError
from stormpilot.instrument.keyed import hands_over
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.messages.handover import HANDOVER_KEY
from stormpilot.messages.routes import STANDBY_KEY

MOST_STANDBY = 100_000
"""Standby executors of a component at most, as in the plug-in's validator: Storm counts executors in 32 bits."""

CLASS = "io.stormpilot.worker.route.RoutedGrouping"
"""In the worker's jar, which must lie in `extlib/` of every supervisor."""


def make_routable(topology: Any) -> list[str]:
    """Change every SHUFFLE, LOCAL_OR_SHUFFLE and FIELDS grouping of a Thrift `StormTopology` in place.

    Returns the ids of the bolts that can be routed: all of their inputs follow routes.
    """
    routable = []
    for component_id, bolt in sorted(topology.bolts.items()):
        if component_id == COLLECTOR_ID:
            continue
        inputs = bolt.common.inputs
        for stream, grouping in inputs.items():
            original = _original(grouping)
            if original:
                inputs[stream] = Grouping.custom_object(CLASS, [original])
        if inputs and all(_is_ours(g) for g in inputs.values()):
            routable.append(component_id)
    return routable


def add_standby(
    topology: Any, standby: Mapping[str, int], routable: list[str], where: str, conf: Mapping[str, Any] | None = None
) -> None:
    """Give bolts so many executors more, which get no tuples until a route names them; `conf`: of the topology.

    `UsageError` where a component is unknown, is no bolt that can be routed, or has fewer tasks than executors.
    """
    for component_id, count in sorted(standby.items()):
        if component_id not in routable:
            known = ", ".join(routable) or "none"
            raise UsageError(f"{where}: --standby {component_id}={count}: expected a bolt that can be routed: {known}")
        common = topology.bolts[component_id].common
        config = json.loads(common.json_conf or "{}")
        wanted = (common.parallelism_hint or 1) + count
        merged = {**(conf or {}), **config}
        tasks, most = merged.get("topology.tasks"), merged.get("topology.max.task.parallelism")
        if tasks is not None or (most is not None and most < wanted):
            key = "topology.tasks" if tasks is not None else "topology.max.task.parallelism"
            raise UsageError(
                f"{where}: --standby {component_id}={count}: it has {key} = {merged[key]}, so that Storm makes no "
                f"task for it; raise that yourself and set {STANDBY_KEY}"
            )
        common.parallelism_hint = wanted
        common.json_conf = json.dumps(config | {STANDBY_KEY: count}, sort_keys=True)


def mark_handovers(topology: Any, components: Mapping[str, type], routable: list[str]) -> list[str]:
    """Note in the configuration of routable bolts that their tasks hand keyed state over; returns those.

    `components`: the Python class of each component id.
    """
    marked = [c for c in routable if c in components and hands_over(components[c])]
    for component_id in marked:
        common = topology.bolts[component_id].common
        config = json.loads(common.json_conf or "{}")
        common.json_conf = json.dumps(config | {HANDOVER_KEY: True}, sort_keys=True)
    return marked


def parse_standby(options: list[str]) -> dict[str, int]:
    """`component=n` as given on a command line."""
    found = {}
    for option in options:
        component_id, _, count = option.rpartition("=")
        if not component_id or not count.isdecimal() or not 1 <= int(count) <= MOST_STANDBY:
            raise UsageError(
                f"--standby {option}: expected component=number, a number from 1 to {MOST_STANDBY}, as count=1"
            )
        found[component_id] = int(count)
    return found


def _original(grouping: Any) -> str:
    if grouping.shuffle is not None:
        return "SHUFFLE"
    if grouping.local_or_shuffle is not None:
        return "LOCAL_OR_SHUFFLE"
    if grouping.fields:  # none: Storm's way to write GLOBAL
        return f"FIELDS {json.dumps(grouping.fields)}"
    return ""


def _is_ours(grouping: Any) -> bool:
    return grouping.custom_object is not None and grouping.custom_object.full_class_name == CLASS
