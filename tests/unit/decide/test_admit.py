"""The gates that need no plan, asked in order, each with its reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.models import NOW_MS, SPREAD, plan_message, status, subject, topology
from stormpilot.config import DecideSection
from stormpilot.decide.admit import TopologyState, admit
from stormpilot.decide.decision import Decision
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import Reason
from stormpilot.messages.moves import MoveState
from stormpilot.messages.settings import Hold
from stormpilot.model.values import Worker

CONFIG = DecideSection(cool_down_s=180, rejected_retry_s=30)


def asked(who: TopologyState, config: DecideSection = CONFIG, *, lost: int = 0, known: int = 4) -> Decision | None:
    return admit(who, LostSupervisors([f"s{i}" for i in range(lost)], known), config, NOW_MS)


def test_running_and_measured_topology_is_admitted() -> None:
    assert asked(subject()) is None


@pytest.mark.parametrize(("ports", "waits"), [((1, 1), False), ((7, 8), False), (None, True)])
def test_a_plan_that_runs_waits_for_no_answer_of_the_plug_in(ports: tuple[int, int] | None, waits: bool) -> None:
    """Only its status could not be written; relief waited for a quarter of an hour. Workers get ports of their own."""
    there = SPREAD if ports is None else {("a", ports[0]): (1, 3), ("b", ports[1]): (2, 4)}
    planned = [Worker(supervisor="a", port=1, executors=[(1, 1), (3, 3)])]
    planned += [Worker(supervisor="b", port=1, executors=[(2, 2), (4, 4)])]
    move = MoveState(topology_id="flights-1", phase="moving", plan_id="p-1")
    who = subject(topology(there), plan=plan_message(600, workers=planned), move=move, plan_since_ms=NOW_MS - 600_000)
    said = asked(who)
    assert (said is not None and said.reason is Reason.MOVE_BEING_EVALUATED) is waits


def test_new_topology_is_admitted_without_measurements() -> None:
    assert asked(subject(placed=False, not_ready="no task has reported")) is None


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (Reason.MODE_OFF, {"mode": "off", "paused": True}),
        (Reason.PAUSED, {"paused": True, "not_ready": "thin"}),
        (Reason.INSUFFICIENT_METRICS, {"not_ready": "12 of 20 tasks have no recent report"}),
        (Reason.NOT_INSTRUMENTED, {"not_ready": "no component reports load", "instrumented": False}),
        (Reason.MODE_OFF, {"mode": "off", "placed": False}),
        (Reason.PAUSED, {"paused": True, "placed": False}),
    ],
)
def test_gate_that_is_closed_holds_with_its_reason(reason: Reason, fields: dict[str, Any]) -> None:
    decision = asked(subject(**fields))
    assert decision is not None
    assert (decision.action, decision.reason) == ("skip", reason)
    assert decision.text


@pytest.mark.parametrize(("age_s", "closed"), [(-600, True), (0, True), (29, True), (30, False)])
def test_workers_that_were_assigned_just_now_are_not_moved(age_s: float, closed: bool) -> None:
    """A supervisor loses a worker that it ends before its JVM wrote its process id."""
    decision = asked(subject(assigned_ms=NOW_MS - int(age_s * 1000)))
    assert (decision is not None) == closed
    if decision is not None:
        assert decision.reason is Reason.WORKERS_STARTING


def test_executors_without_a_slot_do_not_wait_for_workers_that_start() -> None:
    assert asked(subject(placed=False, assigned_ms=NOW_MS)) is None
    plan = plan_message(age_s=300)
    assert asked(subject(missing_slots=1, plan=plan, status=status("applied"), assigned_ms=NOW_MS)) is None


def test_thin_data_say_when_the_gate_opens() -> None:
    decision = asked(subject(not_ready="12 s of 30 s", ready_at_ms=NOW_MS + 18_000))
    assert decision is not None
    assert decision.until_ms == NOW_MS + 18_000


@pytest.mark.parametrize(
    ("include", "exclude", "admitted"),
    [
        ([], [], True),
        (["fl*"], [], True),
        (["x"], [], False),
        ([], ["flig?ts"], False),
        (["*"], ["x", "flights"], False),
    ],
)
def test_include_and_exclude_are_patterns_of_names(include: list[str], exclude: list[str], admitted: bool) -> None:
    decision = asked(subject(), DecideSection(include=include, exclude=exclude))
    assert (decision is None) == admitted
    assert decision is None or decision.reason is Reason.EXCLUDED


def test_mass_failure_holds_everything_also_first_plans() -> None:
    for who in (subject(), subject(placed=False)):
        decision = asked(who, lost=2, known=4)
        assert decision is not None
        assert (decision.reason, decision.value, decision.threshold) == (Reason.MASS_FAILURE, 0.5, 0.4)


def test_as_many_lost_supervisors_as_the_limit_are_a_mass_failure() -> None:
    decision = asked(subject(), lost=2, known=5)
    assert decision is not None
    assert (decision.reason, decision.value, decision.threshold) == (Reason.MASS_FAILURE, 0.4, 0.4)


def test_loss_of_few_supervisors_is_no_mass_failure() -> None:
    assert asked(subject(), lost=1, known=4) is None


# --- the plan before --------------------------------------------------------------------------------------------------


def test_cool_down_counts_from_the_last_plan_and_says_when_it_ends() -> None:
    decision = asked(subject(plan=plan_message(age_s=100), status=status("applied")))
    assert decision is not None
    assert (decision.reason, decision.value, decision.threshold) == (Reason.COOL_DOWN, 100.0, 180.0)
    assert decision.until_ms == NOW_MS + 80_000
    assert asked(subject(plan=plan_message(age_s=180), status=status("applied"))) is None


def test_cool_down_outlives_the_controller() -> None:
    """It is read from the published plan, not remembered."""
    decision = asked(subject(plan=plan_message(age_s=1), status=status("applied")))
    assert decision is not None
    assert decision.reason is Reason.COOL_DOWN


@pytest.mark.parametrize("state", ["moving", "waiting"])
def test_plan_on_its_way_is_waited_for_however_long(state: str) -> None:
    decision = asked(subject(plan=plan_message(age_s=10_000), status=status(state, text="2 workers to go")))
    assert decision is not None
    assert decision.reason is Reason.PLAN_MOVING
    assert "2 workers to go" in decision.text


def test_first_plan_that_nobody_answered_to_is_not_published_again_at_once() -> None:
    who = subject(placed=False, plan=plan_message(age_s=10), status=status("waiting", plan_id=None))
    decision = asked(who)
    assert decision is not None
    assert decision.reason is Reason.PLAN_MOVING
    assert asked(subject(placed=False, plan=plan_message(age_s=61), status=status("waiting", plan_id=None))) is None


def test_refused_plan_is_replaced_after_the_retry_time_not_the_cool_down() -> None:
    refused = status("rejected", code="SLOT_OCCUPIED", text="slot a:6700 is held by x")
    decision = asked(subject(plan=plan_message(age_s=20), status=refused))
    assert decision is not None
    assert decision.reason is Reason.PLAN_REJECTED
    assert "SLOT_OCCUPIED: slot a:6700 is held by x" in decision.text
    assert asked(subject(plan=plan_message(age_s=31), status=refused)) is None


def test_degraded_topology_is_repaired_without_cool_down() -> None:
    assert asked(subject(plan=plan_message(age_s=20), status=status("degraded"))) is None


@pytest.mark.parametrize(("own_s", "waits_s"), [(None, 180), (600.0, 600), (60.0, 60), (0.0, 0)])
def test_repair_is_followed_by_a_cool_down_of_its_own(own_s: float | None, waits_s: float) -> None:
    def after(age_s: float) -> Decision | None:
        who = subject(plan=plan_message(age_s, reason_code="REPAIR"), status=status("applied"))
        return asked(who, msgspec.structs.replace(CONFIG, repair_cool_down_s=own_s))

    assert after(waits_s) is None
    if waits_s:
        decision = after(waits_s - 1)
        assert decision is not None
        assert (decision.reason, decision.threshold) == (Reason.COOL_DOWN, waits_s)
        assert "what was repaired" in decision.text


def test_a_hold_keeps_what_runs_and_no_executors_without_a_slot() -> None:
    hold = Hold(topology_id="flights-1", since_ms=NOW_MS - 1000, until_ms=NOW_MS + 60_000, cause="rollback", by="ops")
    decision = asked(subject(hold=hold))
    assert decision is not None
    assert (decision.reason, decision.until_ms) == (Reason.OPERATOR_HOLD, NOW_MS + 60_000)
    assert asked(subject(hold=hold, plan=plan_message(300), status=status("applied"), missing_slots=1)) is None


def test_executors_without_a_slot_are_repaired_without_measurements() -> None:
    who = subject(plan=plan_message(age_s=20), status=status("applied"), missing_slots=1, not_ready="thin")
    assert asked(who) is None


def test_workers_of_a_supervisor_that_ended_are_left_alone_for_as_long_as_storm_hears_of_them() -> None:
    who = subject(plan=plan_message(9000), missing_slots=1, unplaced_since_ms=NOW_MS - 3_600_000, silent=1)
    decision = asked(who)
    assert decision is not None
    assert (decision.reason, decision.value) == (Reason.WAITING_FOR_REPAIR, 1)


def test_executors_that_lost_their_slot_are_left_to_the_plug_in_for_a_while() -> None:
    """It knows at once, and keeps the rest still; a plan from scratch would restart everything in a crisis."""
    decision = asked(subject(plan=plan_message(1000), missing_slots=1, unplaced_since_ms=NOW_MS - 59_000))
    assert decision is not None
    assert decision.reason is Reason.WAITING_FOR_REPAIR
    assert decision.until_ms == NOW_MS + 1000
    assert asked(subject(plan=plan_message(1000), missing_slots=1, unplaced_since_ms=NOW_MS - 60_000)) is None


def test_topology_is_not_degraded_by_what_was_said_of_the_plan_before() -> None:
    """Nimbus is down since a repair was published: that one is not published again and again."""
    assert not subject(plan=plan_message(age_s=90), status=status("degraded", plan_id="p-0")).degraded
    assert subject(plan=plan_message(age_s=90), status=status("degraded")).degraded
    assert subject(status=status("degraded", plan_id="p-0")).degraded, "there is no other plan"


def test_degraded_but_running_topology_waits_for_measurements() -> None:
    decision = asked(subject(plan=plan_message(age_s=20), status=status("degraded"), not_ready="thin"))
    assert decision is not None
    assert decision.reason is Reason.INSUFFICIENT_METRICS


def test_degraded_topology_that_never_will_be_measured_is_repaired() -> None:
    who = subject(plan=plan_message(20), status=status("degraded"), not_ready="none", instrumented=False)
    assert asked(who) is None


def test_unreadable_plan_is_told_for_a_while_then_mended() -> None:
    young = subject(plan_problem="checksum", plan_since_ms=NOW_MS - 10_000)
    decision = asked(young)
    assert decision is not None
    assert decision.reason is Reason.PLAN_REJECTED
    assert "checksum" in decision.text
    assert asked(subject(plan_problem="checksum", plan_since_ms=NOW_MS - 181_000)) is None
