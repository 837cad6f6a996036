"""Follows what became of our moves: steps the effect check of every topology, and times the restarts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from stormpilot.config import Config
from stormpilot.decide.admit import TopologyState, admit_rollback
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.effect import WINDOW_SLACK, Facts, give_up_rollback, step
from stormpilot.decide.events import Event
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.decide.restarts import KEPT_RESTARTS
from stormpilot.messages.core import EffectPart, Restart
from stormpilot.messages.moves import MoveState
from stormpilot.model.load import own_load_ratio
from stormpilot.model.subset import subset
from stormpilot.model.values import Model, Plan, Topology, TopologyPlan
from stormpilot.model.violations import AMOUNTS, violations
from stormpilot.observe.observer import Observation
from stormpilot.publish.publisher import Publisher

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RollbackDecision:
    """What happens with a topology whose last move made it worse; `plan` is the former placement, None: held."""

    decision: Decision
    plan: Plan | None = None


@dataclass
class MoveTracker:
    """The moves of this leadership, by topology id, and how long all those that we know of took.

    `ended` gathers moves of which it is known what became of them, for who records them to take away.
    """

    config: Config
    publisher: Publisher
    moves: dict[str, MoveState] = field(default_factory=dict)
    restarts: tuple[Restart, ...] = ()
    ended: list[MoveState] = field(default_factory=list)
    _begun: bool = False

    def look(self, observation: Observation, running: Mapping[str, Mapping[str, float]]) -> list[Event]:
        """One cycle: take in what is seen, write what changed, and say what an operator is to be told.

        `running` are the metrics of the topologies that are measured now.
        """
        assert observation.belief is not None
        if not self._begun and observation.seen.controller is not None:
            self.restarts = tuple(observation.seen.controller.restarts[-KEPT_RESTARTS:])
        self._begun = True
        events: list[Event] = []
        model = observation.belief.model
        self.moves = {t.id: observation.seen.moves.get(t.id, MoveState(topology_id=t.id)) for t in model.topologies}
        for topology in model.topologies:
            before = self.moves[topology.id]
            if before.phase == "none":
                continue
            timed = self._timed(before, topology, observation)
            after, told = step(
                timed, self._facts(timed, topology, observation, model, running.get(topology.id)), self.config.verify
            )
            events += told
            if after is not before:
                self.keep(after)
            if before.phase in ("moving", "measuring") and after.phase in ("none", "rollback"):
                self.ended.append(after)
        return events

    def rollbacks(
        self,
        states: Mapping[str, TopologyState],
        observation: Observation,
        model: Model,
        lost: tuple[list[str], int],
        events: list[Event],
    ) -> dict[str, RollbackDecision]:
        """What goes back to where it was before a move that made it worse, or why it does not yet.

        A placement that is not possible any more is given up, and told in `events`.
        """
        found = {}
        for t, subject in states.items():
            move = self.moves[t]
            if move.phase != "rollback":
                continue
            refusal = admit_rollback(subject, *lost, self.config.decide)
            if refusal is not None:
                found[t] = RollbackDecision(refusal)
                continue
            former = TopologyPlan(id=t, workers=move.former)
            plan = Plan(planner="rollback", topologies=[former])
            wrong = [v for v in violations(subset(model, {t}), plan) if v.constraint not in AMOUNTS]
            if wrong:
                facts = self.facts(subject.topology, observation)
                given_up, told = give_up_rollback(move, facts, str(wrong[0]))
                self.keep(given_up)
                events += told
                continue
            decision = Decision(
                t,
                "publish",
                Reason.ROLLBACK_EFFECT,
                move.text,
                move.measured,
                move.before,
                moved_executors=len(moved_executors(subject.topology, former)),
            )
            found[t] = RollbackDecision(decision, plan)
        return found

    def keep(self, state: MoveState) -> None:
        """Write a state, and into the history what a judged move won."""
        self.moves[state.topology_id] = state
        self.publisher.follow(state)
        if state.judged_at_ms is not None and state.plan_id is not None and state.metric is not None:
            assert state.before is not None
            assert state.predicted is not None
            effect = EffectPart(
                metric=state.metric,
                before=state.before,
                predicted=state.predicted,
                noise_ratio=state.noise_ratio,
                measured=state.measured,
                verdict=state.verdict,
                text=state.text,
                judged_at_ms=state.judged_at_ms,
            )
            self.publisher.judge(state.topology_id, state.plan_id, effect)

    def facts(self, topology: Topology, observation: Observation) -> Facts:
        """What is seen of a topology, without measurements."""
        seen = observation.seen
        published = seen.plans.get(topology.id)
        plan = None if published is None else published.message
        return Facts(
            topology=topology.name,
            now_ms=observation.at_ms,
            plan_id=None if plan is None else plan.plan_id,
            status=seen.statuses.get(topology.id),
        )

    def _facts(
        self,
        state: MoveState,
        topology: Topology,
        observation: Observation,
        model: Model,
        running: Mapping[str, float] | None,
    ) -> Facts:
        facts, now_ms = self.facts(topology, observation), observation.at_ms
        since_ms = observation.since_ms[topology.id]
        if not running or state.metric is None or state.applied_at_ms is None or since_ms < state.applied_at_ms:
            return facts  # not measured, or partly under the placement before
        throughput_tps = running["total_tps"]
        if throughput_tps <= 0:
            return facts
        measured_s = (now_ms - since_ms) / 1000
        if measured_s >= self.config.load.window_s * (1 - WINDOW_SLACK):
            measured_s = max(measured_s, state.window_s)  # windows were longer before a new configuration
        measured = running["inter_node_share"]
        if state.metric == "load_ratio":
            measured = own_load_ratio(model, topology.id, state.nodes) * state.throughput_tps / throughput_tps
        return replace(facts, measured_s=measured_s, measured=measured, throughput_tps=throughput_tps)

    def _timed(self, state: MoveState, topology: Topology, observation: Observation) -> MoveState:
        """Time the move once every task that was moved reports again."""
        if state.timed or state.applied_at_ms is None:
            return state
        t = topology.id
        moved = set(state.moved)
        tasks = {task for e in topology.executors if e.start in moved for task in range(e.start, e.end + 1)}
        expected = tasks & observation.reporting.get(t, frozenset())
        returns = observation.returns.get(t, {})
        if not expected <= set(returns):
            return state
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
            self.restarts = (*self.restarts, restart)[-KEPT_RESTARTS:]
            log.info(
                "move timed",
                topology=topology.name,
                plan=restart.plan_id,
                applied_s=round(restart.applied_s, 1),
                recovery_s=round(restart.recovery_s, 1),
                downtime_s=round(restart.downtime_s, 1),
                tasks=restart.tasks,
            )
        return msgspec.structs.replace(state, timed=True)
