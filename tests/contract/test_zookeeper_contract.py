"""The double in memory, and the ZooKeeper inside Storm's jars, keep the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.zookeeper_contract import ZooKeeperContract
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.errors import RefusedError
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.transaction import Put


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

    def test_what_is_refused_for_another_reason_is_told_and_undoes_all(self, zk: ZooKeeper) -> None:
        zk.client.create("/passing", ephemeral=True)
        with pytest.raises(RefusedError, match="refuses /passing/below: NoChildrenForEphemerals"):
            zk.commit([Put("/before", b"1", None), Put("/passing/below", b"1", None)])
        assert zk.read(["/before"]) == [None]
