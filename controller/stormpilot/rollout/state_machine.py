"""One rollout as a state machine; its state is `Rollout`, which outlives the process.

    ready ──routed away──► draining ──plan published──► moving ──routed back──► ready (the next step) ... ended (DONE)
      ▲                       │                           │
      └── paused: routed back ┘                           └─ rejected, disturbed, overtaken ► returning ─► ended

Each arrow is one transaction: the routing table, the plan and this state change together or not at all. So whoever goes
on after a crash finds the state as it is, and a task that gets no tuples is always named in it. It ends in `ended` from
every state: `abort` and all that goes wrong give the tuples back, at the latest after `start_timeout_s`. Keyed state
that is on its way may keep a task longer: until it has arrived or was given up. A step drains for `drain_timeout_s`,
and for what one hand-over of keyed state may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from stormpilot.config.rollout import RolloutSection
from stormpilot.errors import RefusedError
from stormpilot.messages.core import StatusMessage
from stormpilot.messages.handover import ANSWER_MS
from stormpilot.messages.rollouts import Outcome, Rollout, running_as, workers_of
from stormpilot.messages.routes import Routes
from stormpilot.printable import counted
from stormpilot.rollout.facts import Facts, fits, placed, uninformed_supervisors, worker_tasks
from stormpilot.rollout.routing import drains, put_aside, settled_table, step_tasks, takers, touched, with_back

TROUBLE: Mapping[str, Outcome] = {"rejected": "REJECTED", "degraded": "DISTURBED", "fallback": "DISTURBED"}
"""States of a plan that end a rollout."""
HELD_S = 30.0
"""A plan that is held (paused after it was published) is withdrawn after so long: a few rounds of the plug-in."""
SUPERVISOR_SYNC_S = 10.0
"""Period at which a supervisor asks Nimbus for assignments that it was not told of; fixed in Storm's `Supervisor`."""
CLOCKS_APART_MS = 10_000
"""So far the clock of the next leader may be behind that of the last one without a word."""
LACKS = "no spare capacity: "
STILL_AWAY = "; its tasks get no tuples yet: "
"""Between how a rollout ends and why its tasks cannot come back yet: keyed state is on its way."""


@dataclass(frozen=True)
class Next:
    """Writes of a step, all or nothing: the rollout as it is then, the table where it changes, and a plan.

    `publish`: the plan of the present step, whose id becomes `standing_plan_id`; `withdraw`: what runs, as the plan,
    since the plan of the step must not be applied any more. `messages` are for the log.
    """

    rollout: Rollout
    routes: Routes | None = None
    publish: bool = False
    withdraw: bool = False
    messages: tuple[str, ...] = ()


