"""What the hook counts in workers' JVMs is what components count themselves: Java, Python, ackers, after a restart."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError

from scene import until
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import decode
from stormpilot.messages.load import LoadReport, TaskLoad, by_pair
from stormpilot.nimbus import Nimbus
from stormpilot.submit.submission import prepare, send
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PROJECT = Path(__file__).parent / "project"
NUMBERS = 120
SPOUTS = ("numbers", "python_numbers")
TASKS = {"numbers": 2, "python_numbers": 1, "mid": 3, "python": 2, "end": 2, "__acker": 2}


class Measured:
    """A running `mixed`, what its workers report, and its own ledgers."""

    def __init__(self, cluster: LocalCluster, zookeeper: ZooKeeper, topology_id: str, ledgers: Path):
        self.cluster, self.zookeeper, self.topology_id, self.ledgers = cluster, zookeeper, topology_id, ledgers

    def reports(self) -> list[LoadReport]:
        client, paths = self.zookeeper.client, Paths()
        try:
            names = client.get_children(paths.load(self.topology_id))
        except NoNodeError:
            return []
        nodes = [(paths.load(self.topology_id, n)) for n in names]
        return [decode(client.get(path)[0], LoadReport, path) for path in nodes]

    def tasks(self) -> dict[int, TaskLoad]:
        """The newest process's load of every task, of those that a JVM measured."""
        newest: dict[int, TaskLoad] = {}
        for load in (t for r in self.reports() if r.worker is not None for t in r.tasks):
            if load.task not in newest or newest[load.task].start_ms < load.start_ms:
                newest[load.task] = load
        return newest

    def ledger(self, task: int) -> dict[str, int]:
        """What the newest process of a task wrote."""
        files = sorted(self.ledgers.glob(f"{task}-*.json"), key=lambda f: f.stat().st_mtime_ns)
        return dict(json.loads(files[-1].read_text())) if files else {}

    def settled(self) -> dict[int, TaskLoad]:
        """Loads once every task reports, every spout has emitted all, and nothing changes for three more reports."""
        last: list[object] = [None, 0.0]

        def still() -> bool:
            tasks = self.tasks()
            counts = {t: (by_pair(load.received), load.emitted, load.acked, load.start_ms) for t, load in tasks.items()}
            spouts = [load for load in tasks.values() if load.component in SPOUTS]
            if (
                len(tasks) < sum(TASKS.values())
                or any(load.emitted < NUMBERS for load in spouts)
                or counts != last[0]
                or any(load.at_ms / 1000 < time.time() - 5 for load in tasks.values())
            ):
                last[:] = [counts, time.monotonic()]
                return False
            return time.monotonic() - float(str(last[1])) > 4

        until(still, "the topology to come to rest")
        return self.tasks()

    def check(self, tasks: dict[int, TaskLoad]) -> None:
        """Every pair that the hook counted against the ledgers; ackers against what the others must have sent them."""
        for task, load in tasks.items():
            ledger = self.ledger(task)
            if load.component in SPOUTS:
                assert (load.emitted, load.failed) == (ledger["emitted"], ledger.get("failed", 0))
                assert load.completed == ledger.get("acked", 0)
            elif load.component != "__acker":
                counted = {f"{source} {stream}": n for (source, stream), n in by_pair(load.received).items()}
                assert counted == ledger, f"task {task} of {load.component}"
                assert load.acked == sum(ledger.values())


@pytest.fixture
def measured(hooked: LocalCluster, jar: Path, tmp_path: Path) -> Iterator[Callable[..., Measured]]:
    """Submits `mixed` and kills it after the test."""
    zookeeper = ZooKeeper(hooked.zookeeper_hosts)
    zookeeper.start()
    assert zookeeper.wait_connected(300)
    names: list[str] = []

    def submit(name: str, instrument: bool, **options: object) -> Measured:
        names.append(name)
        submission = prepare(
            PROJECT,
            "mixed",
            options={"test.ledger": str(tmp_path), "test.numbers": NUMBERS, **options},
            nimbus=str(hooked.nimbus_address),
            instrument=instrument,
            override_name=name,
            jar=jar,
        )
        return Measured(hooked, zookeeper, send(submission), tmp_path)

    yield submit
    with Nimbus.connect_leader(hooked.nimbus_address) as nimbus:
        for name in filter(nimbus.find, names):
            nimbus.kill(name, wait_s=0)
        until(lambda: not any(nimbus.find(name) for name in names), "the topologies to be gone")
    zookeeper.stop()


