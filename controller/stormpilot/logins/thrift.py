"""SASL's DIGEST-MD5 in front of Thrift, as Storm's `DigestSaslTransportPlugin` has it; and what a port asks for."""

from __future__ import annotations

import socket
import ssl
import struct
from enum import Enum

from puresasl import QOP, SASLError, SASLProtocolException
from puresasl.client import SASLClient
from thriftpy2.transport import TSaslClientTransportFactory

from stormpilot.logins.jaas import SaslLogin

DIGEST, KERBEROS = "DIGEST-MD5", "GSSAPI"
# What Storm's plug-in says itself (ClientAuthUtils.SERVICE and its server's name).
_SERVICE, _SERVER = "storm_thrift_server", "localhost"
_START, _OK = 1, 2
PROBE_S = 5.0


class Asks(Enum):
    """Login that a Thrift port of Storm asks for; the value says it, and what to do."""

    DIGEST = "it asks for SASL digest: name a JAAS file whose section StormClient is the login (--nimbus-jaas FILE)"
    KERBEROS = (
        "it asks for Kerberos, which stormpilot does not have (no GSSAPI): only Thrift without SASL or with SASL digest"
    )
    TLS = "it asks for TLS, which stormpilot does not have for Thrift: name a port without (nimbus.thrift.port)"
    NOTHING = "it does not speak SASL or TLS"


class _Client:
    """A client of pure-sasl with the methods that thriftpy2 expects."""

    def __init__(self, login: SaslLogin) -> None:
        self._sasl = SASLClient(
            _SERVER, _SERVICE, DIGEST, qops=[QOP.AUTH], username=login.user, password=login.password
        )
        self._error = ""

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self._sasl.process() or b""

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        try:
            return True, self._sasl.process(challenge) or b""
        except (SASLError, SASLProtocolException) as e:
            self._error = str(e)
            return False, b""

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data

    def decode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data

    def getError(self) -> str:  # noqa: N802 (thriftpy2's name)
        return self._error


def sasl_transport(login: SaslLogin) -> TSaslClientTransportFactory:
    """Makes transports that log in when they open."""
    return TSaslClientTransportFactory(lambda: _Client(login), DIGEST)  # type: ignore[no-untyped-call]


def asks_for(host: str, port: int) -> Asks | None:
    """Login that a port asks for; None where nothing, or something unknown, listens there. Takes up to some seconds."""
    try:
        if _speaks_tls(host, port):
            return Asks.TLS
        kerberos = _answer(host, port, KERBEROS)
        if kerberos is None:
            return Asks.NOTHING
        if "nsupported mechanism" not in kerberos:
            return Asks.KERBEROS
        return Asks.DIGEST if "nsupported mechanism" not in (_answer(host, port, DIGEST) or "") else None
    except OSError:
        return None


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent or believed
    with socket.create_connection((host, port), PROBE_S) as plain:
        try:
            context.wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError as e:
            return "ALERT" in (e.reason or "")
        except OSError:
            return False
    return True


def _answer(host: str, port: int, mechanism: str) -> str | None:
    """Answer of a SASL server to a client that would begin with a mechanism; None where it does not speak SASL."""
    with socket.create_connection((host, port), PROBE_S) as connection:
        name = mechanism.encode()
        connection.sendall(struct.pack(">BI", _START, len(name)) + name + struct.pack(">BI", _OK, 0))
        try:
            with connection.makefile("rb") as answer:
                header = answer.read(5)
                if len(header) < 5 or not 1 <= header[0] <= 5:
                    return None
                (length,) = struct.unpack(">I", header[1:])
                return answer.read(min(length, 65536)).decode(errors="replace")
        except OSError:
            return None
