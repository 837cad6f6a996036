"""The last gate: moves of some topologies wait for an operator. What nobody may wait for does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.decide.requests import Wrong, unfit
from stormpilot.messages.core import HistoryEntry
from stormpilot.model.values import Model

NEEDS_NO_APPROVAL = frozenset(
    {Reason.FIRST_PLAN, Reason.REPAIR, Reason.APPROVED, Reason.ROLLBACK, Reason.ROLLBACK_EFFECT}
)
"""What nobody waits for, what an operator asked for, and the way back from a move that made it worse."""


def with_approval(verdict: Verdict, states: Mapping[str, TopologyState]) -> Verdict:
    """Plans that would move running executors of a topology with approval become proposals.

    `NEEDS_NO_APPROVAL` and what moves nothing go through.
    """
    decisions = dict(verdict.decisions)
    for t, d in decisions.items():
        free = d.reason in NEEDS_NO_APPROVAL or not d.moved_executors
        if d.action == "publish" and states[t].approval and not free:
            text = f"{d.reason}: {d.text}"
            decisions[t] = replace(d, action="advise", reason=Reason.APPROVAL_NEEDED, text=text, promise=None)
    return replace(verdict, decisions=decisions)


def still_waiting(
    proposal: HistoryEntry | None,
    subject: TopologyState,
    model: Model,
    wrong: Wrong,
    config: DecideSection,
    now_ms: int,
) -> Decision | None:
    """Whether a plan waits for approval already: then no other is made as long as it is young and still fits."""
    if proposal is None or proposal.reason != Reason.APPROVAL_NEEDED or not subject.approval:
        return None
    if subject.new or subject.degraded or subject.asked:
        return None
    until_ms = proposal.plan.created_at_ms + int(config.approval_max_age_s * 1000)
    if now_ms >= until_ms or unfit(proposal, subject, model, wrong):
        return None
    text = f"plan {proposal.plan.plan_id} ({proposal.text}) waits for `stormpilot approve {subject.topology.name}`"
    return skip(subject.topology.id, Reason.APPROVAL_NEEDED, text, until_ms=until_ms)
