"""Admission of a topology to planning: the gates that need no plan, in the order of the table of reasons."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote

from stormpilot.config import DecideSection
from stormpilot.decide.decision import Action, Decision, skip
from stormpilot.decide.effect import backing_off
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import running_as, workers_of
from stormpilot.messages.settings import Hold, Mode
from stormpilot.model.closed_loop import Sources
from stormpilot.model.values import Topology
from stormpilot.printable import counted, first_few

STARTING_MS = 30_000
"""Longest time from the assignment of a worker until its JVM has written its process id, on a busy host."""
ANSWER_MS = 60_000
"""Longest time until the scheduler plug-in answers to a plan or repairs a placement: a few of its rounds."""

SET_ASIDE = "SET_ASIDE"
"""The plug-in's code where the plan was set aside in a pause, in mode `off` or by isolation, and that has ended."""


@dataclass(frozen=True)
class TopologyState:
    """One topology as the gates see it.

    `not_ready` names the gaps in its load data (None: complete);
    `over_limit`: they are more than the controller reads. `plan` is the published plan; `plan_problem` is the
    reason for which the published plan cannot be read; `plan_since_ms`: since when it is published, by our clock.
    `unplaced_since_ms` is the time since which executors run nowhere. `move` is the state of the last move. `blackout`
    names the window in which nothing that runs may be moved, `blackout_until_ms` is its end. `torn`: an
    earlier leader wrote only a part of the plan's set.

    `mode_from` is the source of the mode. `approval`: moves wait for an operator. `hold`: an operator's hold. `frozen`
    names a setting that cannot be read, `unsupported` settings of Storm that plans do not honour. `asked`: an operator
    asked to replan. `sources` tells whether the topology holds its sources. `silent` counts executors on supervisors
    that are gone or blacklisted; Storm keeps them there as long as they send heartbeats. `window_ratio` is the part of
    a whole window that its rates are means of, `changed` says that its traffic changed within the last window.
    `assigned_ms`: since when executors are assigned as they are.
    """

    topology: Topology
    mode: Mode
    paused: bool = False
    not_ready: str | None = None
    ready_at_ms: int | None = None
    instrumented: bool = True
    over_limit: bool = False
    plan: PlanMessage | None = None
    plan_problem: str | None = None
    plan_since_ms: int = 0
    unplaced_since_ms: int | None = None
    status: StatusMessage | None = None
    move: MoveState | None = None
    blackout: str | None = None
    blackout_until_ms: int | None = None
    torn: bool = False
    mode_from: str = ""
    approval: bool = False
    hold: Hold | None = None
    frozen: str | None = None
    unsupported: str | None = None
    asked: bool = False
    silent: int = 0
    window_ratio: float = 1.0
    changed: bool = False
    assigned_ms: int | None = None
    sources: Sources = field(default_factory=Sources)

    @property
    def action(self) -> Action:
        """Action of a plan for it: it is published in mode `act`, else proposed."""
        return "publish" if self.mode == "act" else "advise"

    @property
    def placed(self) -> bool:
        """Whether every executor has a slot on a live supervisor."""
        return len(self.topology.assignment) == len(self.topology.executors)

    @property
    def new(self) -> bool:
        """Whether it was never placed."""
        return not self.topology.assignment and self.plan is None and self.plan_problem is None

    @property
    def answer(self) -> StatusMessage | None:
        """The answer of the plug-in to the published plan; None: there is no plan, or no answer to it."""
        status, plan = self.status, self.plan
        return status if plan is not None and status is not None and status.plan_id == plan.plan_id else None

    @property
    def degraded(self) -> bool:
        """Whether it does not run as its plan says: executors lost their place or got another, or the plan is lost."""
        if self.new:
            return False
        status = self.status if self.plan is None else self.answer
        degraded = status is not None and status.state == "degraded"
        return not self.placed or degraded or self.plan_problem is not None or self.torn

    @property
    def rebalanced(self) -> bool:
        """Whether Storm placed it anew after the plan was made: a user changed it, or plans were not applied."""
        if self.plan is None:
            return False
        if self.answer is not None:
            if self.answer.state == "fallback":
                return self.answer.code in ("WORKERS_CHANGED", "EXECUTORS_CHANGED", SET_ASIDE)
            if (self.answer.state, self.answer.code) == ("rejected", "WORKERS_CHANGED"):
                return True
        planned = sorted(e for w in self.plan.workers for e in w.executors)
        return planned != sorted((e.start, e.end) for e in self.topology.executors)

    @property
    def why_rebalanced(self) -> str:
        """A clause: why Storm placed it anew, given that it did."""
        if self.answer is not None and self.answer.code == SET_ASIDE:
            return "its plan was set aside while no plans were applied"
        return "the executors were changed by a user"


