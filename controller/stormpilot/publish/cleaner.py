"""Removes what dead topologies left: history, proposal, requests, holds, routes, trials, what became of their moves.

The scheduler plug-in removes the rest (snapshots, status, plans, load, keyed state).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import structlog

from stormpilot.errors import RefusedError
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

log = structlog.get_logger(__name__)
GRACE_MS = 3_600_000
"""Time that a topology must be gone: a Nimbus that lost its memory for a while costs no history."""
KEPT_MINED = 5_000
"""Of so many topologies that are gone stays what was mined: a folder of twice as many is not read any more."""
AT_ONCE = 100
"""Topologies of which a cycle removes what was mined, at most: each costs some calls."""


class Cleaner:
    """Remembers since when topologies are gone; one per leadership."""

    def __init__(self, zookeeper: ZooKeeper, publisher: Publisher, grace_ms: int = GRACE_MS):
        self._zookeeper = zookeeper
        self._publisher = publisher
        self._grace_ms = grace_ms
        self._gone_since_ms: dict[str, int] = {}
        self._kept: set[str] = set()

    def clean(self, alive: Collection[str], now_ms: int) -> list[str]:
        """Look at what is there and remove what is due; the ids of topologies of which nothing is left.

        Raises
        ------
        DeposedError
            Another controller leads: nothing (more) was removed.
        """
        p: Paths = self._publisher.paths
        parents = [p.plan_history(), p.proposal(), p.request(), p.hold(), p.moves(), p.routes(), p.rollout()]
        parents.append(p.trial())  # its access list is that of who profiled first
        found = [self._names(parent) for parent in parents]
        ids = {i for names in found for i in names} - set(alive)
        self._gone_since_ms = {i: self._gone_since_ms.get(i, now_ms) for i in ids}
        removed = []
        due = sorted(i for i, since_ms in self._gone_since_ms.items() if now_ms - since_ms >= self._grace_ms)
        for i in due:
            self._publisher.write([])  # only while we lead
            if self._remove(i, [f"{parent}/{i}" for parent, names in zip(parents, found, strict=True) if i in names]):
                log.info("removed what a dead topology left", topology=i)
                removed.append(i)
        return removed

    def clean_mined(self, told_ms: Mapping[str, int], alive: Collection[str], oldest_ms: int) -> list[str]:
        """Remove what was mined of topologies that are gone, once it is older than `oldest_ms`, or beyond `KEPT_MINED`.

        Returns the ids of these. `told_ms`: until when it tells, by topology id; of what could not be read that is when
        it was written. Until then it serves a topology that is submitted anew under the same name.

        Raises `DeposedError` as `clean`.
        """
        removed = []
        folder = self._publisher.paths.thresholds()
        left = [i for i in self._names(folder) if i not in alive]
        unread = [i for i in left if i not in told_ms]
        stats = self._zookeeper.stats([f"{folder}/{i}" for i in unread], keep_denied=True)
        at_ms = {i: s.written_at_ms for i, s in zip(unread, stats, strict=True) if s is not None and not s.denied}
        at_ms |= {i: told_ms[i] for i in left if i in told_ms}
        oldest = sorted(at_ms, key=lambda i: (at_ms[i], i))
        due = [i for n, i in enumerate(oldest) if at_ms[i] < oldest_ms or len(oldest) - n > KEPT_MINED][:AT_ONCE]
        for i in due:
            self._publisher.write([])  # only while we lead
            if self._remove(i, [self._publisher.paths.thresholds(i), self._publisher.paths.profile(i)]):
                log.info("removed what was mined of a topology that is gone", topology=i)
                removed.append(i)
        return removed

    def _names(self, folder: str) -> list[str]:
        """Names below a folder; none, where its access list is that of somebody else: the reader names it."""
        with suppress(RefusedError):
            return self._zookeeper.children([folder])[0]
        return []

    def _remove(self, topology_id: str, paths: Iterable[str]) -> bool:
        """Remove znodes of a topology; False, said once, where an access list or a new child does not let us."""
        try:
            for path in paths:
                self._zookeeper.delete(path)
        except RefusedError as e:
            if topology_id not in self._kept:
                log.warning("what a dead topology left cannot be removed", topology=topology_id, why=e)
            self._kept.add(topology_id)
            return False
        return True
