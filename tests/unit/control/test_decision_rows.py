"""Decisions with their plan, and what became of it, as rows."""

from __future__ import annotations

import json

from doubles.models import NOW_MS, plan_message
from stormpilot.control.decision_rows import decision_row, outcome_row
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.messages.controller_state import Restart
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.moves import MoveState, Spent
from stormpilot.trafficlog.schema import TABLES

ID = "flights-1"


def account(**fields: object) -> CycleReport:
    decision = Decision(ID, "publish", Reason.GAIN, "falls", 0.5, 0.1, None, 7, (100.0, 50.0))
    return CycleReport(NOW_MS, names={ID: "flights"}, modes={ID: "act"}, decisions={ID: decision}, **fields)  # type: ignore[arg-type]


def test_published_plan_is_in_the_row_of_its_decision() -> None:
    plan = plan_message(plan_id="p-1", topology_id=ID)
    row = decision_row(account(plans={ID: HistoryEntry(plan=plan, reason="GAIN")}), ID, 3, 12.5)
    assert set(row) <= set(TABLES["decisions"].names)
    assert (row["plan_id"], row["epoch"], row["reason"]) == ("p-1", 3, "GAIN")
    placed = json.loads(str(row["plan"]))
    assert placed == [[w.supervisor, w.port, [list(e) for e in w.executors]] for w in plan.workers]


def test_decision_without_a_plan_has_none() -> None:
    assert decision_row(account(), ID, 3, 12.5)["plan"] is None


def test_outcome_has_what_was_won_and_how_long_it_took() -> None:
    move = MoveState(
        topology_id=ID,
        plan_id="p-1",
        published_at_ms=NOW_MS - 5,
        metric="inter_node_share",
        before=0.5,
        predicted=0.2,
        measured=0.25,
        noise_ratio=0.1,
        verdict="HELPED",
        moved=[1, 2, 3],
        spent=[Spent(at_ms=NOW_MS - 5, executors=3, workers=2)],
    )
    took = Restart(
        plan_id="p-1", topology="flights", at_ms=NOW_MS, applied_s=2.0, recovery_s=9.0, downtime_s=7.0, tasks=5
    )
    row = outcome_row(account(restarts=[took]), move)
    assert set(row) <= set(TABLES["outcomes"].names)
    assert (row["measured"], row["predicted"], row["verdict"]) == (0.25, 0.2, "HELPED")
    assert (row["downtime_s"], row["restarted_tasks"], row["executors"], row["workers"]) == (7.0, 5, 3, 2)
    assert "downtime_s" not in outcome_row(account(), move)


def test_outcome_of_a_topology_that_was_killed_meanwhile_has_its_name() -> None:
    """A row without a name would cost mining the whole file."""
    row = outcome_row(CycleReport(NOW_MS), MoveState(topology_id="flights-by-day-3-1700000000", plan_id="p-1"))
    assert row["topology_name"] == "flights-by-day"
