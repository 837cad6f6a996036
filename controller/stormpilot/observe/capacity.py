"""Capacity of supervisors: declared in storm.yaml, or measured by the tasks that run there.

Storm says 400 points and 4,096 MB of a supervisor whose owner said nothing, whatever the host has. Such a number is
nobody's statement: where tasks have told what their host has (inside its cgroup), that counts. What neither is declared
nor measured limits nothing, except that CPU is planned with Storm's 400 points then.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stormpilot.messages.controller_state import CapacityPart
from stormpilot.messages.core import ClusterSnapshot, SupervisorPart, TopologySnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.observe.identity import HostNames, same_host
from stormpilot.observe.storm_keys import resource_aware

if TYPE_CHECKING:
    from stormpilot.config.sections import CapacitySource, CpuPolicy

DEFAULT_CPU_POINTS, DEFAULT_MEMORY_MB = 400.0, 4096.0
"""`supervisor.cpu.capacity` and `supervisor.memory.capacity.mb` of a Storm that was not told."""

MOST_CORES, MOST_MEMORY_MB = 8192.0, 1e8
"""A host that tells more is not believed."""

AWAY_MS = 600_000
"""Time for which a supervisor that is away is known to be of its host."""
GONE_MS, MOST_GONE = 86_400_000, 1_000
"""Measurements of hosts without a supervisor are kept so long, of at most so many hosts."""


@dataclass(frozen=True)
class HostCapacity:
    """Measured cores and memory (MB) of a host; None: not told."""

    cores: float | None = None
    memory_mb: float | None = None


def measured(
    topologies: Mapping[str, TopologySnapshot],
    loads: Mapping[str, Iterable[TaskLoad]],
    supervisors: Iterable[SupervisorPart],
    former: Iterable[str] = (),
) -> dict[str, HostCapacity]:
    """By host, what tasks that run there tell: the median of a topology's tasks, and the largest of the topologies'.

    Where a task runs is Nimbus's word, not its own: nobody tells of a host on which it does not run. Nor does the last
    report of a process on another host, from which its task was moved. The largest, because a host that one topology
    makes small would be overloaded for the others at once.

    Parameters
    ----------
    former
        Hosts that had a supervisor and have none now.
    """
    host_of = {s.id: s.host for s in supervisors}
    names = HostNames.of([*host_of.values(), *former])
    found: dict[str, HostCapacity] = {}
    for t, snapshot in topologies.items():
        cores: defaultdict[str, list[float]] = defaultdict(list)
        memory_mb: defaultdict[str, list[float]] = defaultdict(list)
        there = {n: host_of.get(e.supervisor or "") for e in snapshot.executors for n in range(e.start, e.end + 1)}
        for load in loads.get(t, ()):
            host = there.get(load.task)
            if host is not None and load.host in names and not same_host(load.host, host):
                continue
            if host is not None and load.host_cores is not None:
                cores[host].append(load.host_cores)
            if host is not None and load.host_memory_mb is not None:
                memory_mb[host].append(load.host_memory_mb)
        for host in cores.keys() | memory_mb.keys():
            before = found.get(host, HostCapacity())
            found[host] = HostCapacity(_larger(before.cores, cores[host]), _larger(before.memory_mb, memory_mb[host]))
    return found


def _larger(before: float | None, told: list[float]) -> float | None:
    if not told:
        return before
    return max(statistics.median(told), before or 0.0)


def capacities(
    cluster: ClusterSnapshot,
    hosts: Mapping[str, HostCapacity],
    policy: CapacitySource,
    sharing: Mapping[str, int] | None = None,
    cpu: CpuPolicy = "auto",
) -> dict[str, CapacityPart]:
    """By supervisor that is not blacklisted. Supervisors of one host share what was measured there.

    `sharing`: by host, how many they are, also where one of them is away for a moment; None: those that are there.
    Memory, and CPU where `cpu` is declared, are what the ResourceAwareScheduler goes by, where it places what has no
    plan. Measured CPU beside declared CPU has a limit of its own.
    """
    live = [s for s in cluster.supervisors if not s.blacklisted]
    there = Counter(s.host for s in live)
    shares = {host: max(count, (sharing or {}).get(host, 0)) for host, count in there.items()}
    of_cpu = of_memory = policy
    if policy == "auto" and resource_aware(cluster.shim.fallback):
        of_memory = "declared"
        of_cpu = "declared" if cpu == "declared" else policy
    return {s.id: _capacity(s, hosts.get(s.host, HostCapacity()), shares[s.host], of_cpu, of_memory) for s in live}


def _capacity(
    s: SupervisorPart, host: HostCapacity, sharing: int, of_cpu: CapacitySource, of_memory: CapacitySource
) -> CapacityPart:
    cpu_said = s.cpu_pcore_percent not in (0.0, DEFAULT_CPU_POINTS)
    memory_said = s.memory_mb not in (0.0, DEFAULT_MEMORY_MB)
    cores, source = (s.cpu_pcore_percent or DEFAULT_CPU_POINTS) / 100, "declared" if cpu_said else "default"
    if host.cores is not None and (of_cpu == "measured" or (of_cpu == "auto" and not cpu_said)):
        cores, source = host.cores / sharing, "measured"
    memory_mb, memory_source = s.memory_mb, "declared" if memory_said else "default"
    if of_memory != "declared" and (of_memory == "measured" or not memory_said):
        if host.memory_mb is not None:
            memory_mb, memory_source = host.memory_mb / sharing, "measured"
        elif not memory_said:
            memory_mb, memory_source = 0.0, "unlimited"
    return CapacityPart(
        supervisor=s.id,
        host=s.host,
        cores=cores,
        cores_from=source,
        memory_mb=memory_mb,
        memory_from=memory_source,
        sharing=sharing,
    )


def remembered(known: Sequence[CapacityPart], supervisors: Iterable[SupervisorPart]) -> dict[str, HostCapacity]:
    """Measurements of an earlier leader, by host that is there: a host without tasks tells nothing any more.

    They were divided by `sharing`, in earlier versions by the supervisors of a host that are in `known`.
    """
    listed, there = Counter(c.host for c in known), {s.host for s in supervisors}
    found = {}
    for c in known:
        share = (c.sharing or listed[c.host]) if c.host in there else 0
        cores = _within(c.cores * share, MOST_CORES) if c.cores_from == "measured" else None
        memory_mb = _within(c.memory_mb * share, MOST_MEMORY_MB) if c.memory_from == "measured" else None
        if cores is not None or memory_mb is not None:
            found[c.host] = HostCapacity(cores, memory_mb)
    return found


def last_there(before: Mapping[str, int], supervisors: Iterable[SupervisorPart], now_ms: int) -> dict[str, int]:
    """The look at which a host last had a supervisor, by host; without hosts that are gone for too long."""
    there = {s.host: now_ms for s in supervisors}
    gone = {h: at_ms for h, at_ms in before.items() if h not in there and now_ms - at_ms <= GONE_MS}
    newest = sorted(gone, key=lambda h: (-gone[h], h))[:MOST_GONE]
    return there | {h: gone[h] for h in newest}


def sharing_of(
    host_of: Mapping[str, str], supervisors: Iterable[SupervisorPart], topologies: Iterable[TopologySnapshot]
) -> dict[str, int]:
    """By host, how many supervisors use it: those that may, and others of it that have executors.

    One that is restarted, or on Storm's blacklist, keeps its workers; one that came back with another id has none under
    the former.

    Parameters
    ----------
    host_of
        Of supervisors that were there lately, by id.
    """
    using = {s.id for s in supervisors if not s.blacklisted}
    using |= {e.supervisor for t in topologies for e in t.executors if e.supervisor is not None}
    return dict(Counter(host_of[s] for s in using if s in host_of))


def _within(value: float, most: float) -> float | None:
    return value if 0 < value <= most else None


def in_words(known: Iterable[CapacityPart]) -> str:
    """`3 supervisors as declared, 2 measured (n1: 32 cores, n2: 16 cores), 1 by Storm's default of 4 cores`."""
    by_source: defaultdict[str, list[CapacityPart]] = defaultdict(list)
    for c in known:
        by_source[c.cores_from].append(c)
    parts = []
    if declared := by_source["declared"]:
        parts.append(f"{len(declared)} as declared")
    if found := by_source["measured"]:
        told = ", ".join(f"{c.host}: {c.cores:g} cores" for c in sorted(found, key=lambda c: c.host)[:3])
        parts.append(f"{len(found)} measured ({told}{', ...' if len(found) > 3 else ''})")
    if default := by_source["default"]:
        parts.append(f"{len(default)} by Storm's default of {DEFAULT_CPU_POINTS / 100:g} cores")
    return ", ".join(parts)
