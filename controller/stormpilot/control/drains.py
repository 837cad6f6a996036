"""Plans for executors that must leave: of a drained host, or against a pin, an exclusion or a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stormpilot.control.last_plans import unchanged
from stormpilot.control.planner_client import PlannerClient
from stormpilot.control.rollout_gates import aborted, resting, running_rollouts
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, forbidden
from stormpilot.decide.decision import Decision
from stormpilot.decide.drain import (
    admit_leaving,
    cannot_leave,
    decide_leaving,
    must_leave,
    overrules,
    wait_for,
    whose_move,
)
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason, row_of
from stormpilot.decide.requests import plan_of_entry
from stormpilot.messages.settings import DrainSetting, ExcludeSetting, PinSetting
from stormpilot.model.constraints import misplaced, rest_keeps_its_nodes, rest_stands_still
from stormpilot.model.values import Model, Plan
from stormpilot.publish.publisher import Publisher


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
class DrainProposer:
    """Plans one topology after the other; while one moves, the others wait.

    `max_skips`: so many cycles in a row, a topology that cannot leave is not planned again while nothing changes.
    """

    planners: PlannerClient
    publisher: Publisher
    max_skips: int
    _stuck: dict[str, _Stuck] = field(default_factory=dict)

    def propose(self, situation: Situation) -> Verdict | None:
        """The next plan by which executors leave; before it, all that must wait. Proposals come last."""
        settings = situation.snapshot.settings
        why = must_leave(situation.model, misplaced(situation.model), settings.drains)
        self._stuck = {t: s for t, s in self._stuck.items() if t in why}
        by_urgency = sorted(situation.undecided.items(), key=lambda item: (item[1].mode != "act", item[0]))
        states = {t: s for t, s in by_urgency if t in why and not s.new and s.placed}
        waiting = self._waiting(states, why, situation)
        if waiting:
            return Verdict.without_plan(waiting, situation.memory)
        t = next(iter(states), None)
        return None if t is None else self._next(states[t], *why[t], situation)

    def _waiting(
        self, states: Mapping[str, TopologyState], why: Mapping[str, tuple[Reason, str]], situation: Situation
    ) -> dict[str, Decision]:
        """Topologies that may not move now, and those that wait for the one that does."""
        decide, settings = situation.config.decide, situation.snapshot.settings
        asked: list[DrainSetting | PinSetting | ExcludeSetting] = [*settings.drains.values()]
        asked += [*settings.pins, *settings.exclusions]
        waiting = {}
        mover = _mover(situation)
        for t, state in states.items():
            text = why[t][1]
            refusal = admit_leaving(state, *situation.lost, decide, situation.now_ms, asked)
            refusal = refusal or _left_alone(state, asked, situation)
            if refusal is not None:
                waiting[t] = replace(refusal, text=f"{refusal.text} ({text})")
            elif mover is not None and mover != t and state.mode == "act":
                waiting[t] = wait_for(t, situation.topologies[mover], text, decide.restart_s)
        return waiting

    def _next(self, state: TopologyState, reason: Reason, text: str, situation: Situation) -> Verdict:
        """The verdict on one topology; the planner is asked where it is not known already."""
        if state.mode != "act":
            situation = situation.among_proposals
        known = None if state.asked else self._standing(state, reason, text, situation)
        if known is not None:
            return known
        t, alone = state.topology.id, situation.part_for({state.topology.id})
        settings = situation.config, self.planners.current.planner, reason, text
        stuck = self._stuck.pop(t, None)
        if stuck is not None and not state.asked and stuck.skips < self.max_skips and stuck.holds(alone, settings):
            self._stuck[t] = replace(stuck, skips=stuck.skips + 1)
            return Verdict.without_plan({t: stuck.decision}, situation.memory)
        verdict = self._planned(state, reason, text, situation)
        if verdict.decisions[t].reason is Reason.INFEASIBLE:
            self._stuck[t] = _Stuck(alone, settings, verdict.decisions[t])
        return verdict

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


def _left_alone(
    state: TopologyState, asked: Iterable[DrainSetting | PinSetting | ExcludeSetting], situation: Situation
) -> Decision | None:
    """OPERATOR_HOLD while an operator ended the rollout by which it left, and no setting was made after that."""
    m = aborted(state.topology.id, situation)
    if m is None or any(overrules(s, state.topology.name, m.since_ms) for s in asked):
        return None
    return resting(state, situation)


def _mover(situation: Situation) -> str | None:
    """The topology whose executors are leaving just now, by a plan of this cycle or of one before.

    None where it is held between two steps, as by a pause: nobody knows for how long.
    """
    for t, d in situation.decisions.items():
        if d.action == "publish" and d.reason.row.must_leave:
            return t
    for t, m in running_rollouts(situation.snapshot).items():
        row, state = row_of(m.entry.reason), situation.topologies.get(t)
        if state is None or row is None or not row.must_leave:
            continue
        between = m.phase == "ready"
        if not (between and (m.paused_by or forbidden(state, *situation.lost, situation.config.decide))):
            return t
    return whose_move(situation.topologies, situation.config.decide, situation.now_ms)
