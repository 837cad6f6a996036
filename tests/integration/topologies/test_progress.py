"""Progress on a real ZooKeeper: the contract that the double passes too, and the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from progress_contract import ROOT, TOPOLOGY_ID, ProgressContract
from stormpilot.local.zookeeper import LocalZooKeeper

pytestmark = pytest.mark.zookeeper
SRC = Path(__file__).parents[3] / "topologies" / "src"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    """One server for all of these tests; each cleans up behind itself."""
    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def client(server: LocalZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(hosts=server.hosts)
    client.start()
    yield client
    client.delete(ROOT, recursive=True)
    client.stop()
    client.close()


class TestOnZooKeeper(ProgressContract):
    pass


def ask(hosts: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flight_delays.progress", TOPOLOGY_ID, "--zookeeper", hosts],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_command_line_prints_progress_as_json(client: KazooClient, server: LocalZooKeeper) -> None:
    store = ProgressContract().store(client, tasks=1)
    store.save(replace(store.claim(), committed=7, emitted=9, acked=8))
    done = ask(server.hosts)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["total"]["committed"] == 7
    assert answer["tasks"][0]["incarnation"] == 1


def test_a_topology_without_progress_is_named_with_exit_code_1(server: LocalZooKeeper) -> None:
    done = ask(server.hosts)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{TOPOLOGY_ID} has no progress below {ROOT}" in done.stderr
