"""Whether a message that could be decoded can be true: below its own path, with numbers that a cluster can have.

What is made of a snapshot is as large as its numbers say: one executor whose last task is a trillion would be a list
of a trillion tasks. So these are asked before anything is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import TypeVar

from stormpilot.errors import UsageError
from stormpilot.instrument.latency import ABOVE_MS
from stormpilot.messages.core import ClusterSnapshot, Message, TopologySnapshot, decode
from stormpilot.messages.load import TaskLoad
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.model.bounds import MOST, MOST_CORES, MOST_INT, MOST_PORT, is_amount
from stormpilot.observe.capacity import MOST_CORES as MOST_HOST_CORES
from stormpilot.observe.capacity import MOST_MEMORY_MB
from stormpilot.observe.samples import seconds_of
from stormpilot.zookeeper.client import MAY_NOT_READ, Node

M = TypeVar("M", bound=Message)
MAX_TASKS = 500_000
MAX_SUPERVISORS = 20_000
MAX_SLOTS = 10_000
"""Of one supervisor."""
MAX_CPU_POINTS = 100 * MOST_CORES
MAX_AHEAD_MS = 300_000
"""A report whose clock is further ahead of ours than this is from the future."""
MAX_BEHIND_MS = 3_600_000
"""A report older than this says nothing about now."""
MAX_COUNT = 2**53
LEAST_CPU_POINTS = 1e-6
"""Above 0. What is smaller may become 0 on its way into a model, where a node without CPU is none."""


def read_message(node: Node, kind: type[M], path: str) -> M:
    """Decode what lies at `path`; `UsageError` also for one of another topology, or that cannot be true."""
    if node.denied:
        raise UsageError(f"{path}: {MAY_NOT_READ}")
    message = decode(node.data, kind, path)
    wrong = next(_wrong(message, path.rpartition("/")[2]), None)
    if wrong is not None:
        raise UsageError(f"{path}: not a valid {kind.__name__}: {wrong}")
    return message


def _wrong(message: Message, name: str) -> Iterator[str]:
    own = message.id if isinstance(message, TopologySnapshot) else getattr(message, "topology_id", name)
    if own != name:
        yield f"it names the topology {own[:100]!r}, but lies below {name!r}"
    if isinstance(message, TopologySnapshot):
        yield from _topology(message)
    if isinstance(message, ClusterSnapshot):
        yield from _cluster(message)
    if isinstance(message, Rollout) and message.running and not 0 <= message.step < len(message.steps):
        yield f"step: is {message.step}, and it has {len(message.steps)} steps"
    if isinstance(message, MoveState) and message.metric is not None and None in (message.before, message.predicted):
        yield "before, predicted: one is missing, and there is a metric to judge by"


def _topology(t: TopologySnapshot) -> Iterator[str]:
    for i, e in enumerate(t.executors):
        if not 0 <= e.start <= e.end <= MOST_INT:
            yield f"executors[{i}]: tasks {e.start} to {e.end}, expected 0 <= start <= end <= {MOST_INT}"
        elif e.port is not None and not 0 < e.port <= MOST_PORT:
            yield f"executors[{i}].port: is {e.port}, expected 1 to {MOST_PORT}"
    tasks = sum(e.end - e.start + 1 for e in t.executors)
    if tasks > MAX_TASKS:
        yield f"executors: {tasks} tasks, at most {MAX_TASKS} are read"
    last = -1
    for e in sorted(t.executors, key=lambda e: e.start):
        if e.start <= last:
            yield f"executors: task {e.start} is of two executors"
        last = max(last, e.end)
    for name, number in (("workers", t.workers), ("priority", t.priority)):
        if abs(number) > MOST_INT:
            yield f"{name}: is {number}, expected at most {MOST_INT}"
    if len({c.id for c in t.components}) < len(t.components):
        yield "components: one is there twice"
    for i, c in enumerate(t.components):
        yield from _amounts(f"components[{i}]", c.cpu_pcore_percent, c.memory_mb)


def _cluster(cluster: ClusterSnapshot) -> Iterator[str]:
    if len(cluster.supervisors) > MAX_SUPERVISORS:
        yield f"supervisors: {len(cluster.supervisors)}, at most {MAX_SUPERVISORS} are read"
    if len({s.id for s in cluster.supervisors}) < len(cluster.supervisors):
        yield "supervisors: one is there twice"
    for i, s in enumerate(cluster.supervisors):
        if len(s.ports) > MAX_SLOTS or not all(0 < port <= MOST_PORT for port in s.ports):
            yield f"supervisors[{i}].ports: expected at most {MAX_SLOTS} of 1 to {MOST_PORT}"
        yield from _amounts(f"supervisors[{i}]", s.cpu_pcore_percent, s.memory_mb)


def _amounts(place: str, cpu_points: float, memory_mb: float) -> Iterator[str]:
    if not (cpu_points == 0 or LEAST_CPU_POINTS <= cpu_points <= MAX_CPU_POINTS):
        yield f"{place}: CPU {cpu_points:g}, expected 0 or {LEAST_CPU_POINTS:g} to {MAX_CPU_POINTS:g} points"
    if not 0 <= memory_mb <= MOST:
        yield f"{place}: memory {memory_mb:g}, expected 0 to {MOST:g} MB"


def implausible_reading(load: TaskLoad, now_ms: int) -> str | None:
    """Why a reading cannot be true by itself, or None."""
    counts = [load.acked, load.emitted, load.completed, load.failed, load.seq, load.pid, load.start_ms]
    pairs = [*load.received.values(), *load.sent.values()]
    counts += [n for _, tuples in pairs for n in tuples] + [n for _, n in load.latency_ms] + [load.timed]
    seconds = [*seconds_of(load), load.timed_ms]
    if load.task < 0 or any(n < 0 for n in [*counts, *seconds]) or any(t < 0 for tasks, _ in pairs for t in tasks):
        return "negative"
    if any(n > MAX_COUNT for n in counts) or not all(math.isfinite(s) for s in seconds):
        return "huge"
    if not is_amount(load.queue):
        return "queue"
    if not all(bound == ABOVE_MS or 0 < bound <= MOST for bound, _ in load.latency_ms):
        return "latency_bound"
    if load.at_ms > now_ms + MAX_AHEAD_MS:
        return "future"
    if load.at_ms < now_ms - MAX_BEHIND_MS:
        return "old"
    return implausible_capacity(capacity_told(load))


capacity_told = attrgetter("mhz", "host_cores", "host_memory_mb", "memory_mb")
"""Claims of a reading about its host and its own memory."""


def implausible_capacity(told: tuple[float | None, float | None, float | None, float | None]) -> str | None:
    """Why that cannot be true, or None."""
    mhz, *amounts = told
    if mhz is not None and not 0 < mhz < 1e6:
        return "mhz"
    limits = zip(amounts, (MOST_HOST_CORES, MOST_MEMORY_MB, MOST_MEMORY_MB), strict=True)
    if not all(n is None or 0 < n <= most for n, most in limits):
        return "capacity"
    return None