@dataclass(frozen=True)
class Conditions:
    """The conditions of a cycle: supervisors that were lost, the configuration and the time."""

    lost: LostSupervisors
    config: DecideSection
    now_ms: int


Gate = Callable[[TopologyState, Conditions], Decision | None]


def admit(subject: TopologyState, lost: LostSupervisors, config: DecideSection, now_ms: int) -> Decision | None:
    """The first gate that is closed, or None when the topology may be planned."""
    gates = [g for r, g in IN_ORDER.items() if r.row.holds_everything or not subject.new]  # new: nothing runs yet
    return _first_closed(gates, subject, Conditions(lost, config, now_ms))


def admit_rollback(subject: TopologyState, lost: LostSupervisors, config: DecideSection) -> Decision | None:
    """The first closed gate for the rollback of a move that made it worse: only the gates that operators close.

    In mode `advise` an operator approved the move, and may take it back.
    """
    t = subject.topology
    if subject.mode == "advise":
        why = "the last move made it worse" if subject.move is None else subject.move.text
        text = f"{why}; not undone in mode advise: `stormpilot rollback {quote(t.name)}` does it"
        return skip(t.id, Reason.BACK_OFF, text)
    return forbidden(subject, lost, config) or blacked_out(subject)


def forbidden(subject: TopologyState, lost: LostSupervisors, config: DecideSection) -> Decision | None:
    """The first closed gate of those that hold everything: operators' gates, and the guard against mass failures."""
    gates = [g for r, g in IN_ORDER.items() if r.row.holds_everything]
    return _first_closed(gates, subject, Conditions(lost, config, now_ms=0))


def _first_closed(gates: Iterable[Gate], subject: TopologyState, conditions: Conditions) -> Decision | None:
    return next((closed for gate in gates if (closed := gate(subject, conditions)) is not None), None)


def _mode(subject: TopologyState, _: Conditions) -> Decision | None:
    if subject.mode != "off":
        return None
    return skip(subject.topology.id, Reason.MODE_OFF, "the mode of this topology is off")


def _included(subject: TopologyState, conditions: Conditions) -> Decision | None:
    name, config = subject.topology.name, conditions.config
    included = not config.include or any(fnmatch.fnmatchcase(name, p) for p in config.include)
    if included and not any(fnmatch.fnmatchcase(name, p) for p in config.exclude):
        return None
    return skip(subject.topology.id, Reason.EXCLUDED, "decide.include and decide.exclude leave this topology out")


def _paused(subject: TopologyState, _: Conditions) -> Decision | None:
    return skip(subject.topology.id, Reason.PAUSED, "paused by an operator") if subject.paused else None


def _frozen(subject: TopologyState, _: Conditions) -> Decision | None:
    if subject.frozen is None:
        return None
    text = f"{subject.frozen}: nothing moves until it can, or is removed"
    return skip(subject.topology.id, Reason.SETTING_UNREADABLE, text)


def _unsupported(subject: TopologyState, _: Conditions) -> Decision | None:
    if subject.unsupported is None:
        return None
    text = f"{subject.unsupported}: plans do not honour that, so Storm's own scheduler places it"
    return skip(subject.topology.id, Reason.UNSUPPORTED_SETTING, text)


def _mass_failure(subject: TopologyState, conditions: Conditions) -> Decision | None:
    (lost, known), limit = conditions.lost, conditions.config.max_lost_supervisors_ratio
    if not lost or len(lost) / known < limit:
        return None
    grace_s = conditions.config.lost_supervisor_grace_s
    text = (
        f"{len(lost)} of {counted(known, 'supervisor')} {'is' if len(lost) == 1 else 'are'} gone or blacklisted "
        f"({first_few(lost, 3)}): nothing moves until they are back, or away for {grace_s:.0f} s"
    )
    return skip(subject.topology.id, Reason.MASS_FAILURE, text, value=len(lost) / known, threshold=limit)


def blacked_out(subject: TopologyState) -> Decision | None:
    """BLACKOUT: nothing that runs is moved in the window; executors that run nowhere are placed all the same."""
    if subject.blackout is None or not subject.placed:
        return None
    text = f"blackout window {subject.blackout}"
    return skip(subject.topology.id, Reason.BLACKOUT, text, until_ms=subject.blackout_until_ms)


def held(subject: TopologyState, now_ms: int) -> Decision | None:
    """OPERATOR_HOLD after a rollback or a discarded plan, unless executors lost their slot."""
    h = subject.hold
    if h is None or now_ms >= h.until_ms or subject.degraded or subject.asked:
        return None
    what = "rolled back" if h.cause == "rollback" else f"plan {h.plan_id} was discarded"
    plan, answer = subject.plan, subject.answer
    rolled_back = h.cause == "rollback" and plan is not None and plan.reason_code == Reason.ROLLBACK
    if rolled_back and answer is not None and answer.state == "rejected":
        what = f"the rollback was rejected ({answer.code}: {answer.text}), asked for"
    text = f"{what} by {h.by}" + (f" ({h.why})" if h.why else "")
    if h.end_ms is None:
        text = f"a hold that cannot be read, until `stormpilot replan {quote(subject.topology.name)}`"
    return skip(subject.topology.id, Reason.OPERATOR_HOLD, text, until_ms=h.end_ms)


