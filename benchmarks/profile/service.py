"""A storage service for the tasks that wait for one: azurite on loopback, behind a link as slow as a service's.

Azurite (npm) and the public Python clients (`topologies/virtualenvs/micro_services.txt`) are installed below
`build/services` when they are first needed; neither is a dependency of stormpilot. Each node has a link of its own,
which holds what comes from the service to a bandwidth over all of its connections, and answers come after a delay: a
thread waits, and more threads on a node share the bandwidth, as with the paper's services. Each service also answers
a node only so many times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stormpilot.errors import UnreachableError

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = REPOSITORY / "build" / "services"
REQUIREMENTS = REPOSITORY / "topologies" / "virtualenvs" / "micro_services.txt"
AZURITE = "azurite@3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every emulator of Azure's storage: public, and no secret."""
START_S = 60.0
BLOB_PORT, TABLE_PORT = 10_000, 10_002
"""Always the same: the connection is an option of a profile, and trials with other options are another profile's."""
_CHUNK = 1 << 14

Taken = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Link:
    """`delay_s` before each answer; to a node `bytes_per_s` in all, and from each service `answers_per_s`.

    One thread gets about three answers a second, and all of a node 25 blobs of 100 kB or 30 rows. The paper's get 2 to
    3, and 30 blobs or 40 to 60 rows: with 50 to 60 threads, for which a slot here has no memory.
    """

    delay_s: float = 0.3
    bytes_per_s: float = 2_500_000.0
    answers_per_s: float = 30.0


class Throttle:
    """Lets so many bytes (or requests) a second through to each node, one after the other, in the caller's own time."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._free_s = defaultdict[str, float](float)

    def wait_s(self, node: str, now_s: float, size: int = 1) -> float:
        """Seconds until these may go on; they count as sent."""
        begin_s = max(now_s, self._free_s[node])
        self._free_s[node] = begin_s + size / self._per_s
        return self._free_s[node] - now_s


def install() -> Path:
    """Azurite and the clients, where they are missing; the folder of the clients' programs."""
    if not (HOME / "node_modules" / ".bin" / "azurite").exists():
        _do("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(HOME), AZURITE)
    programs = HOME / "venv" / "bin"
    if not (programs / ".installed").exists():
        _do(sys.executable, "-m", "venv", str(HOME / "venv"))
        _do(str(programs / "pip"), "install", "-q", str(REPOSITORY), "-r", str(REQUIREMENTS))
        (programs / ".installed").touch()
    return programs


def _do(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise UnreachableError(f"{command[0]} is missing: blob download and table query need it") from None
    except subprocess.CalledProcessError as e:
        raise UnreachableError(f"{' '.join(command)}: {e.stderr.strip()[-500:]}") from None


@contextlib.contextmanager
def running(host: str, link: Link) -> Iterator[str]:
    """A filled storage account that listens at `host`, an address of an isolated cluster; its connection string."""
    programs = install()
    blob_port, queue_port, table_port = (_free_port() for _ in range(3))
    ports = ("--blobPort", blob_port, "--queuePort", queue_port, "--tablePort", table_port)
    azurite = subprocess.Popen(
        [
            *(HOME / "node_modules" / ".bin" / "azurite", "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"),
            *("--disableTelemetry", *map(str, ports)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=HOME,
    )
    try:
        for port in (blob_port, table_port):
            _await(port, azurite)
        direct = _connection("127.0.0.1", blob_port, table_port)
        _do(str(programs / "python"), str(REPOSITORY / "topologies" / "src" / "micro_tasks" / "storage.py"), direct)
        with links({(host, BLOB_PORT): blob_port, (host, TABLE_PORT): table_port}, link):
            yield _connection(host, BLOB_PORT, TABLE_PORT)
    finally:
        azurite.terminate()
        try:
            azurite.wait(10.0)
        except subprocess.TimeoutExpired:
            azurite.kill()
            azurite.wait()


def _connection(host: str, blob_port: int, table_port: int) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint=http://{host}:{blob_port}/{ACCOUNT};TableEndpoint=http://{host}:{table_port}/{ACCOUNT};"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise UnreachableError("azurite did not start")
        time.sleep(0.1)


@contextlib.contextmanager
def links(ways: dict[tuple[str, int], int], link: Link) -> Iterator[None]:
    """The links, in a thread of their own."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        throttle = Throttle(link.bytes_per_s)
        async with contextlib.AsyncExitStack() as stack:
            for (host, port), to_port in ways.items():
                taken = _taken(to_port, link, throttle, Throttle(link.answers_per_s))
                await stack.enter_async_context(await asyncio.start_server(taken, host, port))
            ready.set()
            await stop.wait()
        connections = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def run() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(serve())

    thread = threading.Thread(target=run, name="links", daemon=True)
    thread.start()
    if not ready.wait(10.0):
        raise UnreachableError("the link to the storage service was not set up")
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10.0)


def _taken(to_port: int, link: Link, throttle: Throttle, answers: Throttle) -> Taken:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = writer.get_extra_info("peername")[0]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except OSError:
            writer.close()
            return
        asked = asyncio.create_task(_asked(reader, far_writer, link.delay_s, answers, node))
        try:
            while data := await far_reader.read(_CHUNK):
                await asyncio.sleep(throttle.wait_s(node, time.monotonic(), len(data)))
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass  # a cancelled connection would be logged as an error of the server
        finally:
            asked.cancel()
            writer.close()
            far_writer.close()

    return take


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float, answers: Throttle, node: str
) -> None:
    """Requests (each comes in one piece: they have no body), passed on later by the delay, or when it is their turn."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            await asyncio.sleep(max(delay_s, answers.wait_s(node, time.monotonic())))
            writer.write(data)
            await writer.drain()
    writer.close()
