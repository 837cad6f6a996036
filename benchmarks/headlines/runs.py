"""Passes on isolated nodes: a topology under everybody's placement, in turn forwards and backwards (ABBA)."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.demo.measure import Watcher, quantile
from benchmarks.flow.jobs import COMMON, PROJECT, Job, Placer, applied, until
from benchmarks.headlines.chain import Chain
from benchmarks.headlines.contenders import placements
from benchmarks.hook.__main__ import topologies
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS, RATIO
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec, NodeSpec
from stormpilot.model.values import Model, Plan
from stormpilot.nimbus import Nimbus
from stormpilot.submit import submit_topology

NODES, CORES, MBIT = 4, 0.4, 50.0
FLAT_OUT_TPS = 1_000_000
"""More than any source here can send: `topology.max.spout.pending` is what holds it."""
RATED = 0.55
"""Of the most that Storm's default placement holds: there latency is measured."""
SKIPPED_S = 3.0
"""At the begin of each phase: queues of the one before are not measured."""
READY_S = 8.0
PLACED_S, MOVED_S = 180.0, 180.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A topology, and how many tuples a spout task may have under way.

    `rate_tps`, at which latency is measured, is `RATED` of what Storm's default placement holds; until that is known it
    is a guess that is low enough.
    """

    name: str
    rate_tps: float
    pending: int
    phase_s: float = 12.0
    chain: Chain | None = None

    @property
    def schedule(self) -> str:
        """The rate, then as fast as it goes, by turns."""
        return f"{self.rate_tps:g}x{self.phase_s:g},{FLAT_OUT_TPS}x{self.phase_s:g}"

    def conf(self) -> dict[str, Any]:
        """Options of the submission."""
        more = self.chain.conf(self.schedule) if self.chain else {"flights.rate.schedule": self.schedule}
        return {
            **COMMON,
            "topology.max.spout.pending": self.pending,
            "topology.message.timeout.secs": 120,
            "topology.component.resources.onheap.memory.mb": 16.0,
            # An executor without tuples sleeps at once: spinning would be CPU that the others lack.
            "topology.bolt.wait.progressive.level2.count": 0,
            **more,
        }


CASES = {
    "chain": Case("chain", 100.0, 50, chain=Chain()),
    "flights": Case("flights", 30.0, 50),
}


class Prepared(msgspec.Struct, kw_only=True):
    """Common part of all passes of a case: its rate, everybody's plan, and the slots that the plans speak of."""

    parameters: dict[str, Any]
    slots: dict[str, list[int]]
    plans: dict[str, Plan]
    placements: dict[str, dict[str, Any]]


def prepare(case: Case, file: Path, *, swept: bool, say: Say) -> None:
    """Find the rate, measure under Storm's default placement, and keep everybody's plan in `file`."""
    with _cluster(case, say) as cluster:
        with _running(cluster, case, f"{case.name}-calibration") as job:
            most_tps = _phase(job, case, saturated=True)[0]["throughput_tps"]
        _ended(cluster, job)
        case = replace(case, rate_tps=float(f"{RATED * most_tps:.2g}"))
        say(f"{case.name}: at most {most_tps:.0f} tuples/s under Storm's default, measured at {case.rate_tps:g}")
        with _running(cluster, case, case.name) as job:
            _, model = _phase(job, case, saturated=False)
    chosen = placements(model, file.with_suffix(""), swept)
    prepared = Prepared(
        parameters=_parameters(case),
        slots={s.id: sorted(s.slots) for s in model.supervisors},
        plans={n: p.plan for n, p in chosen.items() if p.plan is not None},
        placements={n: {"why": p.why, "metrics": p.metrics} for n, p in chosen.items()},
    )
    _keep(file, prepared)
    for name, p in chosen.items():
        say(f"{name}: {p.why or _planned(p.metrics or {})}")


