"""The writer against a real ZooKeeper that goes, hangs, forgets the session, or asks who is there."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, Id, Permissions, make_acl, make_digest_acl_credential

from doubles.worker_zookeeper import short_timeouts, storm_conf
from stormpilot.instrument.report_writer import ReportWriter, ZooKeeperReports
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import decode
from stormpilot.messages.load import LoadReport
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.zookeeper

PATH = Paths().load("flights-1-1", "collector-9")
DEADLINE_S = 300.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    short_timeouts(monkeypatch)


@contextmanager
def writing(conf: dict[str, Any], topology_id: str = "flights-1-1") -> Iterator[tuple[ReportWriter, Any]]:
    store = ZooKeeperReports(conf, topology_id)
    writer = ReportWriter(store, topology_id, "collector-9")
    writer.start()
    try:
        yield writer, store
    finally:
        writer.close(timeout_s=20)


@contextmanager
def reading(zookeeper: LocalZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.hosts, timeout=60)  # its session outlives the outages
    client.start(timeout=300)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def reader(zookeeper: LocalZooKeeper) -> Iterator[KazooClient]:
    with reading(zookeeper) as client:
        yield client


def load(seq: int) -> str:
    fixed = {"task": 3, "component": "parse", "host": "h", "pid": 1, "startMs": 1, "atMs": 1, "cpuS": 0.0}
    return json.dumps({**fixed, "seq": seq})


def written_seq(client: KazooClient, path: str = PATH) -> int | None:
    """`seq` of the only task in the report, or None while there is no report."""
    try:
        data, _ = client.retry(client.get, path)
    except NoNodeError:
        return None
    return decode(data, LoadReport, path).tasks[0].seq


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what}"
        time.sleep(0.05)


def test_a_report_is_written_with_its_parents(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    with writing(storm_conf(zookeeper)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the report")
        writer.offer([load(2)])
        wait_for(lambda: written_seq(reader) == 2, "the next report")
    assert written_seq(reader) == 2  # stays for readers when the collector ends


def test_the_root_of_the_storm_configuration_is_used(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    with writing(storm_conf(zookeeper, **{"stormpilot.zookeeper.root": "/ours/pilot"})) as (writer, _):
        writer.offer([load(1)])
        path = "/ours/pilot/v1/load/flights-1-1/collector-9"
        wait_for(lambda: written_seq(reader, path) == 1, "the report")


def test_a_zookeeper_that_comes_late_gets_the_newest_report(zookeeper: LocalZooKeeper) -> None:
    zookeeper.stop()
    with writing(storm_conf(zookeeper)) as (writer, _):
        for seq in range(1, 200):
            writer.offer([load(seq)])
        zookeeper.start()
        client = KazooClient(hosts=zookeeper.hosts)
        client.start(timeout=300)
        wait_for(lambda: written_seq(client) == 199, "the newest report")
        client.stop()
        client.close()


def test_reports_go_on_after_zookeeper_was_away(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    with writing(storm_conf(zookeeper)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the first report")
        zookeeper.stop()
        for seq in range(2, 100):
            writer.offer([load(seq)])
        zookeeper.start()
        wait_for(lambda: written_seq(reader) == 99, "the newest report")


def test_reports_go_on_after_zookeeper_was_restored_with_older_data(
    zookeeper: LocalZooKeeper, restore: Callable[[], None]
) -> None:
    """It closes the connections of clients that have seen a later transaction than itself."""
    with writing(storm_conf(zookeeper)) as (writer, _):
        with reading(zookeeper) as client:
            writer.offer([load(1)])
            wait_for(lambda: written_seq(client) == 1, "the first report")
        restore()
        with reading(zookeeper) as client:
            assert written_seq(client) is None
            writer.offer([load(2)])
            wait_for(lambda: written_seq(client) == 2, "the next report")


def test_a_zookeeper_that_hangs_holds_up_nobody_and_one_request_at_most(
    zookeeper: LocalZooKeeper, reader: KazooClient
) -> None:
    with writing(storm_conf(zookeeper)) as (writer, store):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the first report")
        zookeeper.pause()
        try:
            for seq in range(2, 500):
                writer.offer([load(seq)])
            wait_for(lambda: not writer._available, "the writer to notice")
            assert len(store._client._queue) + len(store._client._pending) <= 2  # ours, and kazoo's own ping
        finally:
            zookeeper.resume()
        wait_for(lambda: written_seq(reader) == 499, "the newest report")


def test_a_lost_session_is_replaced(
    zookeeper: LocalZooKeeper, reader: KazooClient, expire_session: Callable[[KazooClient], None]
) -> None:
    with writing(storm_conf(zookeeper)) as (writer, store):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the first report")
        expire_session(store._client)
        writer.offer([load(2)])
        wait_for(lambda: written_seq(reader) == 2, "the next report")


def test_a_report_that_somebody_removed_comes_back(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    with writing(storm_conf(zookeeper)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the first report")
        reader.delete(Paths().base, recursive=True)
        writer.offer([load(2)])
        wait_for(lambda: written_seq(reader) == 2, "the next report")


def test_threads_and_memory_do_not_grow_while_zookeeper_is_away(zookeeper: LocalZooKeeper) -> None:
    zookeeper.stop()
    with writing(storm_conf(zookeeper)) as (writer, store):
        writer.offer([load(1)])
        wait_for(lambda: not writer._available, "the writer to notice")
        threads, tried = threading.active_count(), writer._seq
        for seq in range(2000):
            writer.offer([load(seq)])
        wait_for(lambda: writer._seq > tried, "another attempt")
        assert threading.active_count() <= threads
        assert len(store._client._queue) == 0


AUTH = {
    "storm.zookeeper.topology.auth.scheme": "digest",
    "storm.zookeeper.topology.auth.payload": "flights:secret",
}


def made_by_nimbus(reader: KazooClient) -> None:
    """The folder of all our znodes, in which anybody may create."""
    reader.ensure_path(Paths().base, acl=[make_acl("world", "anyone", read=True, create=True)])


def test_with_authentication_a_topology_does_not_make_itself_the_owner_of_all_znodes(
    zookeeper: LocalZooKeeper, reader: KazooClient
) -> None:
    """Who makes the root decides who writes plans."""
    with writing(storm_conf(zookeeper, **AUTH)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: not writer._available, "the writer to be refused")
        assert reader.exists(Paths().base) is None
        made_by_nimbus(reader)
        writer.offer([load(2)])
        wait_for(lambda: written_seq(reader) is not None, "the report")


def test_with_authentication_only_the_topology_changes_its_reports_and_anyone_reads(
    zookeeper: LocalZooKeeper, reader: KazooClient
) -> None:
    made_by_nimbus(reader)
    with writing(storm_conf(zookeeper, **AUTH)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the report")
        with pytest.raises(NoAuthError):
            reader.set(PATH, b"")
        with pytest.raises(NoAuthError):
            reader.delete(PATH)


def test_with_authentication_storms_superuser_may_remove_them(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    """Nimbus clears away what killed topologies leave."""
    nimbus = make_digest_acl_credential("nimbus", "root")
    more = {**AUTH, "storm.zookeeper.superACL": f"digest:{nimbus}"}
    made_by_nimbus(reader)
    with writing(storm_conf(zookeeper, **more)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the report")
    reader.add_auth("digest", "nimbus:root")
    reader.delete(Paths().load("flights-1-1"), recursive=True)
    assert written_seq(reader) is None


def test_with_authentication_another_topology_writes_beside_it(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    other = {**AUTH, "storm.zookeeper.topology.auth.payload": "wordcount:other"}
    made_by_nimbus(reader)
    with (
        writing(storm_conf(zookeeper, **AUTH)) as (first, _),
        writing(storm_conf(zookeeper, **other), "wordcount-2-1") as (second, _),
    ):
        first.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the first topology's report")
        second.offer([load(7)])
        path = Paths().load("wordcount-2-1", "collector-9")
        wait_for(lambda: written_seq(reader, path) == 7, "the second topology's report")


def test_parents_that_belong_to_storms_daemons_are_no_obstacle(zookeeper: LocalZooKeeper, reader: KazooClient) -> None:
    """The scheduler in Nimbus makes the folder of a topology, for its account alone, before the first report."""
    nimbus, flights = (
        ACL(Permissions.ALL, Id("digest", make_digest_acl_credential(*who.split(":"))))
        for who in ("nimbus:root", "flights:secret")
    )
    anyone = make_acl("world", "anyone", read=True)
    folder = Paths().load("flights-1-1")
    parts = folder.strip("/").split("/")
    reader.add_auth("digest", "nimbus:root")
    for depth in range(1, len(parts)):
        reader.create("/" + "/".join(parts[:depth]), b"", acl=[nimbus, anyone])
    reader.create(folder, b"", acl=[nimbus, flights, anyone])
    with writing(storm_conf(zookeeper, **AUTH)) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the report")


OWNER = Paths().owner


def owned(reader: KazooClient, data: bytes) -> None:
    reader.ensure_path(OWNER)
    reader.set(OWNER, data)


def test_nothing_is_written_below_another_storm_cluster_s_root_until_it_is_ours(
    zookeeper: LocalZooKeeper, reader: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    owned(reader, b'{"schema": 1, "stormRoot": "/other\\nstorm"}')
    with writing({**storm_conf(zookeeper), "storm.zookeeper.root": "storm/"}) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: "is of the Storm cluster" in caplog.text, "the refusal")
        assert reader.exists(Paths().load("flights-1-1")) is None
        assert "storm.zookeeper.root /other?storm, ours is /storm: set another stormpilot" in caplog.text
        owned(reader, b'{"schema": 1, "stormRoot": "/storm"}')
        wait_for(lambda: written_seq(reader) == 1, "the report")


@pytest.mark.parametrize(
    "owner",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": 9, "stormRoot": "/other"}',
        b'{"schema": "x", "stormRoot": "/other"}',
        b"[" * 60_000,
    ],
)
def test_an_owner_that_cannot_be_read_keeps_nobody_from_writing(
    zookeeper: LocalZooKeeper, reader: KazooClient, owner: bytes
) -> None:
    owned(reader, owner)
    with writing({**storm_conf(zookeeper), "storm.zookeeper.root": "/storm"}) as (writer, _):
        writer.offer([load(1)])
        wait_for(lambda: written_seq(reader) == 1, "the report")
