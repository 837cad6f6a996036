"""May a topology be planned at all now? The gates that need no plan, in the order in which they are asked."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from stormpilot.config import DecideSection, Mode
from stormpilot.decide.effect import backing_off
from stormpilot.decide.reasons import Decision, Reason, skip
from stormpilot.messages.core import PlanMessage, StatusMessage
from stormpilot.messages.moves import MoveState
from stormpilot.messages.settings import Hold
from stormpilot.model.values import Topology

ANSWER_MS = 60_000
"""How long the scheduler plug-in may take to answer to a plan or to repair a placement: a few of its rounds."""


@dataclass(frozen=True)
class TopologyState:
    """One topology as the gates see it.

    `not_ready` says what its load data lack (None: complete; `over_limit`: they are more than is read), `plan` is the
    published one, `plan_problem` why what is published cannot be read, `unplaced_since_ms` since when executors run
    nowhere, `move` what became of the last move. `blackout` names the window in which nothing that runs may be moved,
    `blackout_until_ms` is its end. `torn`: its plan belongs to a round of which an earlier leader wrote only a part.

    `mode_from` says who set the mode, `approval` whether moves wait for an operator, `hold` until when the topology
    stays as it is, `frozen` which setting cannot be read; `asked`: an operator wants a plan now. `silent`: executors on
    supervisors that are gone or blacklisted, which Storm keeps there because it hears of them.
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
    plan_written_ms: int = 0
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
    asked: bool = False
    silent: int = 0

    @property
    def placed(self) -> bool:
        """Whether every executor has a slot on a live supervisor."""
        return len(self.topology.assignment) == len(self.topology.executors)

    @property
    def new(self) -> bool:
        """Whether it was never placed."""
        return not self.topology.assignment and self.plan is None and self.plan_problem is None

    @property
    def degraded(self) -> bool:
        """Whether it does not run as its plan says: executors lost their place or got another, or the plan is lost."""
        if self.new:
            return False
        state = None if self.status is None else self.status.state
        return not self.placed or state == "degraded" or self.plan_problem is not None or self.torn

    @property
    def rebalanced(self) -> bool:
        """Whether a user changed its workers or parallelism after the plan was made."""
        plan, status = self.plan, self.status
        if plan is None:
            return False
        if status is not None and status.plan_id == plan.plan_id and status.state == "fallback":
            return status.code in ("WORKERS_CHANGED", "EXECUTORS_CHANGED")
        planned = sorted(e for w in plan.workers for e in w.executors)
        return planned != sorted((e.start, e.end) for e in self.topology.executors)


def admit(subject: TopologyState, lost: list[str], known: int, config: DecideSection, now_ms: int) -> Decision | None:
    """The first gate that is closed, or None when the topology may be planned."""
    closed = forbidden(subject, lost, known, config)
    if closed is not None or subject.new:  # nothing runs yet: nothing to measure, nothing to disturb
        return closed
    return (
        blacked_out(subject)
        or held(subject, now_ms)
        or on_its_way(subject, config, now_ms)
        or _cooling_down(subject, config, now_ms)
        or _effect(subject, now_ms)
        or _repaired_by_others(subject, now_ms)
        or _unmeasured(subject)
    )


def admit_rollback(subject: TopologyState, lost: list[str], known: int, config: DecideSection) -> Decision | None:
    """The first closed gate for the way back from a move that made it worse: only what operators close."""
    if subject.mode == "advise":
        return skip(subject.topology.id, Reason.MODE_OFF, "not rolled back: the mode of this topology is advise")
    return forbidden(subject, lost, known, config) or blacked_out(subject)


def forbidden(subject: TopologyState, lost: list[str], known: int, config: DecideSection) -> Decision | None:
    """The gates that operators close, and the guard against acting when most of the cluster seems to be gone."""
    t = subject.topology
    if subject.mode == "off":
        return skip(t.id, Reason.MODE_OFF, "the mode of this topology is off")
    if not _included(t.name, config):
        return skip(t.id, Reason.EXCLUDED, "decide.include and decide.exclude leave this topology out")
    if subject.paused:
        return skip(t.id, Reason.PAUSED, "paused by an operator")
    if subject.frozen is not None:
        return skip(t.id, Reason.SETTING_UNREADABLE, f"{subject.frozen}: nothing moves until it can, or is removed")
    if lost and len(lost) / known >= config.max_lost_supervisors_ratio:
        return skip(
            t.id,
            Reason.MASS_FAILURE,
            f"{len(lost)} of {known} supervisors are gone ({_some(lost)}): nothing moves until they are back",
            value=len(lost) / known,
            threshold=config.max_lost_supervisors_ratio,
        )
    return None


def blacked_out(subject: TopologyState) -> Decision | None:
    """Nothing that runs is moved in a blackout window; executors that run nowhere are placed all the same."""
    if subject.blackout is None or not subject.placed:
        return None
    text = f"blackout window {subject.blackout}"
    return skip(subject.topology.id, Reason.BLACKOUT, text, until_ms=subject.blackout_until_ms)


def held(subject: TopologyState, now_ms: int) -> Decision | None:
    """After a rollback or a discarded plan a topology stays as it is, unless executors lost their place."""
    h = subject.hold
    if h is None or now_ms >= h.until_ms or subject.degraded or subject.asked:
        return None
    what = "rolled back" if h.cause == "rollback" else f"plan {h.plan_id} was discarded"
    text = f"{what} by {h.by}" + (f" ({h.why})" if h.why else "")
    return skip(subject.topology.id, Reason.OPERATOR_HOLD, text, until_ms=h.until_ms)


