"""`stormpilot plan history` as people read it."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import plan_message
from stormpilot.cli.records import _effect, audit_row, show_plans
from stormpilot.messages.core import EffectPart, HistoryEntry, Worker
from stormpilot.messages.settings import ALL, AuditRecord
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


def test_a_record_about_all_topologies_says_so() -> None:
    """It showed the name of the znode, _all."""
    record = AuditRecord(id="a-1", at_ms=0, who="ann", verb="pause", target=ALL, why="release")
    assert audit_row(record)[1:] == ["ann", "pause", "all topologies", "done", "release"]
    assert audit_row(msgspec.structs.replace(record, target="flights"))[3] == "flights"


@pytest.mark.parametrize(
    ("metric", "numbers", "said"),
    [
        ("inter_node_share", (0.5, 0.12, 0.101), "HELPED: inter-node share 50.0% -> 10.1% (predicted 12.0%)"),
        ("load_ratio", (0.93, 0.5, 0.6), "HELPED: load of the relieved nodes 93.0% -> 60.0% (predicted 50.0%)"),
        ("us_per_tuple", (150.0, 90.0, 100.0), "HELPED: time per tuple 150.0 us -> 100.0 us (predicted 90.0 us)"),
        ("newer", (1.0, 2.0, 3.0), "HELPED: newer 1.000 -> 3.000 (predicted 2.000)"),
    ],
)
def test_the_effect_of_a_plan_is_told_with_what_was_measured_and_its_unit(
    metric: str, numbers: tuple[float, float, float], said: str
) -> None:
    """It was three numbers, of a share, a load or a time alike."""
    before, predicted, measured = numbers
    effect = EffectPart(
        metric=metric, before=before, predicted=predicted, noise_ratio=0.1, measured=measured, verdict="HELPED"
    )
    assert _effect(HistoryEntry(plan=plan_message(), reason="GAIN", effect=effect)) == said


@pytest.mark.parametrize(("newest", "said"), [(True, "is being measured"), (False, "not measured: another plan came")])
def test_only_the_newest_plan_is_still_being_measured(newest: bool, said: str) -> None:
    """A plan that was rolled back before it was judged was told as being measured, for ever."""
    effect = EffectPart(metric="load_ratio", before=0.9, predicted=0.5, noise_ratio=0.1)
    assert _effect(HistoryEntry(plan=plan_message(), reason="GAIN", effect=effect), newest=newest) == said
    ended = msgspec.structs.replace(effect, verdict="TOO_LATE", text="not applied within 60 s")
    entry = HistoryEntry(plan=plan_message(), reason="GAIN", effect=ended)
    assert _effect(entry, newest=newest) == "TOO_LATE: not applied within 60 s"


def test_a_plan_that_got_no_answer_is_not_called_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    silent = "the scheduler plug-in has not answered within 930 s"
    entry = HistoryEntry(plan=plan_message(), reason="GAIN", text="less traffic", rejected=silent)
    assert _effect(entry) == "not applied"
    show_plans("flights", [HistoryStep(back=None, entry=entry)])
    said = capsys.readouterr().out
    assert f"less traffic; not applied: {silent}" in said
    assert "rejected" not in said
