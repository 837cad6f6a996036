"""Drains: executors that run where they may not (drained host, excluded node, away from their pin or their site).

They leave whatever the gain, and soon: cool-down, back-off and missing metrics do not hold them. Topologies leave one
after the other. Only workers with an executor that must leave change; the others stay where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stormpilot.config import DecideSection
from stormpilot.decide.admit import (
    ANSWER_MS,
    TopologyState,
    blacked_out,
    forbidden,
    held,
    on_its_way,
    unanswered,
    workers_starting,
)
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.expectation import Traffic
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.predict import predict
from stormpilot.decide.reasons import Reason, row_of
from stormpilot.messages.settings import DrainSetting
from stormpilot.model.subset import subset
from stormpilot.model.values import Model, Plan
from stormpilot.printable import counted, first_few


def must_leave(
    model: Model, misplaced: Mapping[str, Sequence[int]], drains: Mapping[str, DrainSetting]
) -> dict[str, tuple[Reason, str]]:
    """Reason and sentence for each topology with executors that must leave, by topology id; `drains` is by host."""
    host = {s.id: s.host for s in model.supervisors}
    told = {}
    for t in model.topologies:
        starts = set(misplaced.get(t.id, ()))
        if not starts:
            continue
        component = {e.start: e.component for e in t.executors}
        from_hosts = sorted({host[a.supervisor] for a in t.assignment if a.start in starts})
        drained = [h for h in from_hosts if h in drains]
        what = f"{counted(len(starts), 'executor')} ({_components(Counter(component[s] for s in starts))})"
        if drained:
            told[t.id] = (Reason.DRAIN, f"leaving {', '.join(drained)}, drained: {what}")
        else:
            told[t.id] = (Reason.CONSTRAINT_VIOLATED, f"against a pin, an exclusion or a site: {what}")
    return told


def admit_leaving(
    subject: TopologyState,
    lost: LostSupervisors,
    config: DecideSection,
    now_ms: int,
    *,
    overruled: bool,
) -> Decision | None:
    """The first gate that is closed for executors that must leave, or for a plan that is given up; None: none is.

    A hold gives way to a setting for this topology that was made after it: then it is `overruled`.
    """
    closed = forbidden(subject, lost, config)
    if closed is None and not overruled:
        closed = held(subject, now_ms)
    closed = closed or blacked_out(subject) or on_its_way(subject, config, now_ms)
    return closed or workers_starting(subject, now_ms) or unanswered(subject, now_ms)


def whose_move(states: Mapping[str, TopologyState], config: DecideSection, now_ms: int) -> str | None:
    """The topology whose executors are leaving now: no other one begins before its workers had time to start."""
    for t, s in sorted(states.items()):
        row = None if s.plan is None else row_of(s.plan.reason_code)
        if s.plan is None or row is None or not row.must_leave:
            continue
        if s.paused or s.mode == "off":  # the plug-in waits too; nobody knows for how long
            continue
        if s.answer is None:
            if now_ms - s.plan_since_ms < ANSWER_MS:
                return t
        elif s.answer.state in ("moving", "waiting") or (
            s.answer.state == "applied" and now_ms - s.answer.since_ms < config.restart_s * 1000
        ):
            return t
    return None


def wait_for(topology_id: str, mover: TopologyState, why: str, restart_s: float) -> Decision:
    """WAITING_FOR_DRAIN for a topology while another one leaves."""
    text = f"{why}; waits until {mover.topology.name} has moved and its workers had {restart_s:.0f} s to start"
    return skip(topology_id, Reason.WAITING_FOR_DRAIN, text)


def planned_later(topology_id: str, why: str) -> Decision:
    """WAITING_FOR_DRAIN for a topology that is planned in the next cycle: others took the time of this one."""
    text = f"{why}; planned in the next cycle: the plans of others took the time of this one"
    return skip(topology_id, Reason.WAITING_FOR_DRAIN, text)


def cannot_leave(topology_id: str, why: str, refusal: tuple[Reason, str]) -> Decision:
    """The refusal of the planner, which names the executors that it cannot place, and the constraint."""
    reason, text = refusal
    return skip(topology_id, reason, f"{why}, but they cannot: {text}")


def decide_leaving(
    model: Model, subject: TopologyState, plan: Plan, reason: Reason, why: str, traffic: Traffic = "measured"
) -> Decision:
    """The decision for a plan of this topology alone by which its executors leave."""
    seen = predict(subset(model, {subject.topology.id}), plan, traffic)
    t, tps = subject.topology.id, seen.inter_node_tps
    return Decision(t, subject.action, reason, why, moved_executors=seen.moved, inter_node_tps=tps)


def _components(counts: Counter[str]) -> str:
    parts = [c if n == 1 else f"{c} {n}" for c, n in sorted(counts.items())]
    return first_few(parts, 6)
