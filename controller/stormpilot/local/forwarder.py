"""One port for several Nimbuses of a machine: `python -m stormpilot.local.forwarder HOST:PORT=HOST:PORT ...`.

Storm's clients look for every Nimbus at one port of different hosts, and every Nimbus binds its port on all addresses:
on one machine each needs a port of its own. This daemon of the cluster listens at the common port of each Nimbus's
address and passes bytes on to the Nimbus's own port. Where that one is down it closes the connection, as a host does
on which none runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence

MAX_CONNECTIONS = 512
"""More at once are closed: a cluster of this size has a few dozen."""
CONNECT_S = 5.0
_CHUNK = 1 << 16

Forward = tuple[tuple[str, int], tuple[str, int]]
"""Where to listen, and where to pass on to."""


def command(forwards: Sequence[Forward]) -> list[str]:
    """The command line."""
    pairs = [f"{host}:{port}={to_host}:{to_port}" for (host, port), (to_host, to_port) in forwards]
    return [sys.executable, "-m", "stormpilot.local.forwarder", *pairs]


def parse(arguments: Sequence[str]) -> list[Forward]:
    """The forwards out of a command line's arguments."""

    def place(text: str) -> tuple[str, int]:
        host, _, port = text.rpartition(":")
        return host, int(port)

    return [(place(here), place(there)) for here, _, there in (a.partition("=") for a in arguments)]


class Forwarder:
    """Passes connections on, `MAX_CONNECTIONS` at most at once."""

    def __init__(self, forwards: Sequence[Forward]) -> None:
        self._forwards = forwards
        self._open = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Listen until `stop` is set; OSError where an address is taken."""
        async with contextlib.AsyncExitStack() as stack:
            for here, there in self._forwards:
                await stack.enter_async_context(await self._listen(here, there))
            await stop.wait()

    async def _listen(self, here: tuple[str, int], there: tuple[str, int]) -> asyncio.Server:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with _closing(writer):
                if self._open < MAX_CONNECTIONS:
                    self._open += 1
                    try:
                        await _join(reader, writer, there)
                    finally:
                        self._open -= 1

        # The port is held by a socket that never listens: see ports.py.
        return await asyncio.start_server(take, *here, reuse_address=True)


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: tuple[str, int]) -> None:
    """Pass bytes both ways until either side ends."""
    try:
        far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(*there), CONNECT_S)
    except (OSError, TimeoutError):
        return
    with _closing(far_writer):
        pumps = [asyncio.create_task(_pump(reader, far_writer)), asyncio.create_task(_pump(far_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def _closing(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.close()


async def _main(forwards: Sequence[Forward]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Forwarder(forwards).run(stop)


if __name__ == "__main__":
    asyncio.run(_main(parse(sys.argv[1:])))
