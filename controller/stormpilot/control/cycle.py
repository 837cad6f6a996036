"""The cycle: observe, model, plan, decide, publish, verify; every stage meets the others on this page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.move_tracker import MoveTracker
from stormpilot.control.otd_loop import OtdLoop
from stormpilot.control.outbox import Outbox
from stormpilot.control.plan_dispatcher import PlanDispatcher
from stormpilot.control.request_handler import RequestHandler
from stormpilot.control.reservations import plans_on_their_way
from stormpilot.control.rollout_gates import resting
from stormpilot.control.rollout_runner import RolloutRunner
from stormpilot.control.situation import Situation, approved
from stormpilot.control.sizing_advisor import SizingAdvisor
from stormpilot.control.status_log import StatusLog
from stormpilot.control.topology_state import topology_states
from stormpilot.decide.judge import Verdict
from stormpilot.decide.memory import Memory
from stormpilot.decide.report import CycleReport, running_metrics
from stormpilot.decide.restarts import restart_time
from stormpilot.messages.moves import MoveState
from stormpilot.model.subset import traffic_of_each
from stormpilot.observe.build import ModelWithReadiness
from stormpilot.observe.observer import Observation, Observer
from stormpilot.publish.publisher import Publisher
from stormpilot.tuning.recommendation import choices

Propose = Callable[[Situation], Verdict | None]
"""The next verdict of a proposer, made in the situation that the one before led to; None: it has no more."""


@dataclass
class Cycle:
    """One leadership's cycles: `run` every period, `step` and `advance_rollouts` between two of them.

    `proposers` stand in the order of their urgency; `memory` is what a cycle leaves to the next.
    """

    observer: Observer
    publisher: Publisher
    current: CurrentConfig
    status_log: StatusLog
    move_tracker: MoveTracker
    request_handler: RequestHandler
    proposers: Sequence[Propose]
    dispatcher: PlanDispatcher
    rollout_runner: RolloutRunner
    otd: OtdLoop
    sizing: SizingAdvisor
    outbox: Outbox
    memory: Memory = field(default_factory=Memory)

    def run(self, observation: Observation) -> CycleReport:
        """One cycle; `UnreachableError` when ZooKeeper is away, `DeposedError` when we do not lead any more."""
        self.status_log.observe(observation.seen)
        if observation.belief is None:
            return self.outbox.into(CycleReport(observation.at_ms, waiting_for=observation.seen.no_cluster))
        situation, report = self.begin(observation, observation.belief)
        for propose in self.proposers:
            while (verdict := propose(situation)) is not None:
                outcome = self.dispatcher.publish(approved(verdict, situation), situation)
                situation, report = situation.after(outcome), report.plus(outcome)
        self.memory = situation.memory
        self.request_handler.close_unpublished(situation)
        return self.outbox.into(report)

    def step(self, observation: Observation) -> CycleReport:
        """One step of `otd`; its events are in the report of the next cycle."""
        readiness = observation.belief
        report = CycleReport(observation.at_ms)
        if readiness is None:
            return report
        moves = self.move_tracker.observe(observation, readiness.model, self._measured(observation, readiness))
        situation = self._situation(observation, readiness, moves)
        report = replace(
            report,
            names={t: s.topology.name for t, s in situation.topologies.items()},
            modes={t: s.mode for t, s in situation.topologies.items()},
        )
        busy = {*situation.snapshot.settings.requests, *observation.seen.running_rollouts}
        free = {t: s for t, s in situation.topologies.items() if t not in busy and resting(s, situation) is None}
        verdict, events = self.otd.step(free, situation)
        self.outbox.add(events)
        if verdict is None:
            return report
        return report.plus(self.dispatcher.publish(approved(verdict, situation), situation))

    def advance_rollouts(self, observation: Observation) -> None:
        """Look after rollouts, about once a second."""
        if observation.belief is not None:
            self.rollout_runner.tick(self._situation(observation, observation.belief, observation.seen.moves))

    def begin(self, observation: Observation, readiness: ModelWithReadiness) -> tuple[Situation, CycleReport]:
        """Take in what was observed, and answer requests; the report with what is known before any plan."""
        model, now_ms, config = readiness.model, observation.at_ms, self.current.config
        if self.memory.live is None and (left := observation.seen.controller) is not None:
            seen = {c.supervisor: min(left.written_at_ms, now_ms) for c in left.capacities}
            seen |= {g.supervisor: min(g.seen_ms, now_ms) for g in left.supervisors_gone}
            hosts = {g.supervisor: g.host for g in left.supervisors_gone}
            hosts |= {c.supervisor: c.host for c in left.capacities}
            self.memory = replace(self.memory, supervisors_seen_ms=seen, supervisor_hosts=hosts)
        self.memory = self.memory.observe(model, now_ms).keep_only(observation.seen.topologies)
        running = self._measured(observation, readiness)
        moves = self.move_tracker.observe(observation, model, running)
        situation = self.request_handler.answered(self._situation(observation, readiness, moves))
        names = {t: s.topology.name for t, s in situation.topologies.items()}
        in_use = observation.in_use
        restarts = self.move_tracker.restarts
        sizes, events = self.sizing.observe(readiness, now_ms)
        self.outbox.add(events)
        report = CycleReport(
            now_ms,
            names=names,
            modes={t: s.mode for t, s in situation.topologies.items()},
            modes_from={t: s.mode_from for t, s in situation.topologies.items()},
            restarts=restarts,
            restart_times={
                t: restart_time(restarts, name, in_use.section(t, "decide", config.decide).restart_s)
                for t, name in names.items()
            },
            followed=situation.moves,
            thresholds={t: in_use.in_force(t, model) for t in names},
            recommendations=situation.choices.texts,
            running=running,
            gone=self.memory.gone(situation.lost.gone),
            sources={t: s.text for t, s in readiness.sources.items()},
            sizes=sizes,
        )
        return situation, report

    def _situation(
        self, observation: Observation, readiness: ModelWithReadiness, moves: Mapping[str, MoveState]
    ) -> Situation:
        config, epoch, now_ms = self.current.config, self.publisher.epoch.number, observation.at_ms
        live = [s.id for s in readiness.model.supervisors]
        lost = self.memory.lost(live, now_ms, config.decide.lost_supervisor_grace_s)
        states = topology_states(observation, config.decide, self.memory, moves, self.publisher.paths, epoch)
        return Situation(
            observation=observation,
            readiness=readiness,
            topologies=states,
            lost=lost,
            memory=self.memory,
            config=config,
            moves=moves,
            restarts=self.move_tracker.restarts,
            choices=choices(
                config, observation.mined, now_ms, {i: t.config for i, t in observation.seen.topologies.items()}
            ),
            denied=self.dispatcher.denied(now_ms),
            on_their_way=plans_on_their_way(states, observation.seen.running_rollouts, now_ms),
        )

    def _measured(self, observation: Observation, readiness: ModelWithReadiness) -> dict[str, dict[str, float]]:
        """The metrics of every topology that is measured, by its id; remembers how much they vary."""
        measured = {}
        edges, nodes = traffic_of_each(readiness.model), {s.id: s for s in readiness.model.supervisors}
        for topology in readiness.model.topologies:
            if readiness.readiness[topology.id].ready:
                metrics = measured[topology.id] = running_metrics(topology, edges[topology.id], nodes)
                if metrics:
                    share, spacing_s = metrics["inter_node_share"], self.current.config.cycle.period_s / 2
                    total_tps, at_ms = metrics["total_tps"], observation.at_ms
                    self.memory = self.memory.measured(topology, share, total_tps, at_ms, spacing_s)
                    sources = readiness.sources.get(topology.id)
                    if sources is not None and sources.held is False and observation.window_ratio.get(topology.id) == 1:
                        self.memory = self.memory.ran_free(topology.id, total_tps, at_ms)
        return measured
