"""What arrives at one port goes on to another, both ways, for as long as both sides are there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from stormpilot.local import forwarder
from stormpilot.local.forwarder import Forwarder, command, parse
from stormpilot.local.ports import Reservation

HERE = "127.71.3.2"


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data.upper())
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def _forwarding(there: int) -> AsyncIterator[int]:
    """A forwarder at a port that is held as a cluster's are."""
    with contextlib.closing(Reservation()) as ports:
        (port,) = ports.take(1)
        stop = asyncio.Event()
        running = asyncio.create_task(Forwarder([((HERE, port), ("127.0.0.1", there))]).run(stop))
        while not running.done():
            with contextlib.suppress(ConnectionError), socket.create_connection((HERE, port)):
                break
            await asyncio.sleep(0.01)
        try:
            yield port
        finally:
            stop.set()
            await asyncio.wait_for(running, 300)


async def _ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HERE, port)
    writer.write(text)
    answer = await asyncio.wait_for(reader.read(100), 300)
    writer.close()
    return answer


def test_bytes_go_both_ways() -> None:
    async def run() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        async with server, _forwarding(server.sockets[0].getsockname()[1]) as port:
            assert await asyncio.gather(_ask(port, b"one"), _ask(port, b"two")) == [b"ONE", b"TWO"]

    asyncio.run(run())


def test_connection_is_closed_where_nobody_listens_and_when_the_other_side_ends() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(leave, "127.0.0.1", 0)
        there = server.sockets[0].getsockname()[1]
        async with _forwarding(there) as port:
            async with server:
                assert await _ask(port, b"x") == b""
            with contextlib.suppress(ConnectionResetError):
                assert await _ask(port, b"x") == b""

    asyncio.run(run())


def test_more_connections_than_allowed_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "MAX_CONNECTIONS", 0)

    async def run() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        async with server, _forwarding(server.sockets[0].getsockname()[1]) as port:
            with contextlib.suppress(ConnectionResetError):
                assert await _ask(port, b"x") == b""

    asyncio.run(run())


def test_its_command_line_says_what_it_does() -> None:
    ways = [(("127.1.2.3", 1000), ("127.1.2.3", 1001)), (("127.1.2.4", 1000), ("127.1.2.4", 1002))]
    assert parse(command(ways)[3:]) == ways