def _effect(subject: TopologyState, now_ms: int) -> Decision | None:
    """The last move is judged before there is another one, and one that did not help is followed by a pause."""
    move, t = subject.move, subject.topology
    if move is None or subject.degraded or subject.rebalanced or subject.asked:
        return None
    if move.phase == "measuring" and move.metric is not None:
        return skip(t.id, Reason.MOVE_BEING_EVALUATED, f"what plan {move.plan_id} won is being measured")
    until_ms = backing_off(move, now_ms)
    if until_ms is None:
        return None
    times = f"{move.failures} moves in a row" if move.failures > 1 else "the last move"
    text = f"{times} did not help ({move.back_off_why})"
    return skip(t.id, Reason.BACK_OFF, text, value=move.failures, until_ms=until_ms)


def _repaired_by_others(subject: TopologyState, now_ms: int) -> Decision | None:
    """Executors that lost their slot: the plug-in or its fallback place them at once, with the rest kept still.

    A supervisor that ended leaves its workers running, and they report to Nimbus themselves: nothing is lost until
    Nimbus drops them, and then the plug-in places them.
    """
    if subject.silent:
        text = f"{subject.silent} executors run on supervisors that are gone or blacklisted; Storm still hears of them"
        return skip(subject.topology.id, Reason.WAITING_FOR_REPAIR, text, value=subject.silent)
    if subject.placed or not subject.topology.assignment or subject.unplaced_since_ms is None:
        return None  # (where nothing runs there is nothing to keep still)
    again_ms = subject.unplaced_since_ms + ANSWER_MS
    if now_ms >= again_ms:
        return None
    lost = len(subject.topology.executors) - len(subject.topology.assignment)
    text = f"{lost} executors have no slot on a live supervisor; the scheduler plug-in places them"
    return skip(subject.topology.id, Reason.WAITING_FOR_REPAIR, text, until_ms=again_ms)


def on_its_way(subject: TopologyState, config: DecideSection, now_ms: int) -> Decision | None:
    """The plan before: can it be read, is it still on its way, was it refused just now?"""
    plan, status, t = subject.plan, subject.status, subject.topology
    cool_down_ms = int(config.cool_down_s * 1000)
    if subject.plan_problem is not None:
        again_ms = subject.plan_written_ms + cool_down_ms
        if now_ms < again_ms:
            text = f"the published plan cannot be used, what runs goes on ({subject.plan_problem})"
            return skip(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms)
        return None
    if plan is None or subject.torn:
        return None
    age_ms = now_ms - plan.created_at_ms
    if status is None or status.plan_id != plan.plan_id:
        if age_ms < ANSWER_MS:
            text = f"the scheduler plug-in has not answered to plan {plan.plan_id} yet"
            return skip(t.id, Reason.PLAN_MOVING, text, until_ms=plan.created_at_ms + ANSWER_MS)
    elif status.state in ("moving", "waiting"):
        return skip(t.id, Reason.PLAN_MOVING, f"plan {plan.plan_id} is being applied: {status.text or status.code}")
    elif status.state == "rejected":
        again_ms = plan.created_at_ms + int(config.rejected_retry_s * 1000)
        if now_ms < again_ms:
            text = f"plan {plan.plan_id} was refused ({status.code}: {status.text}); another is made later"
            return skip(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms)
    return None


def _cooling_down(subject: TopologyState, config: DecideSection, now_ms: int) -> Decision | None:
    """Is the plan before too young?"""
    plan, status = subject.plan, subject.status
    refused = plan is not None and status is not None and (status.plan_id, status.state) == (plan.plan_id, "rejected")
    if plan is None or subject.plan_problem is not None or subject.torn or refused:
        return None
    age_ms = now_ms - plan.created_at_ms
    cool_down_s, what = config.cool_down_s, "the last plan"
    if plan.reason.startswith(f"{Reason.REPAIR}:"):
        cool_down_s, what = cool_down_after_repair(config), "the plan that keeps what was repaired"
    cool_down_ms = int(cool_down_s * 1000)
    if subject.degraded or subject.rebalanced or subject.asked or age_ms >= cool_down_ms:
        return None
    return skip(
        subject.topology.id,
        Reason.COOL_DOWN,
        f"{what} is {age_ms / 1000:.0f} s old",
        value=age_ms / 1000,
        threshold=cool_down_s,
        until_ms=plan.created_at_ms + cool_down_ms,
    )


def cool_down_after_repair(config: DecideSection) -> float:
    """Seconds for which what was repaired stays as it is, whatever could be won."""
    return config.cool_down_s if config.repair_cool_down_s is None else config.repair_cool_down_s


def _unmeasured(subject: TopologyState) -> Decision | None:
    """Enough data? A topology with executors that run nowhere, or that never will be measured, is repaired without."""
    if subject.not_ready is None or (subject.degraded and not (subject.placed and subject.instrumented)):
        return None
    reason = Reason.INSUFFICIENT_METRICS if subject.instrumented else Reason.NOT_INSTRUMENTED
    reason = Reason.REPORTS_OVER_LIMIT if subject.over_limit else reason
    return skip(subject.topology.id, reason, subject.not_ready, until_ms=subject.ready_at_ms)


def _included(name: str, config: DecideSection) -> bool:
    included = not config.include or any(fnmatch.fnmatchcase(name, p) for p in config.include)
    return included and not any(fnmatch.fnmatchcase(name, p) for p in config.exclude)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
