"""Command lines run in the test's own process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from doubles.commands import Done, Run
from stormpilot import cli


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in this process; blanks and line breaks of stderr count as one blank."""

    def run_one(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["stormpilot", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Done(code, out, " ".join(err.split()))

    return run_one
