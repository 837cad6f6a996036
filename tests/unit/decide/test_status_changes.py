"""Changes of the plug-in's status: each found once, and told apart from what is no failure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doubles.models import status
from stormpilot.decide.status_changes import ANSWERS, StatusChange, StatusChangeDetector
from stormpilot.messages.core import StatusMessage

PLUGIN = Path(__file__).resolve().parents[3] / "storm-plugin"
NAMES = {"flights-1": "flights"}


def changes(detector: StatusChangeDetector, found: StatusMessage | None) -> list[tuple[str, str | None]]:
    """State now and before of what changed."""
    statuses = {} if found is None else {"flights-1": found}
    return [(c.status.state, c.before and c.before.state) for c in detector.observe(statuses, NAMES)]


def test_a_change_is_found_once() -> None:
    detector = StatusChangeDetector()
    assert changes(detector, status("moving")) == [("moving", None)]
    assert changes(detector, status("moving", text="3 of 4 workers run")) == [], "the text alone is no change"
    assert changes(detector, status("applied")) == [("applied", "moving")]
    assert changes(detector, status("applied", plan_id="p-2")) == [("applied", "applied")]
    assert changes(detector, None) == []
    assert changes(detector, status("applied", plan_id="p-2")) == [("applied", None)]


def test_a_status_of_an_unknown_topology_is_a_change_once_the_topology_is_known() -> None:
    detector = StatusChangeDetector()
    assert detector.observe({"flights-1": status("rejected")}, {}) == []
    assert changes(detector, status("rejected")) == [("rejected", None)]


@pytest.mark.parametrize(
    ("found", "failed"),
    [
        (status("applied"), False),
        (status("moving"), False),
        (status("rejected", "SLOT_OCCUPIED"), True),
        (status("degraded", "SUPERVISOR_LOST"), True),
        (status("fallback", "WORKERS_CHANGED"), True),
        (status("fallback", "NO_PLAN", plan_id=None), False),
    ],
)
def test_a_fresh_topology_without_a_plan_is_no_failure(found: StatusMessage, failed: bool) -> None:
    assert StatusChange("flights-1", "flights", found).failed == failed


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        (None, status("rejected"), True),
        (status("moving"), status("rejected"), True),
        (status("rejected", "CPU"), status("rejected", "SLOT_OCCUPIED"), False),
        (status("rejected"), status("rejected", plan_id="p-2"), True),
        (status("rejected"), status("applied"), False),
    ],
)
def test_a_rejection_is_new_once_per_plan(before: StatusMessage | None, now: StatusMessage, new: bool) -> None:
    assert StatusChange("flights-1", "flights", now, before).newly_rejected == new


def test_answers_have_codes_of_the_plug_in_and_all_with_which_it_rejects_plans() -> None:
    (file,) = PLUGIN.glob("*/src/main/java/**/Reason.java")
    codes = dict(re.findall(r"^  ([A-Z][A-Z_]+)(\(Rejects\.\w+\))?[,;]$", file.read_text(), re.MULTILINE))
    assert set(ANSWERS["rejected"]) == {code for code, rejects in codes.items() if rejects}
    assert {code for answers in ANSWERS.values() for code in answers} <= codes.keys()
    assert all(len(set(answers)) == len(answers) for answers in ANSWERS.values())
