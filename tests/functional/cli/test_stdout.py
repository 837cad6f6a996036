"""Stdout and stderr that are full or closed, or whose reader went away, as a shell makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from doubles.models import SPREAD, model, topology
from doubles.trial_log import MINUTES, write_trial_log
from sizing_problems import EXAMPLE
from stormpilot import clock

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


@pytest.mark.parametrize("arguments", [["config", "explain"], ["--version"]])
def test_a_stdout_that_is_closed_is_one_sentence(arguments: list[str]) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *arguments]
    done = subprocess.run(shell, check=False, stderr=subprocess.PIPE, text=True)
    said = "stormpilot: stdout: cannot write the output: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_what_the_encoding_of_stdout_lacks_is_told_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "size.yaml"
    file.write_text(EXAMPLE.read_text().replace("\nname: ", "\nname: \u00f6"), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "size", file], check=False, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xf6" in done.stdout


@pytest.mark.parametrize("encoding", ["iso8859-2", "latin-1", "ascii", "utf-8"])
def test_json_is_json_in_every_locale(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "\u00f1\U0001f600\u0141"
    folder.mkdir()
    (folder / "controller.yaml").write_text("traffic_log: {dir: log}")
    command = [*COMMAND, "config", "check", folder / "controller.yaml", "-f", "json"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, check=False, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert folder.name in str(json.loads(done.stdout))


WRITING = [
    f"size {EXAMPLE} --placement sam --plan written.json",
    "what-if -p online --model m.json --scale-rate flights=1 -o written.json",
    "plan compare -p online --model m.json -o written.json",
    "plan compute -p online --model m.json -o written.json",
    "trial-run --log log -o written.html",
    "trafficlog mine --log log -o written.json",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(topology(SPREAD))))
    write_trial_log(tmp_path / "log", clock.now_ms() - MINUTES * 60_000)
    return tmp_path


@pytest.mark.parametrize("command", WRITING)
def test_files_are_written_though_the_reader_of_the_output_went_away(folder: Path, command: str) -> None:
    """`stormpilot size ... --plan plan.json | head` ended with 0, and without the plan."""
    program = subprocess.Popen([*COMMAND, *command.split()], stdout=subprocess.PIPE, cwd=folder)
    assert program.stdout is not None
    program.stdout.close()
    assert program.wait() == 0
    assert msgspec.json.decode((folder / "written.json").read_bytes())


@pytest.mark.parametrize("command", WRITING[:2])
def test_files_are_written_though_the_output_cannot_be(folder: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *command.split()], check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder
        )
    assert (done.returncode, "stdout: cannot write the output: No space left" in done.stderr) == (2, True)
    assert msgspec.json.decode((folder / "written.json").read_bytes())


def test_a_file_that_cannot_be_written_is_an_error_for_nobody_who_reads_too(folder: Path) -> None:
    """And the other file is written."""
    command = [*COMMAND, "size", str(EXAMPLE), "--placement", "sam", "-o", "/dev/full", "--plan", "written.json"]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    assert program.stdout is not None and program.stderr is not None
    program.stdout.close()
    assert "/dev/full: cannot write the model: No space left" in program.stderr.read()
    assert program.wait() == 2
    assert msgspec.json.decode((folder / "written.json").read_bytes())


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
