"""Stdout and stderr that are full or closed, or whose reader went away, as a shell makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from doubles.models import model, topology

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


@pytest.mark.parametrize("end", ["gone", "full", "closed"])
@pytest.mark.parametrize(("planner", "code"), [("otd", 0), ("no-such", 2)])
def test_output_and_exit_code_are_the_same_whatever_becomes_of_stderr(
    tmp_path: Path, planner: str, code: int, end: str
) -> None:
    """A plan with notes, and a wrong argument: both say something on stderr."""
    source = tmp_path / "model.json"
    source.write_bytes(msgspec.json.encode(model(topology())))
    command = [*COMMAND, "plan", "compute", "--model", str(source), "--planner", planner]
    usual = subprocess.run(command, check=False, capture_output=True)
    assert usual.returncode == code and usual.stderr
    reads, writes = os.pipe()
    os.close(reads)
    with Path("/dev/full").open("wb") as full:
        where = {"gone": writes, "full": full.fileno(), "closed": None}[end]
        shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command] if where is None else command
        done = subprocess.run(shell, check=False, stdout=subprocess.PIPE, stderr=where)
    os.close(writes)
    assert (done.returncode, done.stdout) == (code, usual.stdout)
