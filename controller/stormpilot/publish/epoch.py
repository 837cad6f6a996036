"""The epoch: a number that every new leader raises by one, and that every write of a plan checks."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.zookeeper.client import Check, ConflictError, Put, ZooKeeper
from stormpilot.zookeeper.paths import Paths

MOST_DIGITS = 18


@dataclass(frozen=True)
class Epoch:
    """The number of this leadership, and what must hold for its writes."""

    number: int
    checks: tuple[Check, ...]

    def bound_to(self, path: str) -> Epoch:
        """The same, and only as long as the ephemeral znode `path` (our place in the election) stands."""
        return Epoch(self.number, (*self.checks, Check(path, 0)))


def raise_epoch(zookeeper: ZooKeeper, paths: Paths, least: int = 0) -> Epoch:
    """Become the leader of the next epoch; whoever led before cannot publish from now on.

    `least` is the highest epoch seen elsewhere (in plans, at the plug-in, which refuses older ones): it counts where
    the znode is gone or somebody wrote something else into it.
    """
    while True:
        (node,) = zookeeper.read([paths.epoch])
        try:
            if node is None:
                zookeeper.ensure([paths.base])
                zookeeper.commit([Put(paths.epoch, str(least + 1).encode(), None)])
                return Epoch(least + 1, (Check(paths.epoch, 0),))
            number = max(_number(node.data), least) + 1
            zookeeper.commit([Put(paths.epoch, str(number).encode(), node.version)])
            return Epoch(number, (Check(paths.epoch, node.version + 1),))
        except ConflictError:
            continue  # another one was faster: the next number is ours


def _number(data: bytes) -> int:
    """The number in the znode; 0 for what is none, or does not fit into the 64 bits of the plug-in."""
    text = data.strip()
    return int(text) if text.isdigit() and len(text) <= MOST_DIGITS else 0
