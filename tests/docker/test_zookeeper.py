"""ZooKeeper in containers: the contract, a session lost while the server is paused, an ensemble of three."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from docker.models.containers import Container

from contract.zookeeper_contract import ZooKeeperContract
from scene import until
from stormpilot.doctor import ensemble
from stormpilot.zookeeper.client import ZooKeeper, connect
from stormpilot.zookeeper.transaction import Put

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # fixtures end what they start; Ryuk needs another image

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

IMAGE = os.environ.get("STORMPILOT_TEST_ZOOKEEPER", "zookeeper:3.9")
SESSION_S = 2.0
ENSEMBLE = " ".join(f"server.{n}=zk{n}:2888:3888;2181" for n in (1, 2, 3))


def address(container: DockerContainer) -> str:
    return f"{container.get_container_host_ip()}:{container.get_exposed_port(2181)}"


def serves(hosts: str, mode: str = "") -> bool:
    (said,) = ensemble.ask(hosts)
    return not said.error and bool(said.mode) and said.mode.startswith(mode)


def server(**environment: str) -> DockerContainer:
    container = DockerContainer(IMAGE).with_exposed_ports(2181).with_env("JVMFLAGS", "-Xmx128m")
    for name, value in environment.items():
        container.with_env(name, value)
    return container


@pytest.fixture(scope="module")
def single() -> Iterator[DockerContainer]:
    with server(ZOO_TICK_TIME="500") as container:
        until(lambda: serves(address(container)), "ZooKeeper to serve")
        yield container


@pytest.fixture
def zk(single: DockerContainer) -> Iterator[ZooKeeper]:
    """A client, and an empty tree."""
    client = connect(address(single))
    yield client
    for name in client.children(["/"])[0]:
        if name != "zookeeper":
            client.delete(f"/{name}")
    client.stop()


class TestInAContainer(ZooKeeperContract):
    """The official image keeps what everything of ours expects."""


def test_a_session_is_lost_while_the_server_is_paused_and_a_new_one_works(single: DockerContainer) -> None:
    """What the controller then does is tested beside the controller; here: kazoo tells, and what is ephemeral goes."""
    changed = threading.Event()
    client = ZooKeeper(address(single), session_timeout_s=SESSION_S, on_change=changed.set)
    client.start()
    assert client.wait_connected(300)
    mine = f"/mine-{uuid.uuid4().hex[:8]}"
    client.client.create(mine, ephemeral=True)
    for _ in range(4):  # a server that wakes may hear the client before it counts how long it slept
        _pause(single, client, 3 * SESSION_S)
        if client.sessions_lost:
            break
    assert client.sessions_lost >= 1
    until(lambda: client.read([mine]) == [None], "what was ephemeral to be gone")
    client.put("/mine-again", b"1")
    assert client.read(["/mine-again"])[0] is not None
    client.delete("/mine-again")
    client.stop()
    assert changed.is_set()


def _pause(container: DockerContainer, client: ZooKeeper, for_s: float) -> None:
    """Freeze the server so long, and wait until the client has a session again, the old one or another."""
    paused: Container = container.get_wrapped_container()
    paused.pause()
    over_at_s = time.monotonic() + for_s
    try:
        until(lambda: not client.connected, "the client to notice")
        until(lambda: time.monotonic() > over_at_s, "the session to be over for the server too")
    finally:
        paused.unpause()
    until(lambda: client.connected, "a session")


def test_an_ensemble_of_three_goes_on_without_one_and_keeps_what_was_written() -> None:
    with Network() as network:
        servers = [
            server(ZOO_MY_ID=str(n), ZOO_SERVERS=ENSEMBLE).with_network(network).with_network_aliases(f"zk{n}")
            for n in (1, 2, 3)
        ]
        try:
            for one in servers:
                one.start()
            hosts = [address(s) for s in servers]
            until(lambda: all(serves(h) for h in hosts), "an ensemble")
            client = ZooKeeper(",".join(hosts), session_timeout_s=6.0)
            client.start()
            assert client.wait_connected(300)
            client.put("/kept", b"1")
            leader = next(i for i, h in enumerate(hosts) if serves(h, "leader"))
            servers[leader].get_wrapped_container().kill()
            rest = [h for i, h in enumerate(hosts) if i != leader]
            until(lambda: any(serves(h, "leader") for h in rest), "another leader")
            until(lambda: client.connected, "the client to be connected")
            client.commit([Put("/kept", b"2", 0)])
            node = client.read(["/kept"])[0]
            assert node is not None
            assert (node.data, node.version, client.sessions_lost) == (b"2", 1, 0)
            (down,) = [s for s in ensemble.ask(",".join(hosts)) if s.error]
            assert down.address == hosts[leader]
            client.stop()
        finally:
            for one in servers:
                one.stop()
