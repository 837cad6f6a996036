"""A bare connection to one server of ZooKeeper, by TLS or not, why there is none, and four-letter words."""

from __future__ import annotations

import socket
import ssl
import time

from stormpilot.errors import cause
from stormpilot.zookeeper.login import Tls, addresses, tls_context

MOST_BYTES = 64 * 1024
"""No answer to a four-letter word is so long."""


def connection(host: str, port: str, timeout_s: float, tls: Tls | None) -> socket.socket:
    """A connection to one server; `OSError` or `ValueError` where there is none."""
    plain = socket.create_connection((host, int(port)), timeout_s)
    if tls is None:
        return plain
    try:
        return tls_context(tls, "TLS").wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def answer(server: socket.socket, word: bytes, timeout_s: float) -> bytes:
    """Answer of a server to a four-letter word; `OSError` where that has no end in time."""
    deadline = time.monotonic() + timeout_s
    server.sendall(word)
    said = b""
    while block := server.recv(4096):
        said += block
        left_s = deadline - time.monotonic()
        if left_s <= 0 or len(said) > MOST_BYTES:
            raise TimeoutError("what it answers has no end: is it a ZooKeeper?")
        server.settimeout(left_s)
    return said


def tls_problem(hosts: str, timeout_s: float, tls: Tls) -> str:
    """Why the first server of `hosts` cannot be talked to by TLS; empty without such a reason."""
    host, port = addresses(hosts)[0]
    try:
        with connection(host, port, timeout_s, tls) as server:
            server.sendall(b"ruok")
            server.recv(1)  # by TLS 1.3 a server says only now that it wants another certificate
            return ""
    except ssl.SSLCertVerificationError as e:
        return f"its certificate is not accepted: {e.verify_message}"
    except (OSError, ValueError) as e:
        return f"no TLS with it: {cause(e)}" if isinstance(e, ssl.SSLError | ConnectionResetError) else ""
