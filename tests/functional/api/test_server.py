"""The server as the controller runs it: on a thread, on a real socket, never in the way."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import structlog

from doubles.shim import until
from stormpilot.api import server as module
from stormpilot.api.server import Server, check_certificate
from stormpilot.config import ApiSection
from stormpilot.errors import UsageError

from .conftest import Api

Serve = Callable[..., Server]


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """`serve(api, **section)`: a server on a free port of loopback, stopped at the end."""
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    started: list[Server] = []

    def serve_one(api: Any, wait: bool = True, **section: Any) -> Server:
        make_app = api if callable(api) else lambda: api.app
        made = Server(ApiSection(**{"port": 0, **section}), make_app)
        started.append(made)
        made.start()
        if wait:
            until(lambda: made.address, "the server to listen")
        return made

    yield serve_one
    for made in started:
        made.stop()


def url(server: Server, path: str = "/healthz", scheme: str = "http") -> str:
    assert server.address is not None
    return f"{scheme}://{server.address[0]}:{server.address[1]}{path}"


def test_serves_and_stops(api: Api, serve: Serve) -> None:
    server = serve(api)
    answer = requests.get(url(server), timeout=300)
    assert answer.json()["ok"]
    assert "server" not in answer.headers
    address = server.address
    server.stop()
    assert not [t for t in threading.enumerate() if t.name == "api" and t.is_alive()]
    with socket.socket() as again:  # the port is free at once: who restarts can listen
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(address)


def test_port_in_use_is_said_once_and_taken_when_it_is_free(api: Api, serve: Serve, lines: list[Any]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        server = serve(api, wait=False, port=port)
        until(lambda: lines, "it to be said")
        assert server.address is None
        assert lines[0]["event"] == "the API is not served, everything else goes on"
        assert lines[0]["address"] == f"127.0.0.1:{port}"
        assert "Address already in use" in lines[0]["why"]
    until(lambda: server.address, "the port to be taken")
    assert [x["event"] for x in lines] == ["the API is not served, everything else goes on", "serving the API"]
    assert requests.get(url(server), timeout=300).status_code == 200


def test_application_that_cannot_be_made_is_tried_again(api: Api, serve: Serve, lines: list[Any]) -> None:
    def broken() -> Any:
        if not lines:
            raise RuntimeError("a fault of ours")
        return api.app

    server = serve(broken)
    assert lines[0]["event"] == "the API failed"
    assert requests.get(url(server), timeout=300).status_code == 200


def test_tls(api: Api, serve: Serve, certificate: tuple[str, str]) -> None:
    cert, key = certificate
    check_certificate(ApiSection(cert_file=cert, key_file=key))
    server = serve(api, cert_file=cert, key_file=key)
    assert server.address is not None
    secure = f"https://localhost:{server.address[1]}"
    assert requests.get(f"{secure}/healthz", verify=cert, timeout=300).json()["ok"]
    token = {"Authorization": f"Bearer {api.tokens['viewer'][0]}"}
    assert requests.get(f"{secure}/api/v1/status", headers=token, verify=cert, timeout=300).status_code == 200
    with pytest.raises(requests.exceptions.SSLError):  # nobody is taken for us
        requests.get(f"{secure}/healthz", timeout=300)
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"http://localhost:{server.address[1]}/healthz", timeout=300)


def test_certificate_that_is_none_is_named(certificate: tuple[str, str], tmp_path: Path) -> None:
    _, key = certificate
    (tmp_path / "empty").write_text("")
    with pytest.raises(UsageError, match=r"nowhere \(api.cert_file\): cannot read it"):
        check_certificate(ApiSection(cert_file=str(tmp_path / "nowhere"), key_file=key))
    with pytest.raises(UsageError, match=r"empty \(api.cert_file\) and .*key.pem \(api.key_file\): no certificate"):
        check_certificate(ApiSection(cert_file=str(tmp_path / "empty"), key_file=key))


def test_key_with_a_password_is_refused_and_nobody_is_asked_for_it(
    certificate: tuple[str, str], tmp_path: Path
) -> None:
    cert, key = certificate
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(UsageError, match=r"locked.pem \(api.key_file\): .* without a password"):
        check_certificate(ApiSection(cert_file=cert, key_file=str(locked)))


def test_a_name_with_several_addresses_is_served_at_all_that_this_machine_has(
    api: Api, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost` may be ::1 first, and the documented address the other one; there may be no IPv6."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 0)) for a in ("192.0.2.1", "127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    server = serve(api, host="localhost")
    monkeypatch.undo()
    assert server.address is not None
    for host in ("127.0.0.1", "127.0.0.2"):
        assert requests.get(f"http://{host}:{server.address[1]}/healthz", timeout=300).status_code in (200, 421, 400)


def test_clients_that_send_nothing_hold_up_nobody(api: Api, serve: Serve) -> None:
    """Half requests and silent connections; others are answered meanwhile, and stopping does not wait for them."""
    server = serve(api)
    assert server.address is not None
    silent = [socket.create_connection(server.address, 10) for _ in range(20)]
    for s in silent[:10]:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x")
    for _ in range(5):
        assert requests.get(url(server), timeout=300).status_code == 200
    server.stop()
    assert not [t for t in threading.enumerate() if t.name == "api" and t.is_alive()]
    for s in silent:
        s.close()
