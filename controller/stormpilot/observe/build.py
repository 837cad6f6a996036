"""Snapshots and rates into the planning model, and for every topology whether enough is measured to plan on.

CPU of an executor [A13 3.2.1]. Where the hook measured it in its worker's JVM: its threads, its child process, and its
part of the JVM's threads that belong to no executor; nothing is guessed. Else what its Python processes used, plus its
part of the JVM around them, of which they see only the sum: `jvm_us_per_tuple` for every tuple in or out (6 us were
measured for one in, one out and its ack), `jvm_idle_cores` for polling threads (an idle Java executor uses about 1% of
a core) and what the law of places says, and these are corrected to the sum of the worker where that is known. Times MHz
of one core of the node where it ran, so that a load measured on a slow node predicts the load on a fast one.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from stormpilot.config import LoadSection
from stormpilot.decide.policy import owner_priority
from stormpilot.messages.controller_state import CapacityPart
from stormpilot.messages.core import ClusterSnapshot, ComponentPart, SupervisorPart, TopologySnapshot
from stormpilot.messages.routes import Routes
from stormpilot.model.closed_loop import Sources
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import (
    DEFAULT_RACK,
    Assigned,
    Component,
    Edge,
    Executor,
    Input,
    Model,
    Supervisor,
    Topology,
)
from stormpilot.observe.acker import ACKER
from stormpilot.observe.capacity import HostCapacity, capacities
from stormpilot.observe.core_mhz import DEFAULT_MHZ, told_mhz
from stormpilot.observe.cpu_law import Evidence, awake_s, law_of
from stormpilot.observe.edges import Rates, derived_edges, measured_edges
from stormpilot.observe.heap import HeapNeeds, within_heap
from stormpilot.observe.isolation import kept_apart, of_cluster
from stormpilot.observe.memory import declared, memory_in_words, memory_of
from stormpilot.observe.ras import most_workers, offers, ruled
from stormpilot.observe.readiness import readiness_of
from stormpilot.observe.sources import sources_of
from stormpilot.observe.standby import by_table
from stormpilot.observe.storm_keys import resource_aware
from stormpilot.observe.task_rates import TaskRates
from stormpilot.observe.users import guarantees
from stormpilot.observe.waiting import lanes, mean_ms, polling_cores, queue_tuples, service_ms
from stormpilot.observe.worker_cpu import jvm_cores, places_cores, shared_by_law, within_measured


@dataclass(frozen=True)
class ModelWithReadiness:
    """The model, the readiness of every topology in it, and how much of the reports fits no topology, by reason.

    `failed`: topologies (ids) of which nothing but the snapshot could be used, and why. `capacities`: those of the
    supervisors, and where they come from. `sources`: what holds the sources of each topology, by its id. `short_of_cpu`
    says by how much plans fill nodes beyond B(n) where all of that is too little; else it is empty.
    """

    model: Model
    readiness: Mapping[str, Readiness]
    ignored: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    capacities: Sequence[CapacityPart] = ()
    sources: Mapping[str, Sources] = field(default_factory=dict)
    short_of_cpu: str = ""


def build(
    cluster: ClusterSnapshot,
    topologies: Mapping[str, TopologySnapshot],
    rates: Mapping[str, Rates],
    load: LoadSection,
    cpu_limit_ratio: float,
    now_ms: int,
    tables: Mapping[str, Routes] | None = None,
    over_limit: Mapping[str, str] | None = None,
    hosts: Mapping[str, HostCapacity] | None = None,
    windows_s: Mapping[str, float] | None = None,
    evidence: Mapping[str, Evidence] | None = None,
    heaps: Callable[[TopologySnapshot], HeapNeeds | None] = lambda _: None,
    sharing: Mapping[str, int] | None = None,
    former: Iterable[str] = (),
) -> ModelWithReadiness:
    """Build the model.

    Parameters
    ----------
    rates
        Per topology id, per task: what was measured since the present placement; stale tasks are sorted out here.
    cpu_limit_ratio
        B(n) / CPU(n): the part of a node's CPU that planning may fill.
    tables
        Routing tables by topology id: who stands by.
    over_limit
        By topology id, which bound its load reports break.
    hosts
        What was measured of hosts.
    windows_s
        By topology id, how long a window is (s), where it is not `load.window_s`.
    evidence
        By topology id, what is known of the CPU that follows from places.
    heaps
        What is known of the heaps of a topology's workers.
    sharing
        By host, how many supervisors share it.
    former
        Hosts that have or had a supervisor.
    """
    live = [s for s in cluster.supervisors if not s.blacklisted]
    capacity = capacities(cluster, hosts or {}, load.capacity, sharing, load.cpu)
    known_mhz = told_mhz(live, topologies, {t: own.items() for t, own in rates.items()}, former)
    other_mhz = statistics.median(known_mhz.values()) if known_mhz else DEFAULT_MHZ
    mhz = {s.id: known_mhz.get(s.id, other_mhz) for s in live}
    ids = {s.id: s.host for s in live}
    median_mhz = statistics.median(mhz.values()) if mhz else DEFAULT_MHZ
    ignored: Counter[str] = Counter()
    built: list[Topology] = []
    traffic: list[Edge] = []
    readiness: dict[str, Readiness] = {}
    failed: dict[str, str] = {}
    sources: dict[str, Sources] = {}
    for topology_id, snapshot in sorted(topologies.items()):
        own, table = rates.get(topology_id, {}), None if tables is None else tables.get(topology_id)
        try:
            fresh = {t: r for t, r in own.items() if _usable(r, load)}
            known = (evidence or {}).get(topology_id)
            topology, edges, memory = _topology(
                snapshot, fresh, mhz, median_mhz, ids, load, ignored, cluster.shim.fallback, known
            )
            if not resource_aware(cluster.shim.fallback):
                topology = within_heap(topology, heaps(snapshot), load.heap_ratio)
            topology, edges = by_table(topology, edges, snapshot, table, median_mhz)
            window_s = (windows_s or {}).get(topology_id, load.window_s)
            ready = replace(readiness_of(snapshot, own, load, window_s, now_ms), memory=memory)
            sources[topology_id] = sources_of(snapshot, fresh)
        except Exception as e:  # noqa: BLE001 (what it reports costs the topology itself alone; its slots stay taken)
            failed[topology_id] = f"{snapshot.name}: what is known of it cannot be used ({type(e).__name__}: {e})"
            topology, edges, _ = _topology(snapshot, {}, mhz, median_mhz, ids, load, ignored, cluster.shim.fallback)
            ready = Readiness(ready=False, text=failed[topology_id])
        if over_limit and topology_id in over_limit:
            ready = Readiness(ready=False, text=over_limit[topology_id], over_limit=True)
        built.append(topology)
        traffic += edges
        readiness[topology_id] = ready
    model = Model(
        supervisors=[
            msgspec.structs.replace(
                _supervisor(s, capacity[s.id], mhz[s.id], 1.0 if load.cpu == "declared" else cpu_limit_ratio),
                resources=offers(s, cluster.shim.fallback, load.cpu),
            )
            for s in live
        ],
        topologies=built,
        traffic=traffic,
        guarantees=guarantees(cluster, median_mhz),
    )
    return ModelWithReadiness(
        model=kept_apart(model, of_cluster(cluster, topologies), cluster.shim.fallback),
        readiness=readiness,
        ignored=ignored,
        failed=failed,
        capacities=list(capacity.values()),
        sources=sources,
    )


def _usable(r: TaskRates, load: LoadSection) -> bool:
    return r.covered_s > 0 and r.age_s <= load.max_report_age_s


def _supervisor(s: SupervisorPart, has: CapacityPart, mhz: float, cpu_limit_ratio: float) -> Supervisor:
    return Supervisor(
        id=s.id,
        host=s.host,
        rack=s.meta.get("rack", s.rack) if s.rack == DEFAULT_RACK else s.rack,
        storm_rack=s.rack,
        site=s.meta.get("site"),
        slots=sorted(set(s.ports)),
        cores=has.cores,
        mhz=mhz,
        memory_mb=has.memory_mb,
        cpu_limit_mhz=cpu_limit_ratio * has.cores * mhz,
    )


def _topology(
    snapshot: TopologySnapshot,
    rates: Rates,
    mhz: Mapping[str, float],
    median_mhz: float,
    live: Mapping[str, str],
    load: LoadSection,
    ignored: Counter[str],
    fallback: str = "",
    evidence: Evidence | None = None,
) -> tuple[Topology, list[Edge], str]:
    listed = {c.id: c for c in snapshot.components}
    used = {c: listed.get(c, ComponentPart(id=c, kind="system")) for c in {e.component for e in snapshot.executors}}
    parts = {c: (part, declared(snapshot, part, fallback)) for c, part in used.items()}
    placed = {e.start: e.supervisor for e in snapshot.executors if e.supervisor in live and e.port is not None}
    executors = [Executor(start=e.start, end=e.end, component=e.component) for e in snapshot.executors]
    edges = measured_edges(snapshot, rates, ignored)
    edges += derived_edges(snapshot, executors, rates)
    tuples_tps = dict.fromkeys([e.start for e in executors], 0.0)
    for edge in edges:
        rate = edge.rate
        tuples_tps[edge.from_] += rate
        tuples_tps[edge.to] += rate
    memory: defaultdict[str, list[float]] = defaultdict(list)
    placement = [
        Assigned(start=e.start, supervisor=e.supervisor, port=e.port)
        for e in snapshot.executors
        if e.supervisor is not None and e.supervisor in live and e.port is not None
    ]
    around = {s: load.jvm_idle_cores + tps * load.jvm_us_per_tuple / 1e6 for s, tps in tuples_tps.items()}
    shared, law = dict[int, float](), None
    if load.cpu_by_place and load.cpu != "declared" and rates:
        law = law_of(evidence, awake_s(snapshot), median_mhz)
        of_a_core = law_of(evidence, awake_s(snapshot), 1.0)
        bare = Topology(
            id="", name="", workers=1, components=_components(snapshot), executors=executors, assignment=placement
        )
        if not law.rows and (jvms := jvm_cores(bare, rates)):
            law = within_measured(law, places_cores(of_a_core, bare, edges, live), jvms, bare)
        if not all(r.in_jvm for r in rates.values()):
            around |= {s: around[s] + cores for s, cores in places_cores(of_a_core, bare, edges, live).items()}
            around |= _around(around, bare, rates, tuples_tps)
        if any(r.in_jvm for r in rates.values()):
            shared = _shared(places_cores(of_a_core, bare, edges, live, shared_only=True), bare, rates, tuples_tps)
    built = []
    for e in executors:
        own = [rates[t] for t in range(e.start, e.end + 1) if t in rates]
        core_mhz = mhz.get(placed.get(e.start) or "", median_mhz)
        part, is_declared = parts[e.component]
        if load.cpu == "declared":
            cores, measured = part.cpu_pcore_percent / 100, True
        elif len(own) == e.end - e.start + 1 and all(r.in_jvm for r in own):
            cores = sum(r.cpu_cores for r in own)
            cores += shared.get(e.start, sum(r.shared_cores or 0.0 for r in own))
            measured = True
        elif len(own) == e.end - e.start + 1 or (e.component == ACKER and rates):
            cores = sum(r.cpu_cores for r in own) + around[e.start]
            measured = True
        else:
            cores, measured = part.cpu_pcore_percent / 100, False
        looks = measured and load.cpu != "declared"
        polling = polling_cores(own, spout=used[e.component].kind == "spout") if looks else 0.0
        memory_mb, source = memory_of(part, is_declared, own if len(own) == e.end - e.start + 1 else [], load)
        memory[source].append(memory_mb)
        built.append(
            Executor(
                start=e.start,
                end=e.end,
                component=e.component,
                cpu_mhz=cores * core_mhz,
                polling_mhz=min(polling, cores) * core_mhz,
                memory_mb=memory_mb,
                measured=measured,
                queue_tuples=queue_tuples(own),
                service_ms=service_ms(own),
                lanes=lanes(own),
            )
        )
    topology = Topology(
        id=snapshot.id,
        name=snapshot.name,
        workers=most_workers(snapshot, fallback),
        components=_components(snapshot),
        executors=built,
        assignment=placement,
        cpu_law=law if any(e.measured for e in built) else None,
        owner=snapshot.owner or None,
        priority=owner_priority(snapshot.config, snapshot.priority),
        launched_at_ms=snapshot.launched_at_ms,
        loadaware=not snapshot.config.get("topology.disable.loadaware.messaging", False),
        latency_ms=mean_ms([r for r in rates.values() if r.emitted_tps > 0]),
    )
    return ruled(topology, snapshot, fallback, load.cpu, live), edges, memory_in_words(memory)


def _around(
    by_law: Mapping[int, float], topology: Topology, rates: Rates, tuples_tps: Mapping[int, float]
) -> dict[int, float]:
    """Parts of executors in their workers' JVMs, by first task, where components that measure themselves saw those."""
    unhooked = {t: r for t, r in rates.items() if not r.in_jvm}
    found: dict[int, float] = {}
    used, workers = jvm_cores(topology, unhooked), _workers(topology)
    for place, cores in used.items():
        worker = workers[place]
        found |= shared_by_law(dict.fromkeys(worker, cores / len(worker)), by_law, tuples_tps, worker)
    return found


