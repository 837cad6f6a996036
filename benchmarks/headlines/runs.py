"""Passes on isolated nodes: a topology under everybody's placement, in turn forwards and backwards (ABBA).

One cluster carries all that a run measures, and one submission all passes of a topology. What was measured is kept
after every placement; a later run goes on with what is missing, on a cluster of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.command import machine
from benchmarks.demo.measure import Watcher
from benchmarks.flow.jobs import PROJECT, Job, Placer, applied, unplaced, until
from benchmarks.headlines.cases import EVEN, RATED, SLEEP_MS, Case
from benchmarks.headlines.contenders import placements
from benchmarks.headlines.phases import phase, phases, spouts, words
from benchmarks.hook.__main__ import topologies
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.local.build import hook_jar
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec, NodeSpec
from stormpilot.model.values import Plan
from stormpilot.nimbus import Nimbus
from stormpilot.submit import submit_topology

NODES, MBIT = len(EVEN), 50.0
READY_S = 12.0
"""Of this half has to be measured: reports of Python tasks on full nodes are seconds late."""
PLACED_S, MOVED_S = 180.0, 300.0
PREPARED_S, PLACEMENT_S = 180.0, 80.0
"""Seconds that they take, until it is known: neither is begun with less time left."""
TRIES = 2

Say = Callable[[str], None]


class Prepared(msgspec.Struct, kw_only=True):
    """Common part of all passes of a case: its rate, everybody's plan, and the slots that the plans speak of."""

    parameters: dict[str, Any]
    slots: dict[str, list[int]]
    plans: dict[str, Plan]
    placements: dict[str, dict[str, Any]]


@dataclass
class Clock:
    """End of a run (of `time.monotonic`), how many placements it has left, and how long one takes."""

    ends_s: float
    left: int = 0
    took_s: float = PLACEMENT_S

    def allows(self, seconds: float) -> bool:
        """Whether there are so many seconds left."""
        return time.monotonic() + seconds <= self.ends_s

    def done(self, seconds: float) -> str:
        """Count a placement; what is left, in words."""
        self.left -= 1
        self.took_s = (self.took_s + seconds) / 2
        return f"{self.left} placements left, about {self.left * self.took_s / 60:.0f} min"


def measure(cluster: LocalCluster, case: Case, passes: int, out: Path, *, clock: Clock, say: Say) -> bool:
    """Prepare the case where that is missing, then measure passes until the time is over; whether all is done."""
    file = out / f"{case.name}-plans.json"
    shared = msgspec.json.decode(file.read_bytes(), type=Prepared) if file.exists() else None
    if not clock.allows(PREPARED_S if shared is None else clock.took_s):
        say(f"{case.name}: the time is over; start again to go on")
        return False
    if shared or not case.given:
        case = replace(case, rate_tps=shared.parameters["rate_tps"] if shared else rate_tps(cluster, case, RATED, say))
    with running(cluster, case, case.name) as job, closing(Placer(cluster)) as placer:
        if shared is None:
            shared = _prepared(job, case, file, say)
        whole = True
        for number in range(1, passes + 1):
            whole &= _pass(job, placer, case, shared, number, out / f"{case.name}-{number}.json", clock, say)
    ended(cluster, job)
    return whole


def rate_tps(cluster: LocalCluster, case: Case, part: float, say: Say) -> float:
    """Such a part of what Storm's default placement holds, in tuples/s."""
    with running(cluster, case, f"{case.name}-calibration") as job:
        most_tps = phase(job, case, saturated=True)[0]["throughput_tps"]
    ended(cluster, job)
    rated_tps = float(f"{part * most_tps:.2g}")
    say(f"{case.name}: at most {most_tps:.0f} tuples/s under Storm's default, measured at {rated_tps:g}")
    return rated_tps


def _prepared(job: Job, case: Case, file: Path, say: Say) -> Prepared:
    """Measure under Storm's default placement, and keep everybody's plan in `file`."""
    _, model = phase(job, case, saturated=False)
    chosen = placements(model, file.with_suffix(""), case.who)
    prepared = Prepared(
        parameters=_parameters(case),
        slots={s.id: sorted(s.slots) for s in model.supervisors},
        plans={n: p.plan for n, p in chosen.items() if p.plan is not None},
        placements={n: {"why": p.why, "metrics": p.metrics} for n, p in chosen.items()},
    )
    keep(file, prepared)
    for name, p in chosen.items():
        say(f"{name}: {p.why or _planned(p.metrics or {})}")
    return prepared


def _pass(
    job: Job, placer: Placer, case: Case, shared: Prepared, number: int, file: Path, clock: Clock, say: Say
) -> bool:
    """Measure every placement once, in turn forwards and backwards, without those that `file` has; whether all is."""
    found: dict[str, Any] = {
        "case": case.name,
        "pass": number,
        "phase_s": case.phase_s,
        "measured": [],
        "complete": False,
    }
    if file.exists():
        found = msgspec.json.decode(file.read_bytes())
    done = {one["who"] for one in found["measured"]}
    order = [who for who in (shared.plans if number % 2 else reversed(shared.plans)) if who not in done]
    here = {s.id: sorted(s.slots) for s in job.watcher.cluster.description.supervisors}
    for who in order:
        if not clock.allows(clock.took_s):
            say(f"{case.name}, pass {number}: the time is over; start again to go on")
            return False
        begin = time.monotonic()
        plan = elsewhere(shared.plans[who], job.topology_id, shared.slots, here)
        result = _measured(job, placer, case, who, plan, say)
        left = clock.done(time.monotonic() - begin)
        if result is None:
            continue
        found["measured"].append(result)
        found["complete"] = len(found["measured"]) == len(shared.plans)
        keep(file, found)
        say(
            f"{case.name}, pass {number}, {who}: {words(result)}; running again after {result['moved_s']:.0f} s; load "
            f"{result['load_average']}; {left}"
        )
    return bool(found["complete"])


