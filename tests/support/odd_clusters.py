"""Clusters that are legal and odd: what people have, and what is left of it on a bad day.

    world = OddWorld(random.Random(seed), planner="best")
    world.tell(60)

Unlike nodes, several supervisors on a host, supervisors without slots, CPU or memory; topologies with one executor,
with hundreds, of Storm's own components alone, with loops in their graph and names of 200 characters or beyond ASCII;
workers that died, executors without a place; tasks that report nothing, seldom, or impossible numbers. The plug-in
applies what is published at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from doubles.looks import Looks
from doubles.memory_zookeeper import MemoryZooKeeper
from stormpilot.config import Config, parse
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.decide.report import CycleReport
from stormpilot.messages.core import (
    ClusterSnapshot,
    ComponentPart,
    ExecutorPart,
    InputPart,
    Message,
    PlanMessage,
    ShimPart,
    StatusMessage,
    SupervisorPart,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.messages.load import JvmPart, LoadReport, TaskLoad
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.observe.observer import Observation, Observer
from stormpilot.observe.reader import Reader
from stormpilot.planner import compute, compute_on_flows
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.paths import Paths

SETTINGS = """\
cycle: {period_s: 10, poll_s: 5}
load: {window_s: 20, settle_s: 0, min_coverage_ratio: 0.5}
decide: {mode: act, consecutive_hits: 1, cool_down_s: 0, payback_s: 86400, restart_s: 0, gain_threshold_ratio: 0.01}
verify: {rollback: false}
"""
T0_MS = 1_763_690_000_000
TICK_S = 5
GROUPINGS = ("SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS", "ALL", "GLOBAL", "NONE", "DIRECT", "PARTIAL_KEY", "CUSTOM_OBJECT")
NAMES = ("flights", "x" * 200, "поток-\U0001f680-結合", "a b/c", "%2e%2e", "_all", "0", "w.1")
SYSTEM = ("__acker", "__system", "__metricsorg.apache.storm.metric.LoggingMetricsConsumer", "__eventlogger")
ITERATIONS = {"best": 3000, "partition": 3000}
FALLBACKS = (
    "",
    "org.apache.storm.scheduler.resource.ResourceAwareScheduler",
    "org.apache.storm.scheduler.EvenScheduler",
)


def cluster(chance: random.Random) -> ClusterSnapshot:
    """0 to 8 supervisors on fewer hosts; in every second cluster all have something to give."""
    count, roomy = chance.choice((1, 2, 3, 4, 6, 8, 8, 0)), chance.random() < 0.5
    return ClusterSnapshot(
        written_at_ms=T0_MS,
        shim=ShimPart(version="0.1.0", storm_version="2.8.3", nimbus="nimbus-1", fallback=chance.choice(FALLBACKS)),
        supervisors=[_supervisor(i, chance, roomy) for i in range(count)],
    )


def _supervisor(i: int, chance: random.Random, roomy: bool) -> SupervisorPart:
    meta = {"cpu.mhz": chance.choice(("2600", "0", "abc", "1e-3", "999999", "-5", "nan", "inf"))}
    return SupervisorPart(
        id=f"{chance.choice(('sv', 'узел'))}-{i}",
        host=chance.choice((f"host-{i}", "host-0", f"host-{i // 2}.example.org")),
        rack=chance.choice(("/default-rack", "/r1", "/r2", "")),
        meta=meta if chance.random() < 0.3 else {"site": chance.choice(("east", "west", ""))} if i % 3 == 0 else {},
        ports=[6700 + p for p in range(chance.choice((4, 4, 12) if roomy else (0, 1, 2, 4, 12, 40)))]
        * chance.choice((1, 1, 1, 2)),
        cpu_pcore_percent=chance.choice((0.0, 3200.0) if roomy else (0.0, 400.0, 100.0, 50.0, 1e-6, 9600.0)),
        memory_mb=chance.choice((0.0, 64_000.0) if roomy else (0.0, 4096.0, 1.0, 16_000.0, 786_432.0)),
        resources=chance.choice(({}, {}, {"gpu.count": 1.0}, {"gpu.count": 0.0})),
        blacklisted=chance.random() < 0.1,
    )


def topologies(chance: random.Random, seen: ClusterSnapshot, most_executors: int) -> list[TopologySnapshot]:
    """1 to 4 topologies, some of which run."""
    names = chance.sample(NAMES, chance.choice((1, 2, 3, 4)))
    return [_topology(i, name, chance, seen, most_executors) for i, name in enumerate(names)]


def _topology(i: int, name: str, chance: random.Random, seen: ClusterSnapshot, most_executors: int) -> TopologySnapshot:
    ids = _component_ids(chance)
    components = [_component(c, ids, chance) for c in ids if chance.random() < 0.97]
    executors, task = [], chance.choice((0, 1, 1, 1, 1000))
    left = chance.choice((1, 2, 5, 12, 30, most_executors))
    for c in ids:
        for _ in range(min(left, chance.choice((1, 1, 2, 4, 8, most_executors)))):
            end = task + chance.choice((0, 0, 0, 1, 6))
            executors.append(ExecutorPart(start=task, end=end, component=c))
            task, left = end + 1 + chance.choice((0, 0, 0, 3)), left - 1
    workers = chance.choice((1, 1, 2, 3, 5, len(executors), 200))
    return TopologySnapshot(
        written_at_ms=T0_MS,
        id=f"{name.replace('/', '-')}-{i}-1763690000",
        name=name,
        owner=chance.choice(("", "ops", "bob@EXAMPLE")),
        priority=chance.choice((29, 0, 10, -5, 1000)),
        workers=workers,
        launched_at_ms=T0_MS - 10**7,
        assigned_since_ms=T0_MS - 10**7,
        config=_config(chance),
        components=components,
        executors=_placed(executors, workers, chance, seen),
    )


def _component_ids(chance: random.Random) -> list[str]:
    if chance.random() < 0.1:
        return list(SYSTEM[: chance.randint(1, 4)])
    users = [
        chance.choice((f"c{k}", f"комп.{k}", f"$mastercoord-bg{k}")) for k in range(chance.choice((1, 1, 2, 4, 7)))
    ]
    return [*users, *chance.sample(SYSTEM, chance.choice((0, 1, 2)))]


def _component(name: str, ids: list[str], chance: random.Random) -> ComponentPart:
    """Inputs from any component, itself, and some that are not there: loops are as frequent as chains."""
    sources = [chance.choice((*ids, "gone")) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    inputs = [
        InputPart(component=s, stream=chance.choice(("default", "default", "s1")), grouping=chance.choice(GROUPINGS))
        for s in sources
    ]
    config: dict[str, Any] = chance.choice(
        (*({} for _ in range(16)), {"site": "east", "site.required": False}, {"site": "west"})
    )
    return ComponentPart(
        id=name,
        kind="system" if name.startswith("__") else "bolt" if inputs else "spout",
        cpu_pcore_percent=chance.choice((0.0, 10.0, 10.0, 100.0, 400.0)),
        memory_mb=chance.choice((0.0, 128.0, 128.0, 1024.0)),
        config=config,
        inputs=inputs,
        streams=["default", "stormpilot_load"] if chance.random() < 0.8 else [],
    )


def _config(chance: random.Random) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "topology.max.spout.pending": chance.choice((None, 1, 1000)),
        "topology.disable.loadaware.messaging": chance.choice((True, False)),
        "topology.component.resources.onheap.memory.mb": 128.0,
        "topology.worker.max.heap.size.mb": chance.choice((64.0, 768.0, 4096.0)),
        "topology.ras.one.executor.per.worker": chance.choice((True, False)),
        "topology.scheduler.favored.nodes": ["host-0", "gone"],
        "stormpilot.priority": chance.choice((0, 5, "x", -1)),
    }
    return {k: v for k, v in keys.items() if chance.random() < 0.1}


def _placed(
    executors: list[ExecutorPart], workers: int, chance: random.Random, seen: ClusterSnapshot
) -> list[ExecutorPart]:
    """Everywhere, nowhere or here and there; on supervisors that are gone, on ports that are none any more."""
    how = chance.random()
    if how < 0.15:
        return executors
    slots = [(s.id, p) for s in seen.supervisors for p in s.ports] or [("gone", 6700)]
    slots = [chance.choice(slots) for _ in range(min(workers, len(executors), 12))]
    if how < 0.4:
        slots += [("gone", 6701), (chance.choice([s.id for s in seen.supervisors] or ["gone"]), 9999)]
    found = []
    for e in executors:
        supervisor, port = chance.choice(slots)
        lost = how < 0.4 and chance.random() < 0.2
        found.append(msgspec.structs.replace(e, supervisor=None if lost else supervisor, port=None if lost else port))
    return found


class OddWorld:
    """An odd cluster and cycles of a controller; `reports` are those of its cycles."""

    def __init__(self, chance: random.Random, planner: str, most_executors: int = 60, flow: bool = False):
        self.chance, self.planner, self.flow = chance, planner, flow
        self.now_ms = T0_MS
        self.paths = Paths()
        self.zookeeper = MemoryZooKeeper(lambda: self.now_ms)
        self.config: Config = parse(SETTINGS, "odd.yaml")
        self.cluster = cluster(chance)
        self.topologies = {t.id: t for t in topologies(chance, self.cluster, most_executors)}
        self.reports: list[CycleReport] = []
        self.plans: list[tuple[Model, Plan | Infeasible]] = []
        self._tells = {
            t: chance.choice(("all", "all", "all", "all", "some", "none", "odd", "odd")) for t in self.topologies
        }
        self._rates = {t: self._some_rates(s) for t, s in self.topologies.items()}
        self._counted: dict[tuple[str, int], TaskLoad] = {}
        ids = itertools.count(1)
        self._put(self.paths.cluster, self.cluster)
        for t, s in self.topologies.items():
            self._put(self.paths.topology(t), s)
        epoch = raise_epoch(self.zookeeper, self.paths)  # type: ignore[arg-type]
        self.cycle = cycle_of(
            Observer(
                Reader(self.zookeeper, self.paths),  # type: ignore[arg-type]
                self.config.load,
                self.config.decide.cpu_limit_ratio,
                self.config,
            ),
            Publisher(self.zookeeper, self.paths, epoch),  # type: ignore[arg-type]
            CurrentConfig(self.config, planner, planner),
            self._compute,
            new_id=lambda: str(next(ids)),
            clock_ms=lambda: self.now_ms,
            name="odd",
        )
        self._looks = Looks(self.cycle, self.zookeeper, self.paths)

    def tell(self, seconds: float) -> None:
        """Let time pass with a cycle every period; plans are applied at once."""
        for _ in range(int(seconds / TICK_S)):
            self.now_ms += TICK_S * 1000
            self._report()
            due = self.now_ms % int(self.config.cycle.period_s * 1000) == 0
            observation = self._looks.look(self.now_ms, anew=due)
            if due:
                self.reports.append(self.cycle.run(observation))
                self._apply()

    def observation(self) -> Observation:
        return self.cycle.observer.observe(self.now_ms)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _compute(self, model: Model, planner: str, params: object, *, seed: int, left_s: object) -> Plan | Infeasible:
        given = {"iterations": ITERATIONS[planner]} if planner in ITERATIONS else {}
        answer = (compute_on_flows if self.flow else compute)(model, planner, given, seed=seed)  # type: ignore[operator]
        self.plans.append((model, answer))
        return answer

    def _some_rates(self, s: TopologySnapshot) -> dict[int, dict[tuple[int, str], float]]:
        """Tuples/s by task and by (source task, stream), along the graph."""
        chance = self.chance
        tasks: dict[str, list[int]] = {}
        for e in s.executors:
            tasks.setdefault(e.component, []).extend(range(e.start, e.end + 1))
        found: dict[int, dict[tuple[int, str], float]] = {}
        for c in s.components:
            for i in c.inputs:
                for task in tasks.get(c.id, ()):
                    for source in chance.sample(tasks.get(i.component, []), min(4, len(tasks.get(i.component, ())))):
                        rate = chance.choice((0.0, 0.0, 1.0, 50.0, 5_000.0, 1e6))
                        found.setdefault(task, {})[source, i.stream] = rate
        return found

    def _report(self) -> None:
        for t, s in self.topologies.items():
            how = self._tells[t]
            if how == "none":
                continue
            loads = [
                self._load(t, e, task, how)
                for e in s.executors
                if e.supervisor is not None
                for task in range(e.start, e.end + 1)
                if how != "some" or task % 3
            ]
            jvm = JvmPart(port=6700, cpu_s=1.0) if how == "odd" and self.chance.random() < 0.2 else None
            report = LoadReport(
                topology_id=t,
                reporter="r",
                seq=self.now_ms // 1000,
                written_at_ms=self.now_ms,
                worker=jvm,
                tasks=loads,
            )
            self._put(self.paths.load(t, "r"), report)

    def _load(self, t: str, e: ExecutorPart, task: int, how: str) -> TaskLoad:
        chance, last = self.chance, self._counted.get((t, task))
        before = (
            {}
            if last is None
            else {(s, name): n for name, (ss, ns) in last.received.items() for s, n in zip(ss, ns, strict=True)}
        )
        rates = self._rates[t].get(task, {})
        counted = {pair: before.get(pair, 0) + int(tps * TICK_S) for pair, tps in rates.items()}
        host = next((x.host for x in self.cluster.supervisors if x.id == e.supervisor), "elsewhere")
        load = TaskLoad(
            task=task,
            component=e.component,
            host=host,
            mhz=2600.0,
            pid=100 + task,
            start_ms=T0_MS - 60_000,
            seq=self.now_ms // 1000,
            at_ms=self.now_ms,
            cpu_s=(0.0 if last is None else last.cpu_s) + chance.choice((0.0, 0.01, 0.5)) * TICK_S,
            received=[(source, stream, n) for (source, stream), n in counted.items()],  # type: ignore[arg-type]
            acked=sum(counted.values()),
        )
        if how == "odd":
            load = msgspec.structs.replace(load, **_oddity(chance, load))
        self._counted[t, task] = load
        return load

    def _apply(self) -> None:
        for t, s in self.topologies.items():
            (node,) = self.zookeeper.read([self.paths.plan(t)])
            if node is None:
                continue
            plan = decode(node.data, PlanMessage, "plan")
            at = {start: (w.supervisor, w.port) for w in plan.workers for start, _ in w.executors}
            executors = [
                msgspec.structs.replace(e, supervisor=at[e.start][0], port=at[e.start][1]) for e in s.executors
            ]
            if executors == s.executors:
                continue
            moved = msgspec.structs.replace(
                s, executors=executors, version=s.version + 1, assigned_since_ms=self.now_ms
            )
            self.topologies[t] = moved
            self._put(self.paths.topology(t), moved)
            self._put(
                self.paths.status(t),
                StatusMessage(
                    topology_id=t,
                    plan_id=plan.plan_id,
                    state="applied",
                    code="OK",
                    since_ms=self.now_ms,
                    written_at_ms=self.now_ms,
                ),
            )

    def _put(self, path: str, message: Message) -> None:
        self.zookeeper.put(path, encode(message))


def _oddity(chance: random.Random, load: TaskLoad) -> Mapping[str, Any]:
    """One number that is odd: legal ones, impossible ones, and a process that began anew."""
    return chance.choice(
        (
            {"cpu_s": 1e300},
            {"cpu_s": -1.0},
            {"cpu_s": 0.0, "start_ms": load.at_ms - 1},
            {"mhz": chance.choice((None, 1e-9, 1e9, -1.0))},
            {"acked": 2**53 + 1},
            {"emitted": 2**50, "completed": 2**50, "latency_ms": [(-1.0, 2**50)]},
            {"emitted": 5, "completed": 50},
            {"seq": 0},
            {"at_ms": load.at_ms + chance.choice((-(10**7), 10**7, 290_000))},
            {"queue": chance.choice((-1, 10**15, 0))},
            {"memory_mb": chance.choice((-1.0, 1e300, 1e-300, 1e7))},
            {"host_cores": chance.choice((1e-12, 8192.0, 0.0)), "host_memory_mb": 1e-12},
            {"component": "other"},
            {"host": "elsewhere"},
            {"child_cpu_s": 1e9, "shared_cpu_s": 1e-9, "jvm_cpu_s": 0.0},
            {"task": load.task + 1},
            {"timed": 1, "timed_ms": 1e12},
            {},
        )
    )