def test_pairs_are_exact_in_java_and_python_and_after_a_worker_ended(measured: Callable[..., Measured]) -> None:
    run = measured("exact", instrument=False)
    tasks = run.settled()
    run.check(tasks)
    components = [load.component for load in tasks.values()]
    assert {c: components.count(c) for c in components} == TASKS
    # Nothing was lost, so ackers saw every tree: once from its spout, and each ack of each bolt.
    ackers = [load for load in tasks.values() if load.component == "__acker"]
    heard: Counter[tuple[int, str]] = Counter()
    for acker in ackers:
        heard.update(by_pair(acker.received))
    for task, load in tasks.items():
        if load.component in SPOUTS:
            assert heard[task, "__ack_init"] == NUMBERS
            assert sum(n for a in ackers for (to, _), n in by_pair(a.sent).items() if to == task) == NUMBERS
        elif load.component != "__acker":
            assert heard[task, "__ack_ack"] == load.acked
    for load in tasks.values():
        assert load.cpu_s > 0
        assert load.shared_cpu_s is not None
        assert load.queue == 0
        assert (load.child_cpu_s is not None) == load.component.startswith("python")
        assert load.child_cpu_s is None or 0 < load.child_cpu_s < load.cpu_s
    for jvm in (r for r in run.reports() if r.worker is not None):
        assert jvm.worker is not None
        part_mb = (jvm.worker.memory_mb or 0.0) / len(jvm.tasks)
        assert part_mb > 5
        for x in jvm.tasks:  # a task in Python holds its process besides
            more_mb = (x.memory_mb or 0.0) - part_mb
            assert more_mb > 5 if x.child_cpu_s is not None else abs(more_mb) < 1

    slot, pid = next((w.port, w.pid) for w in run.cluster.workers() if w.topology_id == run.topology_id)
    gone = {
        t for r in run.reports() if r.worker is not None and r.worker.port == slot for t in (x.task for x in r.tasks)
    }
    os.kill(pid, signal.SIGKILL)

    def anew() -> bool:
        now = run.tasks()
        return all(t in now and now[t].start_ms > tasks[t].start_ms for t in gone)

    until(anew, "reports of the new worker")
    again = run.settled()
    run.check(again)
    assert {t for t in again if again[t].pid != tasks[t].pid} == gone


def test_topology_that_says_no_is_not_measured(measured: Callable[..., Measured]) -> None:
    run = measured("unmeasured", instrument=False, **{"stormpilot.hook": False})
    until(lambda: len(list(run.ledgers.glob("*.json"))) >= 5, "its components to run")
    assert run.reports() == []


def test_zookeeper_that_goes_away_and_a_pause_of_the_topology_cost_nothing(measured: Callable[..., Measured]) -> None:
    run = measured("outage", instrument=False)
    before = run.settled()
    workers = {w.pid for w in run.cluster.workers() if w.topology_id == run.topology_id}

    def log() -> str:
        folders = run.cluster.layout.logs.glob(f"*/workers-artifacts/{run.topology_id}/*/worker.log")
        return "".join(f.read_text(errors="replace") for f in folders)

    run.cluster.stop_zookeeper()
    try:
        until(lambda: log().count("reports do not reach ZooKeeper") >= len(workers), "the reporters to miss it")
    finally:
        run.cluster.start_zookeeper()
    until(lambda: log().count("reports reach ZooKeeper again") >= len(workers), "reports to arrive again")

    def paused() -> bool:
        try:  # Nimbus has to lead again first
            with Nimbus.connect_leader(run.cluster.nimbus_address) as nimbus:
                nimbus.deactivate("outage")
        except UnreachableError:
            return False
        return True

    until(paused, "a Nimbus that leads")
    paused_ms = time.time() * 1000

    def goes_on() -> bool:
        return all(load.at_ms > paused_ms + 3000 for load in run.tasks().values())

    until(goes_on, "reports of a topology that is paused")
    after = run.tasks()
    run.check(after)
    assert {t: load.pid for t, load in after.items()} == {t: load.pid for t, load in before.items()}
    assert {w.pid for w in run.cluster.workers() if w.topology_id == run.topology_id} == workers
