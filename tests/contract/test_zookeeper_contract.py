"""The double in memory, and the ZooKeeper inside Storm's jars, keep the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.zookeeper_contract import ZooKeeperContract
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.zookeeper.client import ZooKeeper, connect


class TestInMemory(ZooKeeperContract):
    @pytest.fixture
    def zk(self) -> MemoryZooKeeper:
        return MemoryZooKeeper(lambda: 1)


@pytest.mark.zookeeper
class TestInStormsJars(ZooKeeperContract):
    @pytest.fixture
    def zk(self, zookeeper: LocalZooKeeper) -> Iterator[ZooKeeper]:
        client = connect(zookeeper.hosts)
        yield client
        client.stop()
