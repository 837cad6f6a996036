"""Many jobs at once under rates that never stand still: hours of a control loop with real planners, always the same.

A job: spout `source` (task 1), bolts `parse` (2 to 5) and `sink` (6, 7), fields grouping throughout, acker (8). Most of
its tuples have one key, the hot one, which one task of `parse` gets; where it is best placed changes with the key.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from doubles import snapshots
from doubles.world import SETTINGS, World
from stormpilot.decide.report import CycleReport
from stormpilot.messages.core import ComponentPart, ExecutorPart, InputPart, TopologySnapshot
from stormpilot.planner import compute

SOURCE, PARSERS, SINKS, ACKER = 1, (2, 3, 4, 5), (6, 7), 8
COMPONENT_OF = {SOURCE: "source", **dict.fromkeys(PARSERS, "parse"), **dict.fromkeys(SINKS, "sink"), ACKER: "__acker"}
HOUR_S = 3600.0
HOT = 0.7
"""Part of a job's tuples that have the hot key."""
US_PER_TUPLE = 4000.0
"""CPU of a tuple in or out."""


@dataclass
class Job:
    """One topology's weather.

    `tps` is the mean rate, `noise` by how much (standard deviation, as a part of it) every pair of tasks is off by
    chance from report to report, `day` by how much the rate goes up and down within four hours. The hot key changes
    every `shift_s` seconds, but not before `from_s`; never where that is infinite.
    """

    tps: float = 100.0
    noise: float = 0.0
    day: float = 0.0
    shift_s: float = math.inf
    from_s: float = 0.0
    hot: int = 0
    shifts_s: list[float] = field(default_factory=list)

    def shift(self, now_s: float) -> None:
        """The hot key becomes another one."""
        self.hot = (self.hot + 1) % len(PARSERS)
        self.shifts_s.append(now_s)

    def look(self, now_s: float) -> None:
        """Change the hot key when it is due."""
        due_s = self.shifts_s[-1] + self.shift_s if self.shifts_s else self.from_s
        if math.isfinite(self.shift_s) and now_s >= due_s:
            self.shift(now_s)

    def traffic(self, now_s: float) -> dict[tuple[int, int], float]:
        """Tuples/s by (source task, task), without noise."""
        tps = self.tps * (1 + self.day * math.sin(2 * math.pi * now_s / (4 * HOUR_S)))
        found: dict[tuple[int, int], float] = {}
        for i, task in enumerate(PARSERS):
            part = HOT if i == self.hot else (1 - HOT) / (len(PARSERS) - 1)
            found[SOURCE, task] = tps * part
            found[task, SINKS[i % len(SINKS)]] = tps * part
        return found


@dataclass
class Made:
    """A plan that moved something: when, why, where every executor ran before and was to run, what came of it."""

    at_s: float
    reason: str
    before: Mapping[int, str]
    after: Mapping[int, str]
    verdict: str = ""
    judged_s: float = math.inf


