"""Requests to the leading controller: approve, discard, rollback, replan; `outcome` has the result."""

from __future__ import annotations

from shlex import quote
from typing import Any

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import HistoryEntry, TopologySnapshot, encode
from stormpilot.messages.settings import AuditRecord, Request, Verb
from stormpilot.observe.reader import Reader
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator, new_id
from stormpilot.operate.parameters import ProposedPlan, RunningTopology, StepsBack
from stormpilot.operate.pauses import mode_of
from stormpilot.operate.views import audit, before_first, history
from stormpilot.printable import counted
from stormpilot.zookeeper.client import ConflictError
from stormpilot.zookeeper.transaction import Put

ROLLBACKS = ("ROLLBACK", "ROLLBACK_EFFECT")
"""Reasons of plans that undo the one before them."""


def approve(operator: Operator, topology: RunningTopology, *, plan: ProposedPlan = None) -> Change:
    """Publish exactly the plan that is proposed now, if it still fits the cluster."""
    snapshot = operator.topology(topology)
    proposal = _proposal(operator, snapshot.id, snapshot.name)
    if plan not in (None, proposal.plan.plan_id):
        look = f"look at it with `stormpilot plan diff {quote(snapshot.name)}`"
        raise RefusedError(f"{snapshot.name}: the proposal is {proposal.plan.plan_id} now, not {plan}: {look}")
    _check(operator, "approve", snapshot, proposal)
    text = f"{snapshot.name}: plan {proposal.plan.plan_id} is approved; the leading controller is asked to publish it"
    danger = f"{counted(proposal.moved_executors, 'executor')} of {snapshot.name} will move"
    if proposal.gives_up:
        text = f"{snapshot.name}: the leading controller is asked to give up its plan"
        executors = "the executor" if len(snapshot.executors) == 1 else f"all {len(snapshot.executors)} executors"
        danger = f"Storm's scheduler may stop {executors} of {snapshot.name}"
    now = next((_plan(h.entry) for h in history(operator, snapshot.id) if h.back is not None), None)
    return _ask(
        operator,
        "approve",
        snapshot.id,
        snapshot.name,
        text,
        proposal,
        danger=danger,
        before=now,
        after=_plan(proposal),
    )


def discard(operator: Operator, topology: RunningTopology) -> Change:
    """Drop the plan that is proposed now, and keep the topology as it is for `decide.discard_hold_s`."""
    snapshot = operator.topology(topology)
    proposal = _proposal(operator, snapshot.id, snapshot.name)
    text = f"{snapshot.name}: plan {proposal.plan.plan_id} is discarded; the leading controller drops it"
    return _ask(operator, "discard", snapshot.id, snapshot.name, text, proposal, before=_plan(proposal))


def rollback(operator: Operator, topology: RunningTopology, steps: StepsBack = 1) -> Change:
    """Return to an earlier plan, if it still fits the cluster, and keep it for `decide.rollback_hold_s`."""
    snapshot = operator.topology(topology)
    if steps < 1:
        raise UsageError(f"steps is {steps}, expected 1 or more")
    kept = history(operator, snapshot.id)
    by_back = {h.back: h.entry for h in kept if h.back is not None}
    then = by_back.get(steps)
    what = "" if then is None else f"plan {then.plan.plan_id}"
    undone = steps == 1 and 0 in by_back and by_back[0].reason in ROLLBACKS
    what += ", which the last rollback undid" if undone else ""
    if then is None and steps == max(by_back, default=0) + 1:
        then, what = before_first(operator, snapshot.id, kept), "what ran before its first plan"
    if then is None:
        why = f"there is no plan {steps} back, the history holds {len(by_back)} (stormpilot plan history)"
        if steps == 1:
            why += (
                f", and what ran before the first one is not kept; `stormpilot mode off {quote(snapshot.name)}` and "
                f"then `storm rebalance {quote(snapshot.name)}` have Storm's scheduler place it anew"
            )
        raise RefusedError(f"{snapshot.name}: {why}")
    _check(operator, "rollback", snapshot, then)
    text = f"{snapshot.name}: back to {what}; the leading controller is asked to publish it"
    danger = f"executors of {snapshot.name} move back to where they were"
    if undone:
        danger = f"what the last rollback undid is done again: executors of {snapshot.name} move"
    return _ask(
        operator,
        "rollback",
        snapshot.id,
        snapshot.name,
        text,
        then,
        danger=danger,
        before=_plan(by_back[min(by_back)]) if by_back else None,
        after=_plan(then),
        steps=steps,
    )


