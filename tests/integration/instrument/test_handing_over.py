"""Two tasks that hand state over through a real ZooKeeper: watches, outages, lost sessions, accounts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from doubles.worker_zookeeper import short_timeouts, storm_conf
from stormpilot.instrument import handing_over
from stormpilot.instrument.handing_over import HandingOver, ZooKeeperKeyedStore
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import decode, encode
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.routes import ComponentRoute, Routes, first_route, handed_on, switch
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.zookeeper

TOPOLOGY = "tally-1-1"
PATHS = Paths()
A, B = 3, 4
DEADLINE_S = 300.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look without being woken comes too late to help."""
    monkeypatch.setattr(handing_over, "POLL_S", 300.0)
    short_timeouts(monkeypatch)


class Task:
    """A task with its thread, and a main loop that keeps `states`."""

    def __init__(self, conf: dict[str, Any], task: int, states: dict[int, Any]) -> None:
        self.states = states
        self.store = ZooKeeperKeyedStore(conf, TOPOLOGY)
        self.handing = HandingOver(self.store, TOPOLOGY, "count", task)
        self.handing.start()
        self.ended = threading.Event()
        threading.Thread(target=self._main, daemon=True).start()

    def _main(self) -> None:
        while not self.ended.wait(0.02):
            while self.handing.work:
                work = self.handing.work.popleft()
                if work.drain:
                    self.handing.done(work, {p: self.states.pop(p) for p in work.partitions if p in self.states})
                else:
                    for partition, state in work.states:
                        self.states[partition] = self.states.get(partition, 0) + state
                    self.handing.done(work)


class Driver:
    """Who moves: writes tables, and follows the tasks' answers."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client
        self.route: ComponentRoute = first_route("count", [A, B], standby=1, keyed=True, hands_over=True)
        client.ensure_path(PATHS.routes())
        client.create(PATHS.routes(TOPOLOGY), encode(Routes(topology_id=TOPOLOGY, components=[self.route])))

    def write(self, route: ComponentRoute) -> None:
        self.route = route
        self.client.set(PATHS.routes(TOPOLOGY), encode(Routes(topology_id=TOPOLOGY, components=[route])))

    def answers(self) -> dict[int, KeyedTask]:
        folder = PATHS.keyed(TOPOLOGY, "tasks")
        names = self.client.get_children(folder) if self.client.exists(folder) else []
        return {int(n): decode(self.client.get(f"{folder}/{n}")[0], KeyedTask, n) for n in names}

    def drive(self, until: Callable[[], bool], what: str) -> None:
        """Step by step, in a time of its own in which nothing drains for long."""
        now_ms, deadline = 10_000, time.monotonic() + DEADLINE_S
        while not until():
            assert time.monotonic() < deadline, what
            after, said = handed_on(self.route, self.answers(), now_ms)
            assert said == []
            if after != self.route:
                self.write(after)
            now_ms += 1
            time.sleep(0.05)

    def move(self, from_: int, to: int) -> None:
        moved = switch(self.route, [A, B], from_, to, 0)
        self.write(ComponentRoute(**{f: getattr(moved, f) for f in moved.__struct_fields__} | {"draining": []}))

    def items(self) -> list[str]:
        folder = PATHS.keyed(TOPOLOGY, "states")
        return list(self.client.get_children(folder)) if self.client.exists(folder) else []


@pytest.fixture
def driver(zookeeper: LocalZooKeeper) -> Iterator[Driver]:
    client = KazooClient(hosts=zookeeper.hosts, timeout=60)  # its session outlives the outages
    client.start(timeout=300)
    yield Driver(client)
    client.stop()
    client.close()


def test_state_goes_there_and_back_by_watches_alone(zookeeper: LocalZooKeeper, driver: Driver) -> None:
    a, b = Task(storm_conf(zookeeper), A, {0: 5, 7: 1}), Task(storm_conf(zookeeper), B, {7: 10})
    driver.drive(lambda: len(driver.answers()) == 2, "both tasks to have read the table")
    driver.move(A, B)
    driver.drive(lambda: not driver.route.handovers, "the hand-over to end")
    assert (a.states, b.states) == ({}, {0: 5, 7: 11})
    driver.drive(lambda: not driver.items(), "what was loaded to be taken away")
    driver.move(B, A)
    driver.drive(lambda: not driver.route.handovers, "the return to end")
    assert (a.states, b.states) == ({0: 5, 7: 11}, {})
    for task in (a, b):
        task.ended.set()


def test_an_outage_and_a_lost_session_in_the_middle_lose_nothing(
    zookeeper: LocalZooKeeper, driver: Driver, expire_session: Callable[[KazooClient], None]
) -> None:
    a, b = Task(storm_conf(zookeeper), A, {0: 5}), Task(storm_conf(zookeeper), B, {})
    driver.drive(lambda: len(driver.answers()) == 2, "both tasks to have read the table")
    driver.move(A, B)
    driver.drive(lambda: driver.route.handovers[0].phase == "save", "the giver to be told")
    zookeeper.stop()
    time.sleep(1.0)
    zookeeper.start()
    driver.drive(lambda: not driver.route.handovers, "the hand-over to end")
    assert (a.states, b.states) == ({}, {0: 5})
    expire_session(b.store._client)
    driver.move(B, A)
    driver.drive(lambda: not driver.route.handovers, "the return to end after a lost session")
    assert (a.states, b.states) == ({0: 5}, {})
    for task in (a, b):
        task.ended.set()


def test_with_accounts_nobody_else_reads_what_was_saved(zookeeper: LocalZooKeeper, driver: Driver) -> None:
    auth = {
        "storm.zookeeper.topology.auth.scheme": "digest",
        "storm.zookeeper.topology.auth.payload": "tally:secret",
    }
    a = Task(storm_conf(zookeeper, **auth), A, {0: 5})
    driver.drive(lambda: len(driver.answers()) == 1, "the task to have read the table, which anyone may")
    driver.move(A, B)
    driver.drive(lambda: bool(driver.items()), "the state to be saved")
    (item,) = driver.items()
    with pytest.raises(NoAuthError):
        driver.client.get(PATHS.keyed(TOPOLOGY, "states", item))
    b = Task(storm_conf(zookeeper, **auth), B, {})
    driver.drive(lambda: not driver.route.handovers, "the hand-over to end")
    assert (a.states, b.states) == ({}, {0: 5})
    for task in (a, b):
        task.ended.set()
