"""The epoch: a number that every new leader raises by one, and that every write of a plan checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stormpilot.messages.limits import LARGEST_INT
from stormpilot.zookeeper.client import ConflictError, ZooKeeper
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Check, Put

MOST_DIGITS = 18
MOST_AHEAD = 1_000_000_000
"""A number that is further above what was seen before is no epoch: leaders need 30 years for that, at one a second. The
plug-in counts alike (`Limits.EPOCHS_AHEAD`), so that no number in ZooKeeper ends all plans."""


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
    the znode is gone or has what cannot be an epoch, which is written over.
    """
    while True:
        (node,) = zookeeper.read([paths.epoch])
        try:
            if node is None:
                zookeeper.ensure([paths.base])
                zookeeper.commit([Put(paths.epoch, str(least + 1).encode(), None)])
                return Epoch(least + 1, (Check(paths.epoch, 0),))
            number = newest_epoch(least, [_number(node.data)]) + 1
            zookeeper.commit([Put(paths.epoch, str(number).encode(), node.version)])
            return Epoch(number, (Check(paths.epoch, node.version + 1),))
        except ConflictError:
            continue  # another one was faster: the next number is ours


def present_epoch(zookeeper: ZooKeeper, paths: Paths) -> Epoch | None:
    """The epoch of who leads now, for a plan beside theirs that deposes nobody; None: there was no leader yet."""
    (node,) = zookeeper.read([paths.epoch])
    return None if node is None else Epoch(_number(node.data), (Check(paths.epoch, node.version),))


def newest_epoch(seen: int, others: Iterable[int]) -> int:
    """The highest of these numbers that can be an epoch, where the plug-in has `seen` that one."""
    if seen > LARGEST_INT - MOST_AHEAD:
        seen = 0
    return max([seen, *(number for number in others if number <= seen + MOST_AHEAD)])


def _number(data: bytes) -> int:
    """The number in the znode; 0 for what is none, or does not fit into the 64 bits of the plug-in."""
    text = data.strip()
    return int(text) if text.isdigit() and len(text) <= MOST_DIGITS else 0
