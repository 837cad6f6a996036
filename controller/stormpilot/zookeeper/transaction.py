"""Parts of a transaction, all or none of which are done, and how much a server takes at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stormpilot.errors import RefusedError

ANY_VERSION = -1
"""Version of a znode that may not be read: whoever owns its folder may remove it all the same."""
MOST_BYTES, STEP_BYTES = 1_000_000, 100
"""Of a request, somewhat below `jute.maxbuffer` by default; of a step beside its path and data, at most."""


class TooLargeError(RefusedError):
    """Too much for one request to ZooKeeper, which would end the connection; `path` is the largest znode of it."""

    def __init__(self, path: str, why: str):
        super().__init__(f"{path}: {why}")
        self.path = path


@dataclass(frozen=True)
class Check:
    """Part of a transaction: `path` must still have this version."""

    path: str
    version: int


@dataclass(frozen=True)
class Put:
    """Part of a transaction: write `data`; `version` None creates the znode, which must not exist.

    `world_reads`: workers, who know no password of ours, can read what is created. `writers` (scheme and id) may do all
    there but change the access list.
    """

    path: str
    data: bytes
    version: int | None
    world_reads: bool = False
    writers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Append:
    """Part of a transaction: create `prefix` with the next number of its parent behind it."""

    prefix: str
    data: bytes

    @property
    def path(self) -> str:
        """Text of an error."""
        return self.prefix


@dataclass(frozen=True)
class Delete:
    """Part of a transaction: remove `path`, which must still have this version."""

    path: str
    version: int


Step = Check | Put | Append | Delete


def check_size(steps: Sequence[Step]) -> None:
    """Raise `TooLargeError` for more than a server takes in one request by default (`jute.maxbuffer`)."""
    if (size := size_of(steps)) > MOST_BYTES:
        largest = max(steps, key=lambda step: size_of([step]))
        raise TooLargeError(
            largest.path,
            f"with what is written beside it {size} bytes, over the limit of {MOST_BYTES} bytes of a request",
        )


def size_of(steps: Iterable[Step]) -> int:
    """Bytes of these steps in a request, or somewhat more."""
    return sum(len(s.path) + STEP_BYTES + (len(s.data) if isinstance(s, Put | Append) else 0) for s in steps)
