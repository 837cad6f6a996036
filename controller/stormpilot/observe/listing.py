"""The names in folders of ZooKeeper that anybody may fill: one with too many children keeps the names of the last time.

Whoever can write one znode can write a hundred thousand, and all of them would be read in every cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from stormpilot.zookeeper.client import Watch, ZooKeeper

MAX_CHILDREN = 10_000
"""As in the plug-in: a longer list might not fit into a packet (`jute.maxbuffer`)."""


class Listing:
    """Remembers the names that folders had when they were last read."""

    def __init__(self, zookeeper: ZooKeeper, watch: Watch | None = None):
        self._zookeeper = zookeeper
        self._watch = watch
        self._last: dict[str, list[str]] = {}
        self.unknown: frozenset[str] = frozenset()
        """Folders of the last reading with too many names that were never read: anything may be in them."""

    def children(self, parents: Sequence[str], problems: dict[str, str]) -> list[list[str]]:
        """Names below many znodes, sorted; `problems` is given folders with too many, by path."""
        stats = dict(zip(parents, self._zookeeper.stats(parents), strict=True))
        too_many = {p: s.children for p, s in stats.items() if s is not None and s.children > MAX_CHILDREN}
        readable = [p for p in parents if p not in too_many]
        found = dict(zip(readable, self._zookeeper.children(readable, self._watch), strict=True))
        for path, children in too_many.items():
            kept = self._last.get(path, [])
            problems[path] = f"{path}: it has {children} children, more than {MAX_CHILDREN}; {len(kept)} are still read"
        self.unknown = frozenset(p for p in too_many if p not in self._last)
        self._last.update(found)
        return [found.get(p, self._last.get(p, [])) for p in parents]
