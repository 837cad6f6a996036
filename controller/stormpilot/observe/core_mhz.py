"""MHz of one core of each node, which only counts by its ratio to that of others: declared, or reported from there."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from stormpilot.messages.core import ExecutorPart, SupervisorPart, TopologySnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.observe.identity import HostNames, same_host
from stormpilot.observe.task_rates import TaskRates

DEFAULT_MHZ = 1000.0
"""MHz of one core where nothing tells: only ratios between nodes matter then."""
MHZ_META = "cpu.mhz"
"""Key of `supervisor.scheduler.meta` that tells MHz of one core."""


def told_mhz(
    live: list[SupervisorPart],
    topologies: Mapping[str, TopologySnapshot],
    told: Mapping[str, Iterable[tuple[int, TaskRates | TaskLoad]]],
    former: Iterable[str] = (),
) -> dict[str, float]:
    """MHz of one core by supervisor, where that is known: declared, else reported from its host.

    Where a task runs is Nimbus's word, not its own. Each topology has one voice for a host, however many tasks it has.

    Parameters
    ----------
    told
        By topology id: tasks, and what they tell.
    former
        Other hosts, of which the last report of a task may be.
    """
    host_of = {s.id: s.host for s in live}
    names = HostNames.of([*host_of.values(), *former])
    voices: defaultdict[str, list[float]] = defaultdict(list)
    for topology_id, tasks in told.items():
        snapshot = topologies.get(topology_id)
        place = {} if snapshot is None else {t: e.supervisor for e in snapshot.executors for t in _tasks(e)}
        reported: defaultdict[str, list[float]] = defaultdict(list)
        for task, r in tasks:
            host = host_of.get(place.get(task) or "")
            if host is not None and r.host in names and not same_host(r.host, host):
                continue  # the last report from where it was before
            if host is not None and r.mhz is not None:
                reported[host].append(r.mhz)
        for host, own in reported.items():
            voices[host].append(statistics.median(own))
    known: dict[str, float] = {}
    for s in live:
        declared = _number(s.meta.get(MHZ_META))
        if declared:
            known[s.id] = declared
        elif s.host in voices:
            known[s.id] = statistics.median(voices[s.host])
    return known


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else 0.0
    except ValueError:
        return None
    return value if 0 < value < 1e6 else None


def _tasks(e: ExecutorPart) -> range:
    return range(e.start, e.end + 1)
