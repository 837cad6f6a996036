"""A cluster, its plug-in and a controller's cycles on one clock: whole stories of minutes in a blink, always the same.

The job is that of `snapshots.py`; `traffic[(source task, task)]` are tuples/s, and a story may change them when a plan
is applied, since traffic follows the placement. `cores` is the CPU of every task, `in_flight` how many tuples of a
source are under way in the mean (None: nobody measures it), `when_applied` changes what changes with a plan. A planner
is a function of the model that the story gives.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from doubles import snapshots
from doubles.looks import Looks
from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.stored import Stored
from doubles.wanted import Slots, allowed
from stormpilot.config import Config, parse
from stormpilot.control import takeover
from stormpilot.control.assembly import cycle_of
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.planner_client import Params
from stormpilot.control.recorder import Recorder
from stormpilot.control.situation import Situation
from stormpilot.decide.events import Event
from stormpilot.decide.report import CycleReport
from stormpilot.instrument.latency import BOUNDS_MS
from stormpilot.messages.core import ComponentPart, ExecutorPart, Message, StatusMessage, TopologySnapshot, encode
from stormpilot.messages.handover import HANDOVER_KEY
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.messages.routes import STANDBY_KEY
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.publisher import Publisher
from stormpilot.zookeeper.paths import Paths

SETTINGS = """\
cycle: {period_s: 10, poll_s: 2}
load: {window_s: 30, min_coverage_ratio: 0.9, settle_s: 4, cpu_by_place: false}
decide: {mode: act, consecutive_hits: 1, cool_down_s: 120}
"""
"""Stories say by hand what an executor uses: it goes with the executor (`cpu_by_place: false`)."""
POLL_S = 2
REPORT_S = 4
SPREAD: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
"""All tuples between components cross nodes."""
NEAR: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}
"""Half of them do."""
HALF: Slots = {("a", 6700): (1, 3, 6), ("b", 6700): (2, 4, 5)}
"""Half of them do, other ones."""
STEADY = {(1, 2): 50.0, (1, 3): 50.0, (2, 4): 50.0, (3, 4): 50.0}


class World(Stored):
    """`tell(seconds)` lets time pass, a tick at a time, and says what was decided; `events` are all that were told."""

    tick_s = POLL_S
    max_skips = 0
    """The planner of a story changes its mind without any change of the model, so it is asked in every cycle."""

    def __init__(self, *supervisors: str, settings: str = "", base: str = SETTINGS):
        self.now_ms = snapshots.T0_MS
        self.paths = Paths()
        self.zookeeper = MemoryZooKeeper(lambda: self.now_ms)
        self.config: Config = parse(base + settings, "story.yaml")
        self.wanted: dict[str, Slots] = {}
        self.planner: Callable[[Model], Plan | Infeasible] = lambda model: allowed(model, self.wanted)
        self.compute: Callable[[Model, str, Params], Plan | Infeasible] = lambda model, *_: self.planner(model)
        self.traffic: dict[tuple[int, int], float] = dict(STEADY)
        self.traffic_when_applied: dict[tuple[int, int], float] | None = None
        self.cores = 0.1
        self.in_flight: float | None = None
        self.when_applied: Callable[[], None] = lambda: None
        self.restart_s = 12.0
        self.apply_after_s = 4.0
        self.applied: list[str] = []
        self.events: list[Event] = []
        self.reports: list[CycleReport] = []
        self.steps: list[CycleReport] = []
        self._ids = itertools.count(1)
        self._topologies: dict[str, TopologySnapshot] = {}
        self._counted: dict[tuple[str, int], dict[int, float]] = {}
        self._emitted: dict[tuple[str, int], float] = {}
        self._cpu_s: dict[tuple[str, int], float] = {}
        self._latencies: dict[tuple[str, int], Counter[float]] = {}
        self._process: dict[tuple[str, int], tuple[int, int]] = {}
        self.supervisors(*supervisors)
        self.new_leader()

    # --- what happens -------------------------------------------------------------------------------------------------

    def supervisors(self, *supervisors: str) -> None:
        self.zookeeper.put(self.paths.cluster, encode(snapshots.cluster(*supervisors)))

    def submit(
        self,
        slots: Slots,
        name: str = "flights",
        *,
        routed: bool = False,
        hands_over: bool = False,
        standby: int = 0,
        launch: int = 1,
    ) -> str:
        """`routed`: what goes to `parse` and `sink` follows routes, and there may be a worker more.

        `hands_over`: tasks of `parse` are asked for their keyed state, and do not answer. `standby`: so many tasks of
        `parse` wait for a route. `launch` numbers the submissions of a name, and is in the topology's id.
        """
        topology = snapshots.topology(snapshots.everywhere(slots), name=name)
        topology = msgspec.structs.replace(topology, id=topology.id.replace("-1-", f"-{launch}-"))
        topology = msgspec.structs.replace(topology, assigned_since_ms=self.now_ms - 3_600_000)
        if routed:
            config = {"parse": {STANDBY_KEY: standby, HANDOVER_KEY: hands_over}}
            parts = [_routed(c, config.get(c.id, {})) if c.id in ("parse", "sink") else c for c in topology.components]
            topology = msgspec.structs.replace(topology, workers=3, components=parts)
        self._topologies[topology.id] = topology
        for task in snapshots.COMPONENT_OF:
            self._start(topology.id, task, self.now_ms - 600_000)
        self._write(self.paths.topology(topology.id), topology)
        return topology.id

    def kill(self, topology_id: str) -> None:
        """A user kills a topology; the plug-in removes its own znodes of it, the plan and the load reports."""
        del self._topologies[topology_id]
        p = self.paths
        for path in (p.topology(topology_id), p.status(topology_id), p.plan(topology_id), p.load(topology_id)):
            self.zookeeper.delete(path)

    def configure(self, topology_id: str, config: dict[str, Any], component: str = "") -> None:
        """The configuration of a topology, or of a component of it, as the plug-in tells it."""
        old = self._topologies[topology_id]
        parts = [msgspec.structs.replace(c, config=config) if c.id == component else c for c in old.components]
        new = msgspec.structs.replace(old, components=parts, config=old.config if component else config)
        self._topologies[topology_id] = new
        self._write(self.paths.topology(topology_id), new)

    def new_leader(self) -> None:
        """The controller ends; another one leads, and remembers nothing."""
        epoch = raise_epoch(self.zookeeper, self.paths)  # type: ignore[arg-type]
        reader = Reader(self.zookeeper, self.paths)  # type: ignore[arg-type]
        self.current = CurrentConfig(self.config, "story", "story")
        self.cycle = cycle_of(
            Observer(reader, self.config.load, self.config.decide.cpu_limit_ratio, self.config),
            Publisher(self.zookeeper, self.paths, epoch),  # type: ignore[arg-type]
            self.current,
            self._compute,
            new_id=lambda: str(next(self._ids)),
            clock_ms=lambda: self.now_ms,
            name="story",
            max_skips=self.max_skips,
        )
        before = takeover.state_before(self.zookeeper, self.paths)  # type: ignore[arg-type]
        self._recorder = Recorder(self.current, "story", self.now_ms, before=before)
        self._looks = Looks(self.cycle, self.zookeeper, self.paths)

    def fail(self, why: str) -> None:
        """A cycle of the leader fails."""
        self._recorder.record_failure(why, self.cycle.publisher.epoch.number, self._put_controller)

    def set_clock(self, by_s: float) -> None:
        """The clock of all hosts is set."""
        by_ms = int(by_s * 1000)
        self.now_ms += by_ms
        self._process = {k: (number, at_ms + by_ms) for k, (number, at_ms) in self._process.items()}

    def use(self, config: Config) -> None:
        """The controller goes on with another configuration."""
        self.config = config
        self.current.use(config, "story", "story")

    def step_otd(self, seconds: float) -> None:
        """Let time pass; every ten seconds a step of otd follows the cycle."""
        for _ in range(int(seconds / 10)):
            self.tell(10)
            self.steps.append(self.cycle.step(self.cycle.observer.observe(self.now_ms)))

    def place(self, topology_id: str, slots: Slots, state: str = "", code: str = "OK") -> None:
        """Executors run elsewhere from now on; `state` is what the plug-in says of the published plan then."""
        at = snapshots.everywhere(slots)
        old = self._topologies[topology_id]
        executors = []
        for e in old.executors:
            supervisor, port = at.get(e.start, (None, None))
            if (e.supervisor, e.port) != (supervisor, port):
                self._start(topology_id, e.start, self.now_ms + int(self.restart_s * 1000))
            executors.append(msgspec.structs.replace(e, supervisor=supervisor, port=port))
        new = msgspec.structs.replace(old, executors=executors, version=old.version + 1, assigned_since_ms=self.now_ms)
        self._topologies[topology_id] = new
        self._write(self.paths.topology(topology_id), new)
        if state:
            self.answer(topology_id, state, code)

    def crash(self, topology_id: str, *tasks: int, back_after_s: float = 0.0) -> None:
        """The processes of these tasks end, and new ones start where they were."""
        for task in tasks:
            self._start(topology_id, task, self.now_ms + int(back_after_s * 1000))

    def rebalance(self, topology_id: str, workers: int, slots: Slots) -> None:
        """A user asks for another number of workers, and Storm places them."""
        topology = msgspec.structs.replace(self._topologies[topology_id], workers=workers)
        self._topologies[topology_id] = topology
        self.place(topology_id, slots)

    def answer(self, topology_id: str, state: str, code: str = "OK") -> None:
        """The plug-in says this of the published plan."""
        plan = self.plan(topology_id)
        status = StatusMessage(
            topology_id=topology_id,
            plan_id=None if plan is None else plan.plan_id,
            state=state,  # type: ignore[arg-type]
            code=code,
            since_ms=self.now_ms,
            written_at_ms=self.now_ms,
        )
        self._write(self.paths.status(topology_id), status)

    def pass_time(self, seconds: float) -> None:
        """Let time pass without a controller."""
        for _ in range(int(seconds / self.tick_s)):
            self.now_ms += self.tick_s * 1000
            self._work()
            self._plug_in()

    def tell(self, seconds: float) -> list[str]:
        """Let time pass, with a cycle every period and when traffic changed.

        Returns the reasons of the first topology, repeated ones once.
        """
        said: list[str] = []
        for _ in range(int(seconds / self.tick_s)):
            self.pass_time(self.tick_s)
            due = self.now_ms % int(self.config.cycle.period_s * 1000) == 0
            observation = self._looks.look(self.now_ms, anew=due)
            if self.cycle.rollout_runner.wanted(observation):
                self.cycle.advance_rollouts(observation)
                observation = self._looks.look(self.now_ms, anew=True)
            if self.cycle.observer.newly_changed(self.now_ms) or due:
                observation = observation if due else self._looks.look(self.now_ms, anew=True)
                report = self.cycle.run(observation)
                epoch = self.cycle.publisher.epoch.number
                self._recorder.record(report, observation, epoch, {}, 0.0, lambda: self.now_ms, self._put_controller)
                self.reports.append(report)
                self.events += report.events
                for _, d in sorted(report.decisions.items())[:1]:
                    if not said or said[-1] != d.reason.value:
                        said.append(d.reason.value)
        return said

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def situation(self) -> Situation:
        """What a cycle would begin with now."""
        observation = self.cycle.observer.observe(self.now_ms)
        assert observation.belief is not None
        return self.cycle.begin(observation, observation.belief)[0]

    def decision(self, topology_id: str):  # type: ignore[no-untyped-def]
        return self.reports[-1].decisions[topology_id]

    def slots(self, topology_id: str) -> dict[tuple[str, int], tuple[int, ...]]:
        found: dict[tuple[str, int], tuple[int, ...]] = {}
        for e in self._topologies[topology_id].executors:
            if e.supervisor is not None and e.port is not None:
                found[e.supervisor, e.port] = (*found.get((e.supervisor, e.port), ()), e.start)
        return found

    # --- inside -------------------------------------------------------------------------------------------------------

    def _compute(
        self, model: Model, planner: str, params: Params, *, seed: int, left_s: Callable[[], float]
    ) -> Plan | Infeasible:
        return self.compute(model, planner, params)

    def _put_controller(self, data: bytes) -> None:
        self.cycle.publisher.put(self.paths.controller, data)

    def _start(self, topology_id: str, task: int, at_ms: int) -> None:
        number = self._process.get((topology_id, task), (0, 0))[0] + 1
        self._process[topology_id, task] = (number, at_ms)
        self._counted[topology_id, task] = {}
        self._emitted[topology_id, task] = 0.0
        self._cpu_s[topology_id, task] = 0.0
        self._latencies[topology_id, task] = Counter()

    def _work(self) -> None:
        for t, topology in self._topologies.items():
            loads = []
            for e in topology.executors:
                _, start_ms = self._process[t, e.start]
                if e.start not in snapshots.REPORTING or e.supervisor is None or self.now_ms <= start_ms:
                    continue
                counted = self._counted[t, e.start]
                for (source, task), tps in self.traffic.items():
                    if self._goes_to(t, task) == e.start:
                        source = self._goes_to(t, source)  # noqa: PLW2901
                        counted[source] = counted.get(source, 0.0) + tps * POLL_S
                if e.component == "source":
                    sent = sum(tps for (source, _), tps in self.traffic.items() if source == e.start)
                    self._emitted[t, e.start] += sent * POLL_S
                    if self.in_flight is not None and sent:
                        latency_ms = BOUNDS_MS[bisect_left(BOUNDS_MS, 1000 * self.in_flight / sent)]
                        self._latencies[t, e.start][latency_ms] += int(sent * POLL_S)
                self._cpu_s[t, e.start] += self.cores * POLL_S
                loads.append(self._told(t, e, self._cpu_s[t, e.start], counted, int(self._emitted[t, e.start])))
            if self.now_ms % (REPORT_S * 1000) == 0:
                self._report(t, loads)

    def _told(
        self, topology_id: str, e: ExecutorPart, cpu_s: float, counted: Mapping[int, float], emitted: int = 0
    ) -> TaskLoad:
        """What a task tells of itself now; `counted`: tuples that it got so far, by task that sent them."""
        number, start_ms = self._process[topology_id, e.start]
        latencies = self._latencies[topology_id, e.start]
        return TaskLoad(
            task=e.start,
            component=e.component,
            host="worker-host",
            mhz=2000.0,
            pid=100 * number + e.start,
            start_ms=start_ms,
            seq=(self.now_ms - start_ms) // 1000,
            at_ms=self.now_ms,
            cpu_s=cpu_s,
            received=[(source, "default", int(n)) for source, n in sorted(counted.items())],
            emitted=emitted,
            completed=emitted if latencies else 0,
            latency_ms=sorted(latencies.items()),
        )

    def _report(self, topology_id: str, loads: list[TaskLoad]) -> None:
        """Write what the tasks of a topology tell, if there is one."""
        if loads:
            head = {"topology_id": topology_id, "reporter": "r", "written_at_ms": self.now_ms}
            report = LoadReport(**head, seq=self.now_ms // 1000, tasks=loads)
            self._write(self.paths.load(topology_id, "r"), report)

    def _goes_to(self, topology_id: str, task: int) -> int:
        """The task that gets what `task` would get: itself, or another where it is routed around."""
        table = self.routes(topology_id)
        route = None if table is None else table.of(snapshots.COMPONENT_OF[task])
        return task if route is None or task in route.active else route.active[0]

    def _plug_in(self) -> None:
        for t in self._topologies:
            plan = self.plan(t)
            if plan is None or plan.plan_id in self.applied:
                continue
            if plan.based_on.workers not in (0, self._topologies[t].workers):
                if plan.based_on.rebalance_s:
                    self.answer(t, "waiting", "WORKERS_CHANGED")
                    continue
                self.applied.append(plan.plan_id)
                self.answer(t, "rejected", "WORKERS_CHANGED")
                continue
            others = [self.plan(m) for m in plan.plan_set_topologies]
            whole = all(p is not None and p.plan_set == plan.plan_set for p in others)
            if whole and self.now_ms - plan.created_at_ms >= self.apply_after_s * 1000:
                self.applied.append(plan.plan_id)
                self.place(t, {(w.supervisor, w.port): tuple(s for s, _ in w.executors) for w in plan.workers})
                self.answer(t, "applied")
                self.when_applied()
                if self.traffic_when_applied is not None:
                    self.traffic, self.traffic_when_applied = self.traffic_when_applied, None

    def _write(self, path: str, message: Message) -> None:
        self.zookeeper.put(path, encode(message))


def _routed(part: ComponentPart, config: Mapping[str, object]) -> ComponentPart:
    inputs = [msgspec.structs.replace(i, routed=True) for i in part.inputs]
    return msgspec.structs.replace(part, inputs=inputs, config={**part.config, **config})
