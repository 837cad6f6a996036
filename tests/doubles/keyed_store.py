"""The znodes of keyed state in memory, for one topology."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from stormpilot.instrument.worker_store import StoreUnavailable

N = 128
A, B = 3, 4


class Store:
    """The znodes of one topology in memory; `down` makes every call fail."""

    def __init__(self) -> None:
        self.routes: dict[str, Any] | None = None
        self.answers: dict[int, dict[str, Any]] = {}
        self.kept: dict[str, bytes] = {}
        self.down = False
        self.watches: set[Callable[[Any], None]] = set()

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("no connection")

    def table(self, changed: Callable[[Any], None]) -> bytes | None:
        self._check()
        self.watches.add(changed)
        return None if self.routes is None else json.dumps(self.routes).encode()

    def answer(self, task: int, data: bytes) -> None:
        self._check()
        self.answers[task] = json.loads(data)

    def items(self) -> list[str]:
        self._check()
        return list(self.kept)

    def save(self, item: str, data: bytes) -> None:
        self._check()
        self.kept[item] = data

    def load(self, item: str) -> bytes | None:
        self._check()
        return self.kept.get(item)

    def drop(self, item: str) -> None:
        self._check()
        self.kept.pop(item, None)

    def close(self) -> None:
        pass

    def tell(self, *handovers: tuple[int, int, str, list[int]], owners: Mapping[int, int] | None = None) -> None:
        """A table: hand-overs (from, to, phase, partitions), and owners other than A."""
        partitions = [(owners or {}).get(p, A) for p in range(N)]
        route = {
            "component": "count",
            "active": sorted(set(partitions)),
            "partitions": partitions,
            "handovers": [
                {"partitions": p, "from": f, "to": t, "begunMs": 1, "sinceMs": 1, "phase": phase}
                for f, t, phase, p in handovers
            ],
        }
        self.routes = {"schema": 1, "topologyId": "t-1", "components": [route]}
