"""Specification of a local cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stormpilot.errors import UsageError
from stormpilot.local.home import OLDER_STORM, STORM_VERSION

MAX_SUPERVISORS = 64
MAX_SLOTS = 32
MAX_NIMBUSES = 3
DIGEST_HOST = "localhost"
"""The name that Storm's servers have for themselves where clients log in by SASL digest: others are refused."""
PATIENT: Mapping[str, Any] = {
    "storm.zookeeper.session.timeout": 60_000,
    "nimbus.supervisor.timeout.secs": 300,
    "nimbus.task.timeout.secs": 300,
    "nimbus.task.launch.secs": 300,
    "supervisor.worker.timeout.secs": 300,
    "supervisor.worker.start.timeout.secs": 300,
    "topology.message.timeout.secs": 300,
    "blacklist.scheduler.tolerance.count": 100_000,
}
"""`conf` for a cluster on a busy machine: Storm takes nobody for lost that is only slow, nor keeps it out of use then.
A worker's process that ends is noticed at once as ever."""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Isolated node: `cores` of CPU, a link of `mbit` Mbit/s in each direction with `delay_ms` each way.

    None: the machine's cores shared out equally, a link without a limit.
    """

    cores: float | None = None
    mbit: float | None = None
    delay_ms: float | None = None


def parse_node(text: str) -> NodeSpec:
    """A node out of `cores=0.5,mbit=50,delay_ms=2`; any of them may be missing."""
    values: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = (s.strip() for s in part.partition("="))
        if key not in NodeSpec.__struct_fields__ or key in values:
            raise UsageError(f"--node: expected cores=N,mbit=N,delay_ms=N, each at most once, got {text!r}")
        try:
            values[key] = float(value)
        except ValueError:
            raise UsageError(f"--node {key}: expected a number, got {value!r}") from None
    return NodeSpec(**values)


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster's size and settings; checked when made.

    Attributes
    ----------
    name
        Letters, digits, dot, dash and underscore; one cluster of a name at a time.
    supervisors, slots
        How many supervisors, and how many slots each.
    racks
        Supervisors go to `/rack-0`, `/rack-1`, ... in turn.
    sites
        Values of the supervisors' `site` tag, given in turn; empty for none.
    cpu_points
        Declared CPU of each supervisor, 100 = one core; None: this machine's cores shared out equally.
    memory_mb
        Declared memory of each supervisor; None: this machine's memory shared out equally.
    declares
        Whether supervisors declare CPU and memory at all; False: no key of either is set, as on most clusters.
    scheduler
        `pilot` (ours, from `scheduler_jar`) or `default` (Storm's).
    scheduler_jar
        The jar for Nimbus; None: the one that `make build` made.
    hook
        Whether every topology is measured in its workers' JVMs: our jar for workers in `extlib`, the hook configured.
    hook_jar
        The jar for workers; None: the one that `make build` made.
    extlib
        Further jars for the classpath of daemons and workers.
    zookeepers
        Servers of the ZooKeeper ensemble, 1 or an odd number above it.
    nimbuses
        How many Nimbuses, 1 to 3: one leads, the others wait for it to fail. Clients find them at one port, as on
        several machines (`forwarder`).
    storm_version
        Of Storm: 2.8.3, or 2.4 to 2.7 for tests.
    java_home
        The Java that Storm's processes run with; None: that of `JAVA_HOME` or the `PATH`.
    jaas_file
        A JAAS file with the sections Server, Client, StormServer and StormClient: clients log in by SASL digest, to
        ZooKeeper and to Nimbus, and all daemons are on `localhost`. None: nobody logs in.
    tuned
        Timings for a laptop (rounds every 2 s, workers notice a change within a second); False: Storm's defaults.
    isolate
        Every supervisor and its workers in a network namespace of their own, with a CPU quota; needs root.
    nodes
        What each of the isolated nodes has, in the order of the supervisors; empty: equal parts of the machine.
    conf
        Further keys for storm.yaml; they win over ours.
    nimbus_conf
        The same for the storm.yaml of the Nimbuses alone.
    supervisor_conf
        The same for the storm.yaml of single supervisors, by their id (`supervisor-01`, ...).
    """

    name: str = "default"
    supervisors: int = 4
    slots: int = 4
    racks: int = 2
    sites: tuple[str, ...] = ("east", "west")
    cpu_points: float | None = None
    memory_mb: float | None = None
    declares: bool = True
    scheduler: Literal["pilot", "default"] = "pilot"
    scheduler_jar: Path | None = None
    hook: bool = False
    hook_jar: Path | None = None
    extlib: tuple[Path, ...] = ()
    zookeepers: int = 1
    nimbuses: int = 1
    storm_version: str = STORM_VERSION
    java_home: Path | None = None
    jaas_file: Path | None = None
    tuned: bool = True
    isolate: bool = False
    nodes: tuple[NodeSpec, ...] = ()
    conf: Mapping[str, Any] = {}
    nimbus_conf: Mapping[str, Any] = {}
    supervisor_conf: Mapping[str, Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        check_name(self.name)
        _in_range("supervisors", self.supervisors, MAX_SUPERVISORS)
        _in_range("slots", self.slots, MAX_SLOTS)
        _in_range("racks", self.racks, MAX_SUPERVISORS)
        _in_range("zookeepers", self.zookeepers, 9)
        _in_range("nimbuses", self.nimbuses, MAX_NIMBUSES)
        if self.zookeepers % 2 == 0:
            raise UsageError(f"zookeepers: expected an odd number (a majority must be possible), got {self.zookeepers}")
        for site in self.sites:
            if not re.fullmatch(r"[\w.-]+", site):
                raise UsageError(f"sites: expected words of letters, digits, '.', '-', '_', got {site!r}")
        if self.storm_version != STORM_VERSION and not OLDER_STORM.fullmatch(self.storm_version):
            raise UsageError(f"storm_version: expected {STORM_VERSION}, or one of 2.4 to 2.7, got {self.storm_version}")
        for field in ("cpu_points", "memory_mb"):
            value = getattr(self, field)
            if value is not None and not value > 0:
                raise UsageError(f"{field}: expected a number above 0, got {value}")
        if self.nodes and not self.isolate:
            raise UsageError("nodes: only an isolated cluster has them (--isolate)")
        if self.nodes and len(self.nodes) != self.supervisors:
            raise UsageError(f"nodes: expected one for each of {self.supervisors} supervisors, got {len(self.nodes)}")
        for node in self.nodes:
            for field, least in (("cores", 0.01), ("mbit", 0.01), ("delay_ms", 0.0)):
                value = getattr(node, field)
                if value is not None and not least <= value < float("inf"):
                    raise UsageError(f"node {field}: expected a number from {least:g} on, got {value:g}")
        if self.jaas_file and (self.isolate or self.nimbuses > 1):
            raise UsageError(f"jaas_file: Storm's digest login is for {DIGEST_HOST}: one Nimbus, no isolated nodes")
        if not self.declares and (self.cpu_points is not None or self.memory_mb is not None):
            raise UsageError("declares: false, and cpu_points or memory_mb is given")
        known = {supervisor_id(n) for n in range(1, self.supervisors + 1)}
        if unknown := sorted(self.supervisor_conf.keys() - known):
            raise UsageError(f"supervisor_conf: there is no {', '.join(unknown)}")
        if self.scheduler not in ("pilot", "default"):
            raise UsageError(f"scheduler: expected pilot or default, got {self.scheduler!r}")


def supervisor_id(number: int) -> str:
    """Id of the supervisor of this number, from 1.

    Two digits: Storm takes an id that is the beginning of another one for that one.
    """
    return f"supervisor-{number:02d}"


def check_name(name: str) -> None:
    """Refuse a cluster name that cannot be the name of a folder."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise UsageError(
            f"name: expected up to 64 letters, digits, '.', '-', '_', the first a letter or digit, got {name!r}"
        )


def _in_range(field: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UsageError(f"{field}: expected 1 to {most}, got {value}")
