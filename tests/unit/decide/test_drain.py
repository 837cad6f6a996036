"""Executors that must leave: why, whose turn it is, and what holds them."""

from __future__ import annotations

from typing import Any

from doubles.models import NOW_MS, PAIRED, model, plan_message, status, subject, topology
from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.decision import Decision
from stormpilot.decide.drain import admit_leaving, decide_leaving, must_leave, wait_for, whose_move
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import Reason
from stormpilot.messages.settings import NO_END_MS, DrainSetting, Hold
from stormpilot.model.values import Plan, TopologyPlan, Worker

CONFIG = DecideSection(restart_s=15)
DRAIN = DrainSetting(host="host-a", since_ms=NOW_MS - 1000)


def gate(who: TopologyState, *, lost: int = 0, overruled: bool = False) -> Decision | None:
    gone = LostSupervisors([f"s{i}" for i in range(lost)], 3 + lost)
    return admit_leaving(who, gone, CONFIG, NOW_MS, overruled=overruled)


def test_drained_hosts_and_components_are_named() -> None:
    told = must_leave(model(), {"flights-1": [1, 2]}, {"host-a": DRAIN})
    assert told == {"flights-1": (Reason.DRAIN, "leaving host-a, drained: 2 executors (x 2)")}
    told = must_leave(model(), {"flights-1": [3]}, {"host-a": DRAIN})
    assert told == {"flights-1": (Reason.CONSTRAINT_VIOLATED, "against a pin, an exclusion or a site: 1 executor (y)")}


def test_neither_cool_down_nor_thin_data_hold_them() -> None:
    assert gate(subject(plan=plan_message(age_s=20), status=status("applied"))) is None
    assert gate(subject(not_ready="nothing measured")) is None
    assert gate(subject(instrumented=False, not_ready="not instrumented")) is None


def test_what_operators_closed_and_mass_failure_hold_them() -> None:
    cases: list[tuple[dict[str, Any], int, Reason]] = [
        ({"mode": "off"}, 0, Reason.MODE_OFF),
        ({"paused": True}, 0, Reason.PAUSED),
        ({"blackout": "nights"}, 0, Reason.BLACKOUT),
        ({"plan": plan_message(age_s=5), "status": status("moving")}, 0, Reason.PLAN_MOVING),
        ({"assigned_ms": NOW_MS - 12_000}, 0, Reason.WORKERS_STARTING),
        ({}, 3, Reason.MASS_FAILURE),
    ]
    for fields, lost, reason in cases:
        decision = gate(subject(**fields), lost=lost)
        assert decision is not None
        assert decision.reason is reason


def test_hold_that_cannot_be_read_has_no_end_and_says_how_to_end_it() -> None:
    hold = Hold(topology_id="flights-1", since_ms=0, until_ms=NO_END_MS, cause="discard")
    decision = gate(subject(hold=hold))
    assert decision is not None
    assert (decision.reason, decision.until_ms) == (Reason.OPERATOR_HOLD, None)
    assert decision.text == "a hold that cannot be read, until `stormpilot replan flights`"


def test_hold_gives_way_to_what_was_asked_for_after_it() -> None:
    hold = Hold(topology_id="flights-1", since_ms=NOW_MS - 500, until_ms=NOW_MS + 10**6, cause="rollback", by="ops")
    decision = gate(subject(hold=hold))
    assert decision is not None
    assert decision.reason is Reason.OPERATOR_HOLD
    assert gate(subject(hold=hold), overruled=True) is None
    assert gate(subject(hold=hold, paused=True), overruled=True) is not None


def moving(state: str, age_s: float, since_s: float, reason: str = "DRAIN") -> dict[str, TopologyState]:
    said = status(state)
    said = type(said)(
        **{f: getattr(said, f) for f in said.__struct_fields__} | {"since_ms": NOW_MS - int(since_s * 1000)}
    )
    return {"flights-1": subject(plan=plan_message(age_s=age_s, reason_code=reason), status=said)}


def test_the_next_waits_until_the_first_is_applied_and_its_workers_had_time_to_start() -> None:
    assert whose_move(moving("moving", 100, 90), CONFIG, NOW_MS) == "flights-1"
    assert whose_move(moving("applied", 100, 14), CONFIG, NOW_MS) == "flights-1"
    assert whose_move(moving("applied", 100, 15), CONFIG, NOW_MS) is None
    assert whose_move(moving("rejected", 1, 1), CONFIG, NOW_MS) is None
    unanswered = {"flights-1": subject(plan=plan_message(age_s=5, reason_code="CONSTRAINT_VIOLATED"))}
    assert whose_move(unanswered, CONFIG, NOW_MS) == "flights-1"
    forgotten = {"flights-1": subject(plan=plan_message(age_s=61, reason_code="DRAIN"))}
    assert whose_move(forgotten, CONFIG, NOW_MS) is None
    assert whose_move(moving("moving", 5, 1, "GAIN"), CONFIG, NOW_MS) is None


def test_who_waits_says_for_whom() -> None:
    decision = wait_for("words-1", subject(), "leaving host-a", 15)
    assert decision.reason is Reason.WAITING_FOR_DRAIN
    assert "until flights has moved" in decision.text


def test_leaving_needs_no_gain_and_is_advice_where_the_mode_says_so() -> None:
    """The plan costs more traffic than what runs."""
    runs = topology(PAIRED)
    workers = [
        Worker(supervisor="c", port=1, executors=[(1, 1), (2, 2)]),
        Worker(supervisor="b", port=1, executors=[(3, 3), (4, 4)]),
    ]
    worse = Plan(topologies=[TopologyPlan(id="flights-1", workers=workers)])
    for mode, action in (("act", "publish"), ("advise", "advise")):
        decision = decide_leaving(model(runs), subject(runs, mode=mode), worse, Reason.DRAIN, "leave")
        assert (decision.action, decision.reason, decision.text) == (action, Reason.DRAIN, "leave")
        assert decision.inter_node_tps == (0.0, 1000.0)
        assert decision.moved_executors == 3
