"""The ZooKeeper process that tests and clusters use."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient, KazooState

from stormpilot.local.zookeeper import LocalZooKeeper, answers

pytestmark = pytest.mark.zookeeper


def test_data_survive_a_crash_of_the_server(zookeeper: LocalZooKeeper) -> None:
    client = KazooClient(hosts=zookeeper.hosts)
    client.start(timeout=300)
    client.create("/kept", b"1")
    zookeeper.stop()
    host, port = zookeeper.hosts.split(":")
    assert not answers(host, int(port))
    zookeeper.start()
    client.retry(lambda: client.get("/kept"))
    client.stop()
    client.close()


def test_expired_session_loses_its_ephemeral_nodes(
    zookeeper: LocalZooKeeper, expire_session: Callable[[KazooClient], None]
) -> None:
    lost = threading.Event()
    client, watcher = KazooClient(hosts=zookeeper.hosts), KazooClient(hosts=zookeeper.hosts)
    client.start(timeout=300)
    watcher.start(timeout=300)
    client.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    client.create("/mine", ephemeral=True)
    expire_session(client)
    assert lost.wait(300)
    assert watcher.exists("/mine") is None
    for one in (client, watcher):
        one.stop()
        one.close()
