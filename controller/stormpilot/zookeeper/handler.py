"""Kazoo's way to connect, with a share of the time for each address."""

from __future__ import annotations

import math
import socket
import time
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts

KNOWN_S = 30.0
"""Time after which addresses are looked up again."""


def handler(hosts: str, connect_s: float) -> SequentialThreadingHandler:
    """Kazoo's, but an address that is off takes its share of `connect_s` from the others, not a session time-out.

    A name may have several addresses; kazoo tries each of them.
    """
    found = SequentialThreadingHandler()
    connect_to = found.create_connection
    number, until_s = 1, -math.inf

    def create_connection(*args: Any, timeout: float, **kwargs: Any) -> Any:
        nonlocal number, until_s
        if time.monotonic() >= until_s:
            number, until_s = number_of_addresses(hosts), time.monotonic() + KNOWN_S
        return connect_to(*args, timeout=min(timeout, connect_s / number), **kwargs)

    found.create_connection = create_connection
    return found


def number_of_addresses(hosts: str) -> int:
    """Number of addresses of servers, at least one of each."""
    found = 0
    for host, port in collect_hosts(hosts)[0]:
        try:
            found += len({a[4] for a in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
        except OSError:  # kazoo leaves it out, too
            found += 1
    return max(found, 1)
