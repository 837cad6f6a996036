"""Two Nimbuses on a real cluster: the leading one is killed under an applied plan, and nobody who works notices."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import running_cluster
from stormpilot.errors import RefusedError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import ClusterSnapshot, StatusMessage, decode
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()
ROUNDS = 10


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Two Nimbuses, two supervisors."""
    spec = ClusterSpec(name=f"two-nimbuses-{os.getpid()}", supervisors=2, slots=3, cpu_points=400, nimbuses=2)
    with running_cluster(spec, request.session) as running:
        yield running


@pytest.fixture
def controller(cluster: LocalCluster, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A controller that plans the first placement and then keeps still."""
    config = tmp_path / "controller.yaml"
    config.write_text(
        f'zookeeper: {{hosts: "{cluster.zookeeper_hosts}"}}\n'
        "cycle: {period_s: 2, poll_s: 1}\n"
        "planner: {name: online, first_plan: default}\n"
        "decide: {mode: act, cool_down_s: 3600}\n"
        "api: {enabled: false}\n"
    )
    with (tmp_path / "controller.log").open("wb") as log:
        process = subprocess.Popen([STORMPILOT, "run", config], stdout=log, stderr=log)
    yield process
    process.terminate()
    process.wait(300)


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[ZooKeeper]:
    session = ZooKeeper(cluster.zookeeper_hosts)
    session.start()
    assert session.wait_connected(300)
    yield session
    session.stop()


def test_nimbus_fails_over_without_restarting_a_worker(
    cluster: LocalCluster, controller: subprocess.Popen[bytes], zookeeper: ZooKeeper
) -> None:
    def leads() -> bool:
        assert controller.poll() is None, "the controller ended"
        (node,) = zookeeper.read([PATHS.controller])
        return node is not None

    until(leads, "the controller to lead: the first plan is then its own")
    topology_id = _submitted(cluster)

    def status() -> StatusMessage | None:
        (node,) = zookeeper.read([PATHS.status(topology_id)])
        return None if node is None else decode(node.data, StatusMessage, "status")

    def written_by() -> str:
        (node,) = zookeeper.read([PATHS.cluster])
        return "" if node is None else decode(node.data, ClusterSnapshot, "cluster").shim.nimbus

    def workers() -> dict[tuple[str, int], int]:
        return {(w.supervisor, w.port): w.pid for w in cluster.workers()}

    until(lambda: (s := status()) is not None and s.state == "applied", "the first plan to be applied")
    until(lambda: len(workers()) == 2, "two workers")
    until(lambda: bool(zookeeper.children([PATHS.load(topology_id)])[0]), "load reports")
    before, first, plan = workers(), cluster.leading_nimbus(), status()
    assert first is not None
    assert plan is not None

    cluster.kill_nimbus()
    until(lambda: (d := cluster.leading_nimbus()) is not None and d.id != first.id, "the other to lead")
    second = cluster.leading_nimbus()
    assert second is not None
    until(lambda: written_by() == second.host, "its scheduler to have had a round")
    end = time.monotonic() + ROUNDS * 2
    while time.monotonic() < end:  # what would be restarted would be so in its first rounds
        assert workers() == before
        time.sleep(0.5)
    now = status()
    assert now is not None
    assert (now.state, now.plan_id) == ("applied", plan.plan_id)
    assert controller.poll() is None

    cluster.start_nimbus()
    assert workers() == before


def _submitted(cluster: LocalCluster) -> str:
    """Submit; a Nimbus that has just begun to lead refuses for a moment, naming itself as the leader."""
    ids: list[str] = []

    def submit() -> bool:
        nimbus = cluster.nimbus_address
        where, address = REPOSITORY / "topologies", f"{nimbus.host}:{nimbus.port}"
        try:
            ids.append(submit_topology(where, "wordcount_comm", "local", {"topology.workers": 2}, address))
        except RefusedError:
            return False
        return True

    until(submit, "a Nimbus to take the topology")
    return ids[0]
