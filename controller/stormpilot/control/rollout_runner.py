"""Carries rollouts out: asks `rollout/state_machine.py` for the next step, and writes it in one transaction.

One per leadership; what has to outlive it is in `rollouts/<topology-id>`. A step takes away a part of what a topology
can do, so at most one topology at a time is in the middle of one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.outbox import Outbox
from stormpilot.control.reservations import as_placement
from stormpilot.control.rollout_gates import forbidden_target, routables
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, blacked_out, forbidden
from stormpilot.decide.effect import Promise, effect_of, not_started
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import row_of
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.messages.core import HistoryEntry, TopologySnapshot, encode
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.load import TaskLoad, silent_tasks
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout, RolloutStepPart
from stormpilot.messages.routable import route_in_force, tasks_of
from stormpilot.messages.routes import Routes, take_up_all
from stormpilot.model.subset import subset, with_cpu
from stormpilot.model.values import Model, Topology
from stormpilot.observe.observer import Observation, Observer
from stormpilot.publish.publisher import TRANSACTION_BYTES, DeposedError, Publisher
from stormpilot.rollout.facts import Facts, as_it_runs, fits, placed, processes_of
from stormpilot.rollout.idle import IdleTracker, Reading
from stormpilot.rollout.peer_capacity import PeerCapacity
from stormpilot.rollout.routing import settled_table
from stormpilot.rollout.state_machine import Next, given_back, never_answered, never_started, next_of
from stormpilot.rollout.step_plan import Names, plan_of_step, record_of_step
from stormpilot.rollout.steps import sequence
from stormpilot.zookeeper.client import ConflictError, DeniedError, HasChildrenError
from stormpilot.zookeeper.transaction import Append, Delete, Put, Step, TooLargeError

log = structlog.get_logger(__name__)

LEFT_OVER_MS = 3_000
"""A table in which something is due, and for so long nobody did it, is left over from a command that was cut off."""
MID_STEP = frozenset({"draining", "moving", "returning"})


@dataclass
class RolloutRunner:
    """See the module; `new_id` makes unique ids, `name` is the controller's."""

    current: CurrentConfig
    publisher: Publisher
    name: str
    new_id: Callable[[], str]
    observer: Observer
    outbox: Outbox
    _watches: dict[str, IdleTracker] = field(default_factory=dict)
    _begun: bool = False
    _failures: dict[str, str] = field(default_factory=dict)

    def begin(
        self,
        entry: HistoryEntry,
        steps: Sequence[RolloutStepPart],
        topology: Topology,
        promise: Promise | None,
        window_s: float,
        observation: Observation,
    ) -> list[Step]:
        """Writes that begin a rollout to the plan of `entry`; one that runs is replaced, its tasks return.

        `ConflictError` while they cannot.
        """
        t, now_ms = topology.id, entry.plan.created_at_ms
        standing = observation.seen.plan(t)
        facts = self._facts(t, observation, {})
        before = observation.seen.running_rollouts.get(t)
        back = None if before is None else self._replaced(before, facts, observation)
        m = Rollout(
            topology_id=t,
            entry=entry,
            steps=list(steps),
            since_ms=now_ms,
            started_at_ms=now_ms,
            started_by=self.name,
            standing_plan_id=None if standing is None else standing.plan_id,
            former=as_it_runs(facts),
            cpu_mhz={e.start: round(e.cpu_mhz) for e in topology.executors},
            window_s=window_s,
            nodes=[] if promise is None else list(promise.nodes),
            throughput_tps=0.0 if promise is None else promise.throughput_tps,
        )
        self._begun = True
        kept = observation.seen.rollouts.get(t)
        put = Put(self.publisher.paths.rollout(t), encode(m), None if kept is None else kept.version)
        if 2 * len(put.data) > TRANSACTION_BYTES:  # each step writes it anew, and a plan beside it
            raise UsageError(f"{put.path} is {len(put.data)} bytes, expected at most {TRANSACTION_BYTES // 2}")
        return [put, *self._table_step(t, back, observation, f"instead of {entry.plan.plan_id}")]

    def _replaced(self, m: Rollout, facts: Facts, observation: Observation) -> Routes | None:
        """The table in which all tasks of a rollout that is replaced get tuples; None: they do already.

        `ConflictError` while their workers restart or the state of their keys is on its way: they come back first,
        while this one names them.
        """
        over = given_back(m, facts, "OVERTAKEN", "by another plan")
        if not over.rollout.running:
            return over.routes
        path, name = self.publisher.paths.rollout(m.topology_id), m.entry.plan.plan_id
        if m.phase != "returning":
            self._write(m.topology_id, m, over, facts, observation)
        tasks = ", ".join(map(str, over.rollout.back))
        raise ConflictError(path, f"tasks {tasks} of the rollout to {name} have to get their tuples back first")

    def closing(self, topology_id: str, plan_id: str, observation: Observation) -> list[Step]:
        """Writes that go with another plan of the topology: a rollout that runs ends, its tasks get tuples.

        Those whose workers restart get them as soon as they work.
        """
        m = observation.seen.running_rollouts.get(topology_id)
        if m is None:
            return []
        over = given_back(m, self._facts(topology_id, observation, {}), "OVERTAKEN", f"by plan {plan_id}")
        version = observation.seen.rollouts[topology_id].version
        log.info("rollout ends", topology=topology_id, plan=m.entry.plan.plan_id, why=f"by plan {plan_id}")
        put = Put(self.publisher.paths.rollout(topology_id), encode(over.rollout), version)
        return [put, *self._table_step(topology_id, over.routes, observation, f"plan {plan_id}")]

    def shift_times(self, observation: Observation, by_ms: int) -> None:
        """Write the times of rollouts and of tables anew, by a clock that was set: limits end neither early nor late.

        What somebody else writes just then stays as it is.
        """
        running = observation.seen.running_rollouts
        for t in sorted({*running, *observation.seen.tables}):
            steps: list[Step] = []
            if (m := running.get(t)) is not None:
                put = Put(
                    self.publisher.paths.rollout(t), encode(m.shifted(by_ms)), observation.seen.rollouts[t].version
                )
                steps.append(put)
            if (table := observation.seen.table(t)) is not None:
                steps += self._table_step(t, table.shifted(by_ms), observation, "the clock was set")
            with self._contained(t):
                if steps:
                    self.publisher.write(steps)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def wanted(self, observation: Observation | None) -> bool:
        """Whether there is something to look after every second, by the last look."""
        if observation is None or self._begun:
            return self._begun
        snapshot = observation.seen
        open_ = any(
            v.message is not None and any(r.draining or r.handovers for r in v.message.components)
            for v in snapshot.tables.values()
        ) or any(w.due_since_ms is not None for w in self._watches.values())
        broken = any(v.message is None for v in snapshot.rollouts.values())
        return bool(observation.seen.running_rollouts) or open_ or broken

    def tick(self, situation: Situation) -> None:
        """Look once at every rollout, and at tables in which something is left to do."""
        self._begun, observation = False, situation.observation
        running = observation.seen.running_rollouts
        unreadable = {t for t, kept in observation.seen.rollouts.items() if kept.message is None}
        ids = {*running, *observation.seen.tables, *unreadable}
        self._watches = {t: w for t, w in self._watches.items() if t in ids}
        self._failures = {t: w for t, w in self._failures.items() if t in ids}
        looked_after = (running.keys() & situation.topologies.keys()) - self._failures.keys()
        busy = [t for t in sorted(looked_after) if running[t].phase in MID_STEP]
        for t in sorted(ids):
            state = situation.topologies.get(t)
            with self._contained(t):
                if t in unreadable:
                    self._drop_unreadable(t, observation.seen.rollouts[t].version, observation)
                elif state is None:
                    continue
                elif t in running:
                    held = self._held(state, running[t], situation.lost)
                    if running[t].phase == "ready" and any(b != t for b in busy):
                        held = held or "a step of another topology"
                    if self._step(t, running[t], observation, held, forbidden_target(running[t], situation)):
                        busy.append(t)
                elif (table := observation.seen.table(t)) is not None:
                    self._finish_interrupted(t, table, observation)

    @contextlib.contextmanager
    def _contained(self, t: str) -> Iterator[None]:
        """A failure of one topology, whose rollout and table others may write, stops no rollout of others.

        It is logged when it begins.
        """
        try:
            yield
        except ConflictError as e:
            log.debug("concurrent update; trying again", path=e.path)
        except (UnreachableError, DeposedError):
            raise
        except Exception as e:
            text = f"{type(e).__name__}: {e}"
            if self._failures.get(t) != text:
                log.exception("rollout cannot go on; those of other topologies do", topology=t, why=text)
            self._failures[t] = text
        else:
            self._failures.pop(t, None)

    def _held(self, state: TopologyState, m: Rollout, lost: LostSupervisors) -> str:
        """Why it may not go on now; what an operator asked for does so in mode `advise` and in a blackout too."""
        closed = forbidden(state, lost, self.current.config.decide)
        row = row_of(m.entry.reason)
        if row is None or not row.in_blackout:
            closed = closed or blacked_out(state)
        if closed is not None:
            return closed.text
        return "" if state.mode == "act" or m.entry.approved_by else f"the mode of this topology is {state.mode}"

    def _step(self, t: str, m: Rollout, observation: Observation, held: str, forbidden_target: str) -> bool:
        """One look at a rollout; whether it is in the middle of a step now."""
        watch = self._watch(t, (m.entry.plan.plan_id, m.step, m.phase, m.since_ms))
        facts = self._facts(t, observation, self.observer.newest(t))
        facts = replace(facts, held=held, forbidden_target=forbidden_target, idle=watch.idle_tasks())
        facts = replace(facts, alive=watch.alive(self.observer.newest(t)))
        if m.phase == "ready" and not held and not m.paused_by and not m.abort_by:
            facts = self._with_stage(t, m, facts, observation)
        found = next_of(m, facts, self.current.config.rollout)
        if found is None:
            return m.phase in MID_STEP
        try:
            self._write(t, m, found, facts, observation)
        except (DeniedError, HasChildrenError, TooLargeError) as e:  # its tasks have to get tuples all the same
            found = given_back(m, facts, "INTERFERED", str(e)) if found.publish or m.phase == "ready" else found
            if e.path != self.publisher.paths.moves(t):
                found = replace(found, withdraw=False)
            self._write(t, m, found, facts, observation, follow=False)
            log.warning("a step of a rollout could not be written", topology=facts.snapshot.name, why=e)
        return found.rollout.phase in MID_STEP

    def _with_stage(self, t: str, m: Rollout, facts: Facts, observation: Observation) -> Facts:
        """The present step by what is measured now, or other steps where it cannot be done any more."""
        assert observation.belief is not None
        measured = observation.belief.readiness[t].ready
        alone = _with_cpu(subset(observation.belief.model, {t}), {} if measured else m.cpu_mhz)
        if len(placed(facts)) != len(alone.topologies[0].executors):
            return facts
        if m.stage.switches:
            return replace(facts, stage=m.stage)
        spare = PeerCapacity(alone, routables(observation, [t])[t], self.current.config.rollout.peer_limit_ratio)
        where = {start: slot[0] for start, slot in placed(facts).items()}
        arriving = {start for w in m.stage.workers for start, _ in w.executors}
        why = "what runs is not what the step was made for"
        if fits(m, facts):
            away = spare.away(arriving, where)
            if not isinstance(away, str):
                stage = msgspec.structs.replace(m.stage, away=away.tasks, stand_ins=away.stand_ins)
                return replace(facts, stage=stage)
            why = away
        replanned = sequence(spare, as_placement(t, m.target), self.current.config.rollout.max_surge_workers)
        return replace(facts, replanned_steps=replanned.steps, lacking=why if not replanned.steps else "")

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _watch(self, t: str, phase: object) -> IdleTracker:
        newest = self.observer.newest(t)
        watch = self._watches.get(t)
        if watch is None or watch.phase != phase:
            watch = self._watches[t] = IdleTracker(phase, dict(newest))
        watch.take(newest)
        return watch

    def _facts(self, t: str, observation: Observation, newest: Mapping[Reading, TaskLoad]) -> Facts:
        snapshot, readiness = observation.seen, observation.belief
        assert readiness is not None
        routes, plan = snapshot.table(t), snapshot.plan(t)
        ages_s = {task: r.age_s for task, r in observation.rates[t].items()}
        return Facts(
            now_ms=observation.at_ms,
            snapshot=snapshot.topologies[t],
            supervisors=frozenset(s.id for s in readiness.model.supervisors),
            routes=routes,
            plan_id=None if plan is None else plan.plan_id,
            status=snapshot.statuses.get(t),
            silent=silent_tasks(snapshot.topologies[t], ages_s),
            processes=processes_of(newest),
            keyed=self._keyed(snapshot.topologies[t], routes),
        )

    def _keyed(self, topology: TopologySnapshot, routes: Routes | None) -> Mapping[int, KeyedTask]:
        """Hand-over states of the tasks that hand state over."""
        own = [] if routes is None else [r.component for r in routes.components if r.hands_over]
        tasks = [task for component in own for task in tasks_of(topology, component)]
        return self.observer.keyed(topology.id, tasks) if tasks else {}

    # --- what is written ----------------------------------------------------------------------------------------------

    def _write(
        self, t: str, before: Rollout, found: Next, facts: Facts, observation: Observation, *, follow: bool = True
    ) -> None:
        """Write a step; without `follow`, what is to be followed of it is left out: it cannot be written."""
        after, name = found.rollout, facts.snapshot.name
        version = observation.seen.rollouts[t].version
        path = self.publisher.paths.rollout(t)
        why = f"{after.entry.plan.plan_id}, step {after.step + 1} of {len(after.steps)}"
        table = self._table_step(t, found.routes, observation, why)
        last, ended = observation.seen.moves.get(t), None
        if follow and last is not None and never_started(before, found, facts):  # nothing is published: it was before
            waits_there = after.outcome == "TOO_LATE" and before.entry.effect is not None  # (nothing goes back twice)
            former = before.former if waits_there else []
            ended = not_started(last, facts.now_ms, self.current.config.verify, after.text, former)
            # before the end: where ZooKeeper goes away in between, it is found again
            if ended.plan_id is not None and (effect := effect_of(ended)) is not None:
                self.publisher.judge(t, ended.plan_id, effect)
        unheard = never_answered(before, found, facts)
        if follow and last is not None and unheard and last.plan_id == before.standing_plan_id:
            ended = msgspec.structs.replace(last, unanswered=True)
        if found.publish or found.withdraw:
            assert observation.belief is not None
            names = Names(self.name, self.publisher.epoch.number, self.new_id)
            followed = observation.seen.moves.get(t, MoveState(topology_id=t))
            entry, move = plan_of_step(before, found, facts, subset(observation.belief.model, {t}), followed, names)
            withdrawn = after.withdrawn + int(found.withdraw)
            after = msgspec.structs.replace(after, standing_plan_id=entry.plan.plan_id, withdrawn=withdrawn)
            record = Append(self.publisher.paths.audit("e-"), encode(record_of_step(entry, before, name, names)))
            versions = {t: observation.seen.plans[t].version} if t in observation.seen.plans else {}
            also = {t: [Put(path, encode(after), version), *table, record]}
            self.publisher.publish([entry], versions, [move] if follow else [], also)
        elif after != before or table:
            own = [Put(path, encode(after), version)] if after != before else []
            if ended is None:
                self.publisher.write([*own, *table])
            else:
                self.publisher.follow(ended, [*own, *table])
        for text in found.messages:
            log.info("rollout", topology=name, plan=after.entry.plan.plan_id, text=text)
        if not after.running:
            kind = EventKind.ROLLOUT_DONE if after.outcome == "DONE" else EventKind.ROLLOUT_ENDED
            event = Event(kind, t, name, after.sentence(facts.now_ms), facts.now_ms, after.step + 1, len(after.steps))
            self.outbox.add([] if unheard and last is not None and last.unanswered else [event])  # told once
        elif after.phase != before.phase or after.step != before.step:
            say = log.warning if after.outcome not in ("", "DONE") else log.info
            say("rollout", topology=name, state=after.sentence(facts.now_ms))

    def _table_step(self, t: str, routes: Routes | None, observation: Observation, why: str) -> list[Step]:
        kept = observation.seen.tables.get(t)
        if routes is None or (kept is not None and kept.message == routes):
            return []
        after = msgspec.structs.replace(
            routes, version=routes.version + 1, written_at_ms=observation.at_ms, by=self.name, why=why
        )
        version = None if kept is None else kept.version
        return [Put(self.publisher.paths.routes(t), encode(after), version, world_reads=True)]

    # --- what is left over --------------------------------------------------------------------------------------------

    def _finish_interrupted(self, t: str, table: Routes, observation: Observation) -> None:
        """Tasks that drained and keyed state that arrived, where a command was cut off before it took note of it."""
        watch = self._watch(t, "interrupted")
        facts = replace(self._facts(t, observation, {}), idle=watch.idle_tasks())
        after, _, messages = settled_table(facts, self.current.config.rollout)
        for text in messages:
            log.warning("keyed state", topology=facts.snapshot.name, text=text)
        if after is None or after == table:
            watch.due_since_ms = None
            return
        since_ms = watch.due_since_ms = watch.due_since_ms or observation.at_ms
        if observation.at_ms - since_ms >= LEFT_OVER_MS:
            self.publisher.write(self._table_step(t, after, observation, "left over"))

    def _drop_unreadable(self, t: str, version: int, observation: Observation) -> None:
        """A rollout that cannot be read is taken away; every task gets tuples but those that are to stand by."""
        snapshot = observation.seen.topologies.get(t)
        if snapshot is None or observation.belief is None:
            return
        after = observation.seen.table(t)
        known = {c.id for c in snapshot.components}
        for route in [] if after is None else [r for r in after.components if r.component in known]:
            resting = sorted({*route_in_force(snapshot, route.component, None).active} - {*route.active})
            with contextlib.suppress(RefusedError):  # keyed state is on its way; `routes activate` does it later
                route = take_up_all(route, tasks_of(snapshot, route.component), resting, observation.at_ms)  # noqa: PLW2901
            after = None if after is None else after.with_route(route)
        steps: list[Step] = [Delete(self.publisher.paths.rollout(t), version)]
        self.publisher.write([*steps, *self._table_step(t, after, observation, "the rollout cannot be read")])
        log.error("a rollout could not be read, it was taken away and all tasks get tuples", topology=snapshot.name)


def _with_cpu(model: Model, cpu_mhz: Mapping[int, int]) -> Model:
    """The only topology with the CPU that was measured before the first step; as it is where that is not known."""
    (t,) = model.topologies
    measured = {start: float(mhz) for start, mhz in cpu_mhz.items()}
    return msgspec.structs.replace(model, topologies=[with_cpu(t, measured)])
