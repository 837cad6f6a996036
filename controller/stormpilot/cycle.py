"""The one page on which all stages meet: observe -> model -> plan -> decide -> publish -> verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, replace

import msgspec
import structlog

from stormpilot.account import Account, running_metrics
from stormpilot.config import Config
from stormpilot.decide.admit import Subject, admit
from stormpilot.decide.approval import with_approval
from stormpilot.decide.budget import moved_executors, restarted_workers
from stormpilot.decide.effect import published
from stormpilot.decide.events import Event
from stormpilot.decide.judge import Verdict, judge
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Decision, Reason, hold
from stormpilot.decide.restarts import restart_time
from stormpilot.decide.worth import OwnTerms, Terms, as_it_runs
from stormpilot.desk import Desk
from stormpilot.follow import Follower
from stormpilot.model.forecast import Foreseen, foresee
from stormpilot.model.messages import BasedOn, HistoryEntry, WorkerPart
from stormpilot.model.moves import MoveState
from stormpilot.model.part import evened, part, with_headroom, with_plans
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.observe.observer import Observation, Observer
from stormpilot.observe.reader import Seen
from stormpilot.observe.settings import Settings
from stormpilot.observe.thresholds import InUse
from stormpilot.otdloop import OtdLoop
from stormpilot.planners import Compute, Planners
from stormpilot.publish.message import Round, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.subjects import subjects_of
from stormpilot.verify import Verifier
from stormpilot.zookeeper import ConflictError, Step

log = structlog.get_logger(__name__)

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
    verifier: Verifier = field(default_factory=Verifier)

    def __post_init__(self, compute: Compute, planner: str, first_planner: str) -> None:
        self.planners = Planners(self.config, compute, planner, first_planner)
        self.follower = Follower(self.config, self.publisher)
        self.otd = OtdLoop(self.config)
        self.told_since: list[Event] = []
        self.desk = Desk(self.publisher, self.config, self.name, self.new_id)

    def use(self, config: Config) -> None:
        """Go on with another configuration; what is remembered stays."""
        self.config = self.follower.config = self.otd.config = self.desk.config = self.planners.config = config

    def run(self, observation: Observation) -> Account:
        """One cycle; `UnreachableError` when ZooKeeper is away, `DeposedError` when we do not lead any more."""
        now_ms = observation.at_ms
        account = Account(now_ms)
        self.verifier.look(observation.seen)
        if observation.belief is None:
            account.waiting_for = "waiting for the scheduler plug-in to write the cluster: is it in Nimbus?"
            return account
        model, in_use = observation.belief.model, observation.in_use
        self.memory = self.memory.look(model, now_ms).keep_only(observation.seen.topologies)
        account.events, self.told_since = self.told_since, []
        account.running = self._measured(observation, model)
        account.events += self.follower.look(observation, account.running)
        account.restarts, account.followed = self.follower.restarts, self.follower.moves
        account.ended, self.follower.ended = self.follower.ended, []
        subjects = self._subjects(observation)
        account.names = {t: s.topology.name for t, s in subjects.items()}
        account.modes = {t: s.mode for t, s in subjects.items()}
        account.modes_from = {t: s.mode_from for t, s in subjects.items()}
        account.restart_times = {
            t: restart_time(self.follower.restarts, name, in_use.section(t, "decide", self.config.decide).restart_s)
            for t, name in account.names.items()
        }
        account.thresholds = {t: in_use.told(t, model) for t in account.names}
        lost = self._lost(model, now_ms)
        subjects = self.desk.begin(observation.seen.settings, subjects, model, lost, now_ms)
        for verdict in self._wishes(subjects, model, lost, account):
            self._publish(verdict, observation, account)
            model = with_plans(model, verdict.plans)
        rest = {t: s for t, s in subjects.items() if t not in account.decisions}
        for t, back in self.follower.ways_back(rest, observation, model, lost, account.events).items():
            account.decisions[t] = back.decision
            if back.plan is not None:
                account.models[t] = part(model, {t})
                verdict = Verdict({t: back.decision}, {t: back.plan.topologies[0]}, back.plan, self.memory)
                self._publish(verdict, observation, account)
                model = with_plans(model, verdict.plans)
        for group in self._admitted(subjects, model, account):
            verdict = with_approval(self._decide(group, model, account, observation), subjects)
            account.decisions.update(verdict.decisions)
            self._publish(verdict, observation, account)
            model = with_plans(model, verdict.plans)
        self.desk.finish_asked(subjects, account.decisions)
        return account

    def step(self, observation: Observation) -> Account:
        """One step of `otd`, between two cycles; what it tells is told by the next cycle too."""
        account = Account(observation.at_ms)
        if observation.belief is None:
            return account
        model = observation.belief.model
        account.events += self.follower.look(observation, self._measured(observation, model))
        subjects = self._subjects(observation)
        account.names = {t: s.topology.name for t, s in subjects.items()}
        account.modes = {t: s.mode for t, s in subjects.items()}
        lost = self._lost(model, observation.at_ms)
        moves, now_ms = self.follower.moves, observation.at_ms
        asked = observation.seen.settings.requests
        free = {t: s for t, s in subjects.items() if t not in asked}  # what operators ask for is the next cycle's
        self.desk.begin(Settings(), free, model, lost, now_ms)
        own = {t: observation.in_use.section(t, "otd", self.otd.config.otd) for t in free}
        verdict, events = self.otd.step(free, model, lost, moves, self.memory, now_ms, own)
        account.events += events
        if verdict is not None:
            verdict = with_approval(verdict, subjects)
            account.decisions.update(verdict.decisions)
            account.planners.append("otd")
            account.models.update(dict.fromkeys(verdict.plans, model))
            self._publish(verdict, observation, account)
        self.told_since += account.events
        return account

    def _lost(self, model: Model, now_ms: int) -> tuple[list[str], int]:
        return self.memory.lost((s.id for s in model.supervisors), now_ms, self.config.decide.lost_supervisor_grace_s)

    def _wishes(
        self, subjects: Mapping[str, Subject], model: Model, lost: tuple[list[str], int], account: Account
    ) -> Iterator[Verdict]:
        """What operators asked for, and executors that must leave: one topology at a time."""
        self.desk.finish_refused()
        account.decisions.update(self.desk.waiting())
        for t, decision, plan in self.desk.to_publish():
            account.decisions[t], account.models[t] = decision, part(model, {t})
            yield Verdict({t: decision}, {t: plan.topologies[0]}, plan, self.memory)
        account.decisions.update(self.desk.pending_approval(subjects, model))
        rest = {t: s for t, s in subjects.items() if t not in account.decisions}
        held, planned = self.desk.leave(rest, model, lost, self.planners.plan)
        account.decisions.update(held)
        for t, (decision, plan, standing) in planned.items():
            account.models[t] = standing
            account.planners.append(plan.planner)
            verdict = with_approval(Verdict({t: decision}, {t: plan.topologies[0]}, plan, self.memory), subjects)
            account.decisions.update(verdict.decisions)
            yield verdict

    def _measured(self, observation: Observation, model: Model) -> dict[str, dict[str, float]]:
        """The metrics of every topology that is measured, by its id; remembers how much they vary."""
        assert observation.belief is not None
        measured = {}
        for topology in model.topologies:
            if observation.belief.readiness[topology.id].ready:
                metrics = measured[topology.id] = running_metrics(model, topology.id)
                if metrics:
                    share, spacing_s = metrics["inter_node_share"], self.config.cycle.period_s / 2
                    self.memory = self.memory.measured(topology, share, observation.at_ms, spacing_s)
        return measured

    def _subjects(self, observation: Observation) -> dict[str, Subject]:
        epoch, paths = self.publisher.epoch.number, self.publisher.paths
        return subjects_of(observation, self.config.decide, self.memory, self.follower.moves, paths, epoch)

    def _admitted(self, subjects: Mapping[str, Subject], model: Model, account: Account) -> list[dict[str, Subject]]:
        """Sort out what is held; the rest in groups that are planned together, the urgent first."""
        grace_s = self.config.decide.lost_supervisor_grace_s
        lost, known = self.memory.lost((s.id for s in model.supervisors), account.at_ms, grace_s)
        groups: dict[tuple[bool, bool], dict[str, Subject]] = {}
        for t, subject in subjects.items():
            if t in account.decisions:
                continue
            if self.otd.has(subject):
                account.decisions[t] = self.otd.left_to_it(subject)
                continue
            refusal = admit(subject, lost, known, self.config.decide, account.at_ms)
            if refusal is not None:
                account.decisions[t] = refusal
            else:
                groups.setdefault((subject.mode != "act", not subject.new), {})[t] = subject
        return [groups[key] for key in sorted(groups)]

    def _decide(self, group: Mapping[str, Subject], model: Model, account: Account, seen: Observation) -> Verdict:
        """Plan these topologies while the rest of the cluster stands still, and judge the plan."""
        foreseen = self._foreseen(model, seen)
        standing = part(foreseen.model, group)
        with_room = with_headroom(foreseen.model, self.config.decide.fill_ratio)
        roomy = standing if with_room is foreseen.model else part(with_room, group)
        first = all(s.new for s in group.values())
        plan, planned = self.planners.plan_with_room(roomy, standing, first=first)
        account.models.update(dict.fromkeys(group, planned))
        if isinstance(plan, Plan):
            account.planners.append(plan.planner)
            terms = self._terms(account.at_ms, {t: own_terms(seen.in_use, self.config, t) for t in group})
            terms = replace(terms, room_mhz={s.id: s.limit_mhz for s in roomy.supervisors})
            verdict = judge(standing, group, plan, self.memory, terms)
            if terms.arrived and not verdict.plans and not first:
                verdict = self._refill(standing, roomy, group, terms) or verdict
            self.memory = verdict.memory
        else:
            verdict = Verdict({t: hold(t, plan[0], plan[1]) for t in group}, {}, Plan(topologies=[]), self.memory)
        if foreseen.moved:
            verdict = replace(verdict, decisions={t: _explained(d, foreseen) for t, d in verdict.decisions.items()})
        account.decisions.update(verdict.decisions)
        return verdict

    def _foreseen(self, model: Model, seen: Observation) -> Foreseen:
        """The model for the window that comes, where that is wanted; else the one that was measured."""
        history = self.config.history
        if not history.proactive:
            return Foreseen(model)
        return foresee(model, seen.profiles, seen.mined, seen.at_ms, history.lead_s, history.max_forecast_error_ratio)

    def _terms(self, now_ms: int, own: Mapping[str, OwnTerms]) -> Terms:
        config, period_s = self.config, self.config.cycle.period_s
        refill = config.refill
        arrived = self.memory.arrived(now_ms, refill.stable_cycles * period_s, refill.for_s)
        return Terms(
            config.decide,
            now_ms,
            period_s / 2,
            effect=config.effect,
            refill=refill,
            budget=config.budget,
            restarts=self.follower.restarts,
            arrived=arrived if refill.enabled else frozenset(),
            spent={t: m.spent for t, m in self.follower.moves.items()},
            traffic=config.planner.traffic,
            own=own,
        )

    def _refill(self, standing: Model, roomy: Model, group: Mapping[str, Subject], terms: Terms) -> Verdict | None:
        """Once more with less room on every node, so that the supervisor that came is used; None: not worth it."""
        plan = self.planners.plan(evened(roomy, REFILL_HEADROOM_RATIO))
        if not isinstance(plan, Plan):
            return None
        verdict = judge(standing, group, plan, self.memory, terms)
        reasons = {d.reason for d in verdict.decisions.values()}
        return verdict if reasons & {Reason.REFILL, Reason.GAIN_NOT_LASTING} else None

    def _publish(self, verdict: Verdict, observation: Observation, account: Account) -> None:
        """Write the plans to publish, all as one round; advice is written beside, where nobody applies it."""
        seen = observation.seen
        for action in ("publish", "advise"):
            ids = [t for t in verdict.plans if verdict.decisions[t].action == action]
            if not ids:
                continue
            round_ = Round(f"r-{self.new_id()}", self.publisher.epoch.number, self.clock_ms(), ids, self.name)
            entries = []
            for t in ids:
                based_on = BasedOn(
                    snapshot_version=seen.topologies[t].version,
                    window_from_ms=observation.since_ms[t],
                    window_to_ms=observation.at_ms,
                )
                decision = verdict.decisions[t]
                plan_id = (self.desk.plan_id(t) if action == "publish" else None) or f"p-{self.new_id()}"
                message = plan_message(verdict.plans[t], verdict.plan, decision, round_, plan_id, based_on)
                entry = history_entry(message, decision, self.name)
                entries.append(msgspec.structs.replace(entry, approved_by=self.desk.approver(t)))
            try:
                if action == "publish":
                    moves = [self._followed(e, verdict, observation) for e in entries]
                    also = {t: self._beside(e, account, seen) for t, e in zip(ids, entries, strict=True)}
                    self.publisher.publish(entries, {t: p.version for t, p in seen.plans.items()}, moves, also)
                    self.follower.moves.update((m.topology_id, m) for m in moves)
                    account.plans.update((e.plan.topology_id, e) for e in entries)
                else:
                    self.publisher.advise(entries)
            except ConflictError as e:
                account.decisions.update({t: hold(t, Reason.NOT_PUBLISHED, str(e)) for t in ids})

    def _beside(self, entry: HistoryEntry, account: Account, seen: Seen) -> list[Step]:
        t = entry.plan.topology_id
        former = seen.plans[t].message if t in seen.plans else None
        return self.desk.beside(entry, None if former is None else former.plan_id, account.models.get(t))

    def _followed(self, entry: HistoryEntry, verdict: Verdict, observation: Observation) -> MoveState:
        """What is to be followed of a plan that is published now."""
        assert observation.belief is not None
        t, message = entry.plan.topology_id, entry.plan
        topology = next(x for x in observation.belief.model.topologies if x.id == t)
        decision, placement = verdict.decisions[t], verdict.plans[t]
        moved = moved_executors(topology, placement) if decision.moved_executors else []
        return published(
            self.follower.moves[t],
            plan_id=message.plan_id,
            reason=decision.reason.value,
            now_ms=message.created_at_ms,
            window_s=(observation.at_ms - observation.since_ms[t]) / 1000,
            moved=moved,
            workers=restarted_workers(topology, placement),
            former=_parts(as_it_runs(topology)),
            promise=decision.promise,
        )


def _explained(decision: Decision, foreseen: Foreseen) -> Decision:
    t = decision.topology_id
    return replace(decision, text=f"{decision.text}; {foreseen.said[t]}") if t in foreseen.moved else decision


def own_terms(in_use: InUse, config: Config, topology_id: str) -> OwnTerms:
    """The sections as they hold for a topology, and where its thresholds come from."""
    return OwnTerms(
        in_use.section(topology_id, "decide", config.decide),
        in_use.section(topology_id, "effect", config.effect),
        in_use.overload_s(topology_id),
        in_use.sources(topology_id),
    )


def _parts(plan: TopologyPlan) -> list[WorkerPart]:
    return [WorkerPart(supervisor=w.supervisor, port=w.port, executors=w.executors) for w in plan.workers]
