"""`stormpilot local ...` without a cluster: what is refused, and how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stormpilot.cli import app
from stormpilot.errors import StormpilotError
from stormpilot.local.processes import MARKER


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STORMPILOT_STATE", str(tmp_path))
    monkeypatch.setenv("STORMPILOT_HOME", str(tmp_path / "cache"))
    return tmp_path


def described(state: Path, name: str, text: str) -> Path:
    """A cluster's folder with this `cluster.json`."""
    file = state / "clusters" / name / "cluster.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def refusal(*arguments: str) -> StormpilotError:
    """The error that a command ends with."""
    result = CliRunner().invoke(app, ["local", *arguments])
    assert isinstance(result.exception, StormpilotError), result.output
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--scheduler", "best"], "--scheduler: expected pilot or default, got 'best'"),
        (["--conf", "topology.workers"], "--conf: expected KEY=VALUE, got 'topology.workers'"),
        (["--conf", "topology.workers=[1"], "--conf topology.workers: '[1' is not a YAML value"),
        (["--conf", "topology.workers=2001-13-01"], "--conf topology.workers: '2001-13-01' is not a YAML value"),
        (["--conf", "topology.workers=1", "--conf", "topology.workers=2"], "--conf topology.workers: given twice"),
        (["--supervisors", "0"], "supervisors: expected 1 to 64, got 0"),
        (["--name", "a/b"], "name: expected up to 64 letters"),
        (["--scheduler-jar", "no-such.jar"], "scheduler_jar: no-such.jar does not exist"),
    ],
)
def test_start_that_makes_no_sense_is_a_usage_error(arguments: list[str], text: str) -> None:
    error = refusal("up", *arguments)
    assert error.exit_code == 2
    assert text in str(error)


def test_refused_start_leaves_the_logs_of_the_last_one(state: Path) -> None:
    log = state / "clusters" / "default" / "logs" / "nimbus.log"
    log.parent.mkdir(parents=True)
    log.write_text("what happened")
    refusal("up", "--scheduler-jar", "no-such.jar")
    assert log.read_text() == "what happened"


def test_missing_java_ends_with_the_code_for_unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    error = refusal("up", "--scheduler", "default")
    assert error.exit_code == 3
    assert "install a JDK 17" in str(error)


@pytest.mark.parametrize("command", [["status"], ["down"], ["logs"], ["kill", "words"], ["submit"]])
def test_unknown_cluster_is_named_with_those_that_are_known(command: list[str]) -> None:
    error = refusal(*command)
    assert error.exit_code == 2
    assert str(error) == "no local cluster is named default (known: none); `stormpilot local up` starts one"


def test_file_that_is_not_ours_is_named(state: Path) -> None:
    file = described(state, "default", '{"schema": 1}')
    error = refusal("status")
    assert error.exit_code == 2
    assert str(file) in str(error)
    assert "missing required field" in str(error)
    assert f"rm -r {file.parent}" in str(error)


def test_a_cluster_of_another_version_keeps_no_other_from_being_ended(state: Path) -> None:
    file = described(state, "old", '{"schema": 0, "id": "of-another-version"}')
    done = CliRunner().invoke(app, ["local", "down", "--all"])
    assert done.exit_code == 0
    assert f"skipped: {file}: " in done.stderr


def test_a_cluster_of_another_version_that_does_not_run_is_replaced(state: Path) -> None:
    """As far as this goes without Java."""
    described(state, "default", '{"schema": 0, "id": "of-another-version"}')
    assert "no-such.jar does not exist" in str(refusal("up", "--scheduler-jar", "no-such.jar"))


def test_a_cluster_of_another_version_that_runs_is_not_replaced(state: Path) -> None:
    described(state, "default", '{"schema": 0, "id": "of-another-version"}')
    child = "import sys; print(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", child],
        env=os.environ | {MARKER: "of-another-version"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout and running.stdout.readline()
        error = refusal("up", "--scheduler-jar", "no-such.jar")
        running.communicate()
    assert "local cluster default is running already" in str(error)


@pytest.mark.parametrize("text", ["{}", "no JSON"])
def test_a_folder_that_may_be_of_a_running_cluster_is_not_replaced(state: Path, text: str) -> None:
    file = described(state, "default", text)
    assert f"rm -r {file.parent}" in str(refusal("up", "--scheduler-jar", "no-such.jar"))


def test_down_all_with_nothing_up_is_fine() -> None:
    assert CliRunner().invoke(app, ["local", "down", "--all"]).exit_code == 0


def test_state_that_cannot_be_written_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STORMPILOT_STATE", str(tmp_path / "file" / "below"))
    error = refusal("up", "--scheduler", "default")
    assert error.exit_code == 2
    assert "STORMPILOT_STATE" in str(error)
