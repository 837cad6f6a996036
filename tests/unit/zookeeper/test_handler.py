"""How long one address of ZooKeeper may take from the others."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from stormpilot.zookeeper import handler as module
from stormpilot.zookeeper.handler import handler, number_of_addresses
from stormpilot.zookeeper.transaction import MOST_BYTES, Append, Delete, Put, TooLargeError, check_size

ADDRESSES = {"zk-headless": ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "zk1": ["10.0.0.9"]}


def resolved(host: str, port: int, **_: Any) -> list[Any]:
    if host not in ADDRESSES:
        raise socket.gaierror("not known")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ADDRESSES[host]]


@pytest.mark.parametrize(
    ("hosts", "number"),
    [("zk1:2181", 1), ("zk-headless:2181", 3), ("zk1:2181,zk-headless:2181", 4), ("zk1:2181,gone:2181", 2)],
)
def test_each_address_of_a_name_has_its_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, hosts: str, number: int
) -> None:
    """A name that stands for several servers, of which the first is off, used to take all of it."""
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    assert number_of_addresses(hosts) == number
    asked: list[float] = []
    monkeypatch.setattr(
        module.SequentialThreadingHandler, "create_connection", lambda *_, timeout, **__: asked.append(timeout)
    )
    handler(hosts, 6.0).create_connection(("10.0.0.1", 2181), timeout=10.0)
    assert asked == [6.0 / number]


def test_a_request_that_no_server_takes_is_not_sent() -> None:
    fits = [Put("/a", b"x" * 600_000, None), Append("/log/e-", b"x" * 300_000), Delete("/b", 0)]
    check_size(fits)
    with pytest.raises(TooLargeError, match=rf"/a: with what is written beside it [0-9]+ bytes, over .* {MOST_BYTES}"):
        check_size([*fits, Put("/c", b"x" * 100_000, None)])
