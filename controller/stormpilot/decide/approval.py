"""The last gates: restarts that are not wanted, and approval; moves of some topologies wait for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote

from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.reasons import Reason
from stormpilot.decide.requests import Room, unfit
from stormpilot.messages.core import HistoryEntry


def with_approval(decisions: Mapping[str, Decision], states: Mapping[str, TopologyState]) -> dict[str, Decision]:
    """Make proposals of plans that would move running executors of a topology with approval.

    First plans, repairs and plans that move nothing are published.
    """
    result = dict(decisions)
    for t, d in decisions.items():
        if waits_for_approval(d, states[t]):
            text = f"{d.reason}: {d.text}"
            result[t] = replace(d, action="advise", reason=Reason.APPROVAL_NEEDED, text=text)
    return result


def waits_for_approval(decision: Decision, subject: TopologyState) -> bool:
    """Whether a plan will be a proposal because an operator has to approve it."""
    moves = decision.action == "publish" and decision.moved_executors > 0
    return moves and subject.approval and decision.reason.row.needs_approval


def unwanted(decision: Decision) -> Decision | None:
    """The decision not to, where a voluntary plan needs restarts and those are not wanted; None: it may be."""
    strategy = decision.strategy
    if strategy is None or not strategy.forbidden or decision.reason.row.may_restart:
        return None
    if decision.action == "skip" or not decision.moved_executors:
        return None
    text = f"{decision.text}; {strategy.text}, and decide.move_strategy is rolling"
    return replace(decision, action="skip", reason=Reason.RESTART_NOT_ALLOWED, text=text, promise=None)


def still_waiting(
    proposal: HistoryEntry,
    subject: TopologyState,
    room: Room,
    config: DecideSection,
    now_ms: int,
    approver: TopologyState | None = None,
) -> Decision | None:
    """APPROVAL_NEEDED while a young proposal that still fits waits: then no other plan is made.

    `approver`: the topology whose plan has to be approved, where it is not this one's.
    """
    if proposal.reason != Reason.APPROVAL_NEEDED or not (approver or subject).approval:
        return None
    if subject.new or subject.degraded or subject.asked:
        return None
    if not stands(proposal, subject, room, config, now_ms):
        return None
    until_ms, name = _until_ms(proposal, config), (approver or subject).topology.name
    text = f"plan {proposal.plan.plan_id} ({proposal.text}) waits for `stormpilot approve {quote(name)}`"
    return skip(subject.topology.id, Reason.APPROVAL_NEEDED, text, until_ms=until_ms)


def stands(proposal: HistoryEntry, subject: TopologyState, room: Room, config: DecideSection, now_ms: int) -> bool:
    """Whether a proposal is young enough to be approved, and still fits."""
    return young(proposal, config, now_ms) and not unfit(proposal, subject, room)


def young(proposal: HistoryEntry, config: DecideSection, now_ms: int) -> bool:
    """Whether a proposal is not too old to be approved."""
    return now_ms < _until_ms(proposal, config)


def _until_ms(proposal: HistoryEntry, config: DecideSection) -> int:
    return proposal.plan.created_at_ms + int(config.approval_max_age_s * 1000)
