"""A command line in this process, and how it ended."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from stormpilot import cli


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Done]


def in_process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`stormpilot` with these arguments as if it were a program; to start one takes longer than most of them run."""
    command = ["stormpilot", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
