"""Connections of clients who may be slow, many or hostile: deadlines, limits, and room for whoever asks for health.

A connection whose request has not come in whole, or whose answer is not read, waits for its client, and is the first
to go when there are too many: the oldest one of the client that has too many, else the oldest of all. So a hundred
half-open connections keep nobody out. Requests that are being answered are limited apart from that, and `/healthz` and
`/readyz` are always answered.

An answer goes out in parts, as its client takes them: asyncio gives a client 30 s for what is left in its buffer when a
connection with TLS ends, and would have all of a large answer there.

With TLS none of this knows of a client before it has shaken hands: until then `Listener` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 5.0
"""From the first moment of a request until all its headers are here."""
BODY_S = 10.0
"""From then until all of its body is here."""
UNREAD_S = 20.0
"""Limit for a client until the next part of an answer can go out: with TLS, when it has taken about 100 kB."""
PART_BYTES = 16 * 1024
CONNECTIONS = 100
PER_CLIENT = 64
"""Connections of one address; as many requests of it are answered at a time."""
RESERVE = 16
"""Connections beyond the limits while none is left that waits: those who ask for health are answered."""
HEALTH = frozenset({"/healthz", "/readyz"})


class Listener(socket.socket):
    """A listening socket that ends connections which do not get as far as a protocol, as TLS may keep them.

    Those that take longer than `HEADERS_S`, and the oldest one where there are too many, of one client or of all.
    """

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self._begun: dict[socket.socket, str] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """See `socket.socket`; in the thread of an event loop."""
        new, address = super().accept()
        begun = {s: client for s, client in self._begun.items() if s.fileno() >= 0}
        for group, most in (([s for s in begun if begun[s] == address[0]], PER_CLIENT), (list(begun), CONNECTIONS)):
            if len(group) >= most:
                _end(group[0])
                begun.pop(group[0], None)
        self._begun = {**begun, new: address[0]}
        asyncio.get_running_loop().call_later(HEADERS_S, self._late, new)
        return new, address

    def arrived(self, connection: socket.socket | None) -> None:
        """This one has a protocol now, which sees to it."""
        number = -1 if connection is None else connection.fileno()
        self._begun = {s: client for s, client in self._begun.items() if s.fileno() != number}

    def _late(self, connection: socket.socket) -> None:
        if self._begun.pop(connection, None) is not None:
            _end(connection)


def _end(connection: socket.socket) -> None:
    """Let whoever reads from it see its end; whose it is closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with deadlines and limits; `listeners` are where its clients came in."""

    def __init__(self, *arguments: Any, listeners: Sequence[Listener] = (), **named: Any):
        super().__init__(*arguments, **named)
        self._listeners = listeners

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _phase: str = ""
    since_s: float = 0.0

    @property
    def waiting(self) -> bool:
        """Whether it waits for its client: for a whole request, or until an answer is read."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered or self._unread is not None or self.conn.their_state is h11.SEND_BODY

    @property
    def address(self) -> str:
        """Of the client."""
        return "" if self.client is None else self.client[0]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        for listener in self._listeners:
            listener.arrived(transport.get_extra_info("socket"))
        transport.set_write_buffer_limits(high=1, low=0)
        self.since_s = self.loop.time()
        self._enter("headers", HEADERS_S)
        make_room(self, self.connections)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._enter("", 0)
        self._stop_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The answer is out: the next request begins when its first byte is here."""
        super().on_response_complete()
        self.since_s = self.loop.time()
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._enter("", 0)
        else:
            self._watch()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._stop_unread()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self._stop_unread()
        super().resume_writing()

    def _watch(self) -> None:
        if self.transport.is_closing():
            self._enter("", 0)
        elif self.conn.their_state is h11.SEND_BODY:
            self._enter("body", BODY_S)
        elif self.conn.their_state is h11.IDLE:
            self._enter("headers", HEADERS_S)
        else:
            self._enter("", 0)

    def _enter(self, phase: str, deadline_s: float) -> None:
        """Begin to wait for a part of a request; one that is waited for already keeps its deadline."""
        if phase == self._phase:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._phase = phase
        self._timer = self.loop.call_later(deadline_s, self.transport.abort) if phase else None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def make_room(new: GuardedProtocol, connections: Iterable[GuardedProtocol]) -> None:
    """End the oldest connection that waits where there are too many; the new one where none waits."""
    everybody = [c for c in connections if not c.transport.is_closing()]
    own = [c for c in everybody if c.address == new.address]
    for group, most in ((own, PER_CLIENT), (everybody, CONNECTIONS)):
        if len(group) <= most:
            continue
        waiting = [c for c in group if c is not new and c.waiting]
        if waiting:
            min(waiting, key=lambda c: c.since_s).transport.abort()
        elif len(group) > most + RESERVE:
            new.transport.abort()
            return


class Admission:
    """The application, for so many requests at a time; the rest is told to come later. Health is always told."""

    def __init__(self, app: Any):
        self._app = app
        self._busy: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["path"] in HEALTH:
            await self._app(scope, receive, send)
            return
        client = (scope.get("client") or ("",))[0]
        if self._busy.total() >= CONNECTIONS or self._busy[client] >= PER_CLIENT:
            headers = [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"connection", b"close"),
                (b"retry-after", b"1"),
            ]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b"too many requests at a time"})
            return
        self._busy[client] += 1
        try:
            await self._app(scope, receive, _in_parts(send))
        finally:
            self._busy[client] -= 1
            if not self._busy[client]:
                del self._busy[client]


def _in_parts(send: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """The same for bodies of any size: uvicorn waits before each part until the client has taken those before."""

    async def send_parts(message: Any) -> None:
        body = message.get("body", b"")
        last = max(0, (len(body) - 1) // PART_BYTES * PART_BYTES)
        for at in range(0, last, PART_BYTES):
            await send({**message, "body": body[at : at + PART_BYTES], "more_body": True})
        await send({**message, "body": body[last:]} if last else message)

    return send_parts
