"""`otd` as a loop of its own [N24 4]: every few seconds at most one executor moves, through the gates of every move.

Of the topologies that it owns, the main loop only makes first plans, repairs, and what operators ask for.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from shlex import quote
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from stormpilot.config import BudgetSection, DecideSection
from stormpilot.config.deciding import OtdSection
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.kept_off import KeptOff
from stormpilot.control.plan_evaluation import PlanEvaluator
from stormpilot.control.rollout_gates import resting
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.approval import unwanted
from stormpilot.decide.budget import hold_what_is_over_budget
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.effect import switched
from stormpilot.decide.events import Event, EventKind
from stormpilot.decide.expectation import expectations
from stormpilot.decide.judge import Verdict
from stormpilot.decide.predict import predict
from stormpilot.decide.reasons import Reason, row_of
from stormpilot.model.compiled import NOWHERE, Compiled, Ints, compile_model
from stormpilot.model.subset import plan_of, subset
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner.methods import otd
from stormpilot.planner.placement.layout import Frame, Layout, frame_of, running_layout
from stormpilot.printable import tuples
from stormpilot.publish.publisher import Publisher

States = Mapping[str, TopologyState]
Kind = Literal["move", "switch"]
Answer = otd.Step | otd.Switch | None
Told = dict[str, otd.Lacking | None]
"""Lack of resources by topology id, as the planner says; None: there is none."""
MOST_TRIES = 5
"""So many moves are refused in one step because less would be carried; the next step looks further."""


class Refusal(NamedTuple):
    """A step that may not be made: no other one of its topology is looked for, or with `again` one is."""

    topology_id: str
    again: bool = False


@dataclass
class OtdLoop:
    """One per leadership.

    `insufficient` are the topologies of which it was reported that resources do not suffice. `last`: the decision of
    the last step by topology id, of those that no gate held.
    """

    current: CurrentConfig
    publisher: Publisher
    insufficient: set[str] = field(default_factory=set)
    kept_off: KeptOff = field(default_factory=KeptOff)
    last: dict[str, Decision] = field(default_factory=dict)

    def has(self, state: TopologyState) -> bool:
        """Whether this loop moves the topology's executors, and the main loop leaves them alone."""
        section = self.current.config.otd
        if not section.enabled or state.new or state.degraded or state.rebalanced or state.asked:
            return False
        name = state.topology.name
        return not section.include or any(fnmatch.fnmatchcase(name, p) for p in section.include)

    def owned_by_otd(self, state: TopologyState, situation: Situation) -> Decision:
        """Decision of the main loop for a topology that this one has: the gate that holds it, else the last step."""
        t, name = state.topology.id, state.topology.name
        closed = admit(state, situation.lost, self._gates(state), situation.now_ms) or resting(state, situation)
        if closed is not None:
            return closed
        last = self.last.get(t)
        if last is not None and last.action == "skip" and last.reason is not Reason.OTD:
            return last
        text = f"otd moves one executor at a time, every {self.current.config.otd.period_s:g} s where one is worth it"
        if last is None:
            return skip(t, Reason.OTD, text)
        waits = (
            f"; `stormpilot approve {quote(name)}` makes it" if last.action != "skip" and only_proposed(state) else ""
        )
        text = f"{text}; its last step: {last.text}{waits}"
        return skip(t, Reason.OTD, text, value=last.value, threshold=last.threshold)

    def step(self, states: Mapping[str, TopologyState], situation: Situation) -> tuple[Verdict | None, list[Event]]:
        """The next move of one executor, and a proposal for each topology whose moves wait for somebody."""
        alive = frozenset(situation.snapshot.topologies) | situation.snapshot.unreadable_topologies
        self.insufficient &= alive
        self.kept_off.keep_only(alive)
        ready = self._ready(states, situation)
        self.last = {t: d for t, d in self.last.items() if t in ready}
        acting = {t: s for t, s in ready.items() if not only_proposed(s)}
        found, told = self._next(acting, situation)
        for t in sorted(ready.keys() - acting.keys()):
            proposal, answers = self._proposal(ready[t], situation)
            found, told = found + proposal, told | answers
        return _together(found), self._events(told, ready, situation.now_ms)

    def _proposal(self, state: TopologyState, situation: Situation) -> tuple[list[Verdict], Told]:
        """The next move of a topology by itself, to be proposed; none while it is proposed, or what comes before it."""
        t = state.topology.id
        entry, _ = self.publisher.proposal(t, situation.now_ms)
        row = None if entry is None else row_of(entry.reason)
        if entry is not None and row is not None and not row.voluntary and situation.stands(t, entry):
            self.last[t] = skip(t, Reason.OTD, f"proposal {entry.plan.plan_id} ({entry.reason}) comes first")
            return [], {}
        found, told = self._next({t: state}, situation)
        young_ms = situation.config.decide.approval_max_age_s * 1000
        if entry is not None and situation.now_ms - entry.plan.created_at_ms < young_ms:
            found = [v for v in found if t not in v.plans or v.plans[t].workers != entry.plan.workers]
        return found, told

    def _next(self, ready: States, situation: Situation) -> tuple[list[Verdict], Told]:
        """The next move of one executor: to a standby, else out of workers that can be emptied, else any.

        Before it, those that may not be made; with it, what each topology lacks, where any move is asked for.
        """
        if not ready:
            return [], {}
        strategy, evaluator = situation.config.decide.move_strategy, PlanEvaluator(situation)
        model, before = situation.part_for(ready), list[Verdict]()
        if strategy != "restart":
            before, _ = self._allowed(ready, model, situation, by="switch")
            if any(v.plans for v in before):
                return before, {}
        closed = evaluator.closed(model, ready)
        if closed is not model:
            found, _ = self._allowed(ready, closed, situation)
            before += found
            if any(v.plans for v in found) or strategy == "rolling":
                return before, {}
        found, told = self._allowed(ready, model, situation)
        return before + found, told

    def _allowed(
        self, ready: States, model: Model, situation: Situation, *, by: Kind = "move"
    ) -> tuple[list[Verdict], Told]:
        """The next step that may be made; topologies whose own may not be keep nobody else from theirs."""
        left, found, told, tries = dict(ready), list[Verdict](), Told(), MOST_TRIES
        while left:
            verdict, answer, refused = self._step(left, model, situation, by)
            found += [] if verdict is None else [verdict]
            told |= {t: _lacks(answer, t) for t in left}
            if verdict is not None:
                self._note(verdict, left if refused is None else {})
            if refused is None:
                break
            if refused.again and tries:
                tries -= 1
            else:
                del left[refused.topology_id]
        return found, told

    def _note(self, verdict: Verdict, others: States) -> None:
        """Remember the decision of a step, which `others` had to leave to the one that it is about."""
        ((t, d),) = verdict.decisions.items()
        self.last |= {o: skip(o, Reason.OTD, f"it was for {others[t].topology.name}: {d.text}") for o in others}
        self.last[t] = d

    def _ready(self, states: Mapping[str, TopologyState], situation: Situation) -> dict[str, TopologyState]:
        lost, now_ms = situation.lost, situation.now_ms
        return {t: s for t, s in states.items() if self.has(s) and admit(s, lost, self._gates(s), now_ms) is None}

    def _step(
        self, ready: States, model: Model, situation: Situation, by: Kind
    ) -> tuple[Verdict | None, Answer, Refusal | None]:
        """The next step of these topologies, if there is one; the planner's answer; and whether it may not be made.

        Of sections of their own the most careful numbers hold for all. A `switch` gives the tuples of an executor to
        one that stands by: in the plan these two change places.
        """
        config, in_use = situation.config, situation.observation.in_use
        standing = subset(model, ready)
        compiled = compile_model(standing)
        if (compiled.current == NOWHERE).any():  # its slots are another's by now: nothing that runs is known to move
            t, _ = compiled.name(int(compiled.current.argmin()))
            self.last[t] = skip(t, Reason.OTD, "another topology has slots of it by now")
            return None, None, Refusal(t)
        self.kept_off.look(compiled, situation.now_ms)
        compiled = self.kept_off.without(compiled, situation.now_ms)
        frame = frame_of(compiled)
        layout = running_layout(frame)
        if (layout.worker == NOWHERE).any():  # after a repair that divided a worker, for example
            t, _ = compiled.name(int(layout.worker.argmin()))
            self.last[t] = skip(t, Reason.OTD, "it runs in more workers than it asks for")
            return None, None, Refusal(t)
        thresholds = self._thresholds([in_use.section(t, "otd", config.otd) for t in ready])
        answer: Answer = (otd.switch_step if by == "switch" else otd.step)(frame, layout, thresholds)
        if not isinstance(answer, otd.Move | otd.Switch):
            if answer is not None:
                self.last |= _no_move(frame, layout, thresholds, answer)
            return None, answer, None
        slots = _slots_after(compiled, layout, answer)
        plan = msgspec.structs.replace(compiled.plan_of(slots), planner="otd", params={"steps": 1})
        running = compiled.plan_of(compiled.current)
        t, start = compiled.name(answer.executor)
        there = answer.executor, int(slots[answer.executor]), situation.now_ms
        ago_min = self.kept_off.came_from(compiled, *there)
        if isinstance(answer, otd.Move) and answer.case == 3 and ago_min is not None:
            text = f"executor {start} came from there {ago_min:.0f} min ago: not back for traffic within the hour"
            no, again = skip(t, Reason.OTD, text), self.kept_off.keep(compiled, *there, too_slow=False)
            return Verdict.without_plan({t: no}, situation.memory), answer, Refusal(t, again)
        if _breaks_more(standing, plan, running, (t, start)):
            self.last[t] = skip(t, Reason.OTD, f"executor {start} would break a constraint where it is to move")
            return None, answer, Refusal(t)
        to = compiled.name(answer.standby)[1] if isinstance(answer, otd.Switch) else None
        decision = self._decision(t, (start, to), ready[t], standing, plan, answer, thresholds)
        restarted = {tp.id: tp for tp in (plan if to is None else running).topologies}
        now_ms, spent = situation.now_ms, situation.spent
        for limits in (_of_the_cluster(config.budget), config.budget):
            held = hold_what_is_over_budget(standing, {t: decision}, restarted, spent, limits, now_ms)
            if held[t].action == "skip":  # by the cluster's limits nobody may make a step, by its own others may
                refused = Refusal(t) if limits is config.budget else None
                return Verdict.without_plan(held, situation.memory), answer, refused
        expected = expectations(standing, plan, config.planner.traffic, {t})[t]
        if expected.shortfall:
            text, (_, carried_tps) = f"{decision.text}, but {expected.shortfall}", expected.carried_tps
            no = skip(t, Reason.THROUGHPUT_WOULD_FALL, text, value=carried_tps, threshold=expected.now_tps)
            again = self.kept_off.keep(compiled, *there, too_slow=True)
            return Verdict.without_plan({t: no}, situation.memory), answer, Refusal(t, again)
        decision = replace(decision, expectation=expected)
        plans = {tp.id: tp for tp in plan.topologies if tp.id == t}
        verdict = Verdict({t: decision}, plans, plan, situation.memory, {t: model})
        evaluator = PlanEvaluator(situation)
        if by == "switch":
            return (verdict, answer, None) if evaluator.switches(verdict) else (None, answer, Refusal(t))
        way = evaluator.ways(plans).get(t)
        refusal = None if way is None else unwanted(replace(decision, strategy=way.strategy))
        if refusal is not None:
            return Verdict.without_plan({t: refusal}, situation.memory), answer, Refusal(t)
        return verdict, answer, None

    def _gates(self, state: TopologyState) -> DecideSection:
        """The gates, with the time that a topology rests after what was done last."""
        section, plan = self.current.config.otd, state.plan
        rest_s = section.cool_down_s
        if plan is not None and state.move is not None and switched(state.move, plan.plan_id):
            rest_s = section.switch_cool_down_s
        return msgspec.structs.replace(self.current.config.decide, cool_down_s=rest_s)

    def _decision(
        self,
        topology_id: str,
        moved: tuple[int, int | None],
        state: TopologyState,
        model: Model,
        plan: Plan,
        move: otd.Move | otd.Switch,
        thresholds: otd.Thresholds,
    ) -> Decision:
        """Why `moved` moves: the executor, and the one that gets its tuples where it stays itself."""
        seen = predict(subset(model, {topology_id}), plan_of(plan, topology_id), self.current.config.planner.traffic)
        why = (
            "it relieves an overloaded worker"
            if move.case == 1
            else f"{tuples(move.asc_tps)} tuples/s less between nodes"
        )
        start, to = moved
        what = (
            f"executor {start} moves" if to is None else f"executor {start} gives its tuples to {to}, which stands by"
        )
        return Decision(
            topology_id,
            state.action,
            Reason.OTD,
            f"case {move.case}: {what}; {why}",
            move.asc_tps,
            thresholds.threshold_asc_tps if move.case == 3 else None,
            moved_executors=1,
            inter_node_tps=seen.inter_node_tps,
        )

    def _thresholds(self, sections: Sequence[OtdSection]) -> otd.Thresholds:
        """One set for all, since the step looks at workers of all: act on a load that is high for one of them."""
        return otd.Thresholds(
            cpu_high=min(s.cpu_high for s in sections),
            cpu_low=min(s.cpu_low for s in sections),
            queue_high_tuples=min(s.queue_high_tuples for s in sections),
            queue_low_tuples=min(s.queue_low_tuples for s in sections),
            threshold_asc_tps=max(s.threshold_asc_tps for s in sections),
        )

    def _events(self, told: Told, ready: States, now_ms: int) -> list[Event]:
        """RESOURCES_INSUFFICIENT when that begins, RESOURCES_SUFFICIENT when it ends: each once."""
        events = []
        for t, lacking in sorted(told.items()):
            name = ready[t].topology.name
            if lacking is not None and t not in self.insufficient:
                events.append(Event(EventKind.RESOURCES_INSUFFICIENT, t, name, lacking.text, now_ms))
            elif lacking is None and t in self.insufficient:
                text = "no worker is too loaded, or one can take its load"
                events.append(Event(EventKind.RESOURCES_SUFFICIENT, t, name, text, now_ms))
            (self.insufficient.discard if lacking is None else self.insufficient.add)(t)
        return events


