"""Evaluation of plans with the way in which they are carried out: by rolling moves or by restarts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from stormpilot.control.planner_client import PlanOne
from stormpilot.control.rollout_gates import routables
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import unwanted
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.judge import Verdict, judge
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.printable import counted
from stormpilot.rollout.feasibility import RolloutSteps, way, with_closed_workers


@dataclass(frozen=True)
class PlanningTask:
    """Topologies that are planned together, what their plans are judged by, and a planner for another try.

    `model` is their part of the cluster, in which plans are judged.
    """

    states: Mapping[str, TopologyState]
    model: Model
    criteria: Criteria
    plan: PlanOne


@dataclass(frozen=True)
class PlanEvaluator:
    """Evaluates plans in one situation."""

    situation: Situation

    def ways(self, plans: Mapping[str, TopologyPlan]) -> dict[str, RolloutSteps]:
        """Move strategies of these plans; none for topologies that do not run, or only in part."""
        situation, config = self.situation, self.situation.config
        found, parts = {}, routables(self.situation.observation, plans)
        for t, plan in plans.items():
            state = situation.topologies.get(t)
            if state is None or t not in parts or not state.placed or not state.topology.assignment:
                continue
            found[t] = way(situation.part_for({t}), plan, parts[t], config.decide.move_strategy, config.rollout)
        return found

    def judged(self, task: PlanningTask, plan: Plan) -> Verdict:
        """The verdict on a plan, or on one that leaves alone the workers that cannot be emptied, if that wins more."""
        verdict, net = self._judged(task, plan)
        first = self._wanted(verdict)
        tried = [t for t, d in verdict.decisions.items() if _restarts(d) and d.reason.row.try_rolling]
        if not tried:
            return first
        closed, why = with_closed_workers(
            task.model, routables(self.situation.observation, task.states), self.situation.config.rollout
        )
        if closed is task.model or not set(tried) & set(why):
            return first
        other = task.plan(closed)
        if not isinstance(other, Plan):
            return first
        second, second_net = self._judged(task, other)
        acts = {d.action for d in first.decisions.values()} != {"skip"}
        if not any(_moves(d) for d in second.decisions.values()) or (acts and second_net <= net):
            return first
        decisions = {
            t: replace(d, strategy=replace(d.strategy, text=f"{d.strategy.text}; {_left(why[t])}", fixed=why[t]))
            if t in why and d.strategy is not None
            else d
            for t, d in second.decisions.items()
        }
        return self._wanted(replace(second, decisions=decisions))

    def _judged(self, task: PlanningTask, plan: Plan) -> tuple[Verdict, float]:
        """The verdict on a plan, and how many tuples it wins."""
        ways = self.ways({tp.id: tp for tp in plan.topologies})
        criteria = replace(task.criteria, strategies={t: w.strategy for t, w in ways.items()})
        verdict = judge(task.model, task.states, plan, self.situation.memory, criteria)
        moving = [d for d in verdict.decisions.values() if _moves(d)]
        return verdict, sum(_net(d, criteria.expected_s(d.topology_id)) for d in moving)

    def switches(self, verdict: Verdict) -> bool:
        """Whether the plans of a verdict are carried out by giving tuples to executors that stand by alone."""
        ways = self.ways(verdict.plans)
        return all(t in ways and any(s.switches for s in ways[t].steps) for t in verdict.plans)

    def closed(self, model: Model, topology_ids: Collection[str]) -> Model:
        """The model in which workers of these topologies that cannot be emptied stay as they are."""
        if self.situation.config.decide.move_strategy == "restart":
            return model
        parts = routables(self.situation.observation, topology_ids)
        return with_closed_workers(model, parts, self.situation.config.rollout)[0]

    def _wanted(self, verdict: Verdict) -> Verdict:
        """The verdict without voluntary plans that need restarts, where those are not wanted."""
        refused = {t: no for t, d in verdict.decisions.items() if (no := unwanted(d)) is not None}
        plans = {t: p for t, p in verdict.plans.items() if t not in refused}
        return replace(verdict, decisions={**verdict.decisions, **refused}, plans=plans) if refused else verdict


def _restarts(decision: Decision) -> bool:
    """Whether the plan needs restarts because workers of it cannot be emptied."""
    return bool(decision.moved_executors and decision.strategy and decision.strategy.fixed)


def _moves(decision: Decision) -> bool:
    return decision.action != "skip" and decision.moved_executors > 0


def _net(decision: Decision, lasts_s: float) -> float:
    """Tuples that a plan saves between nodes for as long as that is taken to last, less those that it holds up."""
    now, then = decision.inter_node_tps
    return ((now or 0.0) - (then or 0.0)) * lasts_s - sum(decision.held_up)


def _left(why: tuple[str, ...]) -> str:
    workers = counted(len(why), "worker stays as it is, since it", "workers stay as they are, since they")
    return f"{workers} cannot be emptied, `stormpilot explain` says why"
