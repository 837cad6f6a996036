"""A cluster whose supervisors are like machines: their CPU, their link, and that nothing of them is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integration.local.words import components, status, stormpilot, submit_words
from stormpilot.errors import StormpilotError
from stormpilot.local import isolation
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.isolation import IsolatedNode
from stormpilot.local.spec import ClusterSpec, NodeSpec
from waiting import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="isolated nodes need root"),
]
CORES, MBIT = 0.5, 50.0
BURN = "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as to:
    for _ in range(320):
        to.sendall(bytes(65536))
"""
SENT_MBIT = 320 * 65536 * 8 / 1e6


def spec() -> ClusterSpec:
    return ClusterSpec(
        name=f"tests-isolated-{os.getpid()}",
        supervisors=2,
        slots=2,
        scheduler="default",
        isolate=True,
        nodes=(NodeSpec(cores=CORES, mbit=MBIT), NodeSpec(cores=1.0)),
    )


@pytest.fixture(scope="module")
def isolated() -> Iterator[LocalCluster]:
    running = LocalCluster.up(spec())
    try:
        yield running
    finally:
        running.down(purge=True)


def nodes(cluster: LocalCluster) -> list[IsolatedNode]:
    assert cluster.description.isolation is not None
    return cluster.description.isolation.nodes


def left(cluster: LocalCluster) -> list[str]:
    return isolation.left(isolation.token_of(cluster.layout.directory))


def network_of(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def shown(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def in_node(node: IsolatedNode, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = isolation.entered([sys.executable, "-c", code, *arguments], node)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def test_workers_and_their_components_run_in_the_node_of_their_supervisor(isolated: LocalCluster) -> None:
    """And tuples flow between them, Nimbus and ZooKeeper, which run outside."""
    workers = submit_words(isolated)
    assert {w.supervisor for w in workers} == set(isolated.supervisor_ids)
    for node in nodes(isolated):
        inside = {int(pid) for pid in (node.group / "cgroup.procs").read_text().split()}
        own = [w.pid for w in workers if w.supervisor == node.supervisor]
        supervisor = isolated.pid(node.supervisor)
        assert {supervisor, *own} <= inside
        assert len(inside & set(components(isolated))) == 1
        assert {network_of(pid) for pid in inside} == {network_of(own[0])} != {network_of(os.getpid())}
    declared = {s["id"]: s["cpuPoints"] for s in status(isolated.name)["supervisors"]}
    assert declared == {"supervisor-01": 50.0, "supervisor-02": 100.0}


def test_node_has_the_cpu_of_its_quota(isolated: LocalCluster) -> None:
    """At most: the workers in the node and the rest of the machine take their part of it."""
    used_s = float(in_node(nodes(isolated)[0], BURN).stdout)
    assert used_s <= 4 * CORES * 1.1


def test_node_has_the_bandwidth_of_its_link(isolated: LocalCluster) -> None:
    """What the kernel counts: the limit is set at both ends, and it held packets back."""
    node, other = nodes(isolated)
    assert isolated.description.isolation is not None
    host = isolated.description.isolation.addresses[0]
    with socket.create_server((host, 0)) as server:
        sender = subprocess.Popen(
            isolation.entered([sys.executable, "-c", SEND, host, str(server.getsockname()[1])], node)
        )
        connection, _ = server.accept()
        received = 0
        with connection:
            while data := connection.recv(1 << 16):
                received += len(data)
        assert sender.wait(60) == 0
    assert received * 8 / 1e6 == pytest.approx(SENT_MBIT)
    inner = shown("tc", "-n", node.namespace, "-s", "qdisc", "show", "dev", node.inner)
    assert "tbf" in inner
    assert "rate 50Mbit" in inner
    held_back = re.search(r"overlimits (\d+)", inner)
    assert held_back is not None
    assert int(held_back.group(1)) > 0
    free = shown("tc", "-n", isolated.description.isolation.switch, "qdisc", "show", "dev", other.outer)
    assert "tbf" not in free


def test_supervisor_comes_back_in_its_node(isolated: LocalCluster) -> None:
    node = nodes(isolated)[1]
    isolated.kill_daemon(node.supervisor)
    isolated.start_daemon(node.supervisor)
    assert str(isolated.pid(node.supervisor)) in (node.group / "cgroup.procs").read_text().split()


def test_what_a_crash_left_is_cleared_by_the_next_start_and_by_down(isolated: LocalCluster) -> None:
    """The last test of this cluster: it is killed with its keeper, so that nobody can clear anything away."""
    for process in [p for p in isolated.processes() if "stormpilot.local.keeper" in p.argv]:
        os.kill(process.pid, signal.SIGKILL)
    for process in isolated.processes():
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    until(lambda: not isolated.running(), "all processes to end")
    assert left(isolated), "a crash leaves namespaces, links and groups"
    again = LocalCluster.up(spec())
    assert len(left(again)) == len(left(isolated)) > 0
    done = stormpilot("local", "down", "--name", again.name)
    assert done.returncode == 0, done.stderr
    assert left(again) == []


def test_start_that_fails_leaves_no_node() -> None:
    wanted = ClusterSpec(
        name=f"tests-isolated-failing-{os.getpid()}",
        supervisors=1,
        scheduler="default",
        isolate=True,
        conf={"storm.scheduler": "no.such.Scheduler"},
    )
    with pytest.raises(StormpilotError):
        LocalCluster.up(wanted)
    cluster = LocalCluster.load(wanted.name)
    assert left(cluster) == []
    cluster.down(purge=True)