def run_pass(case: Case, prepared: Path, number: int, file: Path, *, ends_s: float, say: Say) -> None:
    """Measure every placement once, in turn forwards and backwards; `file` has what is done, `complete` at the end."""
    shared = msgspec.json.decode(prepared.read_bytes(), type=Prepared)
    case = replace(case, rate_tps=shared.parameters["rate_tps"])
    order = list(shared.plans) if number % 2 else list(reversed(shared.plans))
    found: dict[str, Any] = {"case": case.name, "pass": number, "measured": [], "complete": False}
    with _cluster(case, say) as cluster, _running(cluster, case, case.name) as job, closing(Placer(cluster)) as placer:
        here = {s.id: sorted(s.slots) for s in cluster.description.supervisors}
        for who in order:
            if time.monotonic() > ends_s:
                say("the time is over; start again for a new pass")
                return
            took_s = _moved(job, placer, elsewhere(shared.plans[who], job.topology_id, shared.slots, here))
            result = _phases(job, case)
            result |= {"who": who, "load_average": round(os.getloadavg()[0], 2), "moved_s": round(took_s, 1)}
            found["measured"].append(result)
            _keep(file, found)
            say(f"{who}: {_words(result)}; running again after {took_s:.0f} s; load {result['load_average']}")
        found["complete"] = True
        _keep(file, found)


def elsewhere(
    plan: Plan, topology_id: str, slots: Mapping[str, Sequence[int]], here: Mapping[str, Sequence[int]]
) -> Plan:
    """The plan for the same topology on another cluster, whose supervisors have as many slots at other ports."""
    return msgspec.structs.replace(
        plan,
        topologies=[
            msgspec.structs.replace(
                t,
                id=topology_id,
                workers=[
                    msgspec.structs.replace(w, port=here[w.supervisor][slots[w.supervisor].index(w.port)])
                    for w in t.workers
                ],
            )
            for t in plan.topologies
        ],
    )


