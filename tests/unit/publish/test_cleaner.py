"""What dead topologies left goes after a grace time, and only while we lead."""

from __future__ import annotations

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.publish.cleaner import GRACE_MS, Cleaner
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import DeposedError, Publisher
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
DEAD, ALIVE = "dead-1", "alive-2"
ALL = 8


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    z = MemoryZooKeeper(lambda: 0)
    for t in (DEAD, ALIVE):
        for path in (PATHS.plan_history(t, "0000000001"), PATHS.proposal(t), PATHS.hold(t), PATHS.moves(t)):
            z.put(path, b"{}")
        for path in (PATHS.request(t), PATHS.routes(t), PATHS.rollout(t), PATHS.trial(t, "command")):
            z.put(path, b"{}")
        for path in (PATHS.thresholds(t), PATHS.profile(t)):
            z.put(path, b"{}")
    return z


def cleaner(zookeeper: MemoryZooKeeper) -> Cleaner:
    publisher = Publisher(zookeeper, PATHS, raise_epoch(zookeeper, PATHS))  # type: ignore[arg-type]
    return Cleaner(zookeeper, publisher)  # type: ignore[arg-type]


def left(zookeeper: MemoryZooKeeper, topology_id: str) -> int:
    paths = [PATHS.plan_history(topology_id), PATHS.proposal(topology_id), PATHS.hold(topology_id)]
    paths += [PATHS.moves(topology_id), PATHS.request(topology_id), PATHS.routes(topology_id)]
    paths += [PATHS.rollout(topology_id), PATHS.trial(topology_id)]
    return sum(node is not None for node in zookeeper.read(paths))


def test_what_a_dead_topology_left_goes_after_the_grace_time(zookeeper: MemoryZooKeeper) -> None:
    c = cleaner(zookeeper)
    assert c.clean({ALIVE}, 0) == []
    assert c.clean({ALIVE}, GRACE_MS - 1) == []
    assert left(zookeeper, DEAD) == ALL
    assert c.clean({ALIVE}, GRACE_MS) == [DEAD]
    assert (left(zookeeper, DEAD), left(zookeeper, ALIVE)) == (0, ALL)


def test_a_topology_that_returns_within_the_grace_time_loses_nothing(zookeeper: MemoryZooKeeper) -> None:
    c = cleaner(zookeeper)
    c.clean({ALIVE}, 0)
    c.clean({ALIVE, DEAD}, GRACE_MS - 1)
    assert c.clean({ALIVE}, GRACE_MS + 1) == []
    assert left(zookeeper, DEAD) == ALL


def test_a_dead_topology_whose_znodes_deny_us_keeps_no_other_from_being_removed(zookeeper: MemoryZooKeeper) -> None:
    denying = "a-denying-3"
    for path in (PATHS.hold(denying), PATHS.thresholds(denying)):
        zookeeper.put(path, b"{}")
        zookeeper.denied.add(path)
    c = cleaner(zookeeper)
    c.clean({ALIVE}, 0)
    for _ in range(2):
        assert denying not in c.clean({ALIVE}, GRACE_MS)
    assert (left(zookeeper, DEAD), left(zookeeper, ALIVE)) == (0, ALL)
    assert c.clean_mined({denying: 0, DEAD: 0}, {ALIVE}, 1) == [DEAD]


@pytest.mark.parametrize("folder", [PATHS.trial(), PATHS.proposal()])
def test_a_folder_of_another_login_keeps_nothing_else_from_being_removed(
    zookeeper: MemoryZooKeeper, folder: str
) -> None:
    zookeeper.denied.add(folder)
    c = cleaner(zookeeper)
    c.clean({ALIVE}, 0)
    assert c.clean({ALIVE}, GRACE_MS) == [DEAD]
    assert left(zookeeper, DEAD) == 1


def test_a_deposed_leader_removes_nothing(zookeeper: MemoryZooKeeper) -> None:
    c = cleaner(zookeeper)
    c.clean({ALIVE}, 0)
    cleaner(zookeeper)
    with pytest.raises(DeposedError):
        c.clean({ALIVE}, GRACE_MS)
    with pytest.raises(DeposedError):
        c.clean_mined({DEAD: 0}, {ALIVE}, oldest_ms=1)
    assert left(zookeeper, DEAD) == ALL
    assert zookeeper.read([PATHS.thresholds(DEAD)]) != [None]


def test_what_was_mined_of_a_dead_topology_goes_once_it_is_too_old(zookeeper: MemoryZooKeeper) -> None:
    c = cleaner(zookeeper)
    mined_at_ms = {DEAD: 5, ALIVE: 5}
    assert c.clean_mined(mined_at_ms, {ALIVE}, oldest_ms=5) == []
    assert c.clean_mined(mined_at_ms, {ALIVE}, oldest_ms=6) == [DEAD]
    assert zookeeper.read([PATHS.thresholds(DEAD), PATHS.profile(DEAD)]) == [None, None]
    assert zookeeper.read([PATHS.thresholds(ALIVE)]) != [None]


def test_what_was_mined_and_cannot_be_read_goes_by_the_time_when_it_was_written(zookeeper: MemoryZooKeeper) -> None:
    """A folder with too many children is not read: a new leader never removed anything of it."""
    c = cleaner(zookeeper)
    assert c.clean_mined({}, {ALIVE}, oldest_ms=0) == []
    assert c.clean_mined({}, {ALIVE}, oldest_ms=1) == [DEAD]
    assert zookeeper.read([PATHS.thresholds(DEAD)]) == [None]
    assert zookeeper.read([PATHS.thresholds(ALIVE)]) != [None]


def test_what_was_mined_of_the_topologies_that_are_gone_longest_goes_where_there_is_much(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stormpilot.publish.cleaner.KEPT_MINED", 2)
    told_ms = {f"etl-{n}-1-1763690000": n for n in range(5)} | {ALIVE: 0}
    for i in told_ms:
        zookeeper.put(PATHS.thresholds(i), b"{}")
    zookeeper.delete(PATHS.thresholds(DEAD))
    c = cleaner(zookeeper)
    assert c.clean_mined(told_ms, {ALIVE}, oldest_ms=0) == [f"etl-{n}-1-1763690000" for n in range(3)]
    assert c.clean_mined(told_ms, {ALIVE}, oldest_ms=0) == []
    assert zookeeper.read([PATHS.thresholds(ALIVE)]) != [None]
