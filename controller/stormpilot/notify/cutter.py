"""A deadline for a whole HTTP request: the timeouts of `requests` begin anew with every byte that comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class Cutter:
    """Ends the connections of a session when a request takes too long; for one request at a time."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self.was_cut = False

    def mount(self, session: requests.Session) -> None:
        """Have this session make connections that can be ended."""
        for prefix in ("http://", "https://"):
            session.mount(prefix, _Adapter(self._sockets))

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """End what is connected when the block takes longer; `was_cut` tells it."""
        self.was_cut = False
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        self.was_cut = True
        for s in list(self._sockets):
            with contextlib.suppress(OSError):  # it is closed already
                s.shutdown(socket.SHUT_RDWR)


class _Adapter(HTTPAdapter):
    """Connections of its pools add their sockets to `sockets`, before anything (TLS too) is said over them."""

    def __init__(self, sockets: list[socket.socket]):
        self._made = sockets
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See `HTTPAdapter`."""
        super().init_poolmanager(*args, **kwargs)
        _track(self.poolmanager, self._made)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """See `HTTPAdapter`."""
        manager = super().proxy_manager_for(*args, **kwargs)
        _track(manager, self._made)
        return manager


def _track(manager: Any, sockets: list[socket.socket]) -> None:
    def kept(made: socket.socket) -> socket.socket:
        sockets[:] = [s for s in sockets if s.fileno() >= 0]
        sockets.append(made)
        return made

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return kept(super()._new_conn())

    class Secure(HTTPSConnection):
        _twin: socket.socket | None = None

        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            self._twin = kept(made.dup())  # TLS takes the connection away from `made`
            return made

        def close(self) -> None:
            super().close()
            if self._twin is not None:
                self._twin.close()

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
