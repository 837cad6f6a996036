"""Outcomes of operators' requests: done, refused with the reason, or waiting. The control loop carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState, forbidden, on_its_way, workers_starting
from stormpilot.decide.budget import moved_executors
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import Promise
from stormpilot.decide.expectation import Traffic
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.predict import Predictions, predict_each
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.settings import Hold, Request, Verb
from stormpilot.model.subset import isolated
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.model.violations import Violation, violations
from stormpilot.printable import counted, first_few

SHOWN_PROBLEMS = 3

NOBODY: Mapping[tuple[str, int], str] = {}


class Room(NamedTuple):
    """Surroundings of a plan of one topology.

    `part`: the topology on what others leave of the cluster, with the topologies of `others`. `holders`: by slot
    (supervisor, port), names of topologies that have slots of the plan, or get them by plans on their way. `others`:
    plans of other topologies that are applied with it, and leave it their room.
    """

    part: Model
    holders: Mapping[tuple[str, int], str] = NOBODY
    others: Sequence[HistoryEntry] = ()


@dataclass(frozen=True)
class RequestOutcome:
    """Treatment of a request.

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
    room: Room,
    lost: LostSupervisors,
    config: DecideSection,
    now_ms: int,
    traffic: Traffic = "measured",
    *,
    moving: bool = False,
) -> RequestOutcome:
    """Decide about the request for the topology of `subject` (None: one that cannot be read).

    `moving`: as in `refusal`.
    """
    if request is None:
        return _refused("the request cannot be read")
    age_s = (now_ms - request.at_ms) / 1000
    if age_s > config.request_max_age_s:
        return _refused(f"it is {age_s:.0f} s old, and void after {config.request_max_age_s:.0f} s")
    if request.verb == "discard":
        return _discard(request, config, now_ms)
    closed = forbidden(subject, lost, config)
    if closed is not None:
        return _refused(f"{closed.reason}: {closed.text}")
    waiting = on_its_way(subject, config, now_ms) or workers_starting(subject, now_ms)
    if waiting is not None:
        return RequestOutcome(done=False, decision=waiting)
    if request.verb == "replan":
        return RequestOutcome(done=False, lift_hold=subject.hold is not None)
    return _publish(request, subject, room, config, now_ms, traffic, moving)


def unfit(entry: HistoryEntry, subject: TopologyState, room: Room) -> list[Violation]:
    """Why a plan made earlier cannot be applied to what runs now; empty when it can."""
    t, plan = subject.topology, entry.plan
    if plan.topology_id != t.id:
        return [Violation("topology", f"it is a plan of {plan.topology_id}, not of {t.id}", [])]
    if plan.checksum != plan.expected_checksum():
        return [Violation("checksum", "it was changed after it was made", [])]
    if entry.gives_up:
        return []
    planned = sorted(e for w in plan.workers for e in w.executors)
    running = sorted((e.start, e.end) for e in t.executors)
    if planned != running:
        gone, new = len(set(planned) - set(running)), len(set(running) - set(planned))
        text = f"the executors are others now ({gone} of the plan are gone, {new} are new): was it rebalanced?"
        return [Violation("executor-once", text, [])]
    problems: list[Violation] = []
    slots = {s.id: set(s.slots) for s in room.part.supervisors}
    hosts = {s.id: s.host for s in room.part.supervisors}
    for w in plan.workers:
        held = [(t.id, start) for start, _ in w.executors]
        if (w.supervisor, w.port) in room.holders:
            text = f"slot {w.supervisor}:{w.port} is held by {room.holders[w.supervisor, w.port]}"
            problems.append(Violation("slot-one-topology", text, held))
        elif w.supervisor not in slots:
            problems.append(Violation("slot-exists", f"supervisor {w.supervisor} is not there", held))
        elif w.port not in slots[w.supervisor]:
            text = f"{hosts[w.supervisor]} ({w.supervisor}) has no slot {w.port} now"
            problems.append(Violation("slot-exists", text, held))
    problems = problems or [
        v
        for v in violations(room.part, plan_of_entry(entry, *room.others))
        if not v.executors or any(topology_id == t.id for topology_id, _ in v.executors)
    ]
    return list({str(v): v for v in problems}.values())


