"""Clients that are slow, many or silent, on real sockets: they lose their connections, and nobody waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import requests
from uvicorn.protocols.http.flow_control import FlowControl

from doubles.shim import until
from stormpilot.api import connections
from stormpilot.api.server import Server
from stormpilot.config import ApiSection

from .conftest import Api

Open = Callable[..., socket.socket]
PATIENCE_S = 300
"""Until a client gives up: more than any machine takes, however busy it is."""


@pytest.fixture
def server(api: Api) -> Iterator[Server]:
    made = Server(ApiSection(port=0), lambda: api.app)
    made.start()
    until(lambda: made.address, "the server to listen")
    yield made
    made.stop()


@pytest.fixture
def connect(server: Server) -> Iterator[Open]:
    """`connect(sent, source)`: a connection over which this was sent, from that address of loopback."""
    made: list[socket.socket] = []

    def connect_one(sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        assert server.address is not None
        made.append(socket.create_connection(server.address, PATIENCE_S, source_address=(source, 0)))
        made[-1].sendall(sent)
        return made[-1]

    yield connect_one
    for s in made:
        s.close()


def url(server: Server, path: str) -> str:
    assert server.address is not None
    return f"http://127.0.0.1:{server.address[1]}{path}"


def ended(s: socket.socket) -> bool:
    """Whether the server has ended this connection, without an answer."""
    s.settimeout(PATIENCE_S)
    try:
        return s.recv(1000) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x", b"POST /mode HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]
)
def test_more_half_open_connections_than_there_may_be_keep_nobody_out(
    server: Server, connect: Open, sent: bytes
) -> None:
    for n in range(connections.CONNECTIONS + 30):
        connect(sent, f"127.0.0.{2 + n % 3}")
    for path in ("/healthz", "/readyz", "/v1/status", "/schema/openapi.json"):
        answer = requests.get(url(server, path), timeout=PATIENCE_S)
        assert answer.status_code != 503, path


def test_headers_and_bodies_have_a_deadline(server: Server, connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    monkeypatch.setattr(connections, "BODY_S", 0.5)
    assert ended(connect())
    assert ended(connect(b"GET /healthz HTTP/1.1\r\nHost: x"))
    body = connect(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
    body.settimeout(PATIENCE_S)
    while body.recv(1000):  # an answer may come first: it is refused before its body is read
        pass


def test_a_client_that_drips_has_no_more_time_than_one_that_is_silent(
    server: Server, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    s = connect(b"GET /healthz HTTP/1.1\r\n")
    s.settimeout(0.05)
    began_s = time.monotonic()
    with pytest.raises((ConnectionError, AssertionError)):
        while time.monotonic() - began_s < PATIENCE_S:
            s.sendall(b"X: y\r\n")
            try:
                assert s.recv(1000) == b"never"
            except TimeoutError:
                continue
    assert time.monotonic() - began_s < PATIENCE_S


def test_a_request_that_came_in_whole_is_answered_whatever_its_headers_took(
    server: Server, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the deadline begins anew with the second request of a connection."""
    monkeypatch.setattr(connections, "HEADERS_S", PATIENCE_S)
    monkeypatch.setattr(connections.GuardedProtocol, "timeout_keep_alive_handler", lambda _: None)
    s = connect(b"GET /healthz HTTP/1.1\r\nHo")
    s.sendall(b"st: localhost\r\n\r\n")
    assert s.recv(1000).startswith(b"HTTP/1.1 200")
    s.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"HTTP/1.1 404" in b"".join(iter(lambda: s.recv(1000), b""))


