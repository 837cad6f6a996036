"""ZooKeeper servers out of Storm's own jars: their files, command line and health."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from stormpilot.errors import UnreachableError
from stormpilot.local.home import Progress, StormHome, storm_home
from stormpilot.local.ports import Reservation
from stormpilot.local.processes import freeze
from stormpilot.zookeeper.probe import answer

_MAIN = "org.apache.storm.shade.org.apache.zookeeper.server.quorum.QuorumPeerMain"
_SASL_PROVIDER = "org.apache.storm.shade.org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
# Many small JVMs on few cores: start-up counts, and heaps are too small for a collector with threads of its own.
JVM_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]


def write_config(
    directory: Path,
    host: str,
    port: int,
    *,
    server: int = 1,
    peers: Sequence[tuple[str, int, int]] = (),
    more: Sequence[str] = (),
) -> Path:
    """Write a server's configuration and return its path.

    Parameters
    ----------
    directory
        The server's data folder.
    host, port
        Where clients connect.
    server
        This server's number in the ensemble, from 1.
    peers
        Host, quorum port and election port of every server; empty for a single one.
    more
        Further lines.
    """
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        f"dataDir={directory}",
        f"clientPort={port}",
        f"clientPortAddress={host}",
        "tickTime=1000",
        "initLimit=10",
        "syncLimit=5",
        # Storm asks for sessions of 20 s; a tick of 1 s would cap them at that, tests want shorter and longer ones.
        "minSessionTimeout=1000",
        "maxSessionTimeout=60000",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,ruok",
        # The data of a local cluster may be lost with the machine: do not wait for the disk.
        "forceSync=no",
    ]
    lines += [f"server.{n}={peer}:{quorum}:{election}" for n, (peer, quorum, election) in enumerate(peers, start=1)]
    lines += more
    (directory / "myid").write_text(f"{server}\n")
    config = directory / "zoo.cfg"
    config.write_text("\n".join(lines) + "\n")
    return config


def command(home: StormHome, config: Path, log: Path, *options: str) -> list[str]:
    """The command line of a server that logs to `log`; `options` are further ones of its JVM."""
    return [
        home.java,
        *JVM_OPTIONS,
        *home.share_daemons.split(),
        "-Xmx128m",
        *options,
        f"-Dstorm.log.dir={log.parent}",
        f"-Dlogfile.name={log.name}",
        f"-Dlog4j.configurationFile={home.directory / 'log4j2' / 'cluster.xml'}",
        "-cp",
        f"{home.directory / 'lib'}/*",
        _MAIN,
        str(config),
    ]


def sasl(jaas_file: Path) -> tuple[list[str], list[str]]:
    """Lines of the configuration and options of the JVM for a server whose clients may log in by SASL."""
    return [f"authProvider.1={_SASL_PROVIDER}"], [f"-Djava.security.auth.login.config={jaas_file}"]


def answers(host: str, port: int, timeout_s: float = 10.0) -> bool:
    """Whether the server serves clients (a member of an ensemble without a majority does not)."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            return b"\nMode: " in answer(connection, b"srvr", timeout_s)
    except OSError:
        return False


class LocalZooKeeper:
    """A single ZooKeeper of its own, a child of this process; data outlives `stop` and `start`. `with` it serves.

    Parameters
    ----------
    directory
        For its data and log.
    settings, options
        Further lines of its configuration and options of its JVM.
    """

    def __init__(
        self,
        directory: Path,
        progress: Progress = lambda _: None,
        *,
        settings: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self._settings, self._options = settings, options
        self._home = storm_home(progress)
        self._directory = directory
        self._ports = Reservation()
        self._port = self._ports.take()[0]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def hosts(self) -> str:
        """Connection string."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id; None while stopped."""
        return self._process.pid if self._process else None

    def start(self, timeout_s: float = 300.0) -> None:
        """Start the server and return when it serves clients."""
        if self._process is not None:
            return
        config = write_config(self._directory / "data", "127.0.0.1", self._port, more=self._settings)
        log = self._directory / "zookeeper.log"
        with (self._directory / "zookeeper.out").open("ab") as output:
            self._process = subprocess.Popen(
                command(self._home, config, log, *self._options), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + timeout_s
        while not answers("127.0.0.1", self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise UnreachableError(f"ZooKeeper did not start; see {log} and {output.name}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill the server as a crash would (SIGKILL); its data stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): connections stay open and nothing answers."""
        if self._process is not None:
            freeze(self._process)

    def resume(self) -> None:
        """Undo `pause`."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop for good and let the port go."""
        with contextlib.suppress(ProcessLookupError):
            self.stop()
        self._ports.close()