def replan(operator: Operator, topology: RunningTopology) -> Change:
    """Plan a topology at once, regardless of cool-down, hold and size of the gain."""
    from stormpilot.decide.reasons import Reason  # loads the configuration, which no reader of ours needs

    snapshot = operator.topology(topology)
    led = bool(operator.zookeeper.children([operator.paths.leader])[0])
    text = f"{snapshot.name}: " + (
        "the leading controller plans it in its next cycle" if led else "planned once a controller leads: none does now"
    )
    seen = Reader(operator.zookeeper, operator.paths).read()
    mode, _ = mode_of(seen, snapshot.name, snapshot.id)
    if seen.is_paused(snapshot.name):
        raise RefusedError(f"{snapshot.name}: {Reason.PAUSED}: paused by an operator")
    if mode == "off":
        raise RefusedError(f"{snapshot.name}: {Reason.MODE_OFF}: the mode of this topology is off")
    danger = f"workers of {snapshot.name} restart for any gain that is found" if mode in (None, "act") else ""
    return _ask(operator, "replan", snapshot.id, snapshot.name, text, None, danger=danger)


def outcome(operator: Operator, request_id: str) -> AuditRecord | None:
    """Outcome of a request; None while nobody has acted on it."""
    found = (r for r in audit(operator) if r.request_id == request_id and r.result != "asked for")
    return next(found, None)


def _proposal(operator: Operator, topology_id: str, name: str) -> HistoryEntry:
    proposal, node = operator.read(operator.paths.proposal(topology_id), HistoryEntry)
    if proposal is None:
        why = "there is no proposal" if node is None else "the proposal cannot be read"
        raise RefusedError(f"{name}: {why}; nothing to decide on")
    return proposal


def _plan(entry: HistoryEntry) -> dict[str, Any]:
    """The plan in short, for before and after."""
    p = entry.plan
    return {
        "planId": p.plan_id,
        "planner": p.planner,
        "createdAtMs": p.created_at_ms,
        "reason": p.reason,
        "expected": {"before": p.expected.before, "after": p.expected.after},
        "movedExecutors": entry.moved_executors,
        "workers": len(p.workers),
    }


def _check(operator: Operator, verb: Verb, snapshot: TopologySnapshot, entry: HistoryEntry) -> None:
    from stormpilot.operate.request_check import check  # loads numerical libraries, which no reader of ours needs

    check(operator, verb, snapshot, entry)


def _ask(
    operator: Operator,
    verb: Verb,
    topology_id: str,
    name: str,
    text: str,
    entry: HistoryEntry | None,
    *,
    danger: str = "",
    before: Any = None,
    after: Any = None,
    steps: int = 1,
) -> Change:
    path = operator.paths.request(topology_id)
    pending, node = operator.read(path, Request)
    if node is not None:
        what = "a request that cannot be read" if pending is None else f"{pending.by}'s {pending.verb}"
        raise RefusedError(f"{name}: {what} is still pending; check that a controller leads: stormpilot status")
    request = Request(
        id=new_id("q"),
        verb=verb,
        topology_id=topology_id,
        at_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
        steps=steps,
        entry=entry,
    )
    change = Change(
        verb=verb,
        target=name,
        before=before,
        after=after,
        text=text,
        danger=danger,
        dry_run=operator.dry_run,
        request_id="" if operator.dry_run else request.id,
    )
    if not operator.dry_run:
        operator.zookeeper.ensure([operator.paths.request()])
        try:
            operator.write([Put(path, encode(request), None)], change)
        except ConflictError as e:
            raise RefusedError(f"{name}: another request was made at the same time") from e
    return change
