"""A model of a cluster that never saw us, from what Storm itself counts: what `stormpilot assess` plans on.

Storm counts, by samples, what each executor emits by stream and executes by source and stream. So the tuples/s between
two components are known, and how much of them each executor sends and gets; which pairs exchange them is assumed: every
receiver hears every sender by what that sends. CPU is what was executed times the mean time in `execute`: all of a bolt
in Java, and of one in another language only the JVM's part of it. Of spouts and ackers, whose time Storm does not tell,
tuples cost what they cost elsewhere in the mean (`LoadSection.jvm_us_per_tuple`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stormpilot.config.sections import LoadSection
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Assigned, Component, Edge, Executor, Input, Model, Supervisor, Topology
from stormpilot.nimbus import ExecutorStatistics, RunningTopology, Subscription, SupervisorInfo
from stormpilot.observe.acker import ACK_ACK, ACKER
from stormpilot.observe.capacity import DEFAULT_CPU_POINTS

MHZ = 1000.0
"""Of every core: nobody told the clock, and shares of a node are the same whatever it is."""
DEFAULT_CORES = 4.0
GROWN = 1.2
"""A host that declares nothing is believed to bear so many times what it does."""
FIRST_PORT = 6700
SMALL_PART = 0.01  # of a topology's tuples: how sure less than that is does not matter


@dataclass(frozen=True)
class Observed:
    """Nimbus's account of a topology."""

    topology: RunningTopology
    workers: int
    executors: Sequence[ExecutorStatistics]
    subscriptions: Mapping[str, Sequence[Subscription]]
    loadaware: bool = True


@dataclass(frozen=True)
class Certainty:
    """Basis of an estimate, by topology.

    `window_s`: the time that was counted. `assumed_share`: of its tuples/s, those whose pairs are assumed although a
    key decides them. `counted`: samples behind the rarest edge between two components that has a hundredth of them.
    """

    window_s: float
    assumed_share: float
    counted: float


def model_of(
    supervisors: Iterable[SupervisorInfo],
    observed: Iterable[Observed],
    cpu_limit_ratio: float,
    load: LoadSection,
    *,
    default_counts: bool = False,
) -> Model:
    """The model: supervisors of one host are one node, as Nimbus tells of an executor its host and port only.

    Storm's 400 points of a supervisor whose owner said nothing hold no plan below what its host does now, and a little
    more (`GROWN`); with `default_counts` (the resource-aware scheduler) they count as if they were declared.
    """
    seen = list(observed)
    ports: defaultdict[str, set[int]] = defaultdict(set)
    for o in seen:
        for e in o.executors:
            ports[e.placed.host].add(e.placed.port)
    by_host: defaultdict[str, list[SupervisorInfo]] = defaultdict(list)
    for s in supervisors:
        by_host[s.host].append(s)
    nodes = [_node(host, own, ports[host], cpu_limit_ratio) for host, own in sorted(by_host.items())]
    known = {n.host: n.id for n in nodes}
    built = [_topology(o, known, load) for o in seen]
    model = Model(supervisors=nodes, topologies=[t for t, _ in built], traffic=[e for _, edges in built for e in edges])
    if default_counts:
        return model
    now_mhz, silent = node_load_mhz(model), {h for h, own in by_host.items() if undeclared(own)}
    return msgspec.structs.replace(
        model,
        supervisors=[
            msgspec.structs.replace(n, cpu_limit_mhz=max(n.limit_mhz, GROWN * now_mhz[n.id])) if n.host in silent else n
            for n in nodes
        ],
    )


def undeclared(supervisors: Iterable[SupervisorInfo]) -> bool:
    """Whether the CPU of a host with these supervisors is what Storm says where nobody said anything."""
    return all(s.cpu_points in (0.0, DEFAULT_CPU_POINTS) for s in supervisors)