def next_of(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    """Next writes; None: nothing, look again later."""
    if not m.running:
        return None
    if (by_now := _begun_by_now(m, facts.now_ms)) is not m:
        return Next(by_now, messages=("the clock was set back: times count from now",))
    table, unsaved, messages = settled_table(facts, config)
    changed = table if table != facts.routes else None
    facts = replace(facts, routes=table, unsaved=unsaved)
    phases = {"ready": _ready, "draining": _draining, "moving": _moving, "returning": _returning}
    try:
        found = phases[m.phase](m, facts, config)
    except RefusedError:  # the state of keys is on its way: once it has arrived they can go on
        found = None
    if found is None:
        return Next(m, changed, messages=messages) if changed is not None or messages else None
    return replace(found, routes=found.routes or changed, messages=(*messages, *found.messages))


def _begun_by_now(m: Rollout, now_ms: int) -> Rollout:
    """The rollout with no time in the future, which would keep it in its phase until the clock has come there again."""
    times = m.times_ms
    if max(times.values()) <= now_ms + CLOCKS_APART_MS:
        return m
    return msgspec.structs.replace(m, **{name: min(at_ms, now_ms) for name, at_ms in times.items()})


def given_back(m: Rollout, facts: Facts, outcome: Outcome, text: str) -> Next:
    """End it, whatever its state, with every task that it put aside getting tuples again.

    Not at once where tasks cannot get any yet: their workers restart, or the state of keys is on its way.
    """
    if m.phase == "returning" and m.back:
        return Next(m)
    if m.phase == "moving" and m.reported_at_ms is None:
        withdraw = m.applied_at_ms is None and not _begun(m, facts) and not _workers_changed(m, facts)
        return replace(_begin_return(m, facts, outcome, text), withdraw=withdraw)
    return _all_back(m, facts, outcome, text)


def never_started(before: Rollout, found: Next, facts: Facts) -> bool:
    """Whether it ends because tasks never reported from where a step moved them, though their supervisor is there."""
    if before.phase != "moving" or before.applied_at_ms is None or before.reported_at_ms is not None:
        return False
    answer = _answer(before, facts)
    placed_elsewhere = answer is not None and answer.state == "degraded"
    gone = {w.supervisor for w in before.stage.workers} - facts.supervisors
    outcome = found.rollout.outcome
    return outcome == "TOO_LATE" or (outcome == "DISTURBED" and placed_elsewhere and not gone)


def never_answered(before: Rollout, found: Next, facts: Facts) -> bool:
    """Whether it ends since the plug-in answered neither to the plan of a step nor to what withdrew it."""
    over = not found.rollout.running and found.rollout.outcome == "TOO_LATE"
    return over and before.withdrawn > 0 and before.applied_at_ms is None and _answer(before, facts) is None


def _ready(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    if m.abort_by:
        return _end(m, facts, "ABORTED", f"by {m.abort_by}")
    if why := _trouble(m, facts) or _missing(m, facts) or _forbidden(facts):
        return _end(m, facts, *why)
    if facts.held or m.paused_by:
        return _waits(m, facts, f"held: {facts.held}" if facts.held else f"paused: by {m.paused_by}")
    if m.step > 0 and facts.now_ms - m.since_ms < config.step_interval_s * 1000:
        return None
    lacking, routes, stage = facts.lacking, None, facts.stage
    if stage is not None and (silent := sorted({b for _, b in stage.switches} - {p.task for p in facts.processes})):
        stage, lacking = None, f"task {silent[0]}, which is to stand in for good, has not reported"
    if facts.replanned_steps:
        m = msgspec.structs.replace(m, steps=[*m.steps[: m.step], *facts.replanned_steps])
        stage = facts.replanned_steps[0]
    if stage is not None:
        m = msgspec.structs.replace(m, steps=[*m.steps[: m.step], stage, *m.steps[m.step + 1 :]])
        try:
            routes = put_aside(m, facts)
        except RefusedError as e:
            lacking = str(e)
        if routes is not None and (silent := sorted(takers(m, routes) & set(facts.silent))):
            lacking = f"task {silent[0]}, which is to get their tuples, does not report"
    if stage is None or lacking:
        if m.text.startswith(LACKS) and facts.now_ms - m.since_ms > config.capacity_timeout_s * 1000:
            return _end(m, facts, "GAVE_UP", f"{LACKS}{lacking}")
        return _waits(m, facts, f"{LACKS}{lacking}")
    after = msgspec.structs.replace(m, phase="draining", since_ms=facts.now_ms, text="")
    tasks = ", ".join(map(str, stage.away)) or "none"
    return Next(after, routes, messages=(f"step {m.step + 1} of {len(m.steps)}: tasks {tasks} get no more tuples",))


def _draining(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    if m.abort_by:
        return _all_back(m, facts, "ABORTED", f"by {m.abort_by}")
    if why := _trouble(m, facts) or _missing(m, facts) or _forbidden(facts):
        return _begin_return(m, facts, *why)
    if text := touched(m, facts):
        return _all_back(m, facts, "INTERFERED", text)
    if facts.held or m.paused_by:
        text = f"held: {facts.held}" if facts.held else f"paused: by {m.paused_by}"
        after = msgspec.structs.replace(m, phase="ready", since_ms=facts.now_ms, text=text)
        return Next(after, with_back(m, facts, m.stage.away), messages=(f"{text}; its tasks get tuples again",))
    if not fits(m, facts):
        return _begin_return(m, facts, "DISTURBED", "executors moved while tasks drained")
    # One that never wrote hands nothing over; one that does not report has nothing left.
    if kept := sorted((set(facts.unsaved) & step_tasks(m) & facts.keyed.keys()) - set(facts.silent)):
        return _begin_return(
            m, facts, "TOO_LATE", f"keyed state of task {kept[0]} could not be saved: its worker stays"
        )
    if drains(m, facts):
        return _drains_too_long(m, facts, config)
    if m.stage.switches:
        text = f"{counted(len(m.stage.switches), 'task')} gave their tuples to others that stood by"
        after = msgspec.structs.replace(m, phase="returning", since_ms=facts.now_ms, outcome="DONE", text=text)
        return Next(after, publish=True)  # what runs, with the promise of the plan: nothing is applied, it is judged
    starting = worker_tasks(m)
    after = msgspec.structs.replace(
        _before_move(m),
        phase="moving",
        since_ms=facts.now_ms,
        processes=[p for p in facts.processes if p.task in starting],
        uninformed_supervisors=uninformed_supervisors(m, facts),
    )
    return Next(after, publish=True)


def _drains_too_long(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    """An end for what can only be keyed state: its tasks get tuples late again and again, and it follows them."""
    for_ms = facts.now_ms - m.since_ms
    if for_ms <= config.drain_timeout_s * 1000 + 2 * ANSWER_MS:
        return None
    text = f"keyed state of its tasks was still on its way after {for_ms / 1000:.0f} s"
    return _begin_return(m, facts, "TOO_LATE", text)


def _moving(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    if not _workers_changed(m, facts) and _of_another_leadership(m, facts):
        return Next(msgspec.structs.replace(m, since_ms=facts.now_ms, withdrawn=m.withdrawn + 1), publish=True)
    if why := _trouble(m, facts) or _missing(m, facts):
        return replace(_begin_return(m, facts, *why), withdraw=_may_come_later(m, facts))
    if m.applied_at_ms is None:
        return _not_applied(m, facts, config)
    waited_ms = facts.now_ms - m.applied_at_ms
    late = waited_ms > config.start_timeout_s * 1000
    if silent := _silent(m, facts):
        named = ", ".join(map(str, silent))
        text = f"tasks {named} did not report within {waited_ms / 1000:.0f} s (rollout.start_timeout_s)"
        return _all_back(m, facts, "TOO_LATE", text) if late else None
    if m.reported_at_ms is None:
        return Next(msgspec.structs.replace(m, reported_at_ms=facts.now_ms))
    refresh_s = config.task_refresh_s + (SUPERVISOR_SYNC_S if m.uninformed_supervisors else 0)
    known_at_ms = max(m.reported_at_ms, m.applied_at_ms + int(refresh_s * 1000))
    if facts.now_ms - known_at_ms < config.connect_s * 1000:
        return None
    try:
        routes = with_back(m, facts, m.stage.away)
    except RefusedError as e:  # the state of keys is on its way
        return _all_back(m, facts, "TOO_LATE", str(e)) if late else None
    last = m.step + 1 == len(m.steps)
    if last or m.abort_by:
        outcome: Outcome = "DONE" if last else "ABORTED"
        done = f"{m.step + 1} of {counted(len(m.steps), 'step')} in {(facts.now_ms - m.started_at_ms) / 1000:.0f} s"
        text = done if last else f"by {m.abort_by}, after {done}"
        after = msgspec.structs.replace(m, phase="returning", since_ms=facts.now_ms, outcome=outcome, text=text)
        return Next(after, routes)
    after = msgspec.structs.replace(_before_move(m), phase="ready", step=m.step + 1, since_ms=facts.now_ms, text="")
    return Next(after, routes, messages=(f"step {m.step + 1} of {len(m.steps)} is done",))


def _not_applied(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    """The plan of the step is published, and the plug-in has not said that it is applied."""
    if _applied(m, facts):
        return Next(msgspec.structs.replace(m, applied_at_ms=facts.now_ms))
    for_s = (facts.now_ms - m.since_ms) / 1000
    begun = _begun(m, facts)
    if not begun and (why := _forbidden(facts)) is not None:
        return replace(_begin_return(m, facts, *why), withdraw=True)
    if not begun and facts.held and for_s > HELD_S:
        after = msgspec.structs.replace(m, phase="ready", since_ms=facts.now_ms, text=f"held: {facts.held}")
        text = f"{after.text}; the plan of the step is withdrawn, its tasks get tuples again"
        return Next(after, with_back(m, facts, m.stage.away), withdraw=True, messages=(text,))
    if for_s > config.start_timeout_s:
        text = f"the plan of step {m.step + 1} was not applied within {for_s:.0f} s"
        return replace(_begin_return(m, facts, "TOO_LATE", text), withdraw=not begun)
    return None


def _returning(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
    """Tasks get tuples again as soon as they are seen to work, all of them in the end; keyed state arrives.

    It names tasks that cannot get tuples, and says why, for as long as that is so.
    """
    late = facts.now_ms - m.since_ms > config.start_timeout_s * 1000
    known = {t for e in facts.snapshot.executors for t in range(e.start, e.end + 1)}
    left = [t for t in m.back if t in known]
    restarting = _silent(m, facts) if m.applied_at_ms is not None or _applied(m, facts) else []
    ready = left if late else [t for t in left if t in facts.alive and t not in restarting]
    how = m.text.partition(STILL_AWAY)[0]
    try:
        routes = with_back(m, facts, ready) if ready else None
    except RefusedError as e:  # the state of keys is on its way
        text = f"{how}{STILL_AWAY}{e}"
        return None if text == m.text else Next(msgspec.structs.replace(m, text=text), messages=(text,))
    on_its_way = any(route.handovers for route in facts.routes.components) if facts.routes else False
    if late or (len(ready) == len(left) and not on_its_way):
        return Next(_ended(m, facts, m.outcome, how), routes)
    if not ready:
        return None
    return Next(msgspec.structs.replace(m, back=[t for t in left if t not in ready], text=how), routes)


# --- what is seen -----------------------------------------------------------------------------------------------------


def _trouble(m: Rollout, facts: Facts) -> tuple[Outcome, str] | None:
    """Why it cannot go on: another plan, or one of ours that was rejected or disturbed."""
    if facts.plan_id != m.standing_plan_id:
        return "OVERTAKEN", f"plan {facts.plan_id or 'none'} was published meanwhile"
    answer, ours = _answer(m, facts), (m.standing_plan_id or "").startswith(m.entry.plan.plan_id)
    if answer is not None and answer.state in TROUBLE and (ours or answer.state == "degraded"):
        return TROUBLE[answer.state], f"{answer.state}: {answer.code}: {answer.text}"
    return None


def _answer(m: Rollout, facts: Facts) -> StatusMessage | None:
    """Status that the plug-in gives the published plan; None: none yet."""
    status = facts.status
    return status if status is not None and status.plan_id == m.standing_plan_id else None


def _of_another_leadership(m: Rollout, facts: Facts) -> bool:
    """Whether the plan of the step was rejected for its epoch: the leader changed before a round had applied it."""
    answer, ours = _answer(m, facts), m.standing_plan_id == facts.plan_id and m.applied_at_ms is None
    return ours and answer is not None and (answer.state, answer.code) == ("rejected", "EPOCH_OLD")


def _may_come_later(m: Rollout, facts: Facts) -> bool:
    """Whether the plug-in may still apply the plan of the step: it tries some that it rejected again, for a while.

    But for another number of workers it was rejected for good, and what runs may not be the plan.
    """
    if _workers_changed(m, facts):
        return False
    ours = facts.plan_id == m.standing_plan_id and m.applied_at_ms is None and not _begun(m, facts)
    return ours and len(placed(facts)) == len(facts.snapshot.executors)


def _missing(m: Rollout, facts: Facts) -> tuple[Outcome, str] | None:
    """Executors that lost their place or are others than planned, nodes that are gone, another number of workers."""
    if _workers_changed(m, facts):
        return "DISTURBED", "the number of workers was changed by a user"
    planned = {(s, e) for w in m.target for s, e in w.executors}
    if planned != {(e.start, e.end) for e in facts.snapshot.executors}:
        return "DISTURBED", "the executors of the topology are others now"
    if lost := len(planned) - len(placed(facts)):
        return "DISTURBED", f"{counted(lost, 'executor has', 'executors have')} no slot on a live supervisor"
    gone = sorted({w.supervisor for w in (*m.target, *m.stage.workers)} - facts.supervisors)
    return ("DISTURBED", f"supervisor {gone[0]} is gone") if gone else None


def _workers_changed(m: Rollout, facts: Facts) -> bool:
    """Whether another number of workers is asked for than when it began, where that is known."""
    return m.entry.plan.based_on.workers not in (0, facts.snapshot.workers)


def _forbidden(facts: Facts) -> tuple[Outcome, str] | None:
    """Why executors may not be where it leads: a setting that was made after it began."""
    return ("DISTURBED", facts.forbidden_target) if facts.forbidden_target else None


def _begun(m: Rollout, facts: Facts) -> bool:
    """Whether the plug-in carries the plan of the step out, or has done so."""
    answer = _answer(m, facts)
    return answer is not None and answer.state in ("moving", "applied")


def _applied(m: Rollout, facts: Facts) -> bool:
    answer = _answer(m, facts)
    reported = answer is not None and answer.state == "applied"
    return reported and workers_of(m.stage.workers) <= running_as(placed(facts))


def _silent(m: Rollout, facts: Facts) -> list[int]:
    """Tasks of the step that reported before it and do not yet from a new process, of both who measure a task."""
    now = {(p.task, p.jvm): (p.pid, p.start_ms) for p in facts.processes}
    old = {p.task for p in m.processes if now.get((p.task, p.jvm), (p.pid, p.start_ms)) == (p.pid, p.start_ms)}
    return sorted(old & worker_tasks(m))


# --- ends -------------------------------------------------------------------------------------------------------------


def _before_move(m: Rollout) -> Rollout:
    """Without what is known of a step that moves."""
    return msgspec.structs.replace(m, applied_at_ms=None, reported_at_ms=None, processes=[], uninformed_supervisors=[])


def _waits(m: Rollout, facts: Facts, text: str) -> Next | None:
    """Say what it waits for; the time counts from when that began."""
    if m.text.partition(":")[0] == text.partition(":")[0]:
        return None
    after = msgspec.structs.replace(m, text=text, since_ms=facts.now_ms)
    return Next(after, messages=(f"step {m.step + 1} of {len(m.steps)} waits, {text}",))


def _ended(m: Rollout, facts: Facts, outcome: Outcome, text: str) -> Rollout:
    return msgspec.structs.replace(
        _before_move(m),
        phase="ended",
        since_ms=facts.now_ms,
        outcome=outcome,
        text=text,
        back=[],
        paused_by="",
        abort_by="",
    )


def _end(m: Rollout, facts: Facts, outcome: Outcome, text: str) -> Next:
    """Nothing is put aside: it is over."""
    return Next(_ended(m, facts, outcome, text))


def _begin_return(m: Rollout, facts: Facts, outcome: Outcome, text: str) -> Next:
    after = msgspec.structs.replace(
        m, phase="returning", since_ms=facts.now_ms, back=list(m.stage.away), outcome=outcome, text=text
    )
    return Next(after)


def _all_back(m: Rollout, facts: Facts, outcome: Outcome, text: str) -> Next:
    """It is over, and every task that it put aside gets tuples again."""
    tasks = [] if m.phase == "ready" else m.back if m.phase == "returning" else m.stage.away
    known = {t for e in facts.snapshot.executors for t in range(e.start, e.end + 1)}
    if facts.routes is None or not tasks:
        return _end(m, facts, outcome, text)
    try:
        return Next(_ended(m, facts, outcome, text), with_back(m, facts, [t for t in tasks if t in known]))
    except RefusedError:  # the state of keys is on its way: as soon as it has arrived
        return _begin_return(m, facts, outcome, text)
