"""A bare connection to one server of ZooKeeper, by TLS or not, and why there is none."""

from __future__ import annotations

import socket
import ssl

from stormpilot.zookeeper.login import Tls, addresses, tls_context, why


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
        return f"no TLS with it: {why(e)}" if isinstance(e, ssl.SSLError | ConnectionResetError) else ""
