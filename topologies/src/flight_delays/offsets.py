"""Offsets that a task of the spout emitted, and those acknowledged: the arithmetic of at-least-once."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class OffsetTracker(Generic[T]):
    """Offsets 0, 1, 2, ... of one share of the stream, of which some are emitted and some acknowledged.

    Parameters
    ----------
    committed : int
        Every offset below has been acknowledged, by this process or by one before it.
    emitted : int
        Every offset from here on has never been emitted, as far as is known.

    Attributes
    ----------
    acked, failed, replayed : int
        Acknowledgements, failures, and emissions of an offset that had been emitted before.
    """

    def __init__(self, committed: int = 0, emitted: int = 0) -> None:
        self.next_offset = committed
        self.acked = 0
        self.failed = 0
        self.replayed = 0
        self._emitted = max(emitted, committed)
        self._pending: dict[int, T] = {}  # in order of first emission, which is the order of offsets
        self._failed: deque[int] = deque()

    @property
    def committed(self) -> int:
        """The lowest offset that is not acknowledged."""
        return next(iter(self._pending), self.next_offset)

    @property
    def emitted(self) -> int:
        """One more than the highest offset ever emitted."""
        return max(self._emitted, self.next_offset)

    @property
    def pending(self) -> int:
        """Offsets emitted by this process and not acknowledged, those that wait for their replay included."""
        return len(self._pending)

    def emit(self, payload: T) -> int:
        """Note that the next offset is emitted with this payload; return the offset."""
        offset = self.next_offset
        if offset < self._emitted:
            self.replayed += 1
        self._pending[offset] = payload
        self.next_offset += 1
        return offset

    def replay(self) -> tuple[int, T] | None:
        """Note that the failed offset that has waited longest is emitted again; return it with its payload."""
        while self._failed:
            offset = self._failed.popleft()
            if offset in self._pending:  # an earlier emission may have been acknowledged meanwhile
                self.replayed += 1
                return offset, self._pending[offset]
        return None

    def ack(self, offset: int) -> None:
        """Note an acknowledgement; a second one of the same offset changes nothing."""
        if self._pending.pop(offset, None) is not None:
            self.acked += 1

    def fail(self, offset: int) -> None:
        """Note a failure: the offset is to be replayed."""
        if offset in self._pending:
            self.failed += 1
            self._failed.append(offset)
