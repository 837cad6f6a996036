"""Traffic that moves between running Python tasks on a real Storm cluster: nothing restarts, nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.local.words import stormpilot, wait_until
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.load import TaskLoad
from stormpilot.nimbus import Nimbus
from stormpilot.operate import Operator
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.cluster

PROJECT = Path(__file__).parent / "project"


class Watched:
    """The running topology: its spout's task, the three tasks of `take`, and what each got so far."""

    def __init__(self, connection: ZooKeeper, topology_id: str, stop: Path):
        self.id = topology_id  # its name may still find one that was killed
        self.stop = stop
        self.connection = connection
        self.operator = Operator(connection, Paths(), "test")
        wait_until(lambda: len(self.tasks("take")) == 3 and self.tasks("keys"), "every task to report")
        self.take = sorted(t.task for t in self.tasks("take"))
        self.pids = {t.task: t.pid for t in self.loads().values()}

    def loads(self) -> dict[int, TaskLoad]:
        return operate.loads(self.operator, self.id)

    def tasks(self, component: str) -> list[TaskLoad]:
        try:
            return [t for t in self.loads().values() if t.component == component]
        except RefusedError:
            return []

    def got(self, task: int) -> int:
        load = self.loads().get(task)
        return sum(load.received.get("default", ([], []))[1]) if load else 0

    def get_more(self, *tasks: int) -> None:
        before = {t: self.got(t) for t in tasks}
        wait_until(lambda: all(self.got(t) > before[t] for t in tasks), f"tuples to reach {tasks}")

    def rests(self, task: int) -> None:
        """Wait for two reports with nothing between them."""
        before = self.loads()[task]

        def idle() -> bool:
            nonlocal before
            now = self.loads()[task]
            before, found = now, operate.idle(before, now)
            return found

        wait_until(idle, f"task {task} to rest")

    def nothing_restarted(self) -> None:
        assert {t.task: t.pid for t in self.loads().values()} == self.pids


@pytest.fixture
def keyed(cluster: LocalCluster, tmp_path: Path) -> Iterator[Watched]:
    connection = connect(cluster.zookeeper_hosts)
    options = {"keys.stop.file": str(tmp_path / "stop")}
    nimbus_address = str(cluster.nimbus_address)
    topology_id = submit_topology(PROJECT, "keyed", options=options, nimbus=nimbus_address, standby={"take": 1})
    yield Watched(connection, topology_id, tmp_path / "stop")
    connection.stop()
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        nimbus.kill("keyed", wait_s=0)
    wait_until(lambda: not cluster.workers(), "the workers to end")


def test_traffic_moves_there_and_back_without_a_restart_or_a_lost_tuple(cluster: LocalCluster, keyed: Watched) -> None:
    """The commands as an operator types them; every tuple that was emitted is acked in the end."""
    a, b, standby = keyed.take
    keyed.get_more(a, b)
    assert keyed.got(standby) == 0

    def run(*arguments: str) -> str:
        done = stormpilot(*arguments, "--zookeeper", cluster.zookeeper_hosts)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"goes to task {standby}" in run("routes", "shift", keyed.id, "take", "--from", str(b), "--to", str(standby))
    keyed.rests(b)
    keyed.get_more(a, standby)
    (view,) = (v for v in json.loads(run("routes", "show", keyed.id, "-f", "json")) if v["component"] == "take")
    assert (view["active"], view["standby"], view["draining"]) == ([a, standby], [b], [])

    run("routes", "deactivate", keyed.id, "take", str(a))
    keyed.rests(a)
    keyed.get_more(standby)
    run("routes", "activate", keyed.id, "take", str(a))
    keyed.get_more(a, standby)

    run("routes", "reset", keyed.id, "--yes")
    keyed.get_more(a, b)
    keyed.rests(standby)

    keyed.nothing_restarted()
    keyed.stop.touch()

    def all_acked() -> bool:
        (spout,) = keyed.tasks("keys")
        return spout.completed == spout.emitted == sum(keyed.got(t) for t in keyed.take)

    wait_until(all_acked, "every tuple to be acked once")
    (spout,) = keyed.tasks("keys")
    assert spout.failed == 0 and spout.emitted > 0


def test_a_broken_table_leaves_storms_own_grouping(keyed: Watched) -> None:
    a, b, standby = keyed.take
    operate.shift_route(keyed.operator, keyed.id, "take", b, standby)
    keyed.get_more(a, standby)
    path = Paths().routes(keyed.id)
    keyed.connection.put(path, b'{"schema": 1, "components": [{"component": "take"')
    keyed.get_more(a, b)
    keyed.nothing_restarted()
