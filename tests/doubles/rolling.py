"""A topology under a rollout, the plug-in and its workers in a few lines, on a clock of one look a second.

spout (task 1) alone in worker a:6700; `work` (tasks 2 to 5), by key, two each in b:6700 and c:6700; they are to change
nodes. What is promised is checked at every look: a task whose worker restarts gets no tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stormpilot.config.rollout import RolloutSection
from stormpilot.messages.core import (
    BasedOn,
    ComponentPart,
    ExecutorPart,
    HistoryEntry,
    InputPart,
    PlanMessage,
    StatusMessage,
    TopologySnapshot,
    Worker,
)
from stormpilot.messages.handover import HANDOVER_KEY, KeyedTask
from stormpilot.messages.load import TaskLoad
from stormpilot.messages.rollouts import Rollout, RolloutStepPart, workers_of
from stormpilot.messages.routes import Routes
from stormpilot.rollout.facts import Facts, as_it_runs, placement, processes_of
from stormpilot.rollout.state_machine import Next, next_of

REFRESH_S = 3
SYNC_S = 10
"""Workers ask their supervisor where tasks run; it asks Nimbus, unless its own executors change: then it is told."""
CONFIG = RolloutSection(
    task_refresh_s=REFRESH_S,
    connect_s=2,
    start_timeout_s=40,
    step_interval_s=2,
    capacity_timeout_s=30,
    drain_timeout_s=6,
)
T = "words-1-1"
NODES = ("a", "b", "c", "d")
WORK = (2, 3, 4, 5)
START_S = 5
"""From the assignment to the first report of a worker's tasks."""


def worker(node: str, port: int, *starts: int) -> Worker:
    return Worker(supervisor=node, port=port, executors=[(s, s) for s in starts])


BEFORE = [worker("a", 6700, 1), worker("b", 6700, 2, 3), worker("c", 6700, 4, 5)]
AFTER = [worker("a", 6700, 1), worker("c", 6701, 2, 3), worker("b", 6701, 4, 5)]
STEPS = [RolloutStepPart(workers=[AFTER[1]], away=[2, 3]), RolloutStepPart(workers=[AFTER[2]], away=[4, 5])]


def snapshot(workers: list[Worker], hands_over: bool = False, wanted: int = 3) -> TopologySnapshot:
    at = {s: (w.supervisor, w.port) for w in workers for s, _ in w.executors}
    inputs = [InputPart(component="spout", grouping="FIELDS", fields=["key"], routed=True)]
    return TopologySnapshot(
        written_at_ms=0,
        id=T,
        name="words",
        workers=wanted,
        components=[
            ComponentPart(id="spout", kind="spout"),
            ComponentPart(id="work", kind="bolt", inputs=inputs, config={HANDOVER_KEY: hands_over}),
        ],
        executors=[
            ExecutorPart(
                start=s,
                end=s,
                component="spout" if s == 1 else "work",
                supervisor=at[s][0] if s in at else None,
                port=at[s][1] if s in at else None,
            )
            for s in (1, *WORK)
        ],
    )


def begun() -> Rollout:
    plan = PlanMessage(
        plan_id="p-1",
        plan_set="r",
        topology_id=T,
        epoch=1,
        created_at_ms=0,
        planner="best",
        based_on=BasedOn(workers=3),
        workers=AFTER,
        checksum="",
    )
    entry = HistoryEntry(plan=plan, reason="GAIN", text="less between nodes", moved_executors=4)
    return Rollout(topology_id=T, entry=entry, steps=STEPS, since_ms=0, started_at_ms=0, standing_plan_id="p-0")