def _workers(topology: Topology) -> dict[tuple[str, int], list[int]]:
    """First tasks of the executors of every worker."""
    workers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for a in topology.assignment:
        workers[a.supervisor, a.port].append(a.start)
    return workers


def _shared(
    by_law: Mapping[int, float], topology: Topology, rates: Rates, tuples_tps: Mapping[int, float]
) -> dict[int, float]:
    """The shared CPU of executors whose whole worker is measured in its JVM, cores by first task."""
    told: dict[int, float] = {}
    for e in topology.executors:
        own = [rates.get(t) for t in range(e.start, e.end + 1)]
        if all(r is not None and r.in_jvm and r.shared_cores is not None for r in own):
            told[e.start] = sum(r.shared_cores or 0.0 for r in own if r is not None)
    found: dict[int, float] = {}
    for worker in _workers(topology).values():
        if told.keys() >= set(worker):
            found |= shared_by_law(told, by_law, tuples_tps, worker)
    return found


def _components(snapshot: TopologySnapshot) -> list[Component]:
    known = [
        Component(
            id=c.id,
            kind=c.kind,
            site=str(c.config["site"]) if c.config.get("site") is not None else None,
            site_required=c.config.get("site.required", True) is not False,
            inputs=[Input(component=i.component, stream=i.stream, grouping=i.grouping) for i in c.inputs],
        )
        for c in snapshot.components
    ]
    listed = {c.id for c in known}
    unlisted = sorted({e.component for e in snapshot.executors} - listed)
    return known + [Component(id=c, kind="system") for c in unlisted]
