"""Values of Nimbus: its address, and what it answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from stormpilot.errors import UsageError
from stormpilot.logins.jaas import SaslLogin

DEFAULT_PORT = 6627
ADDRESS = re.compile(r"(\[(?P<ip>[^\[\]]+)\]|(?P<host>[^:\[\]]+))(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class Address:
    """Where a Nimbus listens, and as whom to ask it: nobody, or by SASL digest."""

    host: str
    port: int = DEFAULT_PORT
    login: SaslLogin | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, where: str, login: SaslLogin | None = None) -> Address:
        """Read `host` or `host:port`; `where` names the option or the file and field for the error."""
        found = ADDRESS.fullmatch(text)
        port = int(found["port"] or DEFAULT_PORT) if found else 0
        if not found or not 0 < port < 65536:
            raise UsageError(f"{where}: {text!r} is not an address, expected host or host:port; IPv6 in [ ]")
        return cls(found["ip"] or found["host"], port, login)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolved(self) -> set[tuple[str, int]]:
        """The IP addresses with the port; empty when the name does not resolve."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError:
            return set()
        return {(str(info[4][0]), self.port) for info in found}

    def families(self) -> list[socket.AddressFamily]:
        """Families of the IP addresses, IPv4 first; IPv4 when the name does not resolve."""
        v6 = {":" in ip for ip, _ in self.resolved()}
        return [socket.AF_INET6 if six else socket.AF_INET for six in sorted(v6)] or [socket.AF_INET]

    @property
    def on_loopback(self) -> bool:
        """Whether every address of the host is a loopback address."""
        hosts = {ip for ip, _ in self.resolved()}
        return bool(hosts) and all(ip == "::1" or ip.startswith("127.") for ip in hosts)


@dataclass(frozen=True)
class SupervisorInfo:
    """A supervisor as `getClusterInfo` lists it."""

    id: str
    host: str
    slots: int
    used_slots: int
    uptime_s: int
    cpu_points: float = 0.0  # supervisor.cpu.capacity; 0: not told
    memory_mb: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)  # of others, e.g. gpu


@dataclass(frozen=True)
class RunningTopology:
    """A topology as `getClusterInfo` lists it; `status` is ACTIVE, INACTIVE, REBALANCING or KILLED."""

    id: str
    name: str
    status: str
    workers: int
    executors: int
    tasks: int
    uptime_s: int


@dataclass(frozen=True)
class PlacedExecutor:
    """An executor and the worker that runs it; `uptime_s` is 0 until its worker sent a heartbeat."""

    start: int
    end: int
    component: str
    host: str
    port: int
    uptime_s: int


@dataclass(frozen=True)
class TopologyDetail:
    """`getTopologyInfo`: what runs where, and the errors that components reported last."""

    id: str
    name: str
    status: str
    executors: list[PlacedExecutor]
    errors: dict[str, list[str]]


@dataclass(frozen=True)
class ExecutorStatistics:
    """Storm's own counts of an executor, by samples; tuples/s are means over `window_s` seconds.

    `executed_tps` and `execute_ms` (mean time in `execute`) are by (component, stream) that it received, `emitted_tps`
    by stream. Of a spout `executed_tps` is empty, and `completed_tps` what was acked or failed.
    """

    placed: PlacedExecutor
    window_s: float
    emitted_tps: dict[str, float]
    executed_tps: dict[tuple[str, str], float]
    execute_ms: dict[tuple[str, str], float]
    completed_tps: float


@dataclass(frozen=True)
class Subscription:
    """A component receives a stream of another one; `grouping` is Storm's name, upper case."""

    component: str
    stream: str
    grouping: str
