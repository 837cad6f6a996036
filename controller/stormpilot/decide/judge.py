"""Which topologies of a plan move, and does what would be published fit what stands still?

The paper decides for the cluster as a whole [A13 3.3]; here each topology of a plan is decided for itself
(`evaluate.py`), so that one with nothing to win does not restart because another one has. A topology that stays keeps
its slots and its load, so a plan that wants those stays too (`capacity_check.py`), as does what is over the move budget
(`budget.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stormpilot.decide.admit import TopologyState
from stormpilot.decide.budget import hold_what_is_over_budget
from stormpilot.decide.capacity_check import hold_what_does_not_fit
from stormpilot.decide.evaluate import Criteria, as_it_runs, evaluate
from stormpilot.decide.memory import Memory
from stormpilot.decide.origin import PlanOrigin
from stormpilot.decide.predict import outlook
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.model.load import own_load_ratio
from stormpilot.model.values import Model, Plan, TopologyPlan


@dataclass(frozen=True)
class Verdict:
    """The decisions for the topologies of a plan, what to publish (or to advise) of it, and what to remember.

    By topology id: `models` is what was planned on, `origins` where the plan comes from.
    """

    decisions: Mapping[str, Decision]
    plans: Mapping[str, TopologyPlan]
    plan: Plan
    memory: Memory
    models: Mapping[str, Model] = field(default_factory=dict)
    origins: Mapping[str, PlanOrigin] = field(default_factory=dict)

    @classmethod
    def of_one(cls, decision: Decision, plan: Plan, memory: Memory, model: Model) -> Verdict:
        """The verdict on a plan of one topology."""
        t = decision.topology_id
        return cls({t: decision}, {t: plan.topologies[0]}, plan, memory, {t: model})

    @classmethod
    def without_plan(cls, decisions: Mapping[str, Decision], memory: Memory) -> Verdict:
        """Decisions to leave topologies as they are."""
        return cls(decisions, {}, Plan(topologies=[]), memory)


def judge(model: Model, states: Mapping[str, TopologyState], plan: Plan, memory: Memory, terms: Criteria) -> Verdict:
    """Decide for every topology of `plan`, which is a complete plan of `model`."""
    decisions: dict[str, Decision] = {}
    plans = {tp.id: tp for tp in plan.topologies}
    ahead = outlook(model, plan, terms.traffic)
    for topology in model.topologies:
        decision, memory = evaluate(model, states[topology.id], plan, memory, terms, ahead)
        if decision.reason in (Reason.REPAIR, Reason.REBALANCED) and decision.moved_executors == 0:
            plans[topology.id] = as_it_runs(topology)
        decisions[topology.id] = decision
    if terms.measured is not None:
        decisions = _as_measured(decisions, terms.measured, plan, terms)
    decisions = hold_what_does_not_fit(model, decisions, plans, ahead.foreseen, terms.room_mhz)
    decisions = hold_what_is_over_budget(model, decisions, plans, terms.spent, terms.budget, terms.now_ms)
    acted = {t: d for t, d in decisions.items() if d.action != "skip"}
    for t, d in acted.items():
        if d.action == "publish":
            memory = memory.missed(t)
    return Verdict(decisions, {t: plans[t] for t in acted}, plan, memory)


def _as_measured(
    decisions: Mapping[str, Decision], measured: Model, plan: Plan, terms: Criteria
) -> dict[str, Decision]:
    """The decisions with promises for the load and traffic that were measured.

    Whether a move helped is judged soon after it, at about the rates before it. CPU is no multiple of the rate (threads
    that poll), so a promise for the rates of a forecast could not be held against that.
    """
    ahead = outlook(measured, plan, terms.traffic)
    plans = {tp.id: tp for tp in plan.topologies}
    found = dict(decisions)
    for t, d in decisions.items():
        if d.promise is None or not (own := ahead.foreseen[t]).total_tps:
            continue
        before, predicted = (own.now_tps or 0.0) / own.total_tps, own.new_tps / own.total_tps
        if d.promise.metric == "load_ratio":
            before = own_load_ratio(measured, t, d.promise.nodes)
            predicted = own_load_ratio(ahead.then, t, d.promise.nodes, plans)
        promise = replace(d.promise, before=before, predicted=predicted, throughput_tps=own.total_tps)
        found[t] = replace(d, promise=promise)
    return found
