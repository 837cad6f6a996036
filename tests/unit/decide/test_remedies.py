"""Remedies: each reason that leaves a topology as it is says what an operator can do."""

from __future__ import annotations

from stormpilot.decide.reasons import Reason, reasons_table
from stormpilot.decide.remedies import REMEDIES, remedy


def test_every_reason_that_leaves_a_topology_as_it_is_has_one() -> None:
    assert list(REMEDIES) == [row.code for row in reasons_table() if row.kind in ("gate", "cluster")]


def test_it_names_the_topology() -> None:
    assert remedy("skip", Reason.COOL_DOWN, "flights") == "wait, or `stormpilot replan flights`"


def test_a_name_with_a_blank_is_one_word_of_the_command() -> None:
    assert remedy("skip", Reason.COOL_DOWN, "my flights") == "wait, or `stormpilot replan 'my flights'`"


def test_a_proposal_says_how_it_is_carried_out() -> None:
    assert "`stormpilot approve flights`" in remedy("advise", Reason.GAIN, "flights")
    assert "`stormpilot discard flights`" in remedy("advise", Reason.APPROVAL_NEEDED, "flights")


def test_what_otd_leaves_as_it_is_can_be_planned_as_a_whole() -> None:
    assert "`stormpilot replan flights` asks for a whole plan" in remedy("skip", Reason.OTD, "flights")
    assert "`stormpilot approve flights`" in remedy("advise", Reason.OTD, "flights")


def test_what_is_published_needs_none() -> None:
    assert remedy("publish", Reason.GAIN, "flights") == ""