def _measured(job: Job, placer: Placer, case: Case, who: str, plan: Plan, say: Say) -> dict[str, Any] | None:
    """Both phases under a placement; None where it did not come to run, or nothing came through, `TRIES` times."""
    for _ in range(TRIES):
        try:
            took_s = moved(job, placer, plan)
            result = phases(job, case)
        except UnreachableError as e:
            say(f"{case.name}, {who}: {e}")
            continue
        return result | {"who": who, "load_average": round(os.getloadavg()[0], 2), "moved_s": round(took_s, 1)}
    return None


def missing(case: Case, passes: int, out: Path) -> int:
    """Number of placements that are still to be measured."""
    file = out / f"{case.name}-plans.json"
    expected = len(case.who)
    if file.exists():
        expected = len(msgspec.json.decode(file.read_bytes(), type=Prepared).plans)
    files = [f for n in range(1, passes + 1) if (f := out / f"{case.name}-{n}.json").exists()]
    return max(0, passes * expected - sum(len(msgspec.json.decode(f.read_bytes())["measured"]) for f in files))


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
def isolated(cores: Sequence[float], say: Say) -> Iterator[LocalCluster]:
    """The cluster of isolated nodes of so many cores each, as long as the block lasts."""
    spec = ClusterSpec(
        name="bench-headlines",
        supervisors=len(cores),
        slots=2,
        extlib=(hook_jar(ClusterSpec()),),
        isolate=True,
        nodes=tuple(NodeSpec(cores=c, mbit=MBIT) for c in cores),
        conf=PATIENT,
    )
    cluster = LocalCluster.up(spec, lambda _: None)
    try:
        say(f"{len(cores)} isolated nodes are up; load average {os.getloadavg()[0]:.1f}")
        yield cluster
    finally:
        cluster.down(purge=True)


def _planned(metrics: Mapping[str, float]) -> str:
    return f"{metrics['inter_node_share']:.0%} between nodes, {metrics['max_load_ratio']:.0%} of B(n) at most"


def keep(file: Path, found: Any) -> None:
    """Write what was measured; the file is whole at each moment."""
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    part.replace(file)


def begun(file: Path, asked: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Content of `file` where it was asked the same, on such a processor; else one with nothing under `key` yet."""
    asked = {**asked, "cpu": machine()["cpu"]}
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes()) if file.exists() else {}
    return found if asked.items() <= found.items() else {**asked, key: []}


def _parameters(case: Case) -> dict[str, Any]:
    chain = case.chain
    return {
        "cpu": machine()["cpu"],
        "nodes": len(case.cores),
        "cores": case.cores[0] if case.cores == EVEN else case.cores,
        "mbit": MBIT,
        "rate_tps": case.rate_tps,
        "max_spout_pending": case.pending,
        "sleep_ms": SLEEP_MS,
        "cpu_by_place": LoadSection().cpu_by_place,
        "chain": None
        if chain is None
        else {k: getattr(chain, k) for k in ("stages", "replication", "payload_bytes", "selectivity", "keys")},
    }


@contextmanager
def running(cluster: LocalCluster, case: Case, name: str) -> Iterator[Job]:
    """The topology, placed by Storm's default scheduler, from when every task reports."""
    if case.chain is None:
        address = str(cluster.nimbus_address)
        topology_id = submit_topology(
            PROJECT, case.topology, "local", options=case.conf(), nimbus=address, override_name=name
        )
    else:
        conf = {**case.conf(), "topology.acker.executors": case.chain.replication}
        with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
            jar = nimbus.upload([topologies().read_bytes()])
            nimbus.submit(name, jar, conf, case.chain.topology(), True)
            topology_id = nimbus.topology_id(name)
    with closing(Watcher(cluster, topology_id, LoadSection(), 1.0)) as watcher:
        job = Job(name, topology_id, watcher, range(8))
        until("the topology is placed", lambda: unplaced([job]), PLACED_S)
        _ready(job)
        yield job


def ended(cluster: LocalCluster, job: Job) -> None:
    """Kill a topology, and wait until its workers are gone."""
    with Nimbus.connect_leader(cluster.nimbus_address) as nimbus:
        nimbus.kill(job.name, wait_s=0)

    def alive() -> str | None:
        return "its workers run" if any(w.topology_id == job.topology_id for w in cluster.workers()) else None

    until(f"{job.name} ends", alive, PLACED_S)


def moved(job: Job, placer: Placer, plan: Plan) -> float:
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
        now_ms = int(time.time() * 1000)
        done = job.watcher.completed(now_ms - int(1000 * READY_S), now_ms)
        silent = sorted(spouts(job) - done.tasks)
        if silent:
            return f"source task {', '.join(map(str, silent))} completes nothing"
        return f"{done.failed} tuples failed" if done.failed else None

    until(f"{job.name} runs", missing, MOVED_S)