def refusal(
    verb: Verb,
    entry: HistoryEntry,
    subject: TopologyState,
    problems: Sequence[Violation],
    now_ms: int,
    max_age_s: float | None,
    *,
    measured: bool = True,
    moving: bool = False,
) -> str:
    """Why a plan may not be approved or rolled back to, as a sentence; empty when it may.

    Parameters
    ----------
    problems
        What `unfit` found. A rollback may need more CPU than a node may give, and more heap than a worker may fill: the
        plan ran like that before (what is declared the plug-in holds it to).
    max_age_s
        The age to which a proposal may be approved; None: not known here.
    measured
        Whether CPU is measured. Without, a plan is not refused for it.
    moving
        Whether a rollout moves executors: then the placement of this moment will be another one.
    """
    plan_id, plan, standing = entry.plan.plan_id, entry.plan, subject.plan
    if verb == "approve":
        age_s = (now_ms - plan.created_at_ms) / 1000
        if max_age_s is not None and age_s > max_age_s:
            return (
                f"plan {plan_id} is {age_s:.0f} s old, at most {max_age_s:.0f} s; wait for a new one, "
                "or `stormpilot replan`"
            )
        if standing is not None and subject.plan_since_ms > plan.created_at_ms:
            return f"plan {standing.plan_id} was published after {plan_id} was proposed; wait for a new proposal"
    tolerated = {"cpu"} if verb == "rollback" or not measured else set()
    tolerated |= {"worker-heap"} if verb == "rollback" else set()
    if wrong := [v for v in problems if v.constraint not in tolerated]:
        return f"plan {plan_id} does not fit any more: {first_few([str(v) for v in wrong], SHOWN_PROBLEMS, '; ')}"
    if entry.gives_up:
        return "" if standing is not None else f"{subject.topology.name} has no plan that it could give up"
    if moving or (verb == "approve" and not entry.moved_executors):  # it was to make what runs the plan
        return ""
    if not moved_executors(subject.topology, TopologyPlan(id=plan.topology_id, workers=plan.workers)):
        return f"plan {plan_id} is what runs now"
    return ""


def plan_of_entry(entry: HistoryEntry, *others: HistoryEntry) -> Plan:
    """The plan of a message as a value, with those that are applied with it."""
    p = entry.plan
    placements = [TopologyPlan(id=e.plan.topology_id, workers=e.plan.workers) for e in (entry, *others)]
    return Plan(planner=p.planner, params=p.params, seed=p.seed, topologies=placements)


def _publish(
    request: Request,
    subject: TopologyState,
    room: Room,
    config: DecideSection,
    now_ms: int,
    traffic: Traffic,
    moving: bool,
) -> RequestOutcome:
    """An approved plan, or the one to roll back to."""
    entry, t = request.entry, subject.topology
    if entry is None:
        return _refused("it names no plan")
    plan_id = entry.plan.plan_id
    problems = unfit(entry, subject, room)
    if why := refusal(request.verb, entry, subject, problems, now_ms, config.approval_max_age_s, moving=moving):
        return _refused(why)
    note = ""
    if problems:  # of a rollback, about CPU: it ran like this before, and start-up alone may use more than the limit
        note = f"over the CPU limit by what is measured now: {'; '.join(v.text for v in problems)}"
    plan = plan_of_entry(entry)
    predictions = predict_each(isolated(room.part, t.id), plan, traffic)
    seen = predictions.by_topology[t.id]
    moved = seen.moved
    promise, rest = None, ""
    why = f" ({request.why})" if request.why else ""
    if entry.gives_up:
        reason, text = Reason.EVICTED, f"by {request.by}{why}: {entry.text}"
        result = "its plan is given up"
    elif request.verb == "approve":
        reason, text = Reason.APPROVED, f"by {request.by}{why}: {entry.text or entry.plan.reason}"
        result = f"published {plan_id}, {counted(moved, 'executor moves', 'executors move')}"
        promise = _promise(entry, subject, predictions)
    else:
        reason, text = (
            Reason.ROLLBACK,
            f"to {plan_id}, {request.steps} back, by {request.by}{why}{f'; {note}' if note else ''}",
        )
        result = f"published what {plan_id} was, {counted(moved, 'executor moves', 'executors move')}"
        rest = f"then nothing moves for {config.rollback_hold_s:.0f} s" if config.rollback_hold_s else ""
    tps = seen.inter_node_tps
    decision = Decision(t.id, "publish", reason, text, moved_executors=moved, inter_node_tps=tps, promise=promise)
    return RequestOutcome(
        done=True,
        result=result,
        decision=decision,
        plan=plan,
        hold=_hold(request, now_ms, config.rollback_hold_s) if request.verb == "rollback" else None,
        lift_hold=request.verb == "approve" and subject.hold is not None,
        drop_proposal=True,
        note="; ".join(n for n in (note, rest) if n),
    )


def _promise(entry: HistoryEntry, subject: TopologyState, predictions: Predictions) -> Promise | None:
    """The expected effect of a proposal that is approved: by the metric that it promised, on what is measured now.

    None where it promised none, or what runs is not measured: then the move is not judged.
    """
    promise, seen = Promise.of(entry.effect), predictions.by_topology[subject.topology.id]
    if promise is None or subject.not_ready is not None or seen.now_tps is None or seen.total_tps <= 0:
        return None
    unusable = promise.before <= 0 or (promise.metric == "load_ratio" and not promise.nodes)
    return None if unusable else predictions.promised(subject.topology.id, promise)


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
