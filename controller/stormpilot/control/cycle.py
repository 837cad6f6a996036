"""The one page on which all stages meet: observe -> model -> plan -> decide -> publish -> verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import partial

import structlog

from stormpilot.config import Config
from stormpilot.config.deciding import OtdSection
from stormpilot.control.move_tracker import MoveTracker
from stormpilot.control.otd_loop import OtdLoop
from stormpilot.control.plan_dispatcher import PlanDispatcher
from stormpilot.control.plan_evaluation import PlanEvaluator
from stormpilot.control.planner_client import Compute, Planners
from stormpilot.control.request_handler import RequestHandler
from stormpilot.control.rollout_runner import RolloutRunner
from stormpilot.control.status_log import StatusLog
from stormpilot.control.topology_state import topology_states
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.approval import with_approval
from stormpilot.decide.evaluate import Criteria, TopologyCriteria
from stormpilot.decide.events import Event
from stormpilot.decide.judge import Verdict
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.decide.report import CycleReport, running_metrics
from stormpilot.decide.restarts import restart_time
from stormpilot.messages.moves import MoveState
from stormpilot.model.constraints import misplaced
from stormpilot.model.forecast import Foreseen, foresee
from stormpilot.model.subset import isolated_by_id, subset, with_even_headroom, with_headroom, with_plans
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.observe.observer import Observation, Observer
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.observe.settings import Settings
from stormpilot.publish.publisher import Publisher
from stormpilot.tuning.effective_thresholds import EffectiveThresholds
from stormpilot.tuning.recommendation import Choice, Choices, choices

log = structlog.get_logger(__name__)

MORE_THAN_FITS = "the profile foretells more than fits: planned for what was measured"
REFILL_HEADROOM_RATIO = 0.25
"""By how much more than the mean a node may be filled when a supervisor that came is to be used."""


@dataclass
class Cycle:
    """What one cycle needs, and what it remembers for the next.

    `planner` plans what runs, `first_planner` what was never placed; `new_id` makes unique ids.
    """

    observer: Observer
    publisher: Publisher
    config: Config
    compute: InitVar[Compute]
    planner: InitVar[str]
    first_planner: InitVar[str]
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    name: str
    memory: Memory = field(default_factory=Memory)
    status_log: StatusLog = field(default_factory=StatusLog)

    def __post_init__(self, compute: Compute, planner: str, first_planner: str) -> None:
        self.planners = Planners(self.config, compute, planner, first_planner)
        self.move_tracker = MoveTracker(self.config, self.publisher)
        self.otd = OtdLoop(self.config)
        self.told_since: list[Event] = []
        self.evaluator = PlanEvaluator(self.config)
        self.rollout_runner = RolloutRunner(
            self.config,
            self.publisher,
            self.name,
            self.new_id,
            self.observer,
        )
        self.choices = Choices()
        self.request_handler = RequestHandler(self.publisher, self.config, self.name, self.new_id)
        self.dispatcher = PlanDispatcher(
            self.publisher,
            self.request_handler,
            self.move_tracker,
            self.evaluator,
            self.rollout_runner,
            self.name,
            self.new_id,
            self.clock_ms,
        )

    def use(self, config: Config) -> None:
        """Go on with another configuration; what is remembered stays."""
        self.config = self.move_tracker.config = self.otd.config = self.request_handler.config = (
            self.planners.config
        ) = config
        self.evaluator.config = self.rollout_runner.config = config

    def run(self, observation: Observation) -> CycleReport:
        """One cycle; `UnreachableError` when ZooKeeper is away, `DeposedError` when we do not lead any more."""
        now_ms = observation.at_ms
        account = CycleReport(now_ms)
        self.status_log.look(observation.seen)
        if observation.belief is None:
            account.waiting_for = "waiting for the scheduler plug-in to write the cluster: is it in Nimbus?"
            return account
        model, in_use = observation.belief.model, observation.in_use
        self.memory = self.memory.observe(model, now_ms).keep_only(observation.seen.topologies)
        account.events, self.told_since = self.told_since, []
        account.running = self._measured(observation, model)
        account.events += self.move_tracker.look(observation, account.running)
        account.restarts, account.followed = self.move_tracker.restarts, self.move_tracker.moves
        account.ended, self.move_tracker.ended = self.move_tracker.ended, []
        states = self._states(observation)
        account.names = {t: s.topology.name for t, s in states.items()}
        account.modes = {t: s.mode for t, s in states.items()}
        account.modes_from = {t: s.mode_from for t, s in states.items()}
        account.restart_times = {
            t: restart_time(self.move_tracker.restarts, name, in_use.section(t, "decide", self.config.decide).restart_s)
            for t, name in account.names.items()
        }
        account.thresholds = {t: in_use.told(t, model) for t in account.names}
        self.choices = choices(self.config, observation.mined, now_ms)
        account.recommendations = self.choices.said
        lost = self._lost(model, now_ms)
        states = self.request_handler.begin(observation.seen.settings, states, model, lost, now_ms)
        account.decisions.update(self._rollouts_in_progress(states, model, observation))
        for verdict in self._wishes(states, model, lost, account):
            self.dispatcher.publish(verdict, observation, account)
            model = with_plans(model, verdict.plans)
        rest = {t: s for t, s in states.items() if t not in account.decisions}
        for t, back in self.move_tracker.rollbacks(rest, observation, model, lost, account.events).items():
            account.decisions[t] = back.decision
            if back.plan is not None:
                account.models[t] = subset(model, {t})
                verdict = Verdict({t: back.decision}, {t: back.plan.topologies[0]}, back.plan, self.memory)
                self.dispatcher.publish(verdict, observation, account)
                model = with_plans(model, verdict.plans)
        for group in self._admitted(states, model, account, observation):
            verdict = with_approval(self._decide(group, model, account, observation), states)
            account.decisions.update(verdict.decisions)
            self.dispatcher.publish(verdict, observation, account)
            model = with_plans(model, verdict.plans)
        self.request_handler.finish_asked(states, account.decisions)
        return account

    def step(self, observation: Observation) -> CycleReport:
        """One step of `otd`, between two cycles; what it tells is told by the next cycle too."""
        account = CycleReport(observation.at_ms)
        if observation.belief is None:
            return account
        model = observation.belief.model
        account.events += self.move_tracker.look(observation, self._measured(observation, model))
        states = self._states(observation)
        account.names = {t: s.topology.name for t, s in states.items()}
        account.modes = {t: s.mode for t, s in states.items()}
        lost = self._lost(model, observation.at_ms)
        moves, now_ms = self.move_tracker.moves, observation.at_ms
        asked = {*observation.seen.settings.requests, *self.rollout_runner.running(observation)}
        asked |= {t for t, s in states.items() if self.rollout_runner.resting(s, observation) is not None}
        free = {t: s for t, s in states.items() if t not in asked}  # what operators ask for is the next cycle's
        self.request_handler.begin(Settings(), free, model, lost, now_ms)
        own = {t: observation.in_use.section(t, "otd", self.otd.config.otd) for t in free}
        verdict, events = self._otd_step(free, model, lost, moves, now_ms, own, observation.seen)
        account.events += events
        if verdict is not None:
            verdict = with_approval(verdict, states)
            account.decisions.update(verdict.decisions)
            account.planners.append("otd")
            account.models.update(dict.fromkeys(verdict.plans, model))
            self.dispatcher.publish(verdict, observation, account)
        self.told_since += account.events
        return account

    def _otd_step(
        self,
        free: Mapping[str, TopologyState],
        model: Model,
        lost: tuple[list[str], int],
        moves: Mapping[str, MoveState],
        now_ms: int,
        own: Mapping[str, OtdSection],
        seen: StoreSnapshot,
    ) -> tuple[Verdict | None, list[Event]]:
        """The next move of one executor: to one that stands by, else of workers that can be emptied, else any."""
        if self.config.decide.move_strategy != "restart":
            step = OtdLoop(self.config).step(free, model, lost, moves, self.memory, now_ms, own, by="switch")[0]
            if step is not None and self.evaluator.switches(model, step, seen):
                return step, []
        closed = self.evaluator.closed(model, free, seen)
        if closed is not model:
            verdict, _ = OtdLoop(self.config).step(free, closed, lost, moves, self.memory, now_ms, own)
            if verdict is not None or self.config.decide.move_strategy == "rolling":
                return verdict, []
        return self.otd.step(free, model, lost, moves, self.memory, now_ms, own)

    def advance_rollouts(self, observation: Observation) -> None:
        """Look after plans that are carried out step by step, about once a second."""
        if observation.belief is not None:
            lost = self._lost(observation.belief.model, observation.at_ms)
            self.told_since += self.rollout_runner.tick(observation, self._states(observation), lost)

    def _rollouts_in_progress(
        self, states: Mapping[str, TopologyState], model: Model, observation: Observation
    ) -> dict[str, Decision]:
        """What is said of topologies whose plan is being carried out step by step; repairs and drains go before."""
        found = {}
        for t, m in self.rollout_runner.running(observation).items():
            if t not in states or states[t].degraded:
                continue
            if not misplaced(with_plans(subset(model, {t}), {t: TopologyPlan(id=t, workers=m.target)})).get(t):
                found[t] = skip(
                    t,
                    Reason.ROLLOUT_IN_PROGRESS,
                    m.sentence(observation.at_ms),
                    value=m.step + 1,
                    threshold=len(m.steps),
                )
        return found

    def _lost(self, model: Model, now_ms: int) -> tuple[list[str], int]:
        return self.memory.lost((s.id for s in model.supervisors), now_ms, self.config.decide.lost_supervisor_grace_s)

    def _wishes(
        self, states: Mapping[str, TopologyState], model: Model, lost: tuple[list[str], int], account: CycleReport
    ) -> Iterator[Verdict]:
        """What operators asked for, and executors that must leave: one topology at a time."""
        self.request_handler.finish_refused()
        account.decisions.update(self.request_handler.waiting())
        for t, decision, plan in self.request_handler.to_publish():
            account.decisions[t], account.models[t] = decision, subset(model, {t})
            yield Verdict({t: decision}, {t: plan.topologies[0]}, plan, self.memory)
        account.decisions.update(self.request_handler.pending_approval(states, model))
        rest = {t: s for t, s in states.items() if t not in account.decisions}
        held, planned = self.request_handler.leave(rest, model, lost, self.planners.plan)
        account.decisions.update(held)
        for t, (decision, plan, standing) in planned.items():
            account.models[t] = standing
            account.planners.append(plan.planner)
            verdict = with_approval(Verdict({t: decision}, {t: plan.topologies[0]}, plan, self.memory), states)
            account.decisions.update(verdict.decisions)
            yield verdict

    def _measured(self, observation: Observation, model: Model) -> dict[str, dict[str, float]]:
        """The metrics of every topology that is measured, by its id; remembers how much they vary."""
        assert observation.belief is not None
        measured = {}
        alone = isolated_by_id(model)
        for topology in model.topologies:
            if observation.belief.readiness[topology.id].ready:
                metrics = measured[topology.id] = running_metrics(alone[topology.id])
                if metrics:
                    share, spacing_s = metrics["inter_node_share"], self.config.cycle.period_s / 2
                    self.memory = self.memory.measured(topology, share, observation.at_ms, spacing_s)
        return measured

    def _states(self, observation: Observation) -> dict[str, TopologyState]:
        epoch, paths = self.publisher.epoch.number, self.publisher.paths
        return topology_states(observation, self.config.decide, self.memory, self.move_tracker.moves, paths, epoch)

    def _admitted(
        self, states: Mapping[str, TopologyState], model: Model, account: CycleReport, observation: Observation
    ) -> list[dict[str, TopologyState]]:
        """Sort out what is held; the rest in groups that are planned together, the urgent first."""
        grace_s = self.config.decide.lost_supervisor_grace_s
        lost, known = self.memory.lost((s.id for s in model.supervisors), account.at_ms, grace_s)
        groups: dict[tuple[bool, bool, str], dict[str, TopologyState]] = {}
        for t, subject in states.items():
            if t in account.decisions:
                continue
            if self.otd.has(subject):
                account.decisions[t] = self.otd.owned_by_otd(subject)
                continue
            refusal = admit(subject, lost, known, self.config.decide, account.at_ms)
            refusal = refusal or self.rollout_runner.resting(subject, observation)
            if refusal is not None:
                account.decisions[t] = refusal
            else:
                groups.setdefault((subject.mode != "act", not subject.new, self.choices.name(t)), {})[t] = subject
        return [groups[key] for key in sorted(groups)]

    def _decide(
        self, group: Mapping[str, TopologyState], model: Model, account: CycleReport, seen: Observation
    ) -> Verdict:
        """Plan these topologies while the rest of the cluster stands still, and judge the plan."""
        choice = self._choice(group)
        foreseen = self._foreseen(model, seen, choice)
        told = {t: foreseen.said[t] for t in foreseen.moved}
        plan, planned, standing, roomy = self._planned(group, foreseen, choice)
        if told and not isinstance(plan, Plan) and plan[0] is Reason.INFEASIBLE:
            foreseen, told = Foreseen(model), dict.fromkeys(told, MORE_THAN_FITS)
            plan, planned, standing, roomy = self._planned(group, foreseen, choice)
        first = all(s.new for s in group.values())
        account.models.update(dict.fromkeys(group, planned))
        if isinstance(plan, Plan):
            account.planners.append(plan.planner)
            terms = self._terms(account.at_ms, {t: own_terms(seen.in_use, self.config, t, choice) for t in group})
            terms = replace(
                terms,
                room_mhz={s.id: s.limit_mhz for s in roomy.supervisors},
                coming=foreseen.overloaded,
                measured=subset(model, group) if foreseen.moved else None,
            )
            verdict = self._judge(model, standing, group, plan, terms, seen)
            if terms.arrived and not verdict.plans and not first:
                verdict = self._refill(model, standing, roomy, group, terms, seen) or verdict
            self.memory = verdict.memory
        else:
            verdict = Verdict({t: skip(t, plan[0], plan[1]) for t in group}, {}, Plan(topologies=[]), self.memory)
        if told:
            verdict = replace(verdict, decisions={t: _explained(d, told) for t, d in verdict.decisions.items()})
        account.decisions.update(verdict.decisions)
        return verdict

    def _planned(
        self, group: Mapping[str, TopologyState], foreseen: Foreseen, choice: Choice | None
    ) -> tuple[Plan | tuple[Reason, str], Model, Model, Model]:
        """A plan and the model that it was made for; that of the group alone, with all of B(n) and with headroom."""
        model = foreseen.model
        standing = subset(model, group)
        with_room = self._with_room(model, choice)
        roomy = standing if with_room is model else subset(with_room, group)
        whole = standing if foreseen.overloaded or self._pressing(group) else roomy
        first = all(s.new for s in group.values())
        return *self.planners.plan_with_room(roomy, whole, first=first, choice=choice), standing, roomy

    def _pressing(self, group: Mapping[str, TopologyState]) -> bool:
        """Whether somebody needs a plan, or an operator wants one, even if that takes the headroom of a node."""
        wanted = any(s.new or s.degraded or s.rebalanced or s.asked for s in group.values())
        return wanted or bool(self.memory.overloaded_since_ms)

    def _choice(self, group: Mapping[str, TopologyState]) -> Choice | None:
        """What replay recommends for a group, which is the same for all in it; None: as configured."""
        return self.choices.used.get(next(iter(group)))

    def _with_room(self, model: Model, choice: Choice | None) -> Model:
        """The model with the room that plans by choice may fill; the same where that is all of B(n)."""
        if choice is None:
            return with_headroom(model, self.config.decide.fill_ratio)
        return with_headroom(choice.limited(model), choice.rules.get("fill_ratio", self.config.decide.fill_ratio))

    def _foreseen(self, model: Model, seen: Observation, choice: Choice | None) -> Foreseen:
        """The model for the window that comes, where that is wanted; else the one that was measured."""
        history = self.config.history
        if not (history.proactive or (choice is not None and choice.forecast)):
            return Foreseen(model)
        return foresee(model, seen.profiles, seen.mined, seen.at_ms, history.lead_s, history.max_forecast_error_ratio)

    def _terms(self, now_ms: int, own: Mapping[str, TopologyCriteria]) -> Criteria:
        config, period_s = self.config, self.config.cycle.period_s
        refill = config.new_supervisors
        arrived = self.memory.arrived(now_ms, refill.stable_cycles * period_s, refill.for_s)
        return Criteria(
            config.decide,
            now_ms,
            period_s / 2,
            verify=config.verify,
            refill=refill,
            budget=config.budget,
            restarts=self.move_tracker.restarts,
            arrived=arrived if refill.enabled else frozenset(),
            spent={t: m.spent for t, m in self.move_tracker.moves.items()},
            traffic=config.planner.traffic,
            own=own,
        )

    def _judge(
        self,
        model: Model,
        standing: Model,
        group: Mapping[str, TopologyState],
        plan: Plan,
        terms: Criteria,
        seen: Observation,
    ) -> Verdict:
        plan_one, memory = partial(self.planners.plan, choice=self._choice(group)), self.memory
        return self.evaluator.judged(model, standing, group, plan, memory, terms, seen.seen, plan_one)

    def _refill(
        self,
        model: Model,
        standing: Model,
        roomy: Model,
        group: Mapping[str, TopologyState],
        terms: Criteria,
        seen: Observation,
    ) -> Verdict | None:
        """Once more with less room on every node, so that the supervisor that came is used; None: not worth it."""
        plan = self.planners.plan(with_even_headroom(roomy, REFILL_HEADROOM_RATIO), choice=self._choice(group))
        if not isinstance(plan, Plan):
            return None
        verdict = self._judge(model, standing, group, plan, terms, seen)
        worth_it = any(
            d.reason is Reason.NEW_SUPERVISOR or d.reason is Reason.GAIN_NOT_SUSTAINED
            for d in verdict.decisions.values()
        )
        return verdict if worth_it else None


def _explained(decision: Decision, told: Mapping[str, str]) -> Decision:
    """The decision with what was foretold for its topology."""
    t = decision.topology_id
    return replace(decision, text=f"{decision.text}; {told[t]}") if t in told else decision


def own_terms(
    in_use: EffectiveThresholds, config: Config, topology_id: str, choice: Choice | None = None
) -> TopologyCriteria:
    """The sections as they hold for a topology, and where its thresholds come from."""
    decide, sources = in_use.section(topology_id, "decide", config.decide), in_use.sources(topology_id)
    if choice is not None:
        decide, sources = choice.decide(decide, sources)
    effect = in_use.section(topology_id, "verify", config.verify)
    return TopologyCriteria(decide, effect, in_use.overload_s(topology_id), sources)
