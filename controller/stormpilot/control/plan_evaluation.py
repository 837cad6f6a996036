"""Works out for the cycle how plans are carried out: by rolling moves, or by restarts (`migrate/manner.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from stormpilot.config import Config
from stormpilot.control.planner_client import PlanOne
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.evaluate import Criteria
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.messages.routes import Routes
from stormpilot.model.subset import traffic_of_each
from stormpilot.model.values import Model, Plan, Topology, TopologyPlan
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.rollout.feasibility import RolloutSteps, way, with_closed_workers
from stormpilot.rollout.peer_capacity import routable


@dataclass
class PlanEvaluator:
    """One per leadership."""

    config: Config

    def ways(
        self, model: Model, running: Mapping[str, Topology], plans: Mapping[str, TopologyPlan], seen: StoreSnapshot
    ) -> dict[str, RolloutSteps]:
        """How each of these plans is carried out; nothing for topologies of `running` that do not, or in part."""
        found, edges = {}, traffic_of_each(model)
        for t, plan in plans.items():
            topology = running.get(t)
            if topology is None or t not in seen.topologies or not topology.assignment:
                continue
            if len(topology.assignment) == len(topology.executors):
                can = routable(seen.topologies[t], _table(t, seen))
                own = msgspec.structs.replace(model, traffic=edges[t])
                found[t] = way(own, plan, can, self.config.decide.move_strategy, self.config.rollout)
        return found

    def judged(
        self,
        model: Model,
        standing: Model,
        states: Mapping[str, TopologyState],
        plan: Plan,
        memory: Memory,
        terms: Criteria,
        seen: StoreSnapshot,
        plan_one: PlanOne,
    ) -> Verdict:
        """What is decided of a plan, or of one that leaves the workers alone that cannot be emptied, if that wins more.

        `model` has all topologies, `standing` those of the plan alone.
        """
        running = {t: s.topology for t, s in states.items()}

        def judged(made: Plan) -> tuple[Verdict, float]:
            """What is decided of a plan, and what it wins."""
            ways = self.ways(model, running, {tp.id: tp for tp in made.topologies}, seen)
            strategies = {t: w.manner for t, w in ways.items()}
            verdict = judge(standing, states, made, memory, replace(terms, strategies=strategies))
            moving = [d for d in verdict.decisions.values() if _moves(d)]
            return verdict, sum(_net(d, self.config.decide.payback_s) for d in moving)

        verdict, net = judged(plan)
        tried = [t for t, d in verdict.decisions.items() if _restarts(d) and d.reason.row.try_rolling]
        if not tried:
            return self._wanted(verdict)
        routables = {t: routable(seen.topologies[t], _table(t, seen)) for t in states}
        closed, why = with_closed_workers(standing, routables, self.config.rollout)
        if closed is standing or not set(tried) & set(why):
            return self._wanted(verdict)
        other = plan_one(closed)
        if not isinstance(other, Plan):
            return self._wanted(verdict)
        second, second_net = judged(other)
        first = self._wanted(verdict)
        acts = {d.action for d in first.decisions.values()} != {"skip"}
        if not any(_moves(d) for d in second.decisions.values()) or (acts and second_net <= net):
            return first
        said = {
            t: replace(d, manner=replace(d.manner, text=f"{d.manner.text}; {_left(why[t])}", fixed=why[t]))
            if t in why and d.manner is not None
            else d
            for t, d in second.decisions.items()
        }
        return self._wanted(replace(second, decisions=said))

    def switches(self, model: Model, verdict: Verdict, seen: StoreSnapshot) -> bool:
        """Whether the plans of a verdict are carried out by giving tuples to executors that stand by alone."""
        ways = self.ways(model, {t.id: t for t in model.topologies}, verdict.plans, seen)
        return all(t in ways and any(s.switches for s in ways[t].steps) for t in verdict.plans)

    def closed(self, model: Model, topology_ids: Collection[str], seen: StoreSnapshot) -> Model:
        """The model in which workers of these topologies that cannot be emptied stay as they are."""
        if self.config.decide.move_strategy == "restart":
            return model
        routables = {t: routable(seen.topologies[t], _table(t, seen)) for t in topology_ids if t in seen.topologies}
        return with_closed_workers(model, routables, self.config.rollout)[0]

    def _wanted(self, verdict: Verdict) -> Verdict:
        """The verdict without plans by choice that need restarts, where those are not wanted."""
        held = {t: no for t, d in verdict.decisions.items() if (no := unwanted(d)) is not None}
        plans = {t: p for t, p in verdict.plans.items() if t not in held}
        return replace(verdict, decisions={**verdict.decisions, **held}, plans=plans) if held else verdict


def unwanted(decision: Decision) -> Decision | None:
    """The decision not to, where a plan by choice needs restarts and those are not wanted; None: it may be."""
    manner = decision.manner
    if manner is None or not manner.forbidden or decision.reason.row.may_restart or not _moves(decision):
        return None
    text = f"{decision.text}; {manner.text}, and decide.move_strategy is rolling"
    return replace(decision, action="skip", reason=Reason.RESTART_NOT_ALLOWED, text=text, promise=None)


def _restarts(decision: Decision) -> bool:
    """Whether the plan needs restarts because workers of it cannot be emptied."""
    return bool(decision.moved_executors and decision.manner and decision.manner.fixed)


def _moves(decision: Decision) -> bool:
    return decision.action != "skip" and decision.moved_executors > 0


def _net(decision: Decision, payback_s: float) -> float:
    """Tuples that a plan saves between nodes within the time in which it has to pay, less those that it holds up."""
    now, then = decision.inter_node_tps
    return ((now or 0.0) - (then or 0.0)) * payback_s - sum(decision.held_up)


def _left(why: tuple[str, ...]) -> str:
    return f"{len(why)} workers stay as they are, since they cannot be emptied ({why[0]}" + (
        f", and {len(why) - 1} more)" if len(why) > 1 else ")"
    )


def _table(t: str, seen: StoreSnapshot) -> Routes | None:
    kept = seen.tables.get(t)
    return None if kept is None else kept.message
