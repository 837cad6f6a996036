"""The znodes of a trial where the operator and the topology log in to ZooKeeper, each with a login of its own."""

from __future__ import annotations

import json

import pytest

from doubles.worker_zookeeper import storm_conf
from stormpilot.instrument.worker_store import StoreUnavailable, WorkerStore
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.trials.feeder import Feeder
from stormpilot.zookeeper.client import NOBODY, ZooKeeper
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths

pytestmark = pytest.mark.zookeeper

PATHS = Paths()
COMMAND, SOURCE = PATHS.trial("profile-Parse-1-1", "command"), PATHS.trial("profile-Parse-1-1", "source-0")


def worker(zookeeper: LocalZooKeeper, login: str) -> WorkerStore:
    own = {"storm.zookeeper.topology.auth.scheme": "digest", "storm.zookeeper.topology.auth.payload": login}
    return WorkerStore(storm_conf(zookeeper, **own), "profile-Parse-1-1")


@pytest.mark.parametrize("operators", [Login("storm:secret"), NOBODY])
def test_the_source_reads_its_command_and_is_heard(zookeeper: LocalZooKeeper, operators: Login) -> None:
    operator = ZooKeeper(zookeeper.hosts, login=operators)
    operator.start()
    assert operator.wait_connected(300)
    source, other = worker(zookeeper, "trial:own"), worker(zookeeper, "flights:own")
    feeder = Feeder(operator, PATHS, source.topology_id, tasks=1)
    for _ in range(2):  # as well where they are there
        feeder.open(Login("trial:own"))
    trial = feeder.send(5.0, 1.0)
    assert json.loads(source.get(COMMAND) or b"")["rateTps"] == 5.0
    if operators.ids:
        with pytest.raises(StoreUnavailable, match="NoAuth"):
            source.put(COMMAND, b"{}")
        with pytest.raises(StoreUnavailable, match="NoAuth"):
            other.put(SOURCE, b"{}")
    source.put(SOURCE, json.dumps({"trial": trial}).encode())
    assert feeder.sources(trial) == [{"trial": trial}]
    assert operator.delete(PATHS.trial(source.topology_id))
    for store in (source, other):
        store.close()
    operator.stop()
