"""What becomes of an operator's request: done, refused with the reason, or it waits. Acting is the cycle's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState, forbidden, on_its_way
from stormpilot.decide.predict import Traffic, predict
from stormpilot.decide.reasons import Decision, Reason
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import Hold, Request
from stormpilot.model.subset import part
from stormpilot.model.values import Model, Plan, TopologyPlan, Worker

Wrong = Callable[[Model, Plan], list[str]]
"""What is wrong with a plan of a model, as sentences: `planner.check.violations`."""
SHOWN_PROBLEMS = 3
CPU = "cpu: "
"""How a sentence about a node with more CPU than it has begins."""


@dataclass(frozen=True)
class RequestOutcome:
    """What to do about a request.

    `done`: it is over, and `result` says how; else it waits for the next cycle. `plan` with `decision` is to be
    published; `hold` is to be set, `lift_hold`: one that stands is over. `drop_proposal`: the proposal goes. `note`:
    what whoever asked should know about the plan.
    """

    done: bool
    result: str = ""
    decision: Decision | None = None
    plan: Plan | None = None
    hold: Hold | None = None
    lift_hold: bool = False
    drop_proposal: bool = False
    note: str = ""


def answer(
    request: Request | None,
    subject: TopologyState,
    model: Model,
    wrong: Wrong,
    lost: list[str],
    known: int,
    config: DecideSection,
    now_ms: int,
    traffic: Traffic = "measured",
) -> RequestOutcome:
    """Decide about the request for the topology of `subject` (None: one that cannot be read)."""
    if request is None:
        return _refused("the request cannot be read")
    age_s = (now_ms - request.at_ms) / 1000
    if age_s > config.request_max_age_s:
        return _refused(f"it is {age_s:.0f} s old, and void after {config.request_max_age_s:.0f} s")
    if request.verb == "discard":
        return _discard(request, config, now_ms)
    closed = forbidden(subject, lost, known, config)
    if closed is not None:
        return _refused(f"{closed.reason}: {closed.text}")
    waiting = on_its_way(subject, config, now_ms)
    if waiting is not None:
        return RequestOutcome(done=False, decision=waiting)
    if request.verb == "replan":
        return RequestOutcome(done=False, lift_hold=subject.hold is not None)
    return _publish(request, subject, model, wrong, config, now_ms, traffic)


def unfit(entry: HistoryEntry, subject: TopologyState, model: Model, wrong: Wrong) -> list[str]:
    """Why a plan made earlier cannot be applied to what runs now; empty when it can."""
    t, plan = subject.topology, entry.plan
    if plan.topology_id != t.id:
        return [f"it is a plan of {plan.topology_id}, not of {t.id}"]
    if plan.checksum != plan.expected_checksum():
        return ["its checksum does not fit: it was changed after it was made"]
    planned = sorted(e for w in plan.workers for e in w.executors)
    running = sorted((e.start, e.end) for e in t.executors)
    if planned != running:
        gone, new = len(set(planned) - set(running)), len(set(running) - set(planned))
        return [f"the executors are others now ({gone} of the plan are gone, {new} are new): was it rebalanced?"]
    problems = []
    slots = {s.id: set(s.slots) for s in model.supervisors}
    hosts = {s.id: s.host for s in model.supervisors}
    owner = {(a.supervisor, a.port): o.name for o in model.topologies if o.id != t.id for a in o.assignment}
    for w in plan.workers:
        if w.supervisor not in slots:
            problems.append(f"supervisor {w.supervisor} is not there")
        elif w.port not in slots[w.supervisor]:
            problems.append(f"{hosts[w.supervisor]} ({w.supervisor}) has no slot {w.port} now")
        elif (w.supervisor, w.port) in owner:
            problems.append(f"slot {w.supervisor}:{w.port} is held by {owner[w.supervisor, w.port]}")
    return list(dict.fromkeys(problems)) or wrong(part(model, {t.id}), plan_of_entry(entry))


def plan_of_entry(entry: HistoryEntry) -> Plan:
    """The plan of a message as a value."""
    p = entry.plan
    workers = [Worker(supervisor=w.supervisor, port=w.port, executors=w.executors) for w in p.workers]
    placement = TopologyPlan(id=p.topology_id, workers=workers)
    return Plan(planner=p.planner, params=p.params, seed=p.seed, topologies=[placement])


def _publish(
    request: Request,
    subject: TopologyState,
    model: Model,
    wrong: Wrong,
    config: DecideSection,
    now_ms: int,
    traffic: Traffic,
) -> RequestOutcome:
    """An approved plan, or the one to roll back to."""
    entry, t = request.entry, subject.topology
    if entry is None:
        return _refused("it names no plan")
    plan_id = entry.plan.plan_id
    age_s = (now_ms - entry.plan.created_at_ms) / 1000
    if request.verb == "approve" and age_s > config.approval_max_age_s:
        limit = f"at most {config.approval_max_age_s:.0f} s"
        return _refused(f"plan {plan_id} is {age_s:.0f} s old, {limit}; wait for a new one, or `stormpilot replan`")
    problems = unfit(entry, subject, model, wrong)
    note = ""
    if request.verb == "rollback" and all(p.startswith(CPU) for p in problems):
        # It ran like this before, and after a move start-up alone may use more CPU than the limit: what was asked for
        # is the way out of that.
        note = f"over the CPU limit by what is measured now: {'; '.join(p.removeprefix(CPU) for p in problems)}"
        note, problems = note if problems else "", []
    if problems:
        more = f" and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        return _refused(f"plan {plan_id} does not fit any more: {'; '.join(problems[:SHOWN_PROBLEMS])}{more}")
    plan = plan_of_entry(entry)
    seen = predict(part(model, {t.id}), plan, traffic)
    moved = seen.moved
    if not moved:
        return _refused(f"plan {plan_id} is what runs now")
    why = f" ({request.why})" if request.why else ""
    if request.verb == "approve":
        reason, text = Reason.APPROVED, f"by {request.by}{why}: {entry.text or entry.plan.reason}"
        result = f"published {plan_id}, {moved} executors move"
    else:
        reason, text = (
            Reason.ROLLBACK,
            f"to {plan_id}, {request.steps} back, by {request.by}{why}{f'; {note}' if note else ''}",
        )
        result = f"published what {plan_id} was, {moved} executors move"
    decision = Decision(t.id, "publish", reason, text, moved_executors=moved, inter_node_tps=seen.inter_node_tps)
    return RequestOutcome(
        done=True,
        result=result,
        decision=decision,
        plan=plan,
        hold=_hold(request, now_ms, config.rollback_hold_s) if request.verb == "rollback" else None,
        lift_hold=request.verb == "approve" and subject.hold is not None,
        drop_proposal=True,
        note=note,
    )


def _discard(request: Request, config: DecideSection, now_ms: int) -> RequestOutcome:
    plan_id = "" if request.entry is None else request.entry.plan.plan_id
    hold = _hold(request, now_ms, config.discard_hold_s)
    result = f"discarded {plan_id}; nothing moves for {config.discard_hold_s:.0f} s"
    return RequestOutcome(done=True, result=result, hold=hold, drop_proposal=True)


def _hold(request: Request, now_ms: int, for_s: float) -> Hold:
    return Hold(
        topology_id=request.topology_id,
        since_ms=now_ms,
        until_ms=now_ms + int(for_s * 1000),
        cause="rollback" if request.verb == "rollback" else "discard",
        plan_id="" if request.entry is None else request.entry.plan.plan_id,
        by=request.by,
        why=request.why,
    )


def _refused(why: str) -> RequestOutcome:
    return RequestOutcome(done=True, result=f"refused: {why}")
