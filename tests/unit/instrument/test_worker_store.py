"""Whose the znodes are, as far as a worker's process can know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stormpilot.instrument.worker_store import StoreUnavailable, WorkerStore


class Store(WorkerStore):
    """A store whose `owner` has this root; what is written is counted."""

    def __init__(self, own: dict[str, str], owner: str) -> None:
        super().__init__({"storm.zookeeper.servers": ["zk"], **own}, "flights-1")
        self.owner_root, self.written = owner, 0

    def _request(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        if method == "get":
            return (json.dumps({"schema": 1, "stormRoot": self.owner_root}).encode(), None)
        self.written += 1


@pytest.mark.parametrize(
    ("own", "owner", "ours"),
    [
        ({"storm.zookeeper.root": "/"}, "/", True),
        ({"storm.zookeeper.root": "/"}, "/storm", False),
        ({"storm.zookeeper.root": "/storm"}, "/", False),
        ({"storm.zookeeper.root": "storm/"}, "/storm", True),
        ({}, "/storm", True),
    ],
)
def test_a_root_of_another_storm_is_not_written_to_also_where_ours_is_the_root_of_all(
    own: dict[str, str], owner: str, ours: bool
) -> None:
    """A configuration without a root does not say whose worker this is."""
    store = Store(own, owner)
    if ours:
        store.put("/x", b"")
    else:
        with pytest.raises(StoreUnavailable, match="is of the Storm cluster with"):
            store.put("/x", b"")
    assert store.written == int(ours)