def as_planned(plan: PlanMessage, topology: Topology) -> bool:
    """Whether the plan is what runs, whatever its status says."""
    return workers_of(plan.workers) == running_as({a.start: (a.supervisor, a.port) for a in topology.assignment})


def unanswered(subject: TopologyState, now_ms: int) -> Decision | None:
    """MOVE_BEING_EVALUATED while the last plan has no answer, and may still be applied.

    Where the plug-in answers to no plan, e.g. a Nimbus without it leads, another plan would move as little.
    """
    move, plan = subject.move, subject.plan
    if move is None or plan is None or subject.torn or subject.rebalanced or subject.asked:
        return None
    followed = plan.plan_id == move.plan_id and move.phase == "moving"
    return silence(subject, now_ms) if followed and not as_planned(plan, subject.topology) else None


def silence(subject: TopologyState, now_ms: int) -> Decision | None:
    """MOVE_BEING_EVALUATED where the plug-in has not answered to the plan that is published."""
    plan = subject.plan
    if plan is None or subject.answer is not None:
        return None
    silent_s = (now_ms - subject.plan_since_ms) / 1000
    text = f"the scheduler plug-in has not answered to plan {plan.plan_id} for {silent_s:.0f} s (stormpilot doctor)"
    return skip(subject.topology.id, Reason.MOVE_BEING_EVALUATED, text)


def _effect(subject: TopologyState, now_ms: int) -> Decision | None:
    """MOVE_BEING_EVALUATED until the last move is judged; BACK_OFF after moves that did not help."""
    move, t = subject.move, subject.topology
    if (unheard := unanswered(subject, now_ms)) is not None:
        return unheard
    if move is None or subject.degraded or subject.rebalanced or subject.asked:
        return None
    if move.phase == "measuring" and move.metric is not None:
        waits = f": {subject.not_ready}" if subject.not_ready else ""
        return skip(t.id, Reason.MOVE_BEING_EVALUATED, f"what plan {move.plan_id} won is being measured{waits}")
    until_ms = backing_off(move, now_ms)
    if until_ms is None:
        return None
    times = f"{move.failures} moves in a row" if move.failures > 1 else "the last move"
    text = f"{times} did not help ({move.back_off_why})"
    return skip(t.id, Reason.BACK_OFF, text, value=move.failures, until_ms=until_ms)


def _repaired_by_others(subject: TopologyState, now_ms: int) -> Decision | None:
    """WAITING_FOR_REPAIR: the plug-in or its fallback places executors that lost their slot; the others stay.

    The workers of a supervisor that ended go on and report to Nimbus themselves. Nothing is lost until Nimbus drops
    them; then the plug-in places them.
    """
    if subject.silent:
        silent = counted(subject.silent, "executor runs", "executors run")
        text = f"{silent} on supervisors that are gone or blacklisted; Storm still hears of them"
        return skip(subject.topology.id, Reason.WAITING_FOR_REPAIR, text, value=subject.silent)
    if subject.placed or not subject.topology.assignment or subject.unplaced_since_ms is None:
        return None  # (where nothing runs there is nothing to keep still)
    again_ms = subject.unplaced_since_ms + ANSWER_MS
    if now_ms >= again_ms:
        return None
    n = len(subject.topology.executors) - len(subject.topology.assignment)
    lost = counted(n, "executor has", "executors have")
    text = f"{lost} no slot on a live supervisor; the scheduler plug-in places {'it' if n == 1 else 'them'}"
    return skip(subject.topology.id, Reason.WAITING_FOR_REPAIR, text, until_ms=again_ms)


def on_its_way(subject: TopologyState, config: DecideSection, now_ms: int) -> Decision | None:
    """PLAN_MOVING while the last plan is applied; PLAN_REJECTED when it was rejected or cannot be read."""
    plan, answer, t = subject.plan, subject.answer, subject.topology
    if subject.plan_problem is not None:
        again_ms = subject.plan_since_ms + int(config.cool_down_s * 1000)
        text = f"the published plan cannot be used, what runs goes on ({subject.plan_problem})"
        return skip(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms) if now_ms < again_ms else None
    if plan is None or subject.torn:
        return None
    if answer is None:
        again_ms = subject.plan_since_ms + ANSWER_MS
        if now_ms < again_ms:
            text = f"the scheduler plug-in has not answered to plan {plan.plan_id} yet"
            return skip(t.id, Reason.PLAN_MOVING, text, until_ms=again_ms)
    elif answer.state in ("moving", "waiting"):
        return skip(t.id, Reason.PLAN_MOVING, f"plan {plan.plan_id} is being applied: {answer.text or answer.code}")
    elif answer.state == "rejected":
        again_ms = subject.plan_since_ms + int(config.rejected_retry_s * 1000)
        if now_ms < again_ms:
            text = f"plan {plan.plan_id} was rejected ({answer.code}: {answer.text}); another is made later"
            return skip(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms)
    return None


