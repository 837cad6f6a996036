"""Verdict on a plan: the topologies that move, checked against those that stay.

The paper decides for the cluster as a whole [A13 3.3]; here each topology of a plan is decided for itself
(`evaluate.py`), so that one with nothing to win does not restart because another one has. A topology that stays keeps
its slots and its load, so a plan that wants those stays too (`capacity_check.py`), whyever it stays: for lack of a
gain, by the move budget (`budget.py`), or until an operator approves (`approval.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from shlex import quote

import msgspec

from stormpilot.decide.admit import TopologyState
from stormpilot.decide.approval import unwanted, waits_for_approval
from stormpilot.decide.budget import hold_what_is_over_budget
from stormpilot.decide.capacity_check import hold_what_does_not_fit
from stormpilot.decide.criteria import Criteria
from stormpilot.decide.decision import Decision
from stormpilot.decide.evaluate import evaluate
from stormpilot.decide.memory import Memory
from stormpilot.decide.origin import PlanOrigin
from stormpilot.decide.predict import Predictions, predict_each
from stormpilot.decide.reasons import Reason
from stormpilot.model.subset import as_it_runs
from stormpilot.model.values import Model, Plan, TopologyPlan


@dataclass(frozen=True)
class Verdict:
    """The decisions for the topologies of a plan, the placements to publish or to propose, and the new memory.

    By topology id: `models` is what was planned on, `origins` where the plan comes from, `standing` the placements that
    were proposed earlier and still are.
    """

    decisions: Mapping[str, Decision]
    plans: Mapping[str, TopologyPlan]
    plan: Plan
    memory: Memory
    models: Mapping[str, Model] = field(default_factory=dict)
    origins: Mapping[str, PlanOrigin] = field(default_factory=dict)
    standing: Mapping[str, TopologyPlan] = field(default_factory=dict)

    @cached_property
    def _hashes(self) -> dict[int, str]:
        """SHA-256 of models, by identity: topologies that were planned together have one."""
        models = {id(m): m for m in self.models.values()}
        return {i: hashlib.sha256(msgspec.json.encode(m)).hexdigest() for i, m in models.items()}

    def inputs_hash(self, topology_id: str) -> str:
        """SHA-256 of the model that a topology was planned on, in hex; empty where it is not known."""
        model = self.models.get(topology_id)
        return "" if model is None else self._hashes[id(model)]

    @classmethod
    def of_one(cls, decision: Decision, plan: Plan, memory: Memory, model: Model) -> Verdict:
        """The verdict on a plan of one topology."""
        t = decision.topology_id
        return cls({t: decision}, {t: plan.topologies[0]}, plan, memory, {t: model})

    @classmethod
    def without_plan(cls, decisions: Mapping[str, Decision], memory: Memory) -> Verdict:
        """Decisions to leave topologies as they are."""
        return cls(decisions, {}, Plan(topologies=[]), memory)


def judge(model: Model, states: Mapping[str, TopologyState], plan: Plan, memory: Memory, criteria: Criteria) -> Verdict:
    """Decide for every topology of `plan`, which is a complete plan of `model`."""
    decisions: dict[str, Decision] = {}
    plans = {tp.id: tp for tp in plan.topologies}
    predictions = predict_each(model, plan, criteria.traffic)
    for topology in model.topologies:
        decision, memory = evaluate(states[topology.id], memory, criteria, predictions)
        if decision.action != "skip" and not decision.moved_executors:  # the plan is what runs
            plans[topology.id] = as_it_runs(topology)
        decisions[topology.id] = decision
    seen = predictions
    if criteria.measured is not None:
        seen = predict_each(criteria.measured, plan, criteria.traffic)
        decisions = _as_measured(decisions, seen)
    decisions = _hold(states, decisions, plans, predictions, criteria)
    acted = {t: d for t, d in decisions.items() if d.action != "skip"}
    for t, d in acted.items():
        if d.moved_executors and seen.by_topology[t].known:
            decisions[t] = replace(d, expectation=seen.expectations[t])
        if d.action == "publish":
            memory = memory.missed(t)
    return Verdict(decisions, {t: plans[t] for t in acted}, plan, memory)


def _hold(
    states: Mapping[str, TopologyState],
    decisions: Mapping[str, Decision],
    plans: Mapping[str, TopologyPlan],
    predictions: Predictions,
    criteria: Criteria,
) -> dict[str, Decision]:
    """Hold plans over the move budget, and plans that do not fit beside what stays, until nothing changes.

    What will need an approval or unwanted restarts does not move now: nobody else gets its room. Where a plan that
    waits for an approval needs in turn the room of such a one, both are proposed.
    """
    model, held = predictions.now, dict[str, Decision]()

    def refusals(group: Mapping[str, Decision]) -> dict[str, Decision]:
        fitting = hold_what_does_not_fit(model, group, plans, predictions.by_topology, criteria.room_mhz)
        return {t: d for t, d in fitting.items() if d is not group[t]}

    while True:
        found = {**decisions, **held}
        waiting = {t for t, d in found.items() if unwanted(d) is not None or _proposed(d, states[t])}
        found = hold_what_is_over_budget(model, found, plans, criteria.spent, criteria.budget, criteria.now_ms, waiting)
        allowed = {t: d for t, d in found.items() if unwanted(d) is None}
        at_once = {t: d for t, d in allowed.items() if not waits_for_approval(d, states[t])}
        refused = refusals(allowed)
        if not refused and (refused := refusals(at_once)):
            trades = _trades(allowed, refused, allowed.keys() - at_once.keys(), refusals)
            if len(trades) == len(refused):
                return {**found, **_as_trades(allowed, trades, states)}
            refused = {t: d for t, d in refused.items() if t not in trades}
        if not refused:
            return found
        held |= refused


def _proposed(decision: Decision, subject: TopologyState) -> bool:
    """Whether a plan is or will be a proposal."""
    return decision.action == "advise" or waits_for_approval(decision, subject)


def _trades(
    allowed: Mapping[str, Decision],
    refused: Collection[str],
    waiting: Collection[str],
    refusals: Callable[[Mapping[str, Decision]], Mapping[str, Decision]],
) -> dict[str, set[str]]:
    """Of the refused plans those whose room plans that wait for an approval need, with these, by topology id."""
    trades, kept = dict[str, set[str]](), dict(allowed)
    for t in sorted(refused):
        rest = {other: d for other, d in kept.items() if other != t}
        lost = refusals(rest).keys() & set(waiting)
        if lost:
            trades[t] = lost
        else:
            kept = rest
    return trades


def _as_trades(
    allowed: Mapping[str, Decision], trades: Mapping[str, set[str]], states: Mapping[str, TopologyState]
) -> dict[str, Decision]:
    """Proposals of plans that trade places with some that wait for an approval; these say so."""
    found = dict[str, Decision]()
    for t, others in trades.items():
        names = [states[other].topology.name for other in sorted(others)]
        approve = " and ".join(f"`stormpilot approve {quote(name)}`" for name in names)
        why = f"{allowed[t].reason}: {allowed[t].text}"
        text = f"{why}; trades places with {', '.join(names)}: {approve} lets it move too"
        found[t] = replace(allowed[t], action="advise", reason=Reason.APPROVAL_NEEDED, text=text, promise=None)
    for other in sorted(set[str]().union(*trades.values())):
        names = [states[t].topology.name for t in sorted(trades) if other in trades[t]]
        text = f"{allowed[other].text}; trades places with {', '.join(names)}, which will move with it"
        found[other] = replace(allowed[other], text=text)
    return found


def _as_measured(decisions: Mapping[str, Decision], measured: Predictions) -> dict[str, Decision]:
    """The decisions with promises for the load and traffic that were measured.

    Whether a move helped is judged soon after it, at about the rates before it. CPU is no multiple of the rate (threads
    that poll), so a promise for the rates of a forecast could not be held against that.
    """
    found = dict(decisions)
    for t, d in decisions.items():
        if d.promise is not None and measured.by_topology[t].total_tps:
            found[t] = replace(d, promise=measured.promised(t, d.promise))
    return found
