"""Three ZooKeeper servers of their own, without Storm, each a child of this process: killed, frozen, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from slow_proxy import SlowProxy
from stormpilot.local import zookeeper
from stormpilot.local.home import storm_home
from stormpilot.local.ports import Reservation
from stormpilot.local.processes import freeze
from waiting import until

HOST = "127.0.0.1"


class Ensemble:
    """The servers, by their numbers from 1; their data outlive a kill."""

    def __init__(self, directory: Path, ports: Reservation, servers: int = 3) -> None:
        self._home = storm_home(lambda _: None)
        self._directory = directory
        self._peers = [(HOST, *ports.take(2)) for _ in range(servers)]
        self._ports = dict(enumerate(ports.take(servers), start=1))
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def hosts(self) -> str:
        """Connection string."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    @property
    def numbers(self) -> list[int]:
        """The servers' numbers."""
        return list(self._ports)

    def proxies(self, seed: int) -> list[SlowProxy]:
        """A proxy in front of every server, for one client."""
        return [SlowProxy((HOST, port), seed=seed + n) for n, port in self._ports.items()]

    def start(self, server: int) -> None:
        """Start a server, where it does not run; does not wait."""
        if server in self._running:
            return
        folder = self._directory / f"server-{server}"
        peers = [(host, a, b) for host, a, b in self._peers]
        config = zookeeper.write_config(folder, HOST, self._ports[server], server=server, peers=peers)
        with (self._directory / f"server-{server}.out").open("ab") as out:
            self._running[server] = subprocess.Popen(
                zookeeper.command(self._home, config, self._directory / f"server-{server}.log"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def wait(self) -> None:
        """Until all servers serve clients."""
        until(lambda: all(zookeeper.answers(HOST, p) for p in self._ports.values()), "all ZooKeepers to serve")

    def kill(self, server: int) -> None:
        """End a server as a crash would."""
        process = self._running.pop(server)
        process.kill()
        process.wait(60)

    def freeze(self, server: int) -> None:
        """Stop a server (SIGSTOP): for its peers and clients as if the network to it were cut."""
        freeze(self._running[server])

    def thaw(self, server: int) -> None:
        """Undo `freeze`: it goes on with what it believed then."""
        os.kill(self._running[server].pid, signal.SIGCONT)

    def close(self) -> None:
        """End all servers."""
        for server in list(self._running):
            self.kill(server)


@contextlib.contextmanager
def ensemble(directory: Path) -> Iterator[Ensemble]:
    """Three servers that serve."""
    ports = Reservation()
    with contextlib.closing(ports), contextlib.closing(Ensemble(directory, ports)) as found:
        for server in found.numbers:
            found.start(server)
        found.wait()
        yield found
