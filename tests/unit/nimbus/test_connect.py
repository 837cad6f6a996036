"""Which of a Nimbus's addresses is connected to."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from thriftpy2.transport import TTransportException

from stormpilot.errors import UnreachableError
from stormpilot.nimbus import Address, Nimbus, client

V4, V6 = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[socket.AddressFamily]:
    """Families by which a Nimbus that listens on IPv6 only was tried."""
    made: list[socket.AddressFamily] = []

    def make_client(service: Any, *, socket_family: socket.AddressFamily, **_: Any) -> object:
        made.append(socket_family)
        if socket_family == V4:
            raise TTransportException(message="refused by IPv4")
        return object()

    monkeypatch.setattr(client, "make_client", make_client)
    return made


def resolves_to(monkeypatch: pytest.MonkeyPatch, *ips: str) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (ip, 6627)) for ip in ips])


def test_a_literal_ipv6_address_is_connected_to_by_ipv6(tried: list[socket.AddressFamily]) -> None:
    Nimbus.connect(Address("2001:db8::5"))
    assert tried == [V6]


def test_every_family_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch, tried: list[socket.AddressFamily]) -> None:
    resolves_to(monkeypatch, "2001:db8::5", "192.0.2.5", "2001:db8::6")
    Nimbus.connect(Address("nimbus-1"))
    assert tried == [V4, V6]


def test_a_name_without_ipv6_is_tried_once(monkeypatch: pytest.MonkeyPatch, tried: list[socket.AddressFamily]) -> None:
    for ips in (["192.0.2.5"], []):
        tried.clear()
        resolves_to(monkeypatch, *ips)
        with pytest.raises(
            UnreachableError, match=r"is not reachable: refused by IPv4; is it up, .*nimbus\.thrift\.port"
        ):
            Nimbus.connect(Address("nimbus-1"))
        assert tried == [V4]


def test_a_refused_connection_is_told_as_the_system_tells_it() -> None:
    with socket.socket() as silent:  # bound, and nobody listens
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match=r"is not reachable: Connection refused; is it up"):
            Nimbus.connect(Address("127.0.0.1", silent.getsockname()[1]))


@contextmanager
def another_server(answer: bytes) -> Iterator[Address]:
    """A server that answers the first bytes of a client with these, and hangs up; others it only hangs up on."""

    def serve() -> None:
        for reply in (answer, b"", b""):
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])


@pytest.mark.parametrize("answer", [struct.pack(">i", 40) + bytes(40), b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_port_that_answers_in_another_protocol_is_said_to_be_that(answer: bytes) -> None:
    said = r"does not answer getNimbusConf: .*is it Nimbus's Thrift port\?"
    with (
        another_server(answer) as address,
        Nimbus.connect(address, timeout_s=60.0) as nimbus,
        pytest.raises(UnreachableError, match=said),
    ):
        nimbus.conf()
