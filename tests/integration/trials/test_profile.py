"""Trial runs on a real cluster: a Python and a Java component, alone on a slot, and a second run that goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import running_cluster
from inprocess_storm import PROJECT
from scene import REPOSITORY
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.nimbus import Nimbus

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]
TRIALS = (
    *("--first-rate", "5", "--rate-step", "5", "--max-rate", "10", "--max-threads", "2", "--repeats", "3"),
    *("--settle", "3", "--warm-up", "1", "--trial", "3", "--slope", "1"),
)
"""Rates that every machine sustains: this is about trials, not about how fast the machine is."""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    spec = ClusterSpec(name=f"tests-profile-{os.getpid()}", supervisors=2, slots=1, hook=True, conf=PATIENT)
    with running_cluster(spec, request.session) as running:
        yield running


def profile(cluster: LocalCluster, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "stormpilot", "profile", *arguments, *TRIALS, "-o", str(output), "-f", "json"),
        *("--nimbus", str(cluster.nimbus_address), "--zookeeper", cluster.zookeeper_hosts),
    ]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_python_component_is_measured_once_and_the_model_can_be_sized(cluster: LocalCluster, tmp_path: Path) -> None:
    output, record = tmp_path / "pi.json", tmp_path / "pi.trials.jsonl"
    arguments = ("micro_tasks.pi:Pi", "--project", str(PROJECT), "-e", "local", "-O", "micro.pi.digits=50")
    done = profile(cluster, output, *arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(p["threads"], p["rateTps"]) for p in found["peaks"]] == [(1, 10.0), (2, 10.0)]
    for p in found["peaks"]:
        assert p["cpuShare"] > 0
        assert p["memoryMb"] > p["heapMb"] > 0
        assert p["latencyMs"] > 0
    one, two = found["peaks"]
    assert two["memoryMb"] > one["memoryMb"]  # a second Python process
    assert (tmp_path / "pi.svg").read_text().startswith("<?xml")
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        assert all(t.status == "KILLED" for t in nimbus.topologies())

    before = record.read_bytes()
    again = profile(cluster, output, *arguments)
    assert json.loads(again.stdout) == found
    assert record.read_bytes() == before

    sized = subprocess.run(
        [sys.executable, "-m", "stormpilot", "size", str(output), "--rate", "25", "-f", "json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(sized.stdout)["allocations"]["mba"]["components"][1]["threads"] == 3


def test_a_java_component_is_measured_from_its_jar(cluster: LocalCluster, tmp_path: Path) -> None:
    (jar,) = (REPOSITORY / "storm-plugin" / "worker" / "target").glob("stormpilot-worker-*-topologies.jar")
    arguments = ("io.stormpilot.worker.topology.RelayBolt", "--jar", str(jar), "--fields", "x", "--outputs", "x")
    done = profile(cluster, tmp_path / "relay.json", *arguments)
    assert done.returncode == 0, done.stderr
    assert [(p["threads"], p["rateTps"]) for p in json.loads(done.stdout)["peaks"]] == [(1, 10.0), (2, 10.0)]


def test_a_cluster_without_two_free_nodes_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    arguments = ("micro_tasks.pi:Pi", "--project", str(PROJECT), "-e", "local", "--on", "supervisor-09")
    done = profile(cluster, tmp_path / "pi.json", *arguments)
    assert done.returncode == 2
    assert "--on: no supervisor is 'supervisor-09'" in " ".join(done.stderr.split())
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        assert all(t.status == "KILLED" for t in nimbus.topologies())
