"""Kazoo's client, for servers that come back with older data too."""

from __future__ import annotations

import math
import time

from kazoo.client import KazooClient


class Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Client that names no transaction to a server once it was without a connection for longer than its session.

    A server closes the connection of a client that has seen a later transaction than itself. One that was restored from
    a backup would do so for ever: kazoo forgets what it has seen at the end of a session only, of which it never hears
    then. Storm's own clients begin anew after that time, too.
    """

    _seen = 0
    _away_since_s = math.inf

    def _session_callback(self, state: str) -> None:
        super()._session_callback(state)
        self._away_since_s = math.inf if self.connected else min(self._away_since_s, time.monotonic())

    @property
    def last_zxid(self) -> int:
        """Number of the newest transaction that was seen, as a server hears of it when it is connected to."""
        return 0 if time.monotonic() - self._away_since_s > self._session_timeout / 1000 else self._seen

    @last_zxid.setter
    def last_zxid(self, number: int) -> None:
        self._seen = number
