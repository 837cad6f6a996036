"""Settings in ZooKeeper that cannot be read count the safe way; what dead topologies left is removed, by the leader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import encode
from stormpilot.messages.settings import DrainSetting, ExcludeSetting, PinSetting
from stormpilot.observe.settings import Settings, SettingsReader
from stormpilot.publish.cleaner import Cleaner
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import DeposedError, Publisher
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.zookeeper
each_garbage = pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"{}", b'{"schema": 99}', b"[1, 2", b"null"])


@pytest.fixture
def connection(shared_zookeeper: LocalZooKeeper) -> Iterator[ZooKeeper]:
    found = connect(shared_zookeeper.hosts)
    yield found
    found.stop()


def read(reader: SettingsReader) -> tuple[Settings, dict[str, str]]:
    problems: dict[str, str] = {}
    return reader.read(problems), problems


@each_garbage
def test_damaged_drain_and_exclusion_stay_in_force_and_are_told(
    connection: ZooKeeper, paths: Paths, garbage: bytes
) -> None:
    host = "rack 1/node, ä"
    exclusion = ExcludeSetting(host=host, topology="flights", component="a/b")
    connection.put(paths.drain(host), garbage)
    connection.put(paths.exclusion(exclusion.key), garbage)
    settings, problems = read(SettingsReader(connection, paths))
    assert list(settings.drains) == [host]
    assert settings.exclusions == (exclusion,)
    assert set(problems) == {paths.drain(host), paths.exclusion(exclusion.key)}
    assert settings.frozen == {}


@each_garbage
def test_damaged_pin_freezes_its_topology_unless_it_was_read_before(
    connection: ZooKeeper, paths: Paths, garbage: bytes
) -> None:
    pin = PinSetting(topology="flights", component="parse", supervisor="a")
    connection.put(paths.pin(pin.key), encode(pin))
    knows = SettingsReader(connection, paths)
    assert read(knows)[0].pins == (pin,)
    connection.put(paths.pin(pin.key), garbage)
    settings, problems = read(knows)
    assert settings.pins == (pin,)
    assert list(problems) == [paths.pin(pin.key)]
    settings, _ = read(SettingsReader(connection, paths))
    assert (settings.pins, set(settings.frozen)) == ((), {"flights"})


@each_garbage
def test_damaged_hold_holds_on_and_a_damaged_request_is_seen_as_one(
    connection: ZooKeeper, paths: Paths, garbage: bytes
) -> None:
    connection.put(paths.hold("flights-1"), garbage)
    connection.put(paths.request("flights-1"), garbage)
    settings, _ = read(SettingsReader(connection, paths))
    assert settings.holds["flights-1"].until_ms > 2**50
    assert settings.requests["flights-1"].request is None


def test_strange_name_of_an_exclusion_freezes_everything(connection: ZooKeeper, paths: Paths) -> None:
    connection.put(paths.exclusion("what"), b"?")
    assert set(read(SettingsReader(connection, paths))[0].frozen) == {"_all"}


def test_settings_that_are_removed_are_forgotten(connection: ZooKeeper, paths: Paths) -> None:
    reader = SettingsReader(connection, paths)
    connection.put(paths.drain("h"), encode(DrainSetting(host="h")))
    before = read(reader)[0]
    connection.delete(paths.drain("h"))
    after = read(reader)[0]
    assert (list(before.drains), list(after.drains)) == (["h"], [])
    assert before.signature != after.signature


def test_what_dead_topologies_left_is_removed_after_the_grace_time_and_only_by_the_leader(
    connection: ZooKeeper, paths: Paths
) -> None:
    for t in ("dead-1", "live-1"):
        for path in (f"{paths.plan_history(t)}/0000000001", paths.proposal(t), paths.request(t), paths.hold(t)):
            connection.put(path, b"{}")
    publisher = Publisher(connection, paths, raise_epoch(connection, paths))
    cleaner = Cleaner(connection, publisher, grace_ms=1000)
    assert cleaner.clean(["live-1"], 0) == []
    assert cleaner.clean(["live-1", "dead-1"], 999) == []  # it was only away
    assert cleaner.clean(["live-1"], 1000) == []
    assert cleaner.clean(["live-1"], 1999) == []
    raise_epoch(connection, paths)
    with pytest.raises(DeposedError):
        cleaner.clean(["live-1"], 2000)
    parents = [paths.plan_history(), paths.proposal(), paths.request(), paths.hold()]
    assert connection.children(parents) == [["dead-1", "live-1"]] * 4
    leading = Cleaner(connection, Publisher(connection, paths, raise_epoch(connection, paths)), grace_ms=1000)
    leading.clean(["live-1"], 5000)
    assert leading.clean(["live-1"], 6000) == ["dead-1"]
    assert connection.children(parents) == [["live-1"]] * 4
    assert leading.clean(["live-1"], 7000) == []


def test_what_was_mined_of_a_dead_topology_stays_for_its_successor_until_it_is_old(
    connection: ZooKeeper, paths: Paths
) -> None:
    for t in ("dead-1", "dead-2", "live-1"):
        for path in (paths.thresholds(t), paths.profile(t)):
            connection.put(path, b"{}")
    cleaner = Cleaner(connection, Publisher(connection, paths, raise_epoch(connection, paths)))
    mined = {"dead-1": 100, "dead-2": 200, "live-1": 100}
    assert cleaner.clean_mined(mined, ["live-1"], 200) == ["dead-1"]
    assert connection.children([paths.thresholds(), paths.profile()]) == [["dead-2", "live-1"]] * 2
