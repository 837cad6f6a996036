"""Reasons: one table, a row per code.

All that depends on a reason alone stands in its row: nowhere else is a set of reasons written (a test searches for it).
The order of the rows is the order in which gates are asked and shown.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from stormpilot.config import EventKind

Kind = Literal["trigger", "gate", "cluster", "size"]


@dataclass(frozen=True)
class Row:
    """One reason: its code and its properties.

    Parameters
    ----------
    code
        The word in messages, metrics and logs.
    kind
        `trigger`: a plan is published or proposed. `gate`: the topology stays as it is. `cluster`: the reason concerns
        no topology. `size`: another number of threads and slots is proposed, beside the decision about the placement.
    meaning
        A sentence for the documentation.
    question
        Of a gate: the condition under which it is open, as `explain` shows it. Rows with one question are one gate.
    notify
        The event that the webhook gets. A trigger is told when its plan is published, a gate when it begins to hold.
    voluntary
        The move budget limits it: the topology could stay as it is.
    may_restart
        With `decide.move_strategy: rolling` its plan may restart workers all the same.
    keeps_headroom
        Its plan leaves nodes the headroom of `decide.fill_ratio`. It is made for less traffic between nodes, and the
        rate of a closed loop may rise by it.
    try_rolling
        Another plan that restarts nothing may be worth more.
    must_leave
        Executors run where they may not. One topology at a time moves for it.
    needs_approval
        Where moves need approval, it waits for an operator.
    in_blackout
        Its plan moves what runs in a blackout window too: an operator asked for it.
    holds_everything
        It holds requests, repairs and first plans too.
    unwatched
        Nobody wants to hear of the topology: what lasted for it is told to be over.
    only_leader_knows
        Of a gate: only the leading controller can ask it; others go by its last decision.
    fruitless
        Planning again wins nothing as long as model and settings stay as they are.
    """

    code: str
    kind: Kind
    meaning: str
    question: str = ""
    notify: EventKind | None = None
    voluntary: bool = False
    may_restart: bool = True
    keeps_headroom: bool = False
    try_rolling: bool = False
    must_leave: bool = False
    needs_approval: bool = True
    in_blackout: bool = False
    holds_everything: bool = False
    unwatched: bool = False
    only_leader_knows: bool = False
    fruitless: bool = False


def _trigger(code: str, meaning: str, *, notify: EventKind = "published", **properties: bool) -> Row:
    return Row(code, "trigger", meaning, notify=notify, **properties)  # type: ignore[arg-type]


def _gate(code: str, question: str, meaning: str, *, notify: EventKind | None = None, **properties: bool) -> Row:
    return Row(code, "gate", meaning, question, notify, **properties)


_APPLIED = "the last plan is applied, or rejected for long"
_EVALUATED = "the last move is judged, and no back-off"
_MEASURED = "enough is measured"
_PLANNED = "there is a plan"
_ROOM = "topologies that stay leave it the slots, CPU and other resources that it needs"


class Reason(enum.StrEnum):
    """The reason of a decision; `row` has its properties."""

    row: Row

    def __new__(cls, row: Row) -> Reason:
        """A member whose value is the code of its row."""
        member = str.__new__(cls, row.code)
        member._value_ = row.code
        member.row = row
        return member

    FIRST_PLAN = _trigger("FIRST_PLAN", "the topology was never placed", needs_approval=False)
    GAIN = _trigger(
        "GAIN",
        "inter-node traffic falls by `decide.gain_threshold_ratio` or more, in `decide.consecutive_hits` cycles in a "
        "row, and saves more tuples than the move holds up",
        voluntary=True,
        may_restart=False,
        keeps_headroom=True,
        try_rolling=True,
    )
    OVERLOAD = _trigger(
        "OVERLOAD",
        "a node has been over B(n) for `decide.overload_s`, or will be by the forecast; the plan lowers its load",
        voluntary=True,
    )
    REPAIR = _trigger(
        "REPAIR",
        "executors have no slot on a live supervisor; or the plug-in placed them, and that becomes the plan",
        needs_approval=False,
    )
    DRAIN = _trigger("DRAIN", "executors run on a drained host and leave it, whatever the gain", must_leave=True)
    CONSTRAINT_VIOLATED = _trigger(
        "CONSTRAINT_VIOLATED",
        "executors run where an exclusion, their pin or the site of their component forbids it, and leave",
        must_leave=True,
    )
    APPROVED = _trigger("APPROVED", "an operator approved the proposal", needs_approval=False, in_blackout=True)
    ROLLBACK = _trigger(
        "ROLLBACK",
        "an operator asked for an earlier plan",
        notify="rollback",
        needs_approval=False,
        in_blackout=True,
    )
    NEW_SUPERVISOR = _trigger(
        "NEW_SUPERVISOR",
        "a supervisor came and stayed; a smaller gain suffices to use it, or relief of the busiest node",
        voluntary=True,
        may_restart=False,
        keeps_headroom=True,
        try_rolling=True,
    )
    REBALANCED = _trigger(
        "REBALANCED",
        "a user changed workers or parallelism, or the plan was set aside while no plans were applied: a better plan "
        "at once, else what Storm made of it becomes the plan",
        voluntary=True,
        may_restart=False,
    )
    ROLLBACK_EFFECT = _trigger(
        "ROLLBACK_EFFECT",
        "the last move made it worse; the placement before it comes back",
        notify="rollback",
        needs_approval=False,
    )
    EVICTED = _trigger(
        "EVICTED",
        "under the ResourceAwareScheduler: its plan is given up, so that a topology that comes before it by users' "
        "guarantees and priorities and waits for room can get it (`decide.evict`); it runs on until that scheduler "
        "stops it for the other one",
        notify="evicted",
        needs_approval=False,
    )
    OTD = _trigger(
        "OTD", "`otd` moves one executor; skipped, the topology belongs to `otd`", voluntary=True, may_restart=False
    )

    NO_TOPOLOGY = Row("NO_TOPOLOGY", "cluster", "no topology runs")
    CLUSTER_UNKNOWN = Row("CLUSTER_UNKNOWN", "cluster", "the scheduler plug-in has not written the cluster yet")

    MODE_OFF = _gate("MODE_OFF", "its mode is not off", "the mode is `off`", holds_everything=True, unwatched=True)
    EXCLUDED = _gate(
        "EXCLUDED",
        "decide.include and decide.exclude let it in",
        "`decide.include` and `decide.exclude` leave it out",
        holds_everything=True,
        unwatched=True,
        only_leader_knows=True,
    )
    PAUSED = _gate("PAUSED", "it is not paused", "an operator paused it, or all topologies", holds_everything=True)
    SETTING_UNREADABLE = _gate(
        "SETTING_UNREADABLE",
        "its settings can be read",
        "a setting of an operator cannot be read",
        holds_everything=True,
    )
    UNSUPPORTED_SETTING = _gate(
        "UNSUPPORTED_SETTING",
        "plans honour its settings of Storm",
        "it uses a setting of Storm's schedulers that plans do not honour ([keys of Storm](storm-keys.md)); "
        "`decide.ignored_storm_keys` lets it in",
        holds_everything=True,
        only_leader_knows=True,
    )
    MASS_FAILURE = _gate(
        "MASS_FAILURE",
        "most of the cluster is there",
        "`decide.max_lost_supervisors_ratio` of the supervisors or more are gone, or on Storm's blacklist; one "
        "that is back on its host under a new id is not gone",
        notify="mass_failure",
        holds_everything=True,
        only_leader_knows=True,
    )
    HIGHER_PRIORITY_WAITS = _gate(
        "HIGHER_PRIORITY_WAITS",
        "no topology that comes before it waits for room",
        "under the ResourceAwareScheduler: another topology comes before it by users' guarantees and priorities, and "
        "waits for room. A topology that runs nowhere gets no plan then, because that scheduler serves both in their "
        "order; nor does one that runs without a plan (`decide.evict`), because that scheduler may stop it for the "
        "other one",
        only_leader_knows=True,
    )
    BLACKOUT = _gate(
        "BLACKOUT",
        "no blackout window",
        "a window of `decide.blackouts` is open; executors that run nowhere are placed all the same",
    )
    OPERATOR_HOLD = _gate(
        "OPERATOR_HOLD",
        "no hold after a rollback or a discarded plan",
        "an operator rolled it back, discarded a plan or aborted a rollout a while ago",
    )
    ROLLOUT_IN_PROGRESS = _gate(
        "ROLLOUT_IN_PROGRESS", "no rollout of its plan is in progress", "a rollout of its plan goes on"
    )
    PLAN_MOVING = _gate("PLAN_MOVING", _APPLIED, "the last plan is being applied")
    PLAN_REJECTED = _gate(
        "PLAN_REJECTED", _APPLIED, "the last plan was rejected within `decide.rejected_retry_s`, or cannot be read"
    )
    COOL_DOWN = _gate(
        "COOL_DOWN",
        "the last plan is old enough",
        "the last plan is younger than `decide.cool_down_s`, or that of a repair than `decide.repair_cool_down_s`, or "
        "several were rejected in a row; executors without a slot, `storm rebalance` and operators' requests do not "
        "wait",
    )
    MOVE_BEING_EVALUATED = _gate(
        "MOVE_BEING_EVALUATED",
        _EVALUATED,
        "the effect of the last move is being measured, or the scheduler plug-in has not answered to its plan",
    )
    BACK_OFF = _gate("BACK_OFF", _EVALUATED, "the last moves did not help")
    WAITING_FOR_REPAIR = _gate(
        "WAITING_FOR_REPAIR",
        "the plug-in has placed what was lost",
        "executors lost their slot less than a minute ago, or run on a supervisor that is gone or blacklisted",
    )
    NOT_INSTRUMENTED = _gate("NOT_INSTRUMENTED", _MEASURED, "it, or a bolt of it, does not report load")
    INSUFFICIENT_METRICS = _gate("INSUFFICIENT_METRICS", _MEASURED, "not enough of the window is measured")
    REPORTS_OVER_LIMIT = _gate("REPORTS_OVER_LIMIT", _MEASURED, "its load reports are more than the controller reads")
    WORKERS_STARTING = _gate(
        "WORKERS_STARTING",
        "its workers had time to start",
        "Storm assigned workers of it less than half a minute ago; a supervisor that ends a worker which has not yet "
        "written its process id loses it, and the worker goes on beside the new one; executors without a slot do not "
        "wait",
    )
    WAITING_FOR_DRAIN = _gate(
        "WAITING_FOR_DRAIN",
        "its turn to leave has come",
        "executors must leave, and another topology is leaving just now, or the plans of others took the time of the "
        "cycle",
    )
    PLANNER_FAILED = _gate("PLANNER_FAILED", _PLANNED, "the planner failed", notify="planner_failed")
    CONSTRAINT_BROKEN = _gate(
        "CONSTRAINT_BROKEN", _PLANNED, "the planner's answer breaks a constraint", notify="planner_failed"
    )
    INFEASIBLE = _gate("INFEASIBLE", _PLANNED, "no plan keeps all constraints", notify="infeasible")
    THROUGHPUT_WOULD_FALL = _gate(
        "THROUGHPUT_WOULD_FALL",
        "the plan carries what comes, and takes back no throughput that a move won",
        "the plan carries fewer tuples/s than come now, and than what runs, e.g. on slower cores; or a node is "
        "overloaded because the topology runs faster since its last move, and relief would restart it, or send more "
        "between nodes, for less throughput",
    )
    NO_BETTER_PLAN = _gate(
        "NO_BETTER_PLAN",
        "the plan is better than what runs",
        "the planner finds no better placement",
        fruitless=True,
    )
    GAIN_BELOW_THRESHOLD = _gate(
        "GAIN_BELOW_THRESHOLD",
        "the gain is large enough",
        "the gain is less than `decide.gain_threshold_ratio`",
        fruitless=True,
    )
    GAIN_BELOW_COST = _gate(
        "GAIN_BELOW_COST",
        "it wins more than its restarts cost",
        "the move holds up more tuples than it saves within `decide.payback_s`",
        try_rolling=True,
        fruitless=True,
    )
    RATE_WOULD_RISE = _gate(
        "RATE_WOULD_RISE",
        "it fits at the rate that held sources may reach",
        "its sources are held (`topology.max.spout.pending`, backpressure) and would run faster; at that rate the plan "
        "fills a node above B(n)",
    )
    GAIN_NOT_SUSTAINED = _gate(
        "GAIN_NOT_SUSTAINED",
        "the gain was seen in enough cycles in a row",
        "the gain was not seen in enough cycles in a row",
        try_rolling=True,
    )
    SLOT_OCCUPIED = _gate("SLOT_OCCUPIED", _ROOM, "a topology that stays keeps a slot that the plan uses")
    INSUFFICIENT_CPU = _gate("INSUFFICIENT_CPU", _ROOM, "topologies that stay keep CPU that the plan uses")
    INSUFFICIENT_RESOURCES = _gate(
        "INSUFFICIENT_RESOURCES",
        _ROOM,
        "topologies that stay keep memory, or another resource of a supervisor, that the plan uses",
    )
    HEADROOM = _gate(
        "HEADROOM",
        "a plan for GAIN or NEW_SUPERVISOR leaves nodes their headroom; what overloaded a node does not come back",
        "the plan fills a node above `decide.fill_ratio`, or brings executors back to a node that they overloaded "
        "(within the hour, or for another overload that is as short)",
    )
    MOVE_BUDGET = _gate("MOVE_BUDGET", "the move budget suffices", "the limits of `budget` per hour are reached")
    RESTART_NOT_ALLOWED = _gate(
        "RESTART_NOT_ALLOWED",
        "it needs no restart, or those are wanted",
        "the plan needs restarts, and `decide.move_strategy` is `rolling`",
    )
    APPROVAL_NEEDED = _gate(
        "APPROVAL_NEEDED",
        "an operator has approved, where that is needed",
        "the proposal waits for `approve`, its own or that of a topology with which it trades places",
    )
    NOT_PUBLISHED = _gate(
        "NOT_PUBLISHED",
        "nobody else wrote the plan meanwhile",
        "somebody else changed the plan while it was made, or tasks of the rollout that it replaces have to get their "
        "tuples back first",
    )

    SCALE_UP = Row(
        "SCALE_UP",
        "size",
        "the sources send more than `sizing.up_ratio` of what the running threads support by their performance models, "
        "for `sizing.after_s`",
    )
    SCALE_DOWN = Row(
        "SCALE_DOWN",
        "size",
        "the sources send less than `sizing.down_ratio` of that, nothing holds them, and fewer slots suffice",
    )

    @property
    def order(self) -> int:
        """The place of its row in the table."""
        return list(Reason).index(self)


NOTHING_BETTER = frozenset(
    {
        *(Reason.NO_BETTER_PLAN, Reason.THROUGHPUT_WOULD_FALL, Reason.RATE_WOULD_RISE),
        *(Reason.GAIN_BELOW_THRESHOLD, Reason.GAIN_BELOW_COST, Reason.GAIN_NOT_SUSTAINED),
    }
)
"""Answers to a search: what runs is as good. With every other gate nobody looked, or what was found cannot be."""


def reasons_table() -> list[Row]:
    """All rows, in their order."""
    return [reason.row for reason in Reason]


_ROWS = {row.code: row for row in reasons_table()}


def row_of(code: str) -> Row | None:
    """The row of a code as it stands in messages; None for one that is not known."""
    return _ROWS.get(code)
