"""Writes the plans of one decision: all of them or none, only while we lead, only over what we have read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stormpilot.errors import RefusedError
from stormpilot.model.messages import HistoryEntry, encode
from stormpilot.paths import Paths
from stormpilot.publish.epoch import Epoch
from stormpilot.zookeeper import Check, ConflictError, Put, ZooKeeper

KEPT_PLANS = 20
"""How many plans of a topology `plan-history/` keeps."""
TRANSACTION_BYTES = 900 * 1024
"""What one request to ZooKeeper may hold (its limit is 1 MiB)."""


class DeposedError(RefusedError):
    """Another controller leads: the epoch was raised after ours."""


class Publisher:
    """Publishes in the name of one epoch."""

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, epoch: Epoch):
        self._zookeeper = zookeeper
        self.paths = paths
        self.epoch = epoch

    def publish(self, entries: Sequence[HistoryEntry], versions: Mapping[str, int]) -> None:
        """Write the plans of one round and their history.

        A round that is too large for one transaction goes in several; the plug-in waits until it has the whole round.

        Parameters
        ----------
        entries
            One per topology.
        versions
            Version of `plans/<id>` as it was read, per topology id; none where there was no such znode.

        Raises
        ------
        DeposedError
            Another controller raised the epoch: nothing (more) was written.
        ConflictError
            Somebody else changed a plan after it was read.
        """
        p = self.paths
        self._zookeeper.ensure([p.plan(), *(p.plan_history(e.plan.topology_id) for e in entries)])
        numbers = self._zookeeper.children([p.plan_history(e.plan.topology_id) for e in entries])
        batch: list[Check | Put] = []
        size = 0
        for entry, kept in zip(entries, numbers, strict=True):
            topology_id = entry.plan.topology_id
            n = 1 + max((int(k) for k in kept if k.isdigit()), default=0)
            steps = [
                Put(p.plan(topology_id), encode(entry.plan), versions.get(topology_id)),
                Put(p.plan_history(topology_id, f"{n:010d}"), encode(entry), None),
            ]
            more = sum(len(s.data) for s in steps)
            if batch and size + more > TRANSACTION_BYTES:
                self._commit(batch)
                batch, size = [], 0
            batch += steps
            size += more
        self._commit(batch)
        for entry, kept in zip(entries, numbers, strict=True):
            for old in sorted(kept)[: max(0, len(kept) + 1 - KEPT_PLANS)]:
                self._zookeeper.delete(p.plan_history(entry.plan.topology_id, old))

    def advise(self, entries: Sequence[HistoryEntry]) -> None:
        """Write plans where people find them and nobody applies them."""
        self._zookeeper.ensure([self.paths.advice()])
        for entry in entries:
            self.put(self.paths.advice(entry.plan.topology_id), encode(entry))

    def put(self, path: str, data: bytes) -> None:
        """Write something of the leader's own (no compare-and-set), only while we lead."""
        (node,) = self._zookeeper.read([path])
        self._commit([Put(path, data, None if node is None else node.version)])

    def _commit(self, steps: Sequence[Check | Put]) -> None:
        try:
            self._zookeeper.commit([*self.epoch.checks, *steps])
        except ConflictError as e:
            if e.path in [check.path for check in self.epoch.checks]:
                raise DeposedError(f"we do not lead any more: epoch {self.epoch.number} is over") from e
            raise