@contextmanager
def _cluster(case: Case, say: Say) -> Iterator[LocalCluster]:
    """An isolated cluster, as long as the block lasts."""
    spec = ClusterSpec(
        name=f"bench-headlines-{case.name}",
        supervisors=NODES,
        slots=2,
        hook=case.chain is not None,
        isolate=True,
        nodes=(NodeSpec(cores=CORES, mbit=MBIT),) * NODES,
        conf={**PATIENT, "topology.message.timeout.secs": 120},
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    try:
        say(f"{case.name}: an isolated cluster is up; load average {os.getloadavg()[0]:.1f}")
        yield cluster
    finally:
        cluster.down(purge=True)


def _planned(metrics: Mapping[str, float]) -> str:
    return f"{metrics['inter_node_share']:.0%} between nodes, {metrics['max_load_ratio']:.0%} of B(n) at most"


def _keep(file: Path, found: Any) -> None:
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    part.replace(file)


def _parameters(case: Case) -> dict[str, Any]:
    chain = case.chain
    return {
        "nodes": NODES,
        "cores": CORES,
        "mbit": MBIT,
        "rate_tps": case.rate_tps,
        "max_spout_pending": case.pending,
        "phase_s": case.phase_s,
        "chain": None
        if chain is None
        else {k: getattr(chain, k) for k in ("stages", "replication", "payload_bytes", "selectivity", "keys")},
    }


@contextmanager
def _running(cluster: LocalCluster, case: Case, name: str) -> Iterator[Job]:
    """The topology, placed by Storm's default scheduler, from when every task reports."""
    if case.chain is None:
        address = str(cluster.nimbus_address)
        topology_id = submit_topology(
            PROJECT, case.name, "local", options=case.conf(), nimbus=address, override_name=name
        )
    else:
        conf = {**case.conf(), "topology.acker.executors": case.chain.replication}
        with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
            jar = nimbus.upload([topologies().read_bytes()])
            nimbus.submit(name, jar, conf, case.chain.topology(), True)
            topology_id = nimbus.topology_id(name)
    with closing(Watcher(cluster, topology_id, LoadSection(), 1.0)) as watcher:
        job = Job(name, topology_id, watcher, range(8))
        until("the topology is placed", lambda: _unplaced(job), PLACED_S)
        _ready(job)
        yield job


def _ended(cluster: LocalCluster, job: Job) -> None:
    with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
        nimbus.kill(job.name, wait_s=0)

    def alive() -> str | None:
        return "its workers run" if any(w.topology_id == job.topology_id for w in cluster.workers()) else None

    until(f"{job.name} ends", alive, PLACED_S)


def _unplaced(job: Job) -> str | None:
    snapshot = job.watcher.seen.topologies.get(job.topology_id) if job.watcher.seen else None
    if snapshot is None or any(e.port is None for e in snapshot.executors):
        return f"{job.name} has no placement yet"
    return None


def _moved(job: Job, placer: Placer, plan: Plan) -> float:
    """Apply a placement and wait until every task reports from there; seconds until then."""
    begin = time.monotonic()
    applied([job], placer.publish({job.topology_id: plan}))
    _ready(job)
    return time.monotonic() - begin


def _ready(job: Job) -> None:
    def missing() -> str | None:
        ready = job.watcher.readiness(READY_S)
        if not ready.ready:
            return ready.text
        return None if job.watcher.throughput_tps(int(READY_S)) else "no tuple is acked"

    until(f"{job.name} runs", missing, MOVED_S)


def _phases(job: Job, case: Case) -> dict[str, Any]:
    """Measure the next two phases, whichever comes first."""
    saturated_next = time.time() % (2 * case.phase_s) < case.phase_s
    names = ["saturated", "at_rate"] if saturated_next else ["at_rate", "saturated"]
    return {name: _phase(job, case, saturated=name == "saturated")[0] for name in names}


def _phase(job: Job, case: Case, *, saturated: bool) -> tuple[dict[str, Any], Model]:
    """Measure in the next such phase."""
    begins_s = case.phase_s if saturated else 0.0
    time.sleep((begins_s - time.time()) % (2 * case.phase_s) + SKIPPED_S)
    first = len(job.watcher.ticks)
    window = job.watcher.window(case.phase_s - SKIPPED_S - 1.0, lambda _: None)
    latency: Counter[float] = Counter()
    for tick in job.watcher.ticks[first + 1 :]:
        latency.update(tick.latency)
    if not sum(latency.values()):
        raise UnreachableError(f"{job.name}: no tuple was acked in a window")
    figures = {k: window.figures[k] for k in ("inter_node_share", "inter_node_tps", "total_tps", "throughput_tps")}
    figures |= {
        "mean_ms": mean_ms(latency),
        "p50_ms": quantile(latency, 0.5),
        "p99_ms": quantile(latency, 0.99),
        "failed": window.figures["failed"],
        "cpu_per_node_percent": window.figures["cpu_per_node_percent"],
    }
    return figures, window.model


def mean_ms(latency: Counter[float]) -> float:
    """Mean of a histogram {upper bound ms: tuples}, each tuple counted as the geometric middle of its bucket."""
    middles = {bound: (BOUNDS_MS[-1] if bound == ABOVE_MS else bound / RATIO**0.5) for bound in latency}
    return sum(middles[bound] * n for bound, n in latency.items()) / sum(latency.values())


def _words(result: dict[str, Any]) -> str:
    rate, most = result["at_rate"], result["saturated"]
    return (
        f"{rate['throughput_tps']:.0f}/s with {rate['mean_ms']:.0f} ms mean, {rate['p99_ms']:.0f} ms p99, "
        f"{rate['inter_node_share']:.0%} between nodes; at most {most['throughput_tps']:.0f}/s"
    )


def longer(case: Case) -> Case:
    """The case of the long form."""
    return replace(case, phase_s=30.0)
