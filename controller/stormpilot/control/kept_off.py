"""Nodes to which `otd` does not move an executor for a while: they would carry less, or it came from there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stormpilot.decide.effect import HOUR_MS
from stormpilot.model.carried import core_mhz
from stormpilot.model.compiled import Compiled

KEPT_OFF_MS = 600_000
"""For so long an executor is not moved to a node to which a step was refused."""
RETURN_MS = HOUR_MS
"""For so long traffic alone does not bring an executor back: two nodes with which it has nearly the same would."""
Name = tuple[str, int]
"""Topology id, and first task of an executor."""


@dataclass
class KeptOff:
    """By executor: the nodes to which it is not moved, and until when; where it is, and where it was before."""

    _nodes: dict[Name, tuple[frozenset[str], int]] = field(default_factory=dict)
    _at: dict[Name, str] = field(default_factory=dict)
    _left: dict[Name, tuple[str, int]] = field(default_factory=dict)

    def look(self, compiled: Compiled, now_ms: int) -> None:
        """Remember where executors are, whoever moved them; all of these have a slot."""
        self._left = {name: left for name, left in self._left.items() if left[1] > now_ms - RETURN_MS}
        for e in range(compiled.executors):
            name, node = compiled.name(e), compiled.node_ids[compiled.slot_node[compiled.current[e]]]
            if (before := self._at.get(name, node)) != node:
                self._left[name] = before, now_ms
            self._at[name] = node

    def keep_only(self, topology_ids: frozenset[str]) -> None:
        """Forget the executors of other topologies."""
        self._at = {name: node for name, node in self._at.items() if name[0] in topology_ids}

    def came_from(self, compiled: Compiled, executor: int, slot: int, now_ms: int) -> float | None:
        """Minutes since the executor left the node of a slot, where that is the last one it left within the hour."""
        node, at_ms = self._left.get(compiled.name(executor), ("", 0))
        return (now_ms - at_ms) / 60_000 if node == compiled.node_ids[compiled.slot_node[slot]] else None

    def keep(self, compiled: Compiled, executor: int, slot: int, now_ms: int, *, too_slow: bool) -> bool:
        """Remember that an executor does not move to the node of a slot; False where it is there already.

        `too_slow`: less would be carried there. Where its cores are slower than those on which the executor runs, it
        does not move to others as slow either.
        """
        here, there = compiled.slot_node[[compiled.current[executor], slot]].tolist()
        mhz = core_mhz(compiled)
        nodes = np.flatnonzero(mhz <= mhz[there]).tolist() if too_slow and mhz[there] < mhz[here] else [there]
        before, _ = self._nodes.get(compiled.name(executor), (frozenset[str](), 0))
        kept = before | {compiled.node_ids[n] for n in nodes}
        self._nodes[compiled.name(executor)] = kept, now_ms + KEPT_OFF_MS
        return bool(here != there)

    def without(self, compiled: Compiled, now_ms: int) -> Compiled:
        """The arrays in which executors may not be where they are kept off."""
        self._nodes = {name: kept for name, kept in self._nodes.items() if kept[1] > now_ms}
        if not self._nodes:
            return compiled
        klass, rows = compiled.klass.copy(), list(compiled.allowed)
        for e in range(compiled.executors):
            if (kept := self._nodes.get(compiled.name(e))) is not None:
                nodes, _ = kept
                rows.append(rows[klass[e]] & np.array([n not in nodes for n in compiled.node_ids]))
                klass[e] = len(rows) - 1
        return replace(compiled, klass=klass, allowed=np.array(rows))