def certainty(o: Observed, sample_rate: float) -> Certainty:
    """Confidence of the estimate of a topology; `sample_rate` is `topology.stats.sample.rate`."""
    window_s = min((e.window_s for e in o.executors), default=0.0)
    rates: Counter[tuple[str, str, str]] = Counter()
    for e in o.executors:
        for (source, stream), tps in e.executed_tps.items():
            rates[e.placed.component, source, stream] += tps  # type: ignore[assignment]
    keyed = {
        (component, s.component, s.stream)
        for component, inputs in o.subscriptions.items()
        for s in inputs
        if s.grouping not in ("SHUFFLE", "LOCAL_OR_SHUFFLE", "NONE", "ALL", "GLOBAL")
    }
    total = sum(rates.values())
    assumed = sum(tps for edge, tps in rates.items() if edge in keyed)
    least = min((tps for tps in rates.values() if tps > SMALL_PART * total), default=0.0)
    return Certainty(window_s, assumed / total if total else 0.0, least * window_s * sample_rate)


def _node(host: str, supervisors: Sequence[SupervisorInfo], used: set[int], cpu_limit_ratio: float) -> Supervisor:
    slots = sorted(used)
    free = (p for p in range(FIRST_PORT, 65536) if p not in used)
    taken = max(sum(s.used_slots for s in supervisors), len(slots))  # of topologies that are not active, too
    slots += [next(free) for _ in range(sum(s.slots for s in supervisors) - taken)]
    cores = sum(s.cpu_points for s in supervisors) / 100 or DEFAULT_CORES * len(supervisors)
    return Supervisor(
        id=supervisors[0].id,
        host=host,
        slots=sorted(slots),
        cores=cores,
        mhz=MHZ,
        memory_mb=0.0,
        cpu_limit_mhz=cpu_limit_ratio * cores * MHZ,
    )


def _topology(o: Observed, node_of: Mapping[str, str], load: LoadSection) -> tuple[Topology, list[Edge]]:
    edges = _edges(o)
    tuples_tps: Counter[int] = Counter()
    for edge in edges:
        tuples_tps[edge.from_] += edge.rate  # type: ignore[assignment]
        tuples_tps[edge.to] += edge.rate  # type: ignore[assignment]
    kinds = {name: "bolt" if inputs else "spout" for name, inputs in o.subscriptions.items()}
    names = sorted({e.placed.component for e in o.executors} | set(o.subscriptions))
    executors = []
    for e in o.executors:
        ran = sum(tps * e.execute_ms.get(source, 0.0) / 1000 for source, tps in e.executed_tps.items())
        cores = load.jvm_idle_cores + tuples_tps[e.placed.start] * load.jvm_us_per_tuple / 1e6 + ran
        executors.append(
            Executor(start=e.placed.start, end=e.placed.end, component=e.placed.component, cpu_mhz=cores * MHZ)
        )
    topology = Topology(
        id=o.topology.id,
        name=o.topology.name,
        workers=max(o.workers, 1),
        components=[
            Component(
                id=name,
                kind=kinds.get(name, "system"),  # type: ignore[arg-type]
                inputs=[
                    Input(component=s.component, stream=s.stream, grouping=s.grouping)
                    for s in o.subscriptions.get(name, ())
                ],
            )
            for name in names
        ],
        executors=executors,
        assignment=[
            Assigned(start=e.placed.start, supervisor=node_of[e.placed.host], port=e.placed.port)
            for e in o.executors
            if e.placed.host in node_of
        ],
        loadaware=o.loadaware,
    )
    return topology, edges


def _edges(o: Observed) -> list[Edge]:
    """Every receiver hears every sender by the part of the stream that this one sends."""
    senders: defaultdict[str, list[ExecutorStatistics]] = defaultdict(list)
    for e in o.executors:
        senders[e.placed.component].append(e)
    edges = []
    for e in o.executors:
        heard = dict(e.executed_tps)
        if not heard and e.completed_tps > 0 and ACKER in senders:
            heard = {(ACKER, ACK_ACK): e.completed_tps}  # what a spout hears of its ackers
        for (source, stream), tps in heard.items():
            sources = senders.get(source, [])
            emitted = [s.emitted_tps.get(stream, 0.0) for s in sources]
            whole = sum(emitted)
            for s, own in zip(sources, emitted, strict=True):
                rate = tps * (own / whole if whole else 1 / len(sources))
                if rate > 0:
                    edges.append(
                        Edge(topology=o.topology.id, from_=s.placed.start, to=e.placed.start, rate=rate, stream=stream)
                    )
    return edges
