"""Unmodified streamparse components on a real Storm cluster: what they report is what happened, to the last tuple."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from stormpilot.instrument.latency import quantile_ms
from stormpilot.instrument.topology import COLLECTOR_ID
from stormpilot.instrument.worker_jvm import WorkerJvm
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import decode
from stormpilot.messages.load import LoadReport, TaskLoad, by_pair
from stormpilot.nimbus import Address, Nimbus
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.cluster

PROJECT = Path(__file__).parent / "project"
SPOUTS, TRACKED, UNTRACKED = 2, 400, 100
EXECUTORS = {"numbers": SPOUTS, "pass": 3, "batches": 2, "late": 1, COLLECTOR_ID: 1}
DEADLINE_S = 300.0


@pytest.fixture
def zookeeper_client(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=cluster.zookeeper_hosts)
    client.start(timeout=300)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def submitted(cluster: LocalCluster) -> Iterator[Callable[..., str]]:
    """Submits `counted` and kills it after the test."""
    address = Address(cluster.nimbus_host, cluster.nimbus_port)
    names: list[str] = []

    def submit(name: str, **arguments: object) -> str:
        names.append(name)
        return submit_topology(PROJECT, "counted", nimbus=str(address), override_name=name, **arguments)  # type: ignore[arg-type]

    yield submit
    with Nimbus.connect_leader(address) as nimbus:
        for name in names:
            nimbus.kill(name, wait_s=0)
        wait_for(lambda: not any(nimbus.find(name) for name in names), "the topologies to be gone")


def wait_for(condition: Callable[[], object], what: str, state: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what} {state()}"
        time.sleep(0.25)


def tasks(client: KazooClient, topology_id: str) -> dict[str, list[TaskLoad]]:
    """The newest load of every task, by component."""
    found: dict[str, list[TaskLoad]] = {}
    try:
        for reporter in client.get_children(Paths().load(topology_id)):
            path = Paths().load(topology_id, reporter)
            for load in decode(client.get(path)[0], LoadReport, path).tasks:
                found.setdefault(load.component, []).append(load)
    except NoNodeError:
        return {}
    return found


def received(loads: list[TaskLoad], stream: str = "default") -> Counter[int]:
    """Tuples by source task, summed over the tasks that received them."""
    counts: Counter[int] = Counter()
    for load in loads:
        for (source, name), n in by_pair(load.received).items():
            if name == stream:
                counts[source] += n
    return counts


def taken(loads: list[TaskLoad]) -> dict[int, int]:
    """Tuples that each task received; shuffle grouping prefers the near and may leave a task without any."""
    counts = {load.task: sum(by_pair(load.received).values()) for load in loads}
    return {task: n for task, n in counts.items() if n}


def test_counts_are_exact_for_every_kind_of_component(
    cluster: LocalCluster, zookeeper_client: KazooClient, submitted: Callable[..., str]
) -> None:
    topology_id = submitted("exact")
    everything = SPOUTS * (TRACKED + UNTRACKED)

    def all_arrived() -> bool:
        now = tasks(zookeeper_client, topology_id)
        return (
            {c: len(of) for c, of in now.items()} == EXECUTORS  # a task without tuples may report after the last tuple
            and sum(t.completed for t in now["numbers"]) >= SPOUTS * TRACKED
            and all(sum(t.acked for t in now[c]) >= everything for c in ("pass", "batches", "late"))
            and all(sum(taken(now[c]).values()) >= everything for c in ("pass", "batches", "late"))
        )

    def state() -> object:
        return {
            c: [(t.task, t.seq, sum(by_pair(t.received).values()), t.acked, t.completed) for t in of]
            for c, of in tasks(zookeeper_client, topology_id).items()
        }

    wait_for(all_arrived, "every task to report and every number to arrive", state)
    loads = tasks(zookeeper_client, topology_id)

    spouts = {t.task: t for t in loads["numbers"]}
    for spout in spouts.values():
        assert (spout.emitted, spout.completed, spout.failed) == (TRACKED, TRACKED, 0)
        assert sum(n for _, n in spout.latency_ms) == TRACKED
        assert (quantile_ms(spout.latency_ms, 0.5) or 0) > 0

    assert received(loads["pass"]) == dict.fromkeys(spouts, TRACKED)
    assert received(loads["pass"], "untracked") == dict.fromkeys(spouts, UNTRACKED)
    assert received(loads["batches"]) == taken(loads["pass"])
    assert received(loads["late"]) == taken(loads["batches"])
    for component in ("pass", "batches", "late"):
        assert sum(t.acked for t in loads[component]) == everything
    assert all(t.acked == 0 and not t.received for t in loads["numbers"])

    supervisors = {s.host for s in cluster.description.supervisors}
    assert {t.host for of in loads.values() for t in of} <= supervisors
    assert all(t.cpu_s > 0 and t.pid > 0 for of in loads.values() for t in of)
    for t in (t for of in loads.values() for t in of):
        now_s = WorkerJvm(t.pid).cpu_s()  # by the kernel, of the worker that runs it
        assert now_s is not None and t.jvm_cpu_s is not None and 0 < t.jvm_cpu_s <= now_s


def test_a_restarted_task_reports_anew_and_its_dead_process_is_forgotten(
    zookeeper_client: KazooClient, submitted: Callable[..., str]
) -> None:
    topology_id = submitted("restarted")
    wait_for(lambda: len(tasks(zookeeper_client, topology_id).get("late", [])) == 1, "the first report of late")
    (before,) = tasks(zookeeper_client, topology_id)["late"]
    os.kill(before.pid, signal.SIGKILL)  # Storm restarts the whole worker

    def restarted() -> bool:
        (now,) = tasks(zookeeper_client, topology_id).get("late", [before])
        return now.pid != before.pid

    wait_for(restarted, "a report of the new process")
    (after,) = tasks(zookeeper_client, topology_id)["late"]
    assert after.start_ms > before.start_ms


def test_without_instrumentation_nothing_is_reported_and_nothing_is_added(
    cluster: LocalCluster, zookeeper_client: KazooClient, submitted: Callable[..., str]
) -> None:
    topology_id = submitted("plain", instrument=False, options={"topology.workers": 1})
    with Nimbus.connect_leader(Address(cluster.nimbus_host, cluster.nimbus_port)) as nimbus:
        wait_for(lambda: len(nimbus.topology(topology_id).executors) >= 8, "its executors to be placed")
        components = {e.component for e in nimbus.topology(topology_id).executors}
    assert components == {"numbers", "pass", "batches", "late", "__acker"}
    assert tasks(zookeeper_client, topology_id) == {}
