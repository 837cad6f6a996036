"""Mined thresholds in ZooKeeper: for every id of a name, beside what replay recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from stormpilot.errors import RefusedError
from stormpilot.history.mine.findings import Mined
from stormpilot.history.mine.publishing import publish
from stormpilot.messages.core import decode, encode
from stormpilot.messages.thresholds import (
    CPU_LIMIT_RATIO,
    HOURS_OF_WEEK,
    EdgeProfile,
    Profile,
    Recommendation,
    ThresholdEntry,
    Thresholds,
)
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


def test_names_of_topologies_are_listed_once_however_many_were_mined() -> None:
    """Names with timestamps: thousands of lists of thousands of ids took minutes, and gigabytes of ZooKeeper."""
    listed: list[str] = []

    class Listing(Store):
        def children(self, paths: Sequence[str]) -> list[list[str]]:
            listed.extend(paths)
            return super().children(paths)

    each = [
        msgspec.structs.replace(
            mined(),
            thresholds=msgspec.structs.replace(mined().thresholds, topology_id=f"etl{n}-1-2", topology_name=name),
        )
        for n in range(5)
        for name in [f"etl{n}"]
    ]
    assert publish(each, Listing(), PATHS) == [f"etl{n}-1-2" for n in range(5)]
    assert sorted(listed) == [PATHS.thresholds(), PATHS.topology()]


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


DAY_MS = 86_400_000
KNEE = ThresholdEntry(
    name=CPU_LIMIT_RATIO, scope="supervisor", of=["node1"], value=0.62, rows=900, from_ms=5, to_ms=9, text="a knee"
)
NONE_HIGHER = "not known: latency stays in its band up to a utilisation of 0.60, and none higher was seen"


def limit(text: str, source: str = "default", value: float = 0.8) -> ThresholdEntry:
    """B(n) of node1 as a later mining tells it."""
    return msgspec.structs.replace(KNEE, value=value, source=source, rows=70, from_ms=20, to_ms=30, text=text)


def of_flights(day: float, entry: ThresholdEntry, topology_id: str = OLD) -> Mined:
    """What a mining found on a day."""
    ms = int(day * DAY_MS)
    head = {"topology_id": topology_id, "topology_name": "flights", "mined_at_ms": ms, "from_ms": 1, "to_ms": ms}
    return Mined(thresholds=Thresholds(**head, entries=[entry]), profile=None)


def limit_in(store: Store, topology_id: str = OLD) -> ThresholdEntry:
    (found,) = decode(store.nodes[PATHS.thresholds(topology_id)], Thresholds, "").entries
    return found


def test_a_limit_in_force_stays_when_the_windows_above_it_have_left_the_log() -> None:
    """Else the default fills the node beyond the known knee; it holds as long as mining goes on."""
    store = Store()
    publish([of_flights(1, KNEE)], store, PATHS)
    for day in range(30, 200, 30):
        publish([of_flights(day, limit(NONE_HIGHER))], store, PATHS)
    kept = limit_in(store)
    assert (kept.value, kept.source, kept.from_ms, kept.to_ms, kept.rows) == (0.62, "mined", 5, 9, 900)
    assert kept.text == f"a knee; mined earlier, now {NONE_HIGHER}"


def test_a_limit_in_force_stays_when_a_later_one_is_only_proposed() -> None:
    """As the evidence leaves the log little by little it is proposed first, and then not known."""
    store = Store()
    publish([of_flights(1, KNEE)], store, PATHS)
    publish([of_flights(20, limit("a knee on 3 days", "proposed", 0.6))], store, PATHS)
    assert limit_in(store).text == "a knee; mined earlier, now proposed: 0.600, a knee on 3 days"
    publish([of_flights(25, limit(NONE_HIGHER))], store, PATHS)
    assert (limit_in(store).value, limit_in(store).source) == (0.62, "mined")


@pytest.mark.parametrize(
    "later",
    [
        limit("the default is fine: latency stays in its band up to a utilisation of 0.83"),
        limit("latency leaves its band above this", "mined", 0.7),
    ],
)
def test_a_limit_in_force_goes_when_the_log_tells_another_one(later: ThresholdEntry) -> None:
    store = Store()
    publish([of_flights(1, KNEE)], store, PATHS)
    publish([of_flights(20, later)], store, PATHS)
    assert limit_in(store) == later
    publish([of_flights(30, limit(NONE_HIGHER))], store, PATHS)
    assert limit_in(store).value == later.value


def test_a_topology_submitted_again_keeps_the_limit_of_its_name() -> None:
    store = Store({PATHS.topology(NEW): b""})
    store.put(PATHS.thresholds(OLD), encode(of_flights(1, KNEE).thresholds))
    publish([of_flights(20, limit(NONE_HIGHER), NEW)], store, PATHS)
    assert limit_in(store, NEW).value == 0.62


def test_a_limit_that_was_too_old_to_be_in_force_does_not_come_back() -> None:
    store = Store()
    publish([of_flights(1, KNEE)], store, PATHS)
    publish([of_flights(47, limit(NONE_HIGHER))], store, PATHS)
    assert limit_in(store) == limit(NONE_HIGHER)


def test_what_is_too_old_is_written_for_no_topology_that_is_gone() -> None:
    """The controller removed it, and the next mining of a longer log wrote it again."""
    old = of_flights(100, KNEE)
    old = msgspec.structs.replace(old, thresholds=msgspec.structs.replace(old.thresholds, to_ms=50 * DAY_MS))
    assert publish([old], Store(), PATHS) == []
    assert publish([old], Store({PATHS.topology(OLD): b""}), PATHS) == [OLD]


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