def workers_starting(subject: TopologyState, now_ms: int) -> Decision | None:
    """WORKERS_STARTING: what was assigned just now is not moved again, unless executors have no slot.

    Storm's supervisor ends a worker by the process ids that the worker wrote; one that has not come so far is taken for
    dead, and runs on when its JVM is up.
    """
    if subject.assigned_ms is None or not subject.placed:
        return None
    again_ms = subject.assigned_ms + STARTING_MS
    if now_ms >= again_ms:
        return None
    text = f"its workers were assigned {max(0, now_ms - subject.assigned_ms) / 1000:.0f} s ago and may just be starting"
    return skip(subject.topology.id, Reason.WORKERS_STARTING, text, until_ms=again_ms)


def _cooling_down(subject: TopologyState, config: DecideSection, now_ms: int) -> Decision | None:
    """COOL_DOWN while the last plan is young; one that was rejected, only where others before it were, too."""
    plan, answer = subject.plan, subject.answer
    if plan is None or subject.plan_problem is not None or subject.torn:
        return None
    cool_down_s, what = config.cool_down_s, "the last plan"
    if answer is not None and answer.state == "rejected":
        rejections = 0 if subject.move is None else subject.move.rejections
        if rejections <= 1:
            return None
        cool_down_s = min(config.rejected_retry_s * 2.0 ** min(rejections - 1, 40), cool_down_s)
        what = f"the last of {rejections} plans that were rejected in a row"
    elif plan.reason_code == Reason.REPAIR:
        cool_down_s, what = cool_down_after_repair(config), "the plan that keeps what was repaired"
    age_s, until_ms = (now_ms - subject.plan_since_ms) / 1000, subject.plan_since_ms + int(cool_down_s * 1000)
    if subject.degraded or subject.rebalanced or subject.asked or now_ms >= until_ms:
        return None
    text = f"{what} is {age_s:.0f} s old"
    return skip(subject.topology.id, Reason.COOL_DOWN, text, value=age_s, threshold=cool_down_s, until_ms=until_ms)


def cool_down_after_repair(config: DecideSection) -> float:
    """Seconds for which what was repaired stays as it is, whatever could be won."""
    return config.cool_down_s if config.repair_cool_down_s is None else config.repair_cool_down_s


def _unmeasured(subject: TopologyState) -> Decision | None:
    """INSUFFICIENT_METRICS or NOT_INSTRUMENTED; repairs of executors that run nowhere need no measurements."""
    if subject.not_ready is None or (subject.degraded and not (subject.placed and subject.instrumented)):
        return None
    reason = Reason.INSUFFICIENT_METRICS if subject.instrumented else Reason.NOT_INSTRUMENTED
    reason = Reason.REPORTS_OVER_LIMIT if subject.over_limit else reason
    return skip(subject.topology.id, reason, subject.not_ready, until_ms=subject.ready_at_ms)


_ASKED: dict[Reason, Gate] = {
    Reason.MODE_OFF: _mode,
    Reason.EXCLUDED: _included,
    Reason.PAUSED: _paused,
    Reason.SETTING_UNREADABLE: _frozen,
    Reason.UNSUPPORTED_SETTING: _unsupported,
    Reason.MASS_FAILURE: _mass_failure,
    Reason.BLACKOUT: lambda s, _: blacked_out(s),
    Reason.OPERATOR_HOLD: lambda s, c: held(s, c.now_ms),
    Reason.PLAN_MOVING: lambda s, c: on_its_way(s, c.config, c.now_ms),
    Reason.WORKERS_STARTING: lambda s, c: workers_starting(s, c.now_ms),
    Reason.COOL_DOWN: lambda s, c: _cooling_down(s, c.config, c.now_ms),
    Reason.MOVE_BEING_EVALUATED: lambda s, c: _effect(s, c.now_ms),
    Reason.WAITING_FOR_REPAIR: lambda s, c: _repaired_by_others(s, c.now_ms),
    Reason.INSUFFICIENT_METRICS: lambda s, _: _unmeasured(s),
}
"""The function of each gate, under one of its reasons."""
IN_ORDER: Mapping[Reason, Gate] = dict(sorted(_ASKED.items(), key=lambda asked: asked[0].order))
"""The gates in the order of the table."""
