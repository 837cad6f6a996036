"""The topologies on a real Storm cluster: all flights arrive though workers are killed, words are counted."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from flight_delays.progress import Progress, read_progress
from integration.local.words import wait_until
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.workers import Worker
from stormpilot.nimbus import Nimbus
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.paths import Paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

PROJECT = Path(__file__).parents[3] / "topologies"
FLIGHTS = 3000
RATE_TPS = 100

Submit = Callable[..., str]


@pytest.fixture
def submit(cluster: LocalCluster) -> Iterator[Submit]:
    """Submits a topology of the project and returns its id; kills it after the test."""
    submitted: list[str] = []

    def send(name: str, instrument: bool, **options: Any) -> str:
        options = {key.replace("_", "."): value for key, value in options.items()}
        address = str(cluster.nimbus_address)
        submitted.append(name)
        return submit_topology(PROJECT, name, "local", options, address, instrument)

    yield send
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        for name in submitted:
            if nimbus.find(name):
                nimbus.kill(name, wait_s=0)
    wait_until(lambda: not cluster.workers(), "the workers to end")


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=cluster.zookeeper_hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def worker_of(cluster: LocalCluster, topology_id: str, component: str) -> Worker:
    """A worker of the topology that runs a task of the component (a class name)."""
    parents = {
        int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        for process in cluster.processes()
        if process.argv and process.argv[-1].endswith(f".{component}")
    }
    return next(w for w in cluster.workers() if w.topology_id == topology_id and w.pid in parents)


@pytest.mark.long
def test_every_flight_is_acknowledged_though_workers_are_killed(
    cluster: LocalCluster, client: KazooClient, submit: Submit
) -> None:
    """A worker with a source and one with a window dies; the stream has an end, and reaches it."""
    topology_id = submit(
        "flights",
        instrument=False,
        topology_workers=4,
        topology_message_timeout_secs=10,
        flights_rate_tps=RATE_TPS,
        flights_limit=FLIGHTS,
        flights_loop=False,
    )

    def progress() -> Progress:
        return Progress.total(read_progress(client, topology_id))

    wait_until(lambda: progress().committed > 500, "the first flights to be acknowledged")
    os.kill(worker_of(cluster, topology_id, "FlightSpout").pid, signal.SIGKILL)
    so_far = progress().committed
    wait_until(lambda: progress().committed > so_far + 500, "flights to be acknowledged after a source was killed")
    os.kill(worker_of(cluster, topology_id, "RouteStatistics").pid, signal.SIGKILL)
    wait_until(lambda: progress().done, "the stream to end", timeout_s=400.0)
    total = progress()
    assert total.tasks == 2
    assert total.committed == total.emitted == FLIGHTS
    assert sum(part.incarnation for part in read_progress(client, topology_id)) > 2


@pytest.mark.parametrize("name", ["wordcount_comm", pytest.param("wordcount_comp", marks=pytest.mark.long)])
def test_words_are_counted_and_sentences_complete(client: KazooClient, submit: Submit, name: str) -> None:
    topology_id = submit(name, instrument=True, topology_workers=2, wordcount_rate_tps=20, stormpilot_report_secs=1)

    def loads() -> list[dict[str, Any]]:
        folder = Paths().load(topology_id)
        try:
            reports = [client.get(f"{folder}/{reporter}")[0] for reporter in client.get_children(folder)]
        except NoNodeError:
            return []
        return [
            task
            for report in reports
            for task in json.loads(gzip.decompress(report) if report.startswith(b"\x1f\x8b") else report)["tasks"]
        ]

    def of(component: str, counter: str) -> int:
        return sum(task[counter] for task in loads() if task["component"] == component)

    wait_until(lambda: of("sentences", "completed") >= 200, "sentences to complete")
    assert of("count", "acked") >= 200
    assert len({task["task"] for task in loads() if task["component"] == "count" and task["acked"]}) > 1
