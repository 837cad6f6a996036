"""`stormpilot doctor` as people read it."""

from __future__ import annotations

from collections import Counter

import pytest

from stormpilot.cli.doctor import _show
from stormpilot.doctor import Finding, Level


def test_only_what_is_not_ok_has_a_fix(capsys: pytest.CaptureFixture[str]) -> None:
    """`fix:` below a line that was ok made people look for what is wrong."""
    found = [Finding("access", level, "open to everyone", f"{level} {level}") for level in Level]
    _show(found, Counter(f.level for f in found))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.endswith(("ok ok", "fail fail"))] == ["note: ok ok", "fix: fail fail"]
    assert lines[-1] == "1 wrong, 1 to look at, 1 not checked"
