"""Commands that change a running system: the question before a dangerous one."""

from __future__ import annotations

import io

import pytest
import typer

from stormpilot.cli import steer, verbs
from stormpilot.errors import RefusedError, UsageError
from stormpilot.operate import Change

LOOKED = Change(
    verb="mode",
    target="flights",
    before=None,
    after={"mode": "act"},
    text="flights: mode act",
    danger="it moves",
    dry_run=True,
)
"""A change as it is looked at before anybody is asked."""


class Terminal(io.StringIO):
    """A person who types."""

    def isatty(self) -> bool:
        return True


def test_the_question_shows_the_change_and_does_not_speak_of_a_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody asked for one, and after the answer it would be wrong."""
    monkeypatch.setattr("sys.stdin", Terminal())
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda text, **_: bool(asked.append(text)))
    with pytest.raises(RefusedError, match="nothing was changed"):
        steer._confirm(LOOKED)
    assert asked == ["it moves. Continue?"]
    shown = capsys.readouterr().err
    assert "flights: mode act" in shown
    assert "after   mode=act" in shown
    assert "dry run" not in shown
    assert steer.lines_of(LOOKED)[-1] == "dry run: nothing was changed"


def test_a_task_is_a_number_that_can_be_read() -> None:
    with pytest.raises(UsageError, match="with the number of a task"):
        verbs._component("c/²")