class Weather(World):
    """A world of such jobs. `now_s` is the time since its begin, by which its jobs change.

    `made` are the plans that moved something, by topology id.
    """

    tick_s = 30

    def __init__(
        self, *supervisors: str, settings: str = "", base: str = SETTINGS, seed: int = 1, planner: str = "online"
    ):
        super().__init__(*supervisors, settings=settings, base=base)
        self.jobs: dict[str, Job] = {}
        self.made: dict[str, list[Made]] = {}
        self.chance = random.Random(seed)
        self.turns_when_moved: set[str] = set()
        self.planner = lambda model: compute(model, planner, {}, seed=1)
        self.restart_s, self.apply_after_s = 12.0, 10.0
        self.now_ms -= self.now_ms % (self.tick_s * 1000)  # cycles come at whole periods
        self._began_ms = self.now_ms
        self._counts: dict[tuple[str, int], dict[int, float]] = {}
        self._cpu_s: dict[tuple[str, int], float] = {}
        self._seen_applied = 0

    @property
    def now_s(self) -> float:
        return (self.now_ms - self._began_ms) / 1000

    def start(self, name: str, slots: Mapping[tuple[str, int], tuple[int, ...]], job: Job) -> str:
        """Submit a job that runs there."""
        topology = _job(name, snapshots.everywhere(slots), self.now_ms)
        self._topologies[topology.id] = topology
        self.jobs[topology.id], self.made[topology.id] = job, []
        for task in COMPONENT_OF:
            self._start(topology.id, task, self.now_ms - 600_000)
        self._write(self.paths.topology(topology.id), topology)
        return topology.id

    def hours(self, n: float, before_tick: Callable[[], None] = lambda: None) -> None:
        """Let so many hours pass."""
        end_s = self.now_s + n * HOUR_S
        while self.now_s < end_s:
            before_tick()
            before = {t: self._nodes(t) for t in self.jobs}
            self.tell(self.tick_s)
            for report in self.reports:
                self._take_down(report, before)
            self.reports.clear()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _start(self, topology_id: str, task: int, at_ms: int) -> None:
        super()._start(topology_id, task, at_ms)
        self._counts[topology_id, task], self._cpu_s[topology_id, task] = {}, 0.0

    def _work(self) -> None:
        self._turn()
        for t, job in self.jobs.items():
            job.look(self.now_s)
            loads = []
            traffic = {pair: tps * self._noise(job) for pair, tps in job.traffic(self.now_s).items()}
            out: dict[int, float] = {}
            for (source, _), tps in traffic.items():
                out[source] = out.get(source, 0.0) + tps
            for e in self._topologies[t].executors:
                _, start_ms = self._process[t, e.start]
                worked_s = min(self.tick_s, (self.now_ms - start_ms) / 1000)
                if e.component == "__acker" or e.supervisor is None or worked_s <= 0:
                    continue
                counted = self._counts[t, e.start]
                got = 0.0
                for (source, task), tps in traffic.items():
                    if task == e.start:
                        counted[source] = counted.get(source, 0.0) + tps * worked_s
                        got += tps
                self._cpu_s[t, e.start] += (got + out.get(e.start, 0.0)) * US_PER_TUPLE / 1e6 * worked_s
                loads.append(self._told(t, e, self._cpu_s[t, e.start], counted))
            self._report(t, loads)

    def _noise(self, job: Job) -> float:
        return max(0.0, self.chance.gauss(1.0, job.noise)) if job.noise else 1.0

    def _nodes(self, topology_id: str) -> dict[int, str]:
        return {e.start: e.supervisor for e in self._topologies[topology_id].executors if e.supervisor is not None}

    def _take_down(self, report: CycleReport, before: Mapping[str, Mapping[int, str]]) -> None:
        for move in report.ended:
            for made in self.made[move.topology_id]:
                if made.at_s == (move.published_at_ms - self._began_ms) / 1000 and move.judged_at_ms is not None:
                    made.verdict, made.judged_s = move.verdict, (move.judged_at_ms - self._began_ms) / 1000
        for t, entry in report.plans.items():
            if entry.moved_executors:
                after = {start: w.supervisor for w in entry.plan.workers for start, _ in w.executors}
                at_s = (entry.plan.created_at_ms - self._began_ms) / 1000
                self.made[t].append(Made(at_s, entry.reason, before[t], after))

    def _turn(self) -> None:
        """Jobs that turn against every move do so as soon as one is applied."""
        for plan_id in self.applied[self._seen_applied :]:
            for t in self.turns_when_moved:
                if (plan := self.plan(t)) is not None and plan.plan_id == plan_id:
                    self.jobs[t].shift(self.now_s)
        self._seen_applied = len(self.applied)


def _job(name: str, at: Mapping[int, tuple[str, int]], now_ms: int) -> TopologySnapshot:
    def bolt(component: str, source: str) -> ComponentPart:
        inputs = [InputPart(component=source, grouping="FIELDS", fields=["key"])]
        return ComponentPart(id=component, kind="bolt", inputs=inputs, streams=["default", snapshots.LOAD])

    return TopologySnapshot(
        version=1,
        written_at_ms=now_ms,
        id=f"{name}-1-1763690000",
        name=name,
        owner="ops",
        workers=2,
        launched_at_ms=now_ms - 3_600_000,
        assigned_since_ms=now_ms - 3_600_000,
        components=[
            ComponentPart(id="source", kind="spout", streams=["default", snapshots.LOAD]),
            bolt("parse", "source"),
            bolt("sink", "parse"),
            ComponentPart(id="__acker", kind="system"),
        ],
        executors=[
            ExecutorPart(start=t, end=t, component=c, supervisor=at[t][0], port=at[t][1])
            for t, c in COMPONENT_OF.items()
        ],
    )
