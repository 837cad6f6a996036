"""May a topology be planned at all now? The gates that need no plan, in the order in which they are asked."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from stormpilot.config import DecideSection, Mode
from stormpilot.decide.reasons import Decision, Reason, hold
from stormpilot.model.messages import PlanMessage, StatusMessage
from stormpilot.model.values import Topology

ANSWER_MS = 60_000
"""How long the scheduler plug-in may take to answer to a plan or to repair a placement: a few of its rounds."""


@dataclass(frozen=True)
class Subject:
    """One topology as the gates see it.

    `not_ready` says what its load data lack (None: complete), `plan` is the published one, `plan_problem` why what is
    published cannot be read, `unplaced_since_ms` since when executors run nowhere.
    """

    topology: Topology
    mode: Mode
    paused: bool = False
    not_ready: str | None = None
    ready_at_ms: int | None = None
    instrumented: bool = True
    plan: PlanMessage | None = None
    plan_problem: str | None = None
    plan_written_ms: int = 0
    unplaced_since_ms: int | None = None
    status: StatusMessage | None = None

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
        return not self.placed or state == "degraded" or self.plan_problem is not None


def admit(subject: Subject, lost: list[str], known: int, config: DecideSection, now_ms: int) -> Decision | None:
    """The first gate that is closed, or None when the topology may be planned."""
    t = subject.topology
    if subject.mode == "off":
        return hold(t.id, Reason.MODE_OFF, "the mode of this topology is off")
    if not _included(t.name, config):
        return hold(t.id, Reason.EXCLUDED, "decide.include and decide.exclude leave this topology out")
    if subject.paused:
        return hold(t.id, Reason.PAUSED, "paused by an operator")
    if known and len(lost) / known > config.max_lost_supervisors_ratio:
        return hold(
            t.id,
            Reason.MASS_FAILURE,
            f"{len(lost)} of {known} supervisors are gone ({_some(lost)}): nothing moves until they are back",
            value=len(lost) / known,
            threshold=config.max_lost_supervisors_ratio,
        )
    if subject.new:
        return None  # nothing runs yet: nothing to measure, nothing to disturb
    return _settling(subject, config, now_ms) or _repaired_by_others(subject, now_ms) or _unmeasured(subject)


def _repaired_by_others(subject: Subject, now_ms: int) -> Decision | None:
    """Executors that lost their slot: the plug-in or its fallback place them at once, with the rest kept still."""
    if subject.placed or not subject.topology.assignment or subject.unplaced_since_ms is None:
        return None  # (where nothing runs there is nothing to keep still)
    again_ms = subject.unplaced_since_ms + ANSWER_MS
    if now_ms >= again_ms:
        return None
    lost = len(subject.topology.executors) - len(subject.topology.assignment)
    text = f"{lost} executors have no slot on a live supervisor; the scheduler plug-in places them"
    return hold(subject.topology.id, Reason.REPAIR_AWAITED, text, until_ms=again_ms)


def _settling(subject: Subject, config: DecideSection, now_ms: int) -> Decision | None:
    """The plan before: can it be read, is it still on its way, was it refused, is it too young?"""
    plan, status, t = subject.plan, subject.status, subject.topology
    cool_down_ms = int(config.reschedule_timeout_s * 1000)
    if subject.plan_problem is not None:
        again_ms = subject.plan_written_ms + cool_down_ms
        if now_ms < again_ms:
            text = f"the published plan cannot be used, what runs goes on ({subject.plan_problem})"
            return hold(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms)
        return None
    if plan is None:
        return None
    age_ms = now_ms - plan.created_at_ms
    if status is None or status.plan_id != plan.plan_id:
        if age_ms < ANSWER_MS:
            text = f"the scheduler plug-in has not answered to plan {plan.plan_id} yet"
            return hold(t.id, Reason.PLAN_MOVING, text, until_ms=plan.created_at_ms + ANSWER_MS)
    elif status.state in ("moving", "waiting"):
        return hold(t.id, Reason.PLAN_MOVING, f"plan {plan.plan_id} is being applied: {status.text or status.code}")
    elif status.state == "rejected":
        again_ms = plan.created_at_ms + int(config.rejected_retry_s * 1000)
        if now_ms < again_ms:
            text = f"plan {plan.plan_id} was refused ({status.code}: {status.text}); another is made later"
            return hold(t.id, Reason.PLAN_REJECTED, text, until_ms=again_ms)
        return None
    if not subject.degraded and age_ms < cool_down_ms:
        return hold(
            t.id,
            Reason.COOL_DOWN,
            f"the last plan is {age_ms / 1000:.0f} s old",
            value=age_ms / 1000,
            threshold=config.reschedule_timeout_s,
            until_ms=plan.created_at_ms + cool_down_ms,
        )
    return None


def _unmeasured(subject: Subject) -> Decision | None:
    """Enough data? A topology with executors that run nowhere, or that never will be measured, is repaired without."""
    if subject.not_ready is None or (subject.degraded and not (subject.placed and subject.instrumented)):
        return None
    reason = Reason.DATA_TOO_THIN if subject.instrumented else Reason.NOT_INSTRUMENTED
    return hold(subject.topology.id, reason, subject.not_ready, until_ms=subject.ready_at_ms)


def _included(name: str, config: DecideSection) -> bool:
    included = not config.include or any(fnmatch.fnmatchcase(name, p) for p in config.include)
    return included and not any(fnmatch.fnmatchcase(name, p) for p in config.exclude)


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
