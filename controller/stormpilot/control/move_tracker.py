"""Verifies our moves: steps the effect check of every topology, and measures the restarts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from stormpilot.config import LoadSection
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.outbox import Outbox
from stormpilot.decide.admit import as_planned
from stormpilot.decide.effect import WINDOW_SLACK, Facts, effect_of, give_up_rollback, never_ran, step
from stormpilot.decide.events import Event
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import KEPT_RESTARTS
from stormpilot.errors import UnreachableError
from stormpilot.messages.controller_state import Restart
from stormpilot.messages.core import PlanMessage
from stormpilot.messages.moves import MoveState
from stormpilot.model.closed_loop import Sources
from stormpilot.model.load import own_load_ratio
from stormpilot.model.values import Model, Topology
from stormpilot.observe.cpu_law import sums_of
from stormpilot.observe.observer import Observation
from stormpilot.observe.task_rates import TaskRates
from stormpilot.publish.publisher import NOT_OURS, DeposedError, Publisher

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Step:
    """A step of the effect check of a topology, and what is told of it."""

    before: MoveState
    after: MoveState
    events: Sequence[Event]
    restart: Restart | None


@dataclass
class MoveTracker:
    """The verification of the moves of this leadership; `restarts` is how long all those that we know of took."""

    current: CurrentConfig
    publisher: Publisher
    outbox: Outbox
    restarts: tuple[Restart, ...] = ()
    _begun: bool = False
    _unwritten: set[str] = field(default_factory=set)
    _failures: dict[str, str] = field(default_factory=dict)
    _untold: dict[str, Step] = field(default_factory=dict)
    """By topology id, what was being written when ZooKeeper went away: it may be written all the same."""

    def observe(
        self, observation: Observation, model: Model, running: Mapping[str, Mapping[str, float]]
    ) -> dict[str, MoveState]:
        """Take in one observation and write what changed; the state of every topology's last move, by its id.

        `running` are the metrics of the topologies that are measured now.
        """
        snapshot = observation.seen
        if not self._begun and snapshot.controller is not None:
            self.restarts = tuple(snapshot.controller.restarts[-KEPT_RESTARTS:])
        self._begun = True
        ids = {t.id for t in model.topologies}
        self._unwritten &= ids
        self._failures = {t: why for t, why in self._failures.items() if t in ids}
        moves = {t.id: snapshot.moves.get(t.id, MoveState(topology_id=t.id)) for t in model.topologies}
        going_back = {t for t, m in snapshot.running_rollouts.items() if m.entry.reason == Reason.ROLLBACK_EFFECT}
        for topology in model.topologies:
            t, before = topology.id, moves[topology.id]
            if (begun := self._untold.pop(t, None)) is not None and begun.after == before:
                self._tell(begun)
            over = before.phase == "none" and not never_ran(before)  # a rejected plan may be applied all the same
            if over or (before.phase == "rollback" and t in going_back):
                continue
            try:
                moves[t] = self._stepped(before, topology, observation, model, running.get(t))
            except (UnreachableError, DeposedError):
                raise
            except Exception as e:  # others may write its state; the moves of other topologies are verified
                text = f"{type(e).__name__}: {e}"
                if self._failures.get(t) != text:
                    log.exception("a move cannot be verified", topology=topology.name, why=text)
                self._failures[t] = text
            else:
                self._failures.pop(t, None)
        return moves

    def _stepped(
        self,
        before: MoveState,
        topology: Topology,
        observation: Observation,
        model: Model,
        running: Mapping[str, float] | None,
    ) -> MoveState:
        """The state of a topology after one step, which is written and told."""
        timed, restart = self._timed(before, topology, observation)
        facts = self._facts(timed, topology, observation, model, running)
        after, events = step(timed, facts, self.current.config.verify)
        made = Step(before, after, events, restart)
        if after is not before:
            if (learned := observation.cpu.get(topology.id)) is not None:
                after = msgspec.structs.replace(after, cpu=sums_of(learned))
                made = replace(made, after=after)
            self._untold[topology.id] = made
            written = self._keep(after, topology.name, was=before)
            del self._untold[topology.id]
            if not written:
                return before  # the next observation finds the same again, and tells it if it can be written then
        self._tell(made)
        return after

    def _tell(self, made: Step) -> None:
        self.outbox.add(made.events)
        if made.restart is not None:
            self._take_in(made.restart)
        if made.before.phase in ("moving", "measuring") and made.after.phase in ("none", "rollback"):
            self.outbox.ended.append(made.after)

    def give_up_rollback(self, move: MoveState, topology: Topology, observation: Observation, why: str) -> str:
        """Keep what runs, since the former placement is not possible any more; the sentence about it."""
        given_up, events = give_up_rollback(move, self._facts_unmeasured(topology, observation), why)
        if self._keep(given_up, topology.name, was=move):
            self.outbox.add(events)
        return given_up.text

    def _keep(self, state: MoveState, name: str, *, was: MoveState) -> bool:
        """Write a state, and into the history what became of its plan; whether the state was written.

        Where somebody else changed or locked the znode, that costs this topology alone; it is logged when it begins.
        """
        # before the state: where ZooKeeper goes away in between, the next observation finds the same again
        if state.plan_id is not None and (effect := effect_of(state)) is not None:
            self.publisher.judge(state.topology_id, state.plan_id, effect)
        if state.plan_id is not None and never_ran(state):
            self.publisher.reject(state.topology_id, state.plan_id, state.text.removeprefix("rejected: "))
        elif state.plan_id is not None and (never_ran(was) or state.applied_at_ms != was.applied_at_ms):
            self.publisher.reject(state.topology_id, state.plan_id, "")  # it may have been said
        try:
            self.publisher.follow(state)
        except NOT_OURS as e:
            if state.topology_id not in self._unwritten:
                log.warning("what became of a move cannot be written", topology=name, why=e)
            self._unwritten.add(state.topology_id)
            return False
        self._unwritten.discard(state.topology_id)
        return True

    def _facts_unmeasured(self, topology: Topology, observation: Observation) -> Facts:
        """The facts about a topology, without measurements."""
        snapshot = observation.seen
        plan = snapshot.plan(topology.id)
        known = None if observation.belief is None else observation.belief.readiness.get(topology.id)
        return Facts(
            topology=topology.name,
            now_ms=observation.at_ms,
            plan_id=None if plan is None else plan.plan_id,
            status=snapshot.statuses.get(topology.id),
            missing="" if known is None or known.ready else known.text,
            in_place=plan is not None and as_planned(plan, topology),
        )

    def _facts(
        self,
        state: MoveState,
        topology: Topology,
        observation: Observation,
        model: Model,
        running: Mapping[str, float] | None,
    ) -> Facts:
        facts, now_ms = self._facts_unmeasured(topology, observation), observation.at_ms
        plan = observation.seen.plan(topology.id)
        if plan is not None and {w.supervisor for w in plan.workers} <= {s.id for s in model.supervisors}:
            silent = _silent(state, topology, observation)
            facts = replace(facts, silent=silent, down=_down(state, plan, observation, self.current.config.load))
        since_ms = observation.since_ms[topology.id]
        if not running or state.metric is None or state.applied_at_ms is None or since_ms < state.applied_at_ms:
            return facts  # not measured, or partly under the placement before
        throughput_tps = running["total_tps"]
        if throughput_tps <= 0:
            return facts
        measured_s = (now_ms - since_ms) / 1000
        if measured_s >= self.current.config.load.window_s * (1 - WINDOW_SLACK):
            measured_s = max(measured_s, state.window_s)  # windows were longer before a new configuration
        measured = running["inter_node_share"]
        if state.metric == "load_ratio":
            measured = own_load_ratio(model, topology.id, state.nodes) * state.throughput_tps / throughput_tps
        elif state.metric == "us_per_tuple":
            measured = 1e6 / throughput_tps
            known = observation.belief
            held = None if known is None else known.sources.get(topology.id, Sources()).held
            if held is False:
                measured = min(measured, state.predicted or measured)  # all that arrives gets through: no more to win
            elif held is None:
                measured = min(measured, state.before or measured)  # fewer tuples may have come: not held against it
        return replace(facts, measured_s=measured_s, measured=measured, throughput_tps=throughput_tps)

    def _timed(
        self, state: MoveState, topology: Topology, observation: Observation
    ) -> tuple[MoveState, Restart | None]:
        """Time the move once every task that was moved reports again; None where none of them does report."""
        if state.timed or state.applied_at_ms is None:
            return state, None
        t = topology.id
        expected = _tasks_of(state, topology) & observation.reporting.get(t, frozenset())
        returns = observation.returns.get(t, {})
        if not expected <= set(returns):
            return state, None
        restart = None
        if expected:
            restart = Restart(
                plan_id=state.plan_id or "",
                topology=topology.name,
                at_ms=observation.at_ms,
                applied_s=max(0, state.applied_at_ms - state.published_at_ms) / 1000,
                recovery_s=max(0, max(returns[task].at_ms for task in expected) - state.published_at_ms) / 1000,
                downtime_s=statistics.median(returns[task].downtime_s for task in expected),
                tasks=len(expected),
            )
        return msgspec.structs.replace(state, timed=True), restart

    def _take_in(self, restart: Restart) -> None:
        self.restarts = (*self.restarts, restart)[-KEPT_RESTARTS:]
        log.info(
            "restart measured",
            topology=restart.topology,
            plan=restart.plan_id,
            applied_s=round(restart.applied_s, 1),
            recovery_s=round(restart.recovery_s, 1),
            downtime_s=round(restart.downtime_s, 1),
            tasks=restart.tasks,
        )


def _tasks_of(state: MoveState, topology: Topology) -> set[int]:
    """The tasks that moved."""
    moved = set(state.moved)
    return {task for e in topology.executors if e.start in moved for task in range(e.start, e.end + 1)}


def _silent(state: MoveState, topology: Topology, observation: Observation) -> bool:
    """Whether a task that moved never reported from a process that is younger than the plan.

    Goes by the ages in the reports, which a leader that has just begun knows too.
    """
    young_s = (observation.at_ms - state.published_at_ms) / 1000
    known = observation.rates.get(topology.id, {})
    reported = {task for task, r in known.items() if r.age_s + r.up_s <= young_s}
    return bool((_tasks_of(state, topology) & observation.reporting.get(topology.id, frozenset())) - reported)


def _down(state: MoveState, plan: PlanMessage, observation: Observation, load: LoadSection) -> bool:
    """Whether tasks are silent or restarted just now, and all that are not measured are in workers that moved.

    Where the window of a whole topology has just begun, e.g. with a new leader or other routes, its processes are old.
    """
    known = None if observation.belief is None else observation.belief.readiness.get(plan.topology_id)
    rates = observation.rates.get(plan.topology_id, {})
    if known is None or not any(_gone_or_young(rates.get(task), load) for task in known.missing):
        return False
    before = {(w.supervisor, w.port): set(w.executors) for w in state.former}
    restarted = [w for w in plan.workers if before.get((w.supervisor, w.port)) != set(w.executors)]
    tasks = {task for w in restarted for start, end in w.executors for task in range(start, end + 1)}
    return tasks.issuperset(known.missing)


def _gone_or_young(r: TaskRates | None, load: LoadSection) -> bool:
    """Whether a task has no recent report, or its process is younger than a window."""
    return r is None or r.age_s > load.max_report_age_s or r.up_s + r.age_s < load.window_s
