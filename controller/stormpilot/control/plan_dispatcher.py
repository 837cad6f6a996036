"""What a cycle decided goes out: plans as one round, plans that restart nothing as rollouts, proposal beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from stormpilot.control.move_tracker import MoveTracker
from stormpilot.control.plan_evaluation import PlanEvaluator, unwanted
from stormpilot.control.request_handler import RequestHandler
from stormpilot.control.rollout_runner import RolloutRunner
from stormpilot.decide.budget import moved_executors, restarted_workers
from stormpilot.decide.effect import published
from stormpilot.decide.evaluate import as_it_runs
from stormpilot.decide.judge import Verdict
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.decide.reasons import Reason, skip
from stormpilot.decide.report import CycleReport
from stormpilot.errors import UsageError
from stormpilot.messages.core import BasedOn, HistoryEntry
from stormpilot.messages.moves import MoveState
from stormpilot.model.subset import with_plans
from stormpilot.model.values import Topology, TopologyPlan
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.publish.message import PlanSet, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.rollout.feasibility import RolloutSteps
from stormpilot.zookeeper.client import ConflictError, Step


@dataclass
class PlanDispatcher:
    """One per leadership; `new_id` makes unique ids, `name` is the controller's."""

    publisher: Publisher
    request_handler: RequestHandler
    move_tracker: MoveTracker
    evaluator: PlanEvaluator
    rollout_runner: RolloutRunner
    name: str
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]

    def publish(self, verdict: Verdict, observation: Observation, account: CycleReport) -> None:
        """Write what is to be published and what is proposed; what could not be written is held in `account`."""
        for action in ("publish", "advise"):
            ids = [t for t in verdict.plans if verdict.decisions[t].action == action]
            if action == "publish":
                ids = self._roll(ids, verdict, observation, account)
            if not ids:
                continue
            entries = self._entries(ids, action, verdict, observation, account)
            try:
                if action == "publish":
                    self._publish(entries, verdict, observation, account)
                else:
                    self.publisher.advise(entries)
            except ConflictError as e:
                account.decisions.update({t: skip(t, Reason.NOT_PUBLISHED, str(e)) for t in ids})

    def _roll(self, ids: Sequence[str], verdict: Verdict, observation: Observation, account: CycleReport) -> list[str]:
        """Begin rollouts for the plans that restart nothing; which are left, to be published as they are."""
        assert observation.belief is not None
        gone_out = {t: TopologyPlan(id=t, workers=e.plan.workers) for t, e in account.plans.items()}
        model = with_plans(observation.belief.model, gone_out)
        running = {t.id: t for t in model.topologies}
        moving = {t: verdict.plans[t] for t in ids if account.decisions[t].moved_executors}
        ways = self.evaluator.ways(model, running, moving, observation.seen)
        left = []
        for t in ids:
            way = ways.get(t)
            if way is None:
                left.append(t)
                continue
            decision = account.decisions[t]
            if decision.manner is None or decision.manner.how != way.manner.how:
                decision = account.decisions[t] = replace(decision, manner=way.manner)
            if (refusal := unwanted(decision)) is not None:
                account.decisions[t] = refusal
            elif not way.steps or not self._begin(running[t], way, verdict, observation, account):
                left.append(t)
        return left

    def _begin(
        self, topology: Topology, way: RolloutSteps, verdict: Verdict, observation: Observation, account: CycleReport
    ) -> bool:
        """Write a rollout; False where it is too large to be written."""
        t, decision = topology.id, account.decisions[topology.id]
        (entry,) = self._entries([t], "publish", verdict, observation, account)
        window_s = (observation.at_ms - observation.since_ms[t]) / 1000
        try:
            steps = self.rollout_runner.begin(entry, way.steps, topology, decision.promise, window_s, observation)
        except UsageError as e:
            account.decisions[t] = replace(
                decision, manner=MoveStrategy("restart", f"its steps cannot be written: {e}")
            )
            return False
        try:
            self.publisher.write([*steps, *self._beside(entry, account, observation.seen)])
        except ConflictError as e:
            account.decisions[t] = skip(t, Reason.NOT_PUBLISHED, str(e))
            return True
        account.plans[t] = entry
        return True

    def _publish(
        self, entries: Sequence[HistoryEntry], verdict: Verdict, observation: Observation, account: CycleReport
    ) -> None:
        seen = observation.seen
        moves = [self._followed(e, verdict, observation) for e in entries]
        also = {}
        for e in entries:
            t = e.plan.topology_id
            also[t] = [*self._beside(e, account, seen), *self.rollout_runner.closing(t, e.plan.plan_id, observation)]
        self.publisher.publish(entries, {t: p.version for t, p in seen.plans.items()}, moves, also)
        self.move_tracker.moves.update((m.topology_id, m) for m in moves)
        account.plans.update((e.plan.topology_id, e) for e in entries)

    def _entries(
        self, ids: Sequence[str], action: str, verdict: Verdict, observation: Observation, account: CycleReport
    ) -> list[HistoryEntry]:
        """The plans of one round."""
        seen = observation.seen
        plan_set = PlanSet(f"r-{self.new_id()}", self.publisher.epoch.number, self.clock_ms(), ids, self.name)
        entries = []
        for t in ids:
            based_on = BasedOn(
                snapshot_version=seen.topologies[t].version,
                window_from_ms=observation.since_ms[t],
                window_to_ms=observation.at_ms,
            )
            decision = account.decisions[t]
            plan_id = (self.request_handler.plan_id(t) if action == "publish" else None) or f"p-{self.new_id()}"
            message = plan_message(verdict.plans[t], verdict.plan, decision, plan_set, plan_id, based_on)
            entry = history_entry(message, decision, self.name)
            entries.append(msgspec.structs.replace(entry, approved_by=self.request_handler.approver(t)))
        return entries

    def _beside(self, entry: HistoryEntry, account: CycleReport, seen: StoreSnapshot) -> list[Step]:
        t = entry.plan.topology_id
        former = seen.plans[t].message if t in seen.plans else None
        return self.request_handler.beside(entry, None if former is None else former.plan_id, account.models.get(t))

    def _followed(self, entry: HistoryEntry, verdict: Verdict, observation: Observation) -> MoveState:
        """What is to be followed of a plan that is published now."""
        assert observation.belief is not None
        t, message = entry.plan.topology_id, entry.plan
        topology = next(x for x in observation.belief.model.topologies if x.id == t)
        decision, placement = verdict.decisions[t], verdict.plans[t]
        moved = moved_executors(topology, placement) if decision.moved_executors else []
        return published(
            self.move_tracker.moves[t],
            plan_id=message.plan_id,
            reason=decision.reason.value,
            now_ms=message.created_at_ms,
            window_s=(observation.at_ms - observation.since_ms[t]) / 1000,
            moved=moved,
            workers=restarted_workers(topology, placement),
            former=as_it_runs(topology).workers,
            promise=decision.promise,
        )
