"""How benchmarks wait."""

from __future__ import annotations

import pytest

from benchmarks.command import until
from stormpilot.errors import UnreachableError


def test_what_is_missing_is_shown_until_nothing_is() -> None:
    said, shown = iter(["two tasks", "one task", None]), list[str]()
    until("tasks report", lambda: next(said), 300.0, shown.append)
    assert shown == ["two tasks", "one task"]


def test_who_waits_too_long_learns_for_what() -> None:
    with pytest.raises(UnreachableError, match=r"tasks report: not within 0 s \(one task\)"):
        until("tasks report", lambda: "one task", 0.0)
