"""`stormpilot plan history` as people read it."""

from __future__ import annotations

import pytest

from doubles.models import plan_message
from stormpilot.cli.records import show_plans
from stormpilot.messages.core import HistoryEntry, Worker
from stormpilot.operate import HistoryStep

FORMER = [Worker(supervisor="a", port=6700, executors=[(1, 1)])]


@pytest.mark.parametrize("known", [True, False])
def test_the_history_of_plans_names_the_way_back_to_what_ran_before_the_first(
    known: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    first = HistoryEntry(plan=plan_message(plan_id="p-1"), reason="APPROVED", former=FORMER if known else [])
    second = HistoryEntry(plan=plan_message(plan_id="p-2"), reason="GAIN", text="falls")
    show_plans("flights", [HistoryStep(back=0, entry=second), HistoryStep(back=1, entry=first)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert "p-2: falls" in lines
    assert ("2 back: what ran before the first plan (`stormpilot rollback flights 2`)" in lines) == known
