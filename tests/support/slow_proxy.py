"""A TCP proxy in front of a server: it delays what passes, holds everything back, or drops connections."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress

PIECE_BYTES = 65_536


class SlowProxy:
    """Forwards every connection to `target`.

    `delay_s`: every piece waits so long. `drop_ratio`: so many of all pieces end their connection instead (a source of
    chance with a seed decides). While `cut()` is in force nothing passes, as when a network is partitioned: connections
    stay open and are silent.
    """

    def __init__(self, target: tuple[str, int], seed: int = 0) -> None:
        self.delay_s = 0.0
        self.drop_ratio = 0.0
        self.dropped = 0
        self._target = target
        self._chance = random.Random(seed)
        self._passes = threading.Event()
        self._passes.set()
        self._closed = threading.Event()
        self._pause = threading.Event()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Hold back everything from now on."""
        self._passes.clear()

    def mend(self) -> None:
        """Let everything pass again, what was held back first."""
        self._passes.set()

    def close(self) -> None:
        """End all connections."""
        self._closed.set()
        self._passes.set()
        self._pause.set()
        for one in [self._listener, *self._connections]:
            _end(one)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=30)
            except OSError:
                _end(client)
                continue
            server.settimeout(None)
            self._connections += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                self._pause.wait(self.delay_s)
                self._passes.wait()
                if self._chance.random() < self.drop_ratio:
                    self.dropped += 1
                    break
                sink.sendall(piece)
        _end(source)
        _end(sink)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
