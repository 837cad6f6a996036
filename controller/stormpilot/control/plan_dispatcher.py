"""Dispatch of what a cycle decided: plans as one plan set, plans that restart nothing as rollouts, proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from stormpilot.config import Config
from stormpilot.control.audit_records import AuditRecords
from stormpilot.control.plan_evaluation import PlanEvaluator
from stormpilot.control.rollout_runner import RolloutRunner
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, as_planned
from stormpilot.decide.approval import unwanted
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.effect import Outcome as MoveOutcome
from stormpilot.decide.effect import published, went_down
from stormpilot.decide.judge import Verdict
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.origin import PlanOrigin
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import Outcome
from stormpilot.decide.restarts import restarting
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import BasedOn, HistoryEntry
from stormpilot.messages.moves import MoveState
from stormpilot.model.subset import as_it_runs
from stormpilot.observe.observer import Observation
from stormpilot.publish.message import PlanSet, history_entry, plan_message
from stormpilot.publish.publisher import NOT_OURS, Publisher
from stormpilot.rollout.feasibility import RolloutSteps
from stormpilot.zookeeper.client import DeniedError, HasChildrenError
from stormpilot.zookeeper.transaction import Delete, Step, TooLargeError

DENIED_S = 600.0
"""So long a topology of which a znode was refused is not planned with others."""


@dataclass(frozen=True)
class PlanDispatcher:
    """One per leadership; `new_id` makes unique ids, `name` is the controller's.

    `refused` has by topology id when (ms) and why a znode of it was last refused to us.
    """

    publisher: Publisher
    records: AuditRecords
    rollout_runner: RolloutRunner
    name: str
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)

    def denied(self, now_ms: int) -> dict[str, str]:
        """Topologies of which nothing can be written, with the reason; each is tried again after `DENIED_S`.

        Their plans would take those down that are made with them.
        """
        for t in [t for t, (at_ms, _) in self.refused.items() if not 0 <= now_ms - at_ms < DENIED_S * 1000]:
            del self.refused[t]
        return {t: why for t, (_, why) in self.refused.items()}

    def publish(self, verdict: Verdict, situation: Situation) -> Outcome:
        """Write what is to be published and what is proposed; what could not be written is skipped."""
        planner = verdict.plan.planner if verdict.plans else ""
        placements = {**verdict.standing, **verdict.plans}
        outcome = Outcome(
            verdict.decisions, verdict.memory, placements=placements, models=verdict.models, planner=planner
        )
        left, outcome = self._begin_rollouts(_with_action(verdict, "publish"), verdict, situation, outcome)
        for t in [t for t in left if not verdict.plans[t].workers]:
            outcome = self._give_up(t, verdict, situation, outcome)
        if left := [t for t in left if verdict.plans[t].workers]:
            outcome = self._publish(left, verdict, situation, outcome)
        if proposed := _with_action(verdict, "advise"):
            outcome = self._propose(proposed, verdict, situation, outcome)
        return outcome

    def _publish(self, ids: Sequence[str], verdict: Verdict, situation: Situation, outcome: Outcome) -> Outcome:
        """Plans that restart workers, as one plan set."""
        entries = self._entries(ids, verdict, situation, outcome.decisions)
        for t in sorted(entries.keys() - situation.snapshot.plans.keys()):
            if situation.topologies[t].placed:  # without a plan
                former = as_it_runs(situation.topologies[t].topology).workers
                entries[t] = msgspec.structs.replace(entries[t], former=former)
        unheard = {t: m for t in entries if (m := _unheard(situation.topologies[t])) is not None}
        moves = {t: _to_verify(e, verdict, situation, unheard.get(t)) for t, e in entries.items()}
        versions = {t: p.version for t, p in situation.snapshot.plans.items()}
        try:
            also = {
                t: [
                    *self._records(e, verdict, situation),
                    *self.rollout_runner.closing(t, e.plan.plan_id, situation.observation),
                ]
                for t, e in entries.items()
            }
            self.publisher.publish([*entries.values()], versions, [*moves.values()], also)
        except NOT_OURS as e:
            return self._not_written(ids, e, outcome)
        for t, move in unheard.items():
            self.publisher.reject(t, move.plan_id or "", f"{move.text} {entries[t].plan.plan_id} was published")
        return replace(outcome, plans={**outcome.plans, **entries}, moves={**outcome.moves, **moves})

    def _give_up(self, t: str, verdict: Verdict, situation: Situation, outcome: Outcome) -> Outcome:
        """Remove the published plan of a topology, which runs on and is Storm's own scheduler's then."""
        entry = self._entries([t], verdict, situation, outcome.decisions)[t]
        published = situation.snapshot.plans.get(t)
        gone = [] if published is None else [Delete(self.publisher.paths.plan(t), published.version)]
        try:
            closing = self.rollout_runner.closing(t, entry.plan.plan_id, situation.observation)
            self.publisher.write([*gone, *self._records(entry, verdict, situation), *closing])
        except NOT_OURS as e:
            return self._not_written([t], e, outcome)
        return outcome

    def _propose(self, ids: Sequence[str], verdict: Verdict, situation: Situation, outcome: Outcome) -> Outcome:
        entries = self._entries(ids, verdict, situation, outcome.decisions, proposal=True)
        for t, entry in entries.items():
            try:
                self.publisher.advise([entry])
            except NOT_OURS as e:
                outcome = self._not_written([t], e, outcome)
        return outcome

    def _begin_rollouts(
        self, ids: Sequence[str], verdict: Verdict, situation: Situation, outcome: Outcome
    ) -> tuple[list[str], Outcome]:
        """Begin rollouts for the plans that restart nothing; which are left, to be published as they are."""
        moving = {t: verdict.plans[t] for t in ids if outcome.decisions[t].moved_executors}
        ways = PlanEvaluator(situation).ways(moving)
        left = []
        for t in ids:
            way = ways.get(t)
            if way is None:
                left.append(t)
                continue
            decision, measured = outcome.decisions[t], situation.topologies[t].not_ready is None
            if decision.reason.row.notify == "rollback" and went_down(situation.moves[t]) and not measured:
                way = RolloutSteps(MoveStrategy("restart", "its workers restart, since some do not stay up"))
            if decision.strategy is None or decision.strategy.how != way.strategy.how:
                decision = replace(decision, strategy=way.strategy)
                outcome = _decided(decision, outcome)
            if (refusal := unwanted(decision)) is not None:
                outcome = _decided(refusal, outcome)
            elif not way.steps:
                left.append(t)
            else:
                try:
                    outcome = self._begin_rollout(t, way, verdict, situation, outcome)
                except UsageError as e:
                    restart = MoveStrategy("restart", f"its steps cannot be written: {e}")
                    outcome = _decided(replace(decision, strategy=restart), outcome)
                    left.append(t)
        return left, outcome

    def _begin_rollout(
        self, t: str, way: RolloutSteps, verdict: Verdict, situation: Situation, outcome: Outcome
    ) -> Outcome:
        """Write a rollout; `UsageError` where it is too large to be written."""
        observation, decision = situation.observation, outcome.decisions[t]
        entry = self._entries([t], verdict, situation, outcome.decisions)[t]
        window_s = _window_to_verify_s(observation, t, situation.config)
        topology = situation.topologies[t].topology
        try:
            steps = self.rollout_runner.begin(entry, way.steps, topology, decision.promise, window_s, observation)
            # the last move as it is: where its znode is locked, no step could be followed
            self.publisher.follow(situation.moves[t], [*steps, *self._records(entry, verdict, situation)])
        except NOT_OURS as e:
            return self._not_written([t], e, outcome)
        return replace(outcome, plans={**outcome.plans, t: entry})

    def _not_written(self, ids: Sequence[str], why: RefusedError, outcome: Outcome) -> Outcome:
        if isinstance(why, DeniedError | HasChildrenError | TooLargeError):
            owners = [t for t in ids if t in why.path.split("/")]
            self.refused.update(dict.fromkeys(owners, (self.clock_ms(), str(why))))
        skipped = {t: skip(t, Reason.NOT_PUBLISHED, str(why)) for t in ids}
        return replace(outcome, decisions={**outcome.decisions, **skipped})

    def _entries(
        self,
        ids: Sequence[str],
        verdict: Verdict,
        situation: Situation,
        decisions: Mapping[str, Decision],
        *,
        proposal: bool = False,
    ) -> dict[str, HistoryEntry]:
        """The plans of one plan set, by topology id; a proposal gets an id of its own."""
        observation = situation.observation
        plan_set = PlanSet(f"r-{self.new_id()}", self.publisher.epoch.number, self.clock_ms(), ids)
        rooms = situation.rooms.of(ids)
        entries = {}
        for t in ids:
            origin = verdict.origins.get(t, PlanOrigin())
            based_on = BasedOn(
                snapshot_version=situation.snapshot.topologies[t].version,
                workers=origin.workers or situation.snapshot.topologies[t].workers,
                window_from_ms=observation.since_ms[t],
                window_to_ms=observation.at_ms,
            )
            plan_id = (None if proposal else origin.plan_id) or f"p-{self.new_id()}"
            message = plan_message(
                verdict.plans[t], verdict.plan, decisions[t], plan_set, plan_id, based_on, rooms.get(t)
            )
            entry = history_entry(message, decisions[t], self.name)
            entries[t] = msgspec.structs.replace(entry, approved_by=origin.approver)
        return entries

    def _records(self, entry: HistoryEntry, verdict: Verdict, situation: Situation) -> list[Step]:
        t = entry.plan.topology_id
        return self.records.of_plan(entry, verdict.origins.get(t, PlanOrigin()), verdict.inputs_hash(t), situation)


def _with_action(verdict: Verdict, action: str) -> list[str]:
    return [t for t in verdict.plans if verdict.decisions[t].action == action]


def _decided(decision: Decision, outcome: Outcome) -> Outcome:
    return replace(outcome, decisions={**outcome.decisions, decision.topology_id: decision})


def _window_to_verify_s(observation: Observation, topology_id: str, config: Config) -> float:
    """Time to measure the effect over: as long as what the plan was made for, but no few seconds after a step."""
    window_s = (observation.at_ms - observation.since_ms[topology_id]) / 1000
    return max(window_s, config.load.window_s * config.load.min_coverage_ratio)


def _unheard(state: TopologyState) -> MoveState | None:
    """The end of a last plan that the plug-in never answered to, and that does not run; None: there is no such plan."""
    move, plan = state.move, state.plan
    if move is None or plan is None or (move.phase, move.plan_id) != ("moving", plan.plan_id):
        return None
    if state.answer is not None or as_planned(plan, state.topology):
        return None
    text = "the scheduler plug-in had not answered when plan"
    return msgspec.structs.replace(move, phase="none", verdict=MoveOutcome.REJECTED.value, text=text)


def _to_verify(entry: HistoryEntry, verdict: Verdict, situation: Situation, unheard: MoveState | None) -> MoveState:
    """Verification of a plan that is published now; `unheard` is the end of one before it that moved nothing."""
    t, message, observation = entry.plan.topology_id, entry.plan, situation.observation
    topology = situation.topologies[t].topology
    decision, placement = verdict.decisions[t], verdict.plans[t]
    return published(
        unheard or situation.moves[t],
        plan_id=message.plan_id,
        reason=decision.reason.value,
        now_ms=message.created_at_ms,
        window_s=_window_to_verify_s(observation, t, situation.config),
        moved=moved_executors(topology, placement) if decision.moved_executors else [],
        workers=len(restarting(topology, placement)),
        former=as_it_runs(topology).workers,
        promise=decision.promise,
    )
