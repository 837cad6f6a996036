"""Hosts of the cluster, by the names that `drain`, `exclude` and `pin` take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from stormpilot.observe.reader import StoreSnapshot
from stormpilot.printable import counted

SHOWN = 10
"""People are shown so many hosts; programs all."""


def hosts(seen: StoreSnapshot) -> list[dict[str, Any]]:
    """Every host with its supervisors: their ids, slots, and what uses them; by name."""
    executors = Counter(e.supervisor for t in seen.topologies.values() for e in t.executors)
    used = Counter(s for s, _ in {(e.supervisor, e.port) for t in seen.topologies.values() for e in t.executors})
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for s in sorted([] if seen.cluster is None else seen.cluster.supervisors, key=lambda s: s.id):
        found[s.host].append(
            {
                "id": s.id,
                "blacklisted": s.blacklisted,
                "slots": len(s.ports),
                "usedSlots": used[s.id],
                "executors": executors[s.id],
            }
        )
    drained = seen.settings.drains
    return [{"host": h, "drained": h in drained, "supervisors": parts} for h, parts in sorted(found.items())]


def host_lines(found: Iterable[dict[str, Any]]) -> list[str]:
    """The same for people, one line for each of the first hosts."""
    lines = [f"{h['host']}: {', '.join(map(_supervisor, h['supervisors']))}" for h in found]
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"and {more} more: `stormpilot status -f json` lists all"]


def _supervisor(s: dict[str, Any]) -> str:
    state = ", blacklisted" if s["blacklisted"] else ""
    slots, executors = counted(s["slots"], "slot"), counted(s["executors"], "executor")
    return f"supervisor {s['id']} ({s['usedSlots']} of {slots} used, {executors}{state})"
