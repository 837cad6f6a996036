"""Plans for executors that must leave: of a drained host, or against a pin, an exclusion or a site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stormpilot.control.last_plans import unchanged
from stormpilot.control.planner_client import PlannerClient
from stormpilot.control.rollout_gates import aborted, resting, unanswered_withdrawal
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, forbidden
from stormpilot.decide.decision import Decision
from stormpilot.decide.drain import (
    admit_leaving,
    cannot_leave,
    decide_leaving,
    must_leave,
    planned_later,
    wait_for,
    whose_move,
)
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason, row_of
from stormpilot.decide.requests import plan_of_entry
from stormpilot.model.constraints import misplaced, rest_keeps_its_nodes, rest_stands_still
from stormpilot.model.values import Model, Plan
from stormpilot.publish.publisher import Publisher

BUDGETS = 2
"""Part of a cycle for plans of topologies that must leave, in budgets of the planner, for each of two modes."""


@dataclass(frozen=True)
class _Stuck:
    """A topology that cannot leave: the model on which that was found, and what else the answer depends on."""

    alone: Model
    settings: object
    decision: Decision
    skips: int = 0

    def holds(self, alone: Model, settings: object) -> bool:
        """Whether the planner would answer the same again."""
        return self.settings == settings and unchanged(self.alone, alone)


@dataclass
class _Cycle:
    """The cycle at `now_ms`: topologies of which nothing is known yet, and ms of planning by whether the mode acts."""

    now_ms: int = 0
    unknown: set[str] = field(default_factory=set)
    planned_ms: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})


@dataclass
class DrainProposer:
    """Plans one topology after the other; while one moves, the others wait.

    In a cycle, topologies that act are planned for about `BUDGETS` times `planner.budget_s`, and as long those whose
    plans are only proposed. The rest comes first in the next cycle.

    `max_skips`: so many cycles in a row, a topology that cannot leave is not planned again while nothing changes.
    """

    planners: PlannerClient
    publisher: Publisher
    max_skips: int
    clock_ms: Callable[[], int]
    _stuck: dict[str, _Stuck] = field(default_factory=dict)
    _late: dict[str, None] = field(default_factory=dict)
    """Topologies that are to be planned first, in this order: there was no time for them in the last cycle."""
    _cycle: _Cycle = field(default_factory=_Cycle)

    def propose(self, situation: Situation) -> Verdict | None:
        """The next plan by which executors leave; before it, all that must wait. Proposals come last."""
        settings = situation.snapshot.settings
        why = must_leave(situation.model, misplaced(situation.model), settings.drains)
        if self._cycle.now_ms != situation.now_ms:
            self._cycle = _Cycle(situation.now_ms)
        self._stuck = {t: s for t, s in self._stuck.items() if t in why}
        self._late = {t: None for t in self._late if t in why}
        states = {t: s for t, s in sorted(situation.undecided.items()) if t in why and not s.new and s.placed}
        waiting = self._waiting(states, why, situation)
        if waiting:
            return Verdict.without_plan(waiting, situation.memory)
        acting = {t: s for t, s in states.items() if s.mode == "act"}
        if acting:
            return self._next(acting, why, situation)
        return self._next(states, why, situation.among_proposals) if states else None

    def _waiting(
        self, states: Mapping[str, TopologyState], why: Mapping[str, tuple[Reason, str]], situation: Situation
    ) -> dict[str, Decision]:
        """Topologies that may not move now, and those that wait for the one that does."""
        decide, settings = situation.config.decide, situation.snapshot.settings
        waiting = {}
        mover = _mover(situation)
        for t, state in states.items():
            text, held = why[t][1], settings.hold_transactions.get(t)
            overruled = held is not None and settings.overrule(state.topology.name, held)
            refusal = admit_leaving(state, situation.lost, decide, situation.now_ms, overruled=overruled)
            refusal = refusal or _left_alone(state, situation)
            if refusal is not None:
                waiting[t] = replace(refusal, text=f"{refusal.text} ({text})")
            elif mover is not None and mover != t and state.mode == "act":
                waiting[t] = wait_for(t, situation.topologies[mover], text, decide.restart_s)
        return waiting

    def _next(
        self, states: Mapping[str, TopologyState], why: Mapping[str, tuple[Reason, str]], situation: Situation
    ) -> Verdict:
        """The verdict on one of these topologies of one mode, at first of which it is known already.

        Then the planner is asked, those first that are late; where the time is over, all that are left are late.
        """
        cycle, acts = self._cycle, all(s.mode == "act" for s in states.values())
        for t in sorted(states.keys() - cycle.unknown - self._late.keys()):
            known = self._known(states[t], *why[t], situation)
            if known is not None:
                return known
            cycle.unknown.add(t)
        if cycle.planned_ms[acts] >= BUDGETS * situation.config.planner.budget_s * 1000:
            self._late |= dict.fromkeys(states)
            later = {t: planned_later(t, why[t][1]) for t in states}
            return Verdict.without_plan(later, situation.memory)
        t = next(t for t in (*self._late, *states) if t in states)
        self._late.pop(t, None)
        began_ms = self.clock_ms()
        verdict = self._planned(states[t], *why[t], situation)
        cycle.planned_ms[acts] += self.clock_ms() - began_ms
        self._stuck.pop(t, None)
        if verdict.decisions[t].reason is Reason.INFEASIBLE:
            settings = self._settings(*why[t], situation)
            self._stuck[t] = _Stuck(situation.part_for({t}), settings, verdict.decisions[t])
        return verdict

    def _known(self, state: TopologyState, reason: Reason, text: str, situation: Situation) -> Verdict | None:
        """The verdict that needs no planner: its proposal stands, or it could not leave and nothing has changed."""
        if state.asked:
            return None
        standing = self._standing(state, reason, text, situation)
        t = state.topology.id
        stuck = self._stuck.get(t)
        if standing is not None or stuck is None or stuck.skips >= self.max_skips:
            return standing
        if not stuck.holds(situation.part_for({t}), self._settings(reason, text, situation)):
            return None
        self._stuck[t] = replace(stuck, skips=stuck.skips + 1)
        return Verdict.without_plan({t: stuck.decision}, situation.memory)

    def _settings(self, reason: Reason, text: str, situation: Situation) -> object:
        """Things that an answer depends on beside the model."""
        return situation.config, self.planners.current.planner, reason, text

    def _standing(self, state: TopologyState, reason: Reason, text: str, situation: Situation) -> Verdict | None:
        """The proposal by which the same executors leave for the same reason, while it may still be approved."""
        t = state.topology.id
        entry = self.publisher.proposal(t, situation.now_ms)[0] if state.mode != "act" else None
        if entry is None or (entry.reason, entry.text) != (reason, text) or not situation.stands(t, entry):
            return None
        plan = plan_of_entry(entry)
        cluster, traffic = situation.cluster_for({t}), situation.config.planner.traffic
        decision = decide_leaving(cluster, state, plan, reason, text, traffic)
        verdict = Verdict.without_plan({t: decision}, situation.memory)
        return replace(verdict, standing={t: plan.topologies[0]})

    def _planned(self, state: TopologyState, reason: Reason, text: str, situation: Situation) -> Verdict:
        """A plan in which as little as possible moves beside what must leave.

        A planner that failed has not said that this is impossible: it is asked again in the next cycle.
        """
        t = state.topology.id
        alone = situation.part_for({t})
        starts = {t: misplaced(alone).get(t, [])}
        for model in (rest_stands_still(alone, starts), rest_keeps_its_nodes(alone, starts), alone):
            plan = self.planners.plan(model)
            if isinstance(plan, Plan) or plan[0] is Reason.PLANNER_FAILED:
                break
        if not isinstance(plan, Plan):
            return Verdict.without_plan({t: cannot_leave(t, text, plan)}, situation.memory)
        traffic = situation.config.planner.traffic
        decision = decide_leaving(situation.cluster_for({t}), state, plan, reason, text, traffic)
        return Verdict.of_one(decision, plan, situation.memory, model)


def _left_alone(state: TopologyState, situation: Situation) -> Decision | None:
    """OPERATOR_HOLD while an operator ended the rollout by which it left, and no setting was made after that.

    MOVE_BEING_EVALUATED where its rollout was withdrawn, and the plug-in has not answered to that.
    """
    t, snapshot = state.topology.id, situation.snapshot
    if aborted(t, situation) is None:
        return unanswered_withdrawal(state, situation)
    overruled = snapshot.settings.overrule(state.topology.name, snapshot.rollouts[t].transaction)
    return None if overruled else resting(state, situation)


def _mover(situation: Situation) -> str | None:
    """The topology whose executors are leaving just now, by a plan of this cycle or of one before.

    None where it is held between two steps, as by a pause: nobody knows for how long.
    """
    for t, d in situation.decisions.items():
        if d.action == "publish" and d.reason.row.must_leave:
            return t
    for t, m in situation.snapshot.running_rollouts.items():
        row, state = row_of(m.entry.reason), situation.topologies.get(t)
        if state is None or row is None or not row.must_leave:
            continue
        between = m.phase == "ready"
        if not (between and (m.paused_by or forbidden(state, situation.lost, situation.config.decide))):
            return t
    return whose_move(situation.topologies, situation.config.decide, situation.now_ms)
