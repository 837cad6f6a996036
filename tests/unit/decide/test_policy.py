"""Who decides about the mode: operator, then owner within limits, then defaults."""

from __future__ import annotations

from typing import Any

import pytest

from stormpilot.config import DecideSection
from stormpilot.decide.policy import owner_priority, policy
from stormpilot.messages.settings import Mode

CONFIG = DecideSection(mode="advise", modes={"named": "act"}, owner_modes=("off", "advise"), approve=["pay*"])


@pytest.mark.parametrize(
    ("name", "conf", "setting", "for_all", "mode", "source"),
    [
        ("flights", {}, None, None, "advise", "controller.yaml: decide.mode"),
        ("flights", {"stormpilot.mode": "off"}, None, None, "off", "owner: stormpilot.mode"),
        ("flights", {"stormpilot.mode": False}, None, None, "off", "owner: stormpilot.mode"),
        ("named", {"stormpilot.mode": "off"}, None, None, "act", "controller.yaml: decide.modes"),
        ("named", {"stormpilot.mode": "off"}, None, "advise", "advise", "operator, for all"),
        ("named", {"stormpilot.mode": "off"}, "act", "off", "act", "operator"),
    ],
)
def test_the_nearest_one_decides(
    name: str, conf: dict[str, Any], setting: Mode | None, for_all: Mode | None, mode: Mode, source: str
) -> None:
    found = policy(name, conf, CONFIG, setting, for_all)
    assert (found.mode, found.mode_from, found.note) == (mode, source, "")


@pytest.mark.parametrize(
    ("value", "note"),
    [
        ("act", "the owner asks for mode act, which decide.owner_modes does not allow (off, advise)"),
        ("ACT", "stormpilot.mode is 'ACT', expected off, advise or act"),
        (["act"], "stormpilot.mode is ['act'], expected off, advise or act"),
        (True, "stormpilot.mode is True, expected off, advise or act"),
    ],
)
def test_what_the_owner_may_not_ask_for_is_told_and_has_no_effect(value: object, note: str) -> None:
    found = policy("flights", {"stormpilot.mode": value}, CONFIG, None, None)
    assert (found.mode, found.mode_from, found.note) == ("advise", "controller.yaml: decide.mode", note)


def test_approval_is_asked_for_by_pattern_or_by_the_owner() -> None:
    assert policy("payments", {}, CONFIG, None, None).approval
    for value in (True, "true", " True"):
        assert policy("flights", {"stormpilot.approval": value}, CONFIG, None, None).approval
    for value in (False, "false", None):
        found = policy("flights", {"stormpilot.approval": value}, CONFIG, None, None)
        assert (found.approval, found.note) == (False, "")


def test_an_approval_that_cannot_be_read_holds_and_is_told_beside_what_is_told_of_the_mode() -> None:
    """The owner wanted something about being asked; to ask does no harm."""
    wish = "stormpilot.approval is 'yes', expected true or false: moves wait for an operator"
    found = policy("flights", {"stormpilot.approval": "yes"}, CONFIG, None, None)
    assert (found.approval, found.note) == (True, wish)
    both = policy("flights", {"stormpilot.approval": "yes", "stormpilot.mode": True}, CONFIG, None, None)
    assert both.note == f"stormpilot.mode is True, expected off, advise or act; {wish}"


@pytest.mark.parametrize(("value", "priority"), [(3, 3), (-1, 29), ("3", 29), (True, 29), (None, 29)])
def test_priority_is_the_owners_where_it_is_one(value: object, priority: int) -> None:
    assert owner_priority({"stormpilot.priority": value}, 29) == priority


def test_a_priority_that_is_none_is_told() -> None:
    wish = "stormpilot.priority is 'high', expected an integer from 0 to 2147483647: topology.priority holds"
    assert policy("flights", {"stormpilot.priority": "high"}, CONFIG, None, None).note == wish
    assert policy("flights", {"stormpilot.priority": 0}, CONFIG, None, None).note == ""
