"""Mined thresholds in ZooKeeper: for every id of a name, beside what replay recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from stormpilot.errors import RefusedError
from stormpilot.history.mine.findings import Mined
from stormpilot.history.mine.publishing import publish
from stormpilot.messages.core import decode, encode
from stormpilot.messages.thresholds import HOURS_OF_WEEK, EdgeProfile, Profile, Recommendation, Thresholds
from stormpilot.zookeeper.paths import Paths

PATHS = Paths("/stormpilot")
OLD, NEW, OTHER = "flights-1-1700000000", "flights-7-1800000000", "flights-too-2-1700000000"


@dataclass
class Node:
    data: bytes


@dataclass
class Store:
    """ZooKeeper as far as publishing goes."""

    nodes: dict[str, bytes] = field(default_factory=dict)

    def children(self, paths: Sequence[str]) -> list[list[str]]:
        return [[p.rpartition("/")[2] for p in self.nodes if p.startswith(f"{path}/")] for path in paths]

    def read(self, paths: Sequence[str]) -> list[Node | None]:
        return [Node(self.nodes[p]) if p in self.nodes else None for p in paths]

    def put(self, path: str, data: bytes) -> None:
        self.nodes[path] = data


def mined() -> Mined:
    edge = EdgeProfile(from_="a", stream="default", to="b", rate_tps=[1.0] * HOURS_OF_WEEK)
    profile = Profile(topology_id=OLD, topology_name="flights", mined_at_ms=3, from_ms=1, to_ms=2, edges=[edge])
    thresholds = Thresholds(topology_id=OLD, topology_name="flights", mined_at_ms=3, from_ms=1, to_ms=2)
    return Mined(thresholds=thresholds, profile=profile)


def test_a_topology_submitted_again_gets_the_thresholds_of_its_name() -> None:
    store = Store({PATHS.topology(NEW): b"", PATHS.topology(OTHER): b""})
    assert publish([mined()], store, PATHS) == [OLD, NEW]
    written = decode(store.nodes[PATHS.thresholds(NEW)], Thresholds, "")
    assert (written.topology_id, written.topology_name) == (NEW, "flights")
    assert decode(store.nodes[PATHS.profile(NEW)], Profile, "").topology_id == NEW
    assert PATHS.thresholds(OTHER) not in store.nodes


def test_keeps_what_replay_recommended() -> None:
    before = Thresholds(
        topology_id=OLD,
        topology_name="flights",
        mined_at_ms=1,
        from_ms=1,
        to_ms=2,
        recommendation=Recommendation(planner="online", score=0.5),
    )
    store = Store({PATHS.thresholds(OLD): encode(before)})
    publish([mined()], store, PATHS)
    after = decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "")
    assert (after.mined_at_ms, after.recommendation) == (3, before.recommendation)


def test_keeps_what_replay_recommended_under_a_former_id_of_the_topology() -> None:
    """The thresholds of the new id hide those of the former one, so they need the recommendation too."""
    former = [
        Thresholds(
            topology_id=f"flights-{i}-1600000000",
            topology_name="flights",
            mined_at_ms=1,
            from_ms=1,
            to_ms=2,
            recommendation=Recommendation(planner=planner, score=0.5, replayed_at_ms=at_ms),
        )
        for i, planner, at_ms in ((1, "partition", 5), (2, "online", 9), (3, "best", 7))
    ]
    nodes = {PATHS.thresholds(t.topology_id): encode(t) for t in former}
    store = Store({**nodes, PATHS.topology(NEW): b"", PATHS.thresholds("flights-4-1600000000"): b"not json"})
    publish([mined()], store, PATHS)
    for topology_id in (OLD, NEW):
        after = decode(store.nodes[PATHS.thresholds(topology_id)], Thresholds, "")
        assert after.recommendation == former[1].recommendation


def test_thresholds_that_cannot_be_read_are_replaced() -> None:
    store = Store({PATHS.thresholds(OLD): b"not json"})
    publish([mined()], store, PATHS)
    assert decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "").mined_at_ms == 3


def test_a_topology_whose_numbers_are_refused_keeps_no_other_from_getting_its_own() -> None:
    """Somebody else made that znode, say."""

    class Guarded(Store):
        def put(self, path: str, data: bytes) -> None:
            if path == PATHS.thresholds(OLD):
                raise RefusedError(f"{path}: not ours")
            super().put(path, data)

    store = Guarded()
    of_other = Thresholds(topology_id=OTHER, topology_name="flights-too", mined_at_ms=3, from_ms=1, to_ms=2)
    with pytest.raises(RefusedError, match="not ours"):
        publish([mined(), Mined(thresholds=of_other, profile=None)], store, PATHS)
    assert list(store.nodes) == [PATHS.thresholds(OTHER)]
