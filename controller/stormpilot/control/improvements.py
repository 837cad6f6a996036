"""Plans that make topologies run better, first plans and repairs: topologies that may be planned, in groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from stormpilot.config import Config
from stormpilot.control.last_plans import LastPlans
from stormpilot.control.otd_loop import OtdLoop
from stormpilot.control.partners import Partners
from stormpilot.control.plan_evaluation import PlanEvaluator, PlanningTask
from stormpilot.control.planner_client import PlannerClient
from stormpilot.control.ranks import first_in_order, infeasible_together, outranked, with_turn
from stormpilot.control.rollout_gates import resting
from stormpilot.control.situation import Situation
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.approval import young
from stormpilot.decide.criteria import Criteria, TopologyCriteria
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import restart_time
from stormpilot.model.closed_loop import Demand, grown, growth
from stormpilot.model.forecast import Forecast, demand_by_profile, forecast_of
from stormpilot.model.subset import subset, traffic_of_each, with_even_headroom, with_headroom
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.observe.storm_keys import resource_aware
from stormpilot.publish.publisher import Publisher
from stormpilot.tuning.effective_thresholds import EffectiveThresholds, too_old
from stormpilot.tuning.recommendation import Choice

MORE_THAN_FITS = "the profile forecasts more than fits: planned for what was measured"
NEW_SUPERVISOR_HEADROOM_RATIO = 0.25
"""By how much more than the mean a node may be filled when a supervisor that came is to be used."""
GROWTH_PARTS = (1.0, 0.5)
"""Plans for held sources are made for the whole rise of the rate, or for a part of it where none fits."""
States = Mapping[str, TopologyState]


@dataclass(frozen=True)
class _Planned:
    """A plan or the reason why there is none; what it was made on, and what voluntary plans may fill of that.

    `growth`: how many times as fast topologies with held sources may run, by topology id.
    """

    plan: Plan | tuple[Reason, str]
    planned_on: Model
    alone: Model
    roomy: Model
    growth: Mapping[str, float]


@dataclass(frozen=True)
class ImprovementProposer:
    """Plans a group of topologies while the rest of the cluster stays."""

    planners: PlannerClient
    otd: OtdLoop
    last: LastPlans
    publisher: Publisher
    partners: Partners

    def propose(self, situation: Situation) -> Verdict | None:
        """The plan of the next group, the urgent first; before it, all that may not be planned."""
        refusals = {t: d for t, s in situation.undecided.items() if (d := self._refusal(s, situation)) is not None}
        if refusals:
            return Verdict.without_plan(refusals, situation.memory)
        groups: dict[tuple[bool, bool, str], dict[str, TopologyState]] = {}
        for t, state in situation.undecided.items():
            key = (state.mode != "act", not state.new, situation.choices.name(t))
            groups.setdefault(key, {})[t] = state
        return self._in_order(groups[min(groups)], situation) if groups else None

    def _in_order(self, group: States, situation: Situation) -> Verdict:
        """The verdict on a group, or on the part of it whose turn it is where not all that run nowhere have room."""
        acts = all(s.mode == "act" for s in group.values())
        if acts and resource_aware(situation.fallback):
            later = outranked(situation.model, group, situation.on_their_way)
            if len(later) == len(group):
                return Verdict.without_plan(later, situation.memory)
            group = {t: s for t, s in group.items() if t not in later}
        self.planners.blamed = frozenset()
        verdict = self._decided(group, situation)
        if len(group) > 1 and all(d.reason is Reason.INFEASIBLE for d in verdict.decisions.values()):
            blamed = self.planners.blamed & group.keys()
            if blamed and len(blamed) < len(group):  # the others are planned without them
                return Verdict.without_plan({t: verdict.decisions[t] for t in blamed}, verdict.memory)
        if not infeasible_together(group, verdict):
            return verdict
        first = first_in_order(situation.model, group)
        return with_turn(self._decided({first: group[first]}, situation), situation.model)

    def _refusal(self, state: TopologyState, situation: Situation) -> Decision | None:
        if self.otd.has(state):
            return self.otd.owned_by_otd(state, situation)
        refusal = admit(state, situation.lost, situation.config.decide, situation.now_ms)
        refusal = refusal or resting(state, situation)
        denied = situation.denied.get(state.topology.id)
        return skip(state.topology.id, Reason.NOT_PUBLISHED, denied) if denied and refusal is None else refusal

    def _decided(self, group: States, situation: Situation) -> Verdict:
        """The verdict on the plan of a group; that of the last one for what has not changed since."""
        choice = situation.choices.used.get(next(iter(group)))
        cluster = situation.cluster_for(group)
        forecast = _forecast(cluster, situation, choice)
        own = {t: own_criteria(situation.observation.in_use, situation.config, t, choice) for t in group}
        criteria = _criteria(situation, own)
        common = situation.config, self.planners.current.planner, choice
        settings = {t: (*common, own[t], _occasion(s, own[t], situation)) for t, s in group.items()}
        proposes = all(s.mode == "advise" for s in group.values())
        pressing = any(s.new or s.asked for s in group.values()) if proposes else _pressing(group, situation)
        if pressing or criteria.arrived or forecast.overloaded:
            verdict = self._planned_and_judged(group, situation, forecast, choice, criteria)
            if proposes and pressing:  # what it proposes stands from then on
                self.last.note(forecast.model, settings, verdict.decisions, verdict.plans)
            return verdict
        before = self.last.repeated(forecast.model, settings, partial(self._stands, situation=situation))
        if len(before) == len(group):
            standing = self.last.proposed(before)
            return replace(Verdict.without_plan(before, situation.memory), standing=standing)
        changed = {t: s for t, s in group.items() if t not in before}
        now = _forecast(situation.cluster_for(changed), situation, choice) if before else forecast
        verdict = self._planned_and_judged(changed, situation, now, choice, criteria)
        self.last.note(forecast.model, settings, verdict.decisions, verdict.plans)
        return replace(verdict, decisions={**before, **verdict.decisions})

    def _stands(self, placement: TopologyPlan, situation: Situation) -> bool:
        """Whether a placement is the proposal, and may still be approved, alone or with those it trades places with."""
        decide, (entry, _) = situation.config.decide, self.publisher.proposal(placement.id, situation.now_ms)
        if entry is None or entry.plan.workers != placement.workers or not young(entry, decide, situation.now_ms):
            return False
        return bool(self.partners.proposed(placement.id, entry, situation))

    def _planned_and_judged(
        self, group: States, situation: Situation, forecast: Forecast, choice: Choice | None, criteria: Criteria
    ) -> Verdict:
        expected = {t: forecast.texts[t] for t in forecast.moved}
        planned = self._planned(group, situation, forecast, choice)
        if expected and not isinstance(planned.plan, Plan) and planned.plan[0] is Reason.INFEASIBLE:
            forecast, expected = Forecast(situation.cluster_for(group)), dict.fromkeys(expected, MORE_THAN_FITS)
            planned = self._planned(group, situation, forecast, choice)
        if isinstance(planned.plan, Plan):
            criteria = replace(
                criteria,
                room_mhz={s.id: s.limit_mhz for s in planned.roomy.supervisors},
                coming=forecast.overloaded,
                measured=subset(situation.cluster_for(group), group) if forecast.moved else None,
                growth=planned.growth,
            )
            task = PlanningTask(group, planned.alone, criteria, partial(self.planners.plan, choice=choice))
            verdict = PlanEvaluator(situation).judged(task, planned.plan)
            if criteria.arrived and not verdict.plans and not all(s.new for s in group.values()):
                verdict = self._filling_new(task, planned.roomy, situation) or verdict
        else:
            reason, text = planned.plan
            verdict = Verdict.without_plan({t: skip(t, reason, text) for t in group}, situation.memory)
        decisions = {t: _explained(d, expected) for t, d in verdict.decisions.items()}
        return replace(verdict, decisions=decisions, models=dict.fromkeys(group, planned.planned_on))

    def _planned(self, group: States, situation: Situation, forecast: Forecast, choice: Choice | None) -> _Planned:
        alone = subset(forecast.model, group)
        with_room = _with_room(forecast.model, situation.config, choice)
        roomy = alone if with_room is forecast.model else subset(with_room, group)
        whole = alone if forecast.overloaded or _pressing(group, situation) else roomy
        first = all(s.new for s in group.values())
        follows = situation.config.load.cpu != "declared"  # what is declared follows no rate
        held = [t for t, s in group.items() if s.sources.held and follows]
        most = growth(roomy, held, _demand(roomy, held, situation))
        by: dict[str, float] = {}
        for part in GROWTH_PARTS if most else ():
            by = {t: 1 + (times - 1) * part for t, times in most.items()}
            risen = grown(roomy, by)
            plan, planned_on = self.planners.plan_with_room(
                risen, risen if whole is roomy else grown(whole, by), first=first, choice=choice
            )
            if isinstance(plan, Plan):
                return _Planned(plan, planned_on, alone, roomy, by)
        plan, planned_on = self.planners.plan_with_room(roomy, whole, first=first, choice=choice)
        return _Planned(plan, planned_on, alone, roomy, by)

    def _filling_new(self, task: PlanningTask, roomy: Model, situation: Situation) -> Verdict | None:
        """Once more with less room on every node, so that the supervisor that came is used; None: not worth it."""
        plan = task.plan(with_even_headroom(roomy, NEW_SUPERVISOR_HEADROOM_RATIO))
        if not isinstance(plan, Plan):
            return None
        verdict = PlanEvaluator(situation).judged(task, plan)
        worth_it = any(
            d.reason is Reason.NEW_SUPERVISOR or d.reason is Reason.GAIN_NOT_SUSTAINED
            for d in verdict.decisions.values()
        )
        return verdict if worth_it else None


def _demand(model: Model, held: Collection[str], situation: Situation) -> dict[str, Demand]:
    """Demand on topologies whose sources are held, where that is known: by the profile of this hour, or since
    nothing held them.
    """
    found, observation = {}, situation.observation
    for t, edges in (traffic_of_each(model) if held else {}).items():
        if t not in held:
            continue
        now_tps = sum(e.rate for e in edges)
        by_profile = None
        if (profile := observation.profiles.get(t)) is not None:
            by_profile = demand_by_profile(profile, edges, model, situation.now_ms)
        remembered = situation.memory.demand(t, now_tps, situation.now_ms)
        known = [d for d in (by_profile, remembered) if d is not None]
        if known:
            found[t] = max(known, key=lambda d: d.ratio)
    return found


def _pressing(group: States, situation: Situation) -> bool:
    """Whether somebody needs a plan, or an operator wants one, even if that takes the headroom of a node."""
    wanted = any(s.new or s.degraded or s.rebalanced or s.asked for s in group.values())
    return wanted or bool(situation.memory.overloaded_since_ms)


def _occasion(state: TopologyState, own: TopologyCriteria, situation: Situation) -> object:
    """Circumstances beside model and settings: mode, how it runs, held sources, overload, downtime of a worker."""
    memory, name = situation.memory, state.topology.name
    lasting = own.overloaded(memory.overloaded_since_ms, situation.now_ms)
    restart = restart_time(situation.restarts, name, own.decide.restart_s)
    runs = state.mode, state.degraded, state.rebalanced, state.sources.held
    return *runs, frozenset(memory.overloaded_since_ms), frozenset(lasting), restart


def _with_room(model: Model, config: Config, choice: Choice | None) -> Model:
    """The model with the room that voluntary plans may fill; the same where that is all of B(n)."""
    if choice is None:
        return with_headroom(model, config.decide.fill_ratio)
    return with_headroom(choice.limited(model), choice.rules.get("fill_ratio", config.decide.fill_ratio))


def _forecast(model: Model, situation: Situation, choice: Choice | None) -> Forecast:
    """The model for the window that comes, where that is wanted; else the one that was measured."""
    history, observation = situation.config.history, situation.observation
    if not (history.proactive or (choice is not None and choice.forecast)):
        return Forecast(model)
    profiles, at_ms = observation.profiles, observation.at_ms
    mined = {i: m for i, m in observation.mined.items() if not too_old(m, history, at_ms)}
    declared_cpu = situation.config.load.cpu == "declared"
    return forecast_of(model, profiles, mined, at_ms, history.lead_s, history.max_forecast_error_ratio, declared_cpu)


def _criteria(situation: Situation, own: Mapping[str, TopologyCriteria]) -> Criteria:
    config, period_s = situation.config, situation.config.cycle.period_s
    new_supervisors = config.new_supervisors
    arrived = situation.memory.arrived(
        situation.now_ms, new_supervisors.stable_cycles * period_s, new_supervisors.for_s
    )
    return Criteria(
        config.decide,
        situation.now_ms,
        period_s / 2,
        config.load.change_window_s / 2,
        verify=config.verify,
        new_supervisors=new_supervisors,
        budget=config.budget,
        restarts=situation.restarts,
        arrived=arrived if new_supervisors.enabled else frozenset(),
        spent=situation.spent,
        traffic=config.planner.traffic,
        own=own,
        limit_mhz={s.id: s.limit_mhz for s in situation.model.supervisors},
    )


def _explained(decision: Decision, expected: Mapping[str, str]) -> Decision:
    """The decision with the forecast for its topology."""
    t = decision.topology_id
    return replace(decision, text=f"{decision.text}; {expected[t]}") if t in expected else decision


def own_criteria(
    in_use: EffectiveThresholds, config: Config, topology_id: str, choice: Choice | None = None
) -> TopologyCriteria:
    """The sections as they hold for a topology, and where its thresholds come from."""
    decide, sources = in_use.section(topology_id, "decide", config.decide), in_use.sources(topology_id)
    if choice is not None:
        decide, sources = choice.decide(decide, sources)
    verify = in_use.section(topology_id, "verify", config.verify)
    return TopologyCriteria(decide, verify, in_use.overload_s(topology_id), sources)