def test_one_client_cannot_take_the_connections_of_another(
    server: Server, connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PER_CLIENT", 5)
    monkeypatch.setattr(connections, "HEADERS_S", PATIENCE_S)
    honest = connect(b"GET /healthz HTTP/1.1\r\nHost: local")
    greedy = [connect(b"GET ", "127.0.0.9") for _ in range(40)]
    assert ended(greedy[0])
    honest.sendall(b"host\r\n\r\n")
    assert honest.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.fixture
def secured(api: Api, certificate: tuple[str, str]) -> Iterator[tuple[Server, str]]:
    """A server with TLS, and the file of its certificate."""
    cert, key = certificate
    made = Server(ApiSection(port=0, cert_file=cert, key_file=key), lambda: api.app)
    made.start()
    until(lambda: made.address, "the server to listen")
    yield made, cert
    made.stop()


def mute(server: Server, source: str) -> socket.socket:
    """A connection over which nothing is sent."""
    assert server.address is not None
    return socket.create_connection(server.address, PATIENCE_S, source_address=(source, 0))


def test_connections_that_never_shake_hands_keep_nobody_out(
    secured: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS no protocol hears of them, and each has a descriptor of the controller."""
    monkeypatch.setattr(connections, "CONNECTIONS", 20)
    monkeypatch.setattr(connections, "HEADERS_S", PATIENCE_S)
    server, cert = secured
    assert server.address is not None
    silent = [mute(server, f"127.0.0.{2 + n % 3}") for n in range(60)]
    assert all(map(ended, silent[:40]))
    answer = requests.get(f"https://localhost:{server.address[1]}/healthz", verify=cert, timeout=PATIENCE_S)
    assert answer.status_code == 200
    for s in silent:
        s.close()


def test_one_client_that_shakes_no_hands_takes_nobody_elses_connections(
    secured: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PER_CLIENT", 5)
    monkeypatch.setattr(connections, "HEADERS_S", PATIENCE_S)
    server, cert = secured
    honest = mute(server, "127.0.0.1")
    greedy = [mute(server, "127.0.0.9") for _ in range(40)]
    assert all(map(ended, greedy[:35]))
    with ssl.create_default_context(cafile=cert).wrap_socket(honest, server_hostname="localhost") as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
    for s in greedy:
        s.close()


def test_a_handshake_has_a_deadline(secured: tuple[Server, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.5)
    server, _ = secured
    with mute(server, "127.0.0.1") as silent:
        assert ended(silent)


class Held:
    """An application that answers a request when it is let go; health at once."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.busy = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] not in connections.HEALTH:
            self.busy += 1
            while not self.let_go.is_set():
                await asyncio.sleep(0.02)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def test_requests_that_take_long_leave_health_alone_and_more_are_told_to_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "PER_CLIENT", 5)
    held = Held()
    made = Server(ApiSection(port=0), lambda: held)
    made.start()
    until(lambda: made.address, "the server to listen")
    assert made.address is not None
    sockets = [socket.create_connection(made.address, PATIENCE_S) for _ in range(5)]
    for s in sockets:
        s.sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: held.busy == 5, "all of them to be under way")
    assert requests.get(url(made, "/healthz"), timeout=PATIENCE_S).status_code == 200
    refused = requests.get(url(made, "/v1/status"), timeout=PATIENCE_S)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    held.let_go.set()
    assert all(s.recv(1000).startswith(b"HTTP/1.1 200") for s in sockets)
    until(
        lambda: requests.get(url(made, "/v1/status"), timeout=PATIENCE_S).status_code == 200, "them to be let in again"
    )
    for s in sockets:
        s.close()
    made.stop()


class Large:
    """An application with an answer in one piece that is larger than all buffers of the system."""

    BYTES = 30_000_000

    def __init__(self) -> None:
        self.begun = self.over = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"x" * self.BYTES})
        self.over += 1


Ask = Callable[[], socket.socket]


@pytest.fixture(params=["http", "https"])
def large(request: pytest.FixtureRequest, certificate: tuple[str, str]) -> Iterator[tuple[Large, Ask]]:
    """The application on a server, and a connection over which it was asked."""
    cert, key = certificate
    app, tls, made = Large(), ssl.create_default_context(cafile=cert), []
    files = {"cert_file": cert, "key_file": key} if request.param == "https" else {}
    server = Server(ApiSection(port=0, **files), lambda: app)
    server.start()
    until(lambda: server.address, "the server to listen")

    def ask() -> socket.socket:
        assert server.address is not None
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        s.settimeout(PATIENCE_S)
        s.connect(server.address)
        made.append(tls.wrap_socket(s, server_hostname="localhost") if files else s)
        made[-1].sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return made[-1]

    yield app, ask
    for s in made:
        s.close()
    server.stop()


def taken(s: socket.socket, most: int = 2 * Large.BYTES) -> int:
    """Bytes that come until the connection ends, or until there are so many."""
    got = 0
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while got < most and (data := s.recv(65_536)):
            got += len(data)
    return got


def test_a_large_answer_goes_out_as_its_client_takes_it(large: tuple[Large, Ask]) -> None:
    """Asyncio gives a connection with TLS 30 s when the server has nothing more to say."""
    app, ask = large
    s = ask()
    got = taken(s, Large.BYTES // 2)
    assert not app.over
    assert got + taken(s) > Large.BYTES
    until(lambda: app.over, "the answer to be over")


def test_an_answer_that_nobody_reads_is_given_up(large: tuple[Large, Ask], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.5)
    app, ask = large
    s = ask()
    until(lambda: app.over, "the server to go on")
    assert taken(s) < Large.BYTES


def test_clients_that_do_not_read_keep_nobody_out(large: tuple[Large, Ask], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 5)
    monkeypatch.setattr(connections, "UNREAD_S", PATIENCE_S)
    app, ask = large
    for _ in range(5):
        ask()
    until(lambda: app.begun == 5, "all of them to be under way")
    until(lambda: ask().recv(12) == b"HTTP/1.1 200", "another one to be answered")


class Loop:
    """An event loop whose one timer goes off when the test says so."""

    def __init__(self) -> None:
        self.due: Callable[[], object] | None = None

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Loop:
        self.due = partial(callback, *args)
        return self

    def cancel(self) -> None:
        self.due = None

    def go_off(self) -> None:
        assert self.due is not None
        due, self.due = self.due, None
        due()


class Transport:
    """A transport that may be aborted."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_a_client_has_its_time_anew_for_each_part_of_an_answer() -> None:
    loop, transport = Loop(), Transport()
    protocol: Any = connections.GuardedProtocol.__new__(connections.GuardedProtocol)
    protocol.loop, protocol.transport, protocol.flow = loop, transport, FlowControl(transport)  # type: ignore[arg-type]
    for _ in range(3):
        protocol.pause_writing()
        assert loop.due is not None
        protocol.resume_writing()
        assert loop.due is None
    protocol.pause_writing()
    loop.go_off()
    assert transport.aborted
