"""What is said where Nimbus asks for what we do not have; the ports are doubles that answer as Storm's servers do."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secure_zookeeper import make_certificates
from stormpilot.errors import StormpilotError
from stormpilot.logins.jaas import SaslLogin
from stormpilot.nimbus import Address, Nimbus

START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5


def message(status: int, body: bytes) -> bytes:
    return struct.pack(">BI", status, len(body)) + body


def sasl(*mechanisms: str, challenge: bytes = b"") -> Callable[[socket.socket], None]:
    """As libthrift's TSaslServerTransport: a word for each of the client's, an error ends it."""

    def serve(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            header = stream.read(5)
            if len(header) < 5 or header[0] not in (START, OK, BAD, ERROR, COMPLETE):
                connection.sendall(message(ERROR, b"Invalid status"))
                return
            (length,) = struct.unpack(">I", header[1:])
            asked = stream.read(min(length, 100)).decode()
            if asked not in mechanisms:
                connection.sendall(message(BAD, f"Unsupported mechanism type {asked}".encode()))
                return
            stream.read(5)
            if not challenge:
                connection.sendall(message(ERROR, b"GSS initiate failed"))
                return
            connection.sendall(message(OK, challenge))
            stream.read(5)

    return serve


def framed(connection: socket.socket) -> None:
    """As Storm's SimpleTransportPlugin: a frame that is too long ends the connection."""
    connection.recv(100)


@pytest.fixture
def listening() -> Iterator[Callable[..., Address]]:
    with contextlib.ExitStack() as stack:

        def listen(serve: Callable[[socket.socket], None], login: SaslLogin | None = None) -> Address:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        connection, _ = server.accept()
                        with connection, contextlib.suppress(OSError):
                            connection.settimeout(300)
                            serve(connection)

            threading.Thread(target=run, daemon=True).start()
            stack.callback(server.shutdown, socket.SHUT_RDWR)
            return Address("127.0.0.1", server.getsockname()[1], login)

        yield listen


def asked(address: Address) -> str:
    with pytest.raises(StormpilotError) as e, Nimbus.connect(address, 300.0) as nimbus:
        nimbus.leader()
    assert "\n" not in str(e.value)
    return str(e.value)


CHALLENGE = b'realm="localhost",nonce="abc",charset=utf-8,algorithm=md5-sess'
LOGIN = SaslLogin("bob", "secret")


@pytest.mark.parametrize("login", [None, LOGIN])
def test_kerberos_is_named_in_one_line(listening: Callable[..., Address], login: SaslLogin | None) -> None:
    """Storm's Kerberos plug-in takes digest as well, for the tokens of workers."""
    said = asked(listening(sasl("GSSAPI", "DIGEST-MD5"), login))
    assert "it asks for Kerberos, which stormpilot does not have" in said


@pytest.mark.parametrize("login", [None, LOGIN])
def test_tls_is_named_in_one_line(listening: Callable[..., Address], tmp_path: Path, login: SaslLogin | None) -> None:
    made = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(100)

    assert "it asks for TLS, which stormpilot does not have for Thrift" in asked(listening(serve, login))


def test_digest_without_a_login_names_the_option(listening: Callable[..., Address]) -> None:
    assert "--nimbus-jaas FILE" in asked(listening(sasl("DIGEST-MD5", challenge=CHALLENGE)))


def test_a_refused_login_names_its_user_and_not_its_password(listening: Callable[..., Address]) -> None:
    said = asked(listening(sasl("DIGEST-MD5", challenge=CHALLENGE), LOGIN))
    assert "refuses the SASL login of bob" in said
    assert "secret" not in said


def test_a_login_where_nobody_asks_for_one_is_said(listening: Callable[..., Address]) -> None:
    assert "ask it without --nimbus-jaas" in asked(listening(framed, LOGIN))