@dataclass
class Rolling:
    """`look` lets a second pass. `before_write` may drop what would be written (a leader that ends just then)."""

    rollout: Rollout = field(default_factory=begun)
    workers: list[Worker] = field(default_factory=lambda: list(BEFORE))
    routes: Routes | None = None
    plan_id: str = "p-0"
    plan_workers: list[Worker] = field(default_factory=lambda: list(BEFORE))
    status: StatusMessage | None = None
    live: set[str] = field(default_factory=lambda: set(NODES))
    held: str = ""
    wanted: int = 3
    """The number of workers that a user asks for."""
    lacking: str = ""
    now_s: int = 0
    set_back_s: int = 0
    """By so much the leader's clock was set back."""
    apply_s: int = 2
    never_start: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    """Tasks whose worker has not reported for long."""
    hands_over: bool = False
    """Whether `work` hands its keyed state over; then what it is told is done before the next look, if `answers`."""
    answers: bool = True
    last_answers: dict[int, KeyedTask] = field(default_factory=dict)
    """What tasks wrote that do not answer any more."""
    late: dict[int, list[int]] = field(default_factory=dict)
    """Partitions of which a task gets tuples though it gave them away: a sender keeps to an old table."""
    shim: str = ""
    """What the plug-in says of a new plan instead of applying it; "silent": nothing."""
    before_write: Callable[[Next], bool] = lambda _: True
    checked: bool = True
    written: list[Next] = field(default_factory=list)
    _published_s: int | None = None
    _process: dict[int, tuple[int, int]] = field(default_factory=dict)
    _heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    _first: dict[int, tuple[int, int]] = field(default_factory=dict)
    known_s: dict[int, int] = field(default_factory=dict)
    """When the spout's worker, at the latest, knows the place of a task that was moved."""
    _phase: object = None
    _pids: int = 100

    def __post_init__(self) -> None:
        self._process = {t: (t, 0) for t in (1, *WORK)}

    # --- what happens -------------------------------------------------------------------------------------------------

    def look(self) -> Next | None:
        """One second, and one look of the leader."""
        self.now_s += 1
        self._shim()
        if self.checked:
            self.check()
        facts = self.facts()
        found = next_of(self.rollout, facts, CONFIG)
        if found is None or not self.before_write(found):
            return None
        self.write(found, facts)
        return found

    def until_ended(self, at_most_s: int = 400) -> Rollout:
        """Look until it is over."""
        for _ in range(at_most_s):
            if not self.rollout.running:
                return self.rollout
            self.look()
        raise AssertionError(f"it goes on for ever: {self.rollout.sentence(self.now_s * 1000)}")

    def looks(self, n: int) -> None:
        """So many looks, or until it is over."""
        for _ in range(n):
            if self.rollout.running:
                self.look()

    def everybody_gets_tuples(self) -> None:
        """What holds at the end of every story."""
        assert not self.rollout.running
        assert self.active() == frozenset(WORK)
        if self.routes is not None:
            route = self.routes.of("work")
            assert route is None or set(route.partitions) == set(WORK)

    def runs_its_plan(self) -> None:
        """The plan that lies there is what runs, also once the plug-in had time for one that was taken back."""
        for _ in range(self.apply_s + 1):
            self.now_s += 1
            self._shim()
        assert workers_of(self.plan_workers) == workers_of(self.workers)

    def new_leader(self) -> None:
        """Whoever leads now remembers nothing of what tasks did."""
        self._phase = None

    def lose(self, node: str, to: str = "d") -> None:
        """A supervisor ends; the plug-in places what ran there elsewhere, the plan is disturbed."""
        self.live.discard(node)
        lost = [w for w in self.workers if w.supervisor == node]
        self.workers = [w for w in self.workers if w.supervisor != node]
        for i, w in enumerate(lost):
            self._start(worker(to, 6700 + i, *(s for s, _ in w.executors)))
        self.say("degraded", "SUPERVISOR_GONE")

    def say(self, state: str, code: str = "OK") -> None:
        self.status = StatusMessage(
            topology_id=T,
            plan_id=self.plan_id,
            state=state,
            code=code,
            since_ms=0,
            written_at_ms=0,  # type: ignore[arg-type]
        )

    def publish(self, plan_id: str, workers: list[Worker]) -> None:
        self.plan_id, self.plan_workers, self._published_s = plan_id, workers, self.now_s

    # --- what is seen -------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        running = self.reporting()
        phase = (self.rollout.step, self.rollout.phase, self.rollout.since_ms)
        if phase != self._phase:
            self._phase, self._first = phase, dict.fromkeys(running, (self.now_s, 0))
        m = self.rollout
        self._heard |= {t: self._process[t] for t in running}
        loads = {
            (t, False): TaskLoad(
                task=t, component="work", host="h", pid=pid, start_ms=at * 1000, seq=self.now_s, at_ms=0, cpu_s=0
            )
            for t, (pid, at) in self._heard.items()
        }
        stage = m.stage if m.phase == "ready" and not self.lacking else None
        return Facts(
            now_ms=(self.now_s - self.set_back_s) * 1000,
            snapshot=snapshot(self.workers, self.hands_over, self.wanted),
            supervisors=frozenset(self.live),
            routes=self.routes,
            plan_id=self.plan_id,
            status=self.status,
            idle=frozenset(WORK) - self.active(),
            alive=frozenset(t for t in running if self.now_s > self._first.get(t, (0, 0))[0]),
            silent=frozenset(self.silent),
            processes=processes_of(loads),
            keyed=self._keyed() if self.answers else self.last_answers,
            held=self.held,
            stage=stage,
            lacking=self.lacking,
        )

    def active(self) -> frozenset[int]:
        """Tasks of `work` that get tuples."""
        route = None if self.routes is None else self.routes.of("work")
        return frozenset(WORK if route is None else route.active)

    def _keyed(self) -> dict[int, KeyedTask]:
        """What tasks wrote of the hand-overs in the table: all that they are told to save or to load, they did."""
        route = None if self.routes is None else self.routes.of("work")
        told = [] if route is None else route.handovers
        saved = {t: [h.key for h in told if (h.from_, h.phase) == (t, "save")] for t in WORK}
        loaded = {t: [h.key for h in told if (h.to, h.phase) == (t, "load")] for t in WORK}
        return {
            t: KeyedTask(topology_id=T, task=t, saved=saved[t], loaded=loaded[t], late=self.late.get(t, []))
            for t in WORK
        }

    def reporting(self) -> set[int]:
        """Tasks whose process has begun to report."""
        return {t for t, (_, at) in self._process.items() if at <= self.now_s}

    def check(self) -> None:
        """A task that restarts gets no tuples, and somebody always does."""
        restarting = set(WORK) - self.reporting()
        assert not restarting & self.active(), f"tasks {restarting & self.active()} restart while they get tuples"
        assert self.active()

    # --- what is written ----------------------------------------------------------------------------------------------

    def write(self, found: Next, facts: Facts) -> None:
        """All of it at once, as the one transaction does."""
        self.written.append(found)
        m = found.rollout
        if found.routes is not None:
            self.routes = found.routes
        if found.publish or found.withdraw:
            number = f"p-1-{len(self.written)}"
            ports = {n: [6700, 6701, 6702, 6703] for n in NODES}
            workers = placement(self.rollout, facts, ports) if found.publish else as_it_runs(facts)
            self.publish(number, workers)
            m = msgspec.structs.replace(m, standing_plan_id=number, withdrawn=m.withdrawn + int(found.withdraw))
        self.rollout = m

    def _shim(self) -> None:
        if self._published_s is None or self.now_s - self._published_s < self.apply_s or self.shim == "silent":
            return
        self._published_s = None
        if self.shim:
            self.say(self.shim, "SLOT_OCCUPIED")
            return
        had = {(w.supervisor, tuple(w.executors)): w for w in self.workers}
        changed = {slot[0] for slot in had.keys() ^ _keys(self.plan_workers)}
        self.workers = [w for w in self.workers if (w.supervisor, tuple(w.executors)) in _keys(self.plan_workers)]
        for w in self.plan_workers:
            if (w.supervisor, tuple(w.executors)) not in had:
                self._start(w)
                known_s = self.now_s + REFRESH_S + (0 if "a" in changed else SYNC_S)
                self.known_s |= {s: known_s for s, _ in w.executors}
        self.say("applied")

    def _start(self, w: Worker) -> None:
        self.workers.append(w)
        for s, _ in w.executors:
            self._pids += 1
            self._process[s] = (self._pids, 10**6 if s in self.never_start else self.now_s + START_S)


THREE_AWAY = [RolloutStepPart(workers=[worker("c", 6701, 2, 3, 4)], away=[2, 3, 4])]
"""A step that leaves one of four tasks."""


def handing_over(**changes: object) -> Rolling:
    """Tasks 2, 3 and 4 move, 5 keeps their keys and the state of these meanwhile."""
    plan = msgspec.structs.replace(
        begun().entry.plan, workers=[BEFORE[0], *THREE_AWAY[0].workers, worker("c", 6700, 5)]
    )
    entry = msgspec.structs.replace(begun().entry, plan=plan)
    before = [BEFORE[0], worker("b", 6700, 2, 3, 4), worker("c", 6700, 5)]
    return Rolling(
        rollout=msgspec.structs.replace(begun(), entry=entry, steps=THREE_AWAY),
        workers=before,
        plan_workers=before,
        hands_over=True,
        **changes,  # type: ignore[arg-type]
    )


def _keys(workers: list[Worker]) -> set[tuple[str, tuple[tuple[int, int], ...]]]:
    return {(w.supervisor, tuple(w.executors)) for w in workers}
