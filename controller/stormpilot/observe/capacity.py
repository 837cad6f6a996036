"""Capacity of supervisors: declared in storm.yaml, or measured by the tasks that run there.

Storm says 400 points and 4,096 MB of a supervisor whose owner said nothing, whatever the host has. Such a number is
nobody's statement: where tasks have told what their host has (inside its cgroup), that counts. What neither is declared
nor measured limits nothing, except that CPU is planned with Storm's 400 points then.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stormpilot.messages.core import CapacityPart, ClusterSnapshot, SupervisorPart
from stormpilot.messages.load import TaskLoad
from stormpilot.observe.storm_keys import resource_aware

if TYPE_CHECKING:
    from stormpilot.config.sections import CapacitySource

DEFAULT_CPU_POINTS, DEFAULT_MEMORY_MB = 400.0, 4096.0
"""`supervisor.cpu.capacity` and `supervisor.memory.capacity.mb` of a Storm that was not told."""


@dataclass(frozen=True)
class HostCapacity:
    """Measured cores and memory (MB) of a host; None: not told."""

    cores: float | None = None
    memory_mb: float | None = None


def measured(loads: Iterable[TaskLoad]) -> dict[str, HostCapacity]:
    """By host, the median of what its tasks told."""
    cores: defaultdict[str, list[float]] = defaultdict(list)
    memory_mb: defaultdict[str, list[float]] = defaultdict(list)
    for load in loads:
        if load.host_cores is not None:
            cores[load.host].append(load.host_cores)
        if load.host_memory_mb is not None:
            memory_mb[load.host].append(load.host_memory_mb)
    return {
        host: HostCapacity(
            statistics.median(cores[host]) if host in cores else None,
            statistics.median(memory_mb[host]) if host in memory_mb else None,
        )
        for host in cores.keys() | memory_mb.keys()
    }


def capacities(
    cluster: ClusterSnapshot, hosts: Mapping[str, HostCapacity], policy: CapacitySource
) -> dict[str, CapacityPart]:
    """By supervisor that is not blacklisted. Supervisors of one host share what was measured there."""
    live = [s for s in cluster.supervisors if not s.blacklisted]
    sharing = Counter(s.host for s in live)
    if policy == "auto" and resource_aware(cluster.shim.fallback):
        policy = "declared"  # what Storm's own scheduler goes by too
    return {s.id: _capacity(s, hosts.get(s.host, HostCapacity()), sharing[s.host], policy) for s in live}


def _capacity(s: SupervisorPart, host: HostCapacity, sharing: int, policy: CapacitySource) -> CapacityPart:
    cpu_said = s.cpu_pcore_percent not in (0.0, DEFAULT_CPU_POINTS)
    memory_said = s.memory_mb not in (0.0, DEFAULT_MEMORY_MB)
    cores, source = (s.cpu_pcore_percent or DEFAULT_CPU_POINTS) / 100, "declared" if cpu_said else "default"
    if host.cores is not None and (policy == "measured" or (policy == "auto" and not cpu_said)):
        cores, source = host.cores / sharing, "measured"
    memory_mb, memory_source = s.memory_mb, "declared" if memory_said else "default"
    if policy != "declared" and (policy == "measured" or not memory_said):
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
    )


def remembered(known: Iterable[CapacityPart], supervisors: Iterable[SupervisorPart]) -> dict[str, HostCapacity]:
    """What an earlier leader had measured, by host: a host without tasks tells nothing any more."""
    sharing = Counter(s.host for s in supervisors)
    found = {}
    for c in known:
        share = max(1, sharing[c.host])
        cores = c.cores * share if c.cores_from == "measured" else None
        memory_mb = c.memory_mb * share if c.memory_from == "measured" else None
        if cores is not None or memory_mb is not None:
            found[c.host] = HostCapacity(cores, memory_mb)
    return found


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