def only_proposed(state: TopologyState) -> bool:
    """Whether steps of a topology wait for an operator."""
    return state.mode != "act" or state.approval


def _together(verdicts: Sequence[Verdict]) -> Verdict | None:
    """One verdict on the steps of several topologies; None for none."""
    if not verdicts:
        return None
    decisions, plans, models = (
        {t: found for v in verdicts for t, found in part(v).items()}
        for part in (attrgetter("decisions"), attrgetter("plans"), attrgetter("models"))
    )
    with_plan = next((v for v in verdicts if v.plans), verdicts[0])
    return replace(with_plan, decisions=decisions, plans=plans, models=models)


def _lacks(answer: Answer, topology_id: str) -> otd.Lacking | None:
    """Lack of resources of a topology by the planner's answer; None: there is none."""
    lacking = answer.lacking if isinstance(answer, otd.Move) else answer
    return lacking if isinstance(lacking, otd.Lacking) and topology_id in lacking.topologies else None


def _no_move(
    frame: Frame, layout: Layout, at: otd.Thresholds, answer: otd.Lacking | otd.Nothing
) -> dict[str, Decision]:
    """Decisions of a step that moves nothing, by topology id, with the number where it is not one of queues."""
    c, where = frame.compiled, layout.node_of_executors()
    part = (np.bincount(where, c.cpu_mhz, c.nodes) / np.maximum(c.node_limit_mhz, 1.0))[np.unique(where)]
    least, most = float(part.min()), float(part.max())
    value, limit = (least, at.cpu_low) if answer.case == 4 else (most, at.cpu_high)
    why = answer.text if isinstance(answer, otd.Lacking) else "no worker is too loaded, and none is low"
    load = (
        f"no move; {why}: nodes are filled to {least:.0%} to {most:.0%} of what planning may fill; too loaded is above "
        f"{at.cpu_high:.0%} or {at.queue_high_tuples:,.0f} tuples that wait, low up to {at.cpu_low:.0%} and "
        f"{at.queue_low_tuples:,.0f}"
    )
    best = otd.step(frame, layout, replace(at, threshold_asc_tps=0.0))
    asc_tps, wanted_tps = best.asc_tps if isinstance(best, otd.Move) else 0.0, at.threshold_asc_tps
    gain = f"no move; the best would save {tuples(asc_tps)} tuples/s between nodes, more than {wanted_tps:g} are wanted"
    found = {}
    for t in (topology.id for topology in c.model.topologies):
        if answer.case == 3 or (isinstance(answer, otd.Lacking) and answer.case == 1 and t not in answer.topologies):
            found[t] = skip(t, Reason.OTD, gain, value=asc_tps, threshold=wanted_tps)
        else:
            by_cpu = value > limit  # else it is the tuples that wait
            number = (value, limit) if by_cpu else (None, None)
            found[t] = skip(t, Reason.OTD, load, value=number[0], threshold=number[1])
    return found


def _of_the_cluster(budget: BudgetSection) -> BudgetSection:
    """The limits of the cluster alone."""
    return msgspec.structs.replace(budget, topology_executors_per_hour=None, topology_workers_per_hour=None)


def _slots_after(compiled: Compiled, layout: Layout, step: otd.Move | otd.Switch) -> Ints:
    """Slots of all executors after a step: an executor joins a worker, or changes places with one that stands by."""
    slots = compiled.current.copy()
    if isinstance(step, otd.Switch):
        pair = [step.executor, step.standby]
        slots[pair] = slots[pair[::-1]]
    else:
        slots[step.executor] = compiled.current[layout.worker == step.worker][0]
    return slots


def _breaks_more(model: Model, plan: Plan, running: Plan, moved: tuple[str, int]) -> bool:
    """Whether a step breaks a constraint: by what it moves, or one that what runs keeps.

    What runs may break some: Storm's own scheduler knows no sites, and an overloaded node is relieved step by step.
    """
    before = violations(model, running)
    return any(moved in v.executors or (not v.executors and v not in before) for v in violations(model, plan))
