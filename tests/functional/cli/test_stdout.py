"""Stdout that is full, or whose reader went away, as a shell makes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from stormpilot.cli import main; main()"]


@pytest.mark.parametrize("arguments", [["config", "explain"], ["config", "explain", "-f", "json"], ["--help"]])
def test_a_full_stdout_is_one_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, *arguments], check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    said = "stormpilot: stdout: cannot write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("arguments", [["config", "explain"], ["config", "explain", "-f", "json"], ["--help"]])
def test_a_reader_that_went_away_is_no_error(arguments: list[str]) -> None:
    program = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.close()
    assert program.stderr is not None
    assert program.stderr.read() == b""
    assert program.wait() == 0
