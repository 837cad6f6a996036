"""Ports and loopback networks for a cluster, so that several clusters can live side by side.

Storm's servers listen on all interfaces, so that every port of every cluster must be different. A port is chosen by
binding a socket to it, and the socket stays bound (it never listens) for as long as the cluster lives: the server,
which like every Java server sets SO_REUSEADDR, can still take it, and nobody else who looks for a free port gets it,
even while the server is down.
"""

from __future__ import annotations

import errno
import random
import socket

from stormpilot.errors import UnreachableError

# Below the range that Linux gives to outgoing connections (32768 and up), above the well-known ports.
FIRST, LAST = 20000, 32000


class Reservation:
    """Ports held for one cluster; `close` lets them go, `fileno`s of `sockets` can be handed to another process."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        first = random.SystemRandom().randrange(FIRST, LAST)
        self._untried = iter([*range(first, LAST), *range(FIRST, first)])

    def take(self, count: int = 1) -> list[int]:
        """Reserve `count` ports; those of one reservation are neighbours where possible."""
        taken: list[int] = []
        while len(taken) < count and (port := next(self._untried, None)) is not None:
            held = _hold(port)
            if held is not None:
                self.sockets.append(held)
                taken.append(port)
        if len(taken) < count:
            raise UnreachableError(f"found only {len(taken)} of {count} free ports between {FIRST} and {LAST}")
        return sorted(taken)

    def close(self) -> None:
        """Let all ports go."""
        for held in self.sockets:
            held.close()
        self.sockets.clear()


def _hold(port: int) -> socket.socket | None:
    held = socket.socket()
    try:
        held.bind(("0.0.0.0", port))
    except OSError as e:
        held.close()
        if e.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    # Only now: with the option set, the bind above would have succeeded beside another reservation.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
