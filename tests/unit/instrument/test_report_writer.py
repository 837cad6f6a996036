"""The writer thread against a store in memory that can fail and hang."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from stormpilot.instrument import report_writer, worker_store
from stormpilot.instrument.report_writer import ReportWriter, ZooKeeperReports
from stormpilot.instrument.reports import encode_reports
from stormpilot.instrument.worker_store import StoreUnavailable, zookeeper_hosts


class MemoryStore:
    """Reports in a dictionary; `fail` makes every call fail, `gate` makes writes wait."""

    def __init__(self) -> None:
        self.reports: dict[str, bytes] = {}
        self.fail: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.writes = 0
        self.attempts = 0
        self.closed = False

    def write(self, reporter: str, data: bytes) -> None:
        self.attempts += 1
        self.entered.set()
        self.gate.wait(300)
        self._check()
        self.reports[reporter] = data
        self.writes += 1

    def delete(self, reporter: str) -> None:
        self._check()
        self.reports.pop(reporter, None)

    def reporters(self) -> list[str]:
        self._check()
        return list(self.reports)

    def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.fail:
            raise self.fail


def wait_for(condition: Callable[[], bool], deadline_s: float = 300.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.002)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def writer(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReportWriter]:
    monkeypatch.setattr(report_writer, "MIN_BACKOFF_S", 0.001)
    monkeypatch.setattr(report_writer, "MAX_BACKOFF_S", 0.005)
    writer = ReportWriter(store, "flights-1-1", "collector-9", clock=lambda: 5.0)
    writer.start()
    yield writer
    store.gate.set()
    writer.close()


def load(task: int) -> str:
    return json.dumps({"task": task, "startMs": 1, "seq": 1})


def tasks_in(data: bytes) -> list[int]:
    return [t["task"] for t in json.loads(data)["tasks"]]


def test_an_offered_report_is_written_under_the_reporters_name(store: MemoryStore, writer: ReportWriter) -> None:
    writer.offer([load(3)])
    wait_for(lambda: bool(store.reports))
    report = json.loads(store.reports["collector-9"])
    assert report["topologyId"] == "flights-1-1"
    assert report["writtenAtMs"] == 5000
    assert tasks_in(store.reports["collector-9"]) == [3]


def test_offers_return_while_the_store_hangs_and_only_the_newest_is_written(
    store: MemoryStore, writer: ReportWriter
) -> None:
    store.gate.clear()
    writer.offer([load(0)])
    assert store.entered.wait(300)
    for task in range(1, 1001):
        writer.offer([load(task)])
    store.gate.set()
    wait_for(lambda: tasks_in(store.reports.get("collector-9", b'{"tasks":[]}')) == [1000])
    assert store.writes == 2


@pytest.mark.parametrize(
    "failure", [StoreUnavailable("gone"), RuntimeError("a fault of the client"), OSError(24, "files")]
)
def test_whatever_the_store_raises_the_newest_report_is_written_when_it_is_back(
    store: MemoryStore, writer: ReportWriter, failure: Exception
) -> None:
    store.fail = failure
    writer.offer([load(1)])
    wait_for(lambda: store.attempts >= 3)
    writer.offer([load(2)])
    store.fail = None
    wait_for(lambda: tasks_in(store.reports.get("collector-9", b'{"tasks":[]}')) == [2])


def test_the_last_report_is_tried_again_without_a_new_offer(store: MemoryStore, writer: ReportWriter) -> None:
    store.fail = StoreUnavailable("gone")
    writer.offer([load(1)])
    wait_for(lambda: store.attempts >= 2)
    store.fail = None
    wait_for(lambda: bool(store.reports))
    assert tasks_in(store.reports["collector-9"]) == [1]


def test_an_outage_is_said_once_and_its_end_once(
    store: MemoryStore, writer: ReportWriter, caplog: pytest.LogCaptureFixture
) -> None:
    store.fail = StoreUnavailable("gone")
    writer.offer([load(1)])
    wait_for(lambda: store.attempts >= 5)
    store.fail = None
    wait_for(lambda: len(caplog.messages) >= 2)
    assert len(caplog.messages) == 2
    assert "gone" in caplog.messages[0]
    assert "again" in caplog.messages[1]


def test_parts_of_an_earlier_and_larger_report_are_removed(store: MemoryStore, writer: ReportWriter) -> None:
    """Otherwise a reader would find tasks twice, for ever."""
    left = dict(encode_reports("flights-1-1", "collector-9-0", 1, 1, []))
    store.reports = {**left, "collector-9-1": b"", "collector-91": b"", "collector-9-x": b"", "other": b""}
    writer.offer([load(3)])
    wait_for(lambda: "collector-9-0" not in store.reports and "collector-9-1" not in store.reports)
    assert set(store.reports) == {"collector-9", "collector-91", "collector-9-x", "other"}


def test_close_ends_thread_and_session_even_during_an_outage(store: MemoryStore, writer: ReportWriter) -> None:
    store.fail = StoreUnavailable("gone")
    writer.offer([load(1)])
    wait_for(lambda: store.attempts >= 1)
    writer.close()
    assert store.closed
    assert not writer._thread.is_alive()


@pytest.mark.parametrize(
    ("conf", "hosts"),
    [
        ({"storm.zookeeper.servers": ["a", "b"], "storm.zookeeper.port": 2182}, "a:2182,b:2182"),
        ({"storm.zookeeper.servers": ["a"]}, "a:2181"),
        ({"storm.zookeeper.servers": ["fe80::1"], "storm.zookeeper.port": 1}, "[fe80::1]:1"),
        ({"storm.zookeeper.servers": ["[fe80::1]", "a"], "storm.zookeeper.port": 1}, "[fe80::1]:1,a:1"),
    ],
)
def test_servers_and_port_come_from_the_storm_configuration(conf: dict[str, object], hosts: str) -> None:
    assert zookeeper_hosts(conf) == hosts


@pytest.mark.parametrize("servers", [None, [], "localhost"])
def test_a_configuration_without_servers_is_refused_by_name(servers: object) -> None:
    with pytest.raises(ValueError, match=r"storm\.zookeeper\.servers"):
        ZooKeeperReports({"storm.zookeeper.servers": servers}, "t")


def test_what_a_component_logs_of_kazoo_itself_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_store, "REQUEST_TIMEOUT_S", 0.2)
    reports = ZooKeeperReports({"storm.zookeeper.servers": ["127.0.0.1"], "storm.zookeeper.port": 1}, "t")
    with pytest.raises(StoreUnavailable, match="no connection"):
        reports.reporters()
    reports.close()
    assert not caplog.records, "what our own client meets is told by who asks"
    logging.getLogger("kazoo.client").warning("the component's own session is lost")
    assert [r.message for r in caplog.records] == ["the component's own session is lost"]
