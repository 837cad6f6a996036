"""Report of a cycle: its sentence for the log, and the views of the topologies for `stormpilot status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import Outcome as MoveOutcome
from stormpilot.decide.events import Event
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import RestartTime
from stormpilot.decide.status_changes import StatusChange
from stormpilot.messages.controller_state import ChosenThreshold, GonePart, Restart, TopologyView
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.moves import MoveState
from stormpilot.messages.settings import Mode
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import Edge, Model, Supervisor, Topology, TopologyPlan

NOT_EMPTIED = 20
"""The most executors or workers that a view names as not routable."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a verdict, once its plans are written.

    By topology id: the final `decisions`, the published `plans`, the published or proposed `placements`, the `models`
    that were planned on, and the `moves` that are to be verified.
    """

    decisions: Mapping[str, Decision]
    memory: Memory
    plans: Mapping[str, HistoryEntry] = field(default_factory=dict)
    placements: Mapping[str, TopologyPlan] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    moves: Mapping[str, MoveState] = field(default_factory=dict)
    planner: str = ""


@dataclass(frozen=True)
class CycleReport:
    """The report of the cycle at `at_ms`.

    By topology id: `plans` that were published, `models` that were planned on, `running` metrics of the measured ones,
    `followed` states of the last moves, `restart_times` expected downtimes of a worker, `thresholds` that are not as
    configured, `recommendations` of replay as sentences, `sources` what holds them back as a sentence, `sizes` that
    are proposed as sentences. `events` and `status_changes` began since the report before, `restarts` are the times of
    earlier moves, `gone` the supervisors that are gone, `ended` the moves that ended since the last cycle.
    """

    at_ms: int
    names: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, Mode] = field(default_factory=dict)
    modes_from: Mapping[str, str] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    plans: Mapping[str, HistoryEntry] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    planners: Sequence[str] = ()
    waiting_for: str = ""
    events: Sequence[Event] = ()
    status_changes: Sequence[StatusChange] = ()
    restarts: Sequence[Restart] = ()
    restart_times: Mapping[str, RestartTime] = field(default_factory=dict)
    followed: Mapping[str, MoveState] = field(default_factory=dict)
    gone: Sequence[GonePart] = ()
    ended: Sequence[MoveState] = ()
    thresholds: Mapping[str, Sequence[ChosenThreshold]] = field(default_factory=dict)
    recommendations: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)

    def plus(self, outcome: Outcome) -> CycleReport:
        """The report with what became of one more verdict."""
        return replace(
            self,
            decisions={**self.decisions, **outcome.decisions},
            plans={**self.plans, **outcome.plans},
            models={**self.models, **outcome.models},
            planners=[*self.planners, *([outcome.planner] if outcome.planner else [])],
            followed={**self.followed, **outcome.moves},
        )

    def sentence(self, took_ms: float) -> tuple[str, dict[str, Any]]:
        """The log line as event and fields: published plans, else proposals, else the reasons for neither."""
        fields: dict[str, Any]
        if self.waiting_for:
            event, fields = "no change", {"reason": Reason.CLUSTER_UNKNOWN, "text": self.waiting_for}
        elif not self.decisions:
            event, fields = "no change", {"reason": Reason.NO_TOPOLOGY}
        elif published := self._with("publish"):
            given_up = all(d.reason is Reason.EVICTED for d in published)
            event = "gave up plan" if given_up else "published plan"
            fields = self._plan(published, [*self._with("advise"), *self._with("skip")])
        elif proposed := self._with("advise"):
            event = "proposed plan" if self.planners else "proposal stands"
            fields = self._plan(proposed, self._with("skip"))
        else:
            event, fields = "no change", self._skipped(self._with("skip"))
        return event, {**fields, "took_ms": round(took_ms)}

    def views(self, readiness_of: Mapping[str, Readiness], since_ms: Mapping[str, int]) -> list[TopologyView]:
        """Every topology with its decision and present traffic; `readiness_of` and `since_ms` are by topology id."""
        views = []
        for topology_id, decision in sorted(self.decisions.items()):
            readiness = readiness_of[topology_id]
            now = self.running.get(topology_id, {})
            restart = self.restart_times.get(topology_id)
            views.append(
                TopologyView(
                    id=topology_id,
                    name=self.names[topology_id],
                    mode=self.modes[topology_id],
                    action=decision.action,
                    reason=decision.reason.value,
                    text=decision.text,
                    value=decision.value,
                    threshold=decision.threshold,
                    since_ms=since_ms.get(topology_id, self.at_ms),
                    inter_node_tps=now.get("inter_node_tps"),
                    inter_node_share=now.get("inter_node_share"),
                    inter_worker_share=now.get("inter_worker_share"),
                    total_tps=now.get("total_tps"),
                    planned_inter_node_tps=decision.inter_node_tps[1],
                    moved_executors=decision.moved_executors,
                    reports_age_s=readiness.reports_age_s,
                    missing=len(readiness.missing),
                    next_at_ms=decision.until_ms,
                    restart_s=None if restart is None else round(restart.seconds, 1),
                    restart_moves=0 if restart is None else restart.moves,
                    mode_from=self.modes_from.get(topology_id, ""),
                    effect=_effect(self.followed.get(topology_id)),
                    threshold_from=decision.threshold_from,
                    move_strategy="" if decision.strategy is None else decision.strategy.sentence,
                    held_up_by_restarts=round(decision.held_up[0], 1),
                    held_up_by_steps=round(decision.held_up[1], 1),
                    not_emptied=[] if decision.strategy is None else list(decision.strategy.fixed[:NOT_EMPTIED]),
                    thresholds=list(self.thresholds.get(topology_id, ())),
                    recommendation=self.recommendations.get(topology_id, ""),
                    sources=self.sources.get(topology_id, ""),
                    size=self.sizes.get(topology_id, ""),
                    memory=readiness.memory,
                    trade_off=decision.trade_off,
                    expectation="" if decision.expectation is None else decision.expectation.text,
                )
            )
        return views

    def _with(self, action: str) -> list[Decision]:
        return [d for _, d in sorted(self.decisions.items()) if d.action == action]

    def _plan(self, chosen: list[Decision], others: list[Decision]) -> dict[str, Any]:
        return {
            "topology": ",".join(self.names[d.topology_id] for d in chosen),
            "plan": ",".join(self.plans[d.topology_id].plan.plan_id for d in chosen if d.topology_id in self.plans)
            or None,
            "planner": ",".join(dict.fromkeys(self.planners)) or None,
            "reason": ",".join(dict.fromkeys(d.reason for d in chosen)),
            "moves": sum(d.moved_executors for d in chosen),
            "move_strategy": ",".join(dict.fromkeys(d.strategy.how for d in chosen if d.strategy is not None)) or None,
            "inter_node_tps": f"{_total(chosen, 0)}->{_total(chosen, 1)}",
            "also": ",".join(f"{self.names[d.topology_id]}:{d.reason}" for d in others) or None,
        }

    def _skipped(self, skipped: list[Decision]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "reason": ",".join(dict.fromkeys(d.reason for d in skipped)),
            "topology": ",".join(self.names[d.topology_id] for d in skipped),
        }
        if len(skipped) == 1:
            (d,) = skipped
            if d.value is not None:
                fields |= {"value": d.value, "threshold": d.threshold}
            if d.inter_node_tps != (None, None):
                fields["inter_node_tps"] = f"{_total(skipped, 0)}->{_total(skipped, 1)}"
            fields["text"] = d.text
        return fields


def running_metrics(topology: Topology, traffic: Sequence[Edge], nodes: Mapping[str, Supervisor]) -> dict[str, float]:
    """The metrics of `METRICS` for a topology as it runs, for every cycle; empty while an executor has no slot.

    The numbers of `cost.metrics`, without a compiled model: a third of a cycle on a large cluster. `nodes`: the
    live supervisors, by id.
    """
    slots = {
        a.start: (a.supervisor, a.port)
        for a in topology.assignment
        if (s := nodes.get(a.supervisor)) and a.port in s.slots
    }
    if not all(e.start in slots for e in topology.executors):
        return {}
    host_of = {start: nodes[supervisor].host for start, (supervisor, _) in slots.items()}
    total = inter_worker = inter_node = 0.0
    for e in traffic:
        a, b, rate = e.from_, e.to, e.rate
        total += rate
        if slots[a] != slots[b]:
            inter_worker += rate
            if host_of[a] != host_of[b]:
                inter_node += rate
    return {
        "inter_node_tps": inter_node,
        "inter_node_share": inter_node / total if total else 0.0,
        "inter_worker_share": inter_worker / total if total else 0.0,
        "total_tps": total,
    }


def _effect(move: MoveState | None) -> str:
    if move is None:
        return ""
    back = move.reason == Reason.ROLLBACK_EFFECT
    if move.phase == "moving":
        return f"is being rolled back: {move.back_off_why}" if back else f"is being applied ({move.plan_id})"
    if move.phase == "measuring" and move.metric is not None:
        return "is being measured"
    if move.failures and (back or move.verdict in ("", MoveOutcome.WORSE, MoveOutcome.NO_GAIN)):
        return f"{'rolled back' if back else 'did not help'}: {move.back_off_why}"
    return f"{move.verdict}: {move.text}" if move.verdict else ""


def _total(decisions: list[Decision], side: int) -> str:
    known = [v for d in decisions if (v := d.inter_node_tps[side]) is not None]
    return f"{sum(known):.0f}" if known else "?"
