"""`stormpilot local ...` without a cluster: what is refused, and how."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from stormpilot.cli import app
from stormpilot.errors import StormpilotError, UsageError
from stormpilot.local.processes import MARKER
from stormpilot.local.spec import ClusterSpec
from stormpilot.local.state import Daemon, Description, Layout, write

OF_ANOTHER_VERSION = '{"schema": 0, "id": "of-another-version"}'


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


@contextmanager
def running_process(cluster_id: str = "of-another-version") -> Iterator[subprocess.Popen[bytes]]:
    """A process of the cluster of this id, until it is ended or nobody needs it any more."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(); sys.stdin.read()"],
        env=os.environ | {MARKER: cluster_id},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout and running.stdout.readline()
        yield running
        running.communicate()


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
    assert "`stormpilot local down --name default --purge` ends and removes it" in str(error)
    assert f"rm -r {file.parent}" in str(refusal("down"))


def test_a_cluster_that_cannot_be_read_keeps_no_other_from_being_ended(state: Path) -> None:
    file = described(state, "old", '{"schema": 0}')
    done = CliRunner().invoke(app, ["local", "down", "--all"])
    assert done.exit_code == 0
    assert f"skipped: {file}: " in done.stderr


@pytest.mark.parametrize("which", [["--name", "old"], ["--all"]])
def test_a_cluster_of_another_version_is_ended(state: Path, which: list[str]) -> None:
    file = described(state, "old", OF_ANOTHER_VERSION)
    (file.parent / "processes.json").write_text('{"schema": 0}')
    with running_process() as process:
        assert "`stormpilot local down --name old --purge`" in str(refusal("status", "--name", "old"))
        done = CliRunner().invoke(app, ["local", "down", *which, "--purge"])
        assert process.wait(60) != 0
    assert (done.exit_code, done.stdout) == (0, "cluster old is down\n")
    assert not file.parent.exists()


def test_status_says_in_one_line_which_clusters_are_down(state: Path) -> None:
    for n in range(5):
        described(state, f"old-{n}", OF_ANOTHER_VERSION)
    done = CliRunner().invoke(app, ["local", "status"])
    assert done.stderr.splitlines() == [
        "5 down: old-0, old-1, old-2 and 2 more; "
        "`stormpilot local down --all --purge` removes all of them, with the logs"
    ]
    assert isinstance(done.exception, UsageError)
    file = described(state, "running", '{"schema": 0, "id": "running-of-another-version"}')
    with running_process("running-of-another-version"):
        done = CliRunner().invoke(app, ["local", "status"])
    skipped, down = done.stderr.splitlines()
    assert skipped.startswith(f"skipped: {file}: ")
    assert skipped.endswith("`stormpilot local down --name running --purge` ends and removes it")
    assert down.startswith("5 down: ")


def test_a_cluster_of_another_version_that_does_not_run_is_replaced(state: Path) -> None:
    """As far as this goes without Java."""
    described(state, "default", OF_ANOTHER_VERSION)
    assert "no-such.jar does not exist" in str(refusal("up", "--scheduler-jar", "no-such.jar"))


def test_a_cluster_of_another_version_that_runs_is_not_replaced(state: Path) -> None:
    described(state, "default", OF_ANOTHER_VERSION)
    with running_process():
        error = refusal("up", "--scheduler-jar", "no-such.jar")
    assert "local cluster default is running already" in str(error)


@pytest.mark.parametrize("text", ["{}", "no JSON"])
def test_a_folder_that_may_be_of_a_running_cluster_is_not_replaced(state: Path, text: str) -> None:
    file = described(state, "default", text)
    assert f"rm -r {file.parent}" in str(refusal("up", "--scheduler-jar", "no-such.jar"))


@pytest.mark.parametrize("daemon", ["keeper", "nimbus"])
def test_logs_that_somebody_removed_are_told(state: Path, daemon: str) -> None:
    layout = Layout.of("default")
    log = layout.logs / "nimbus" / "nimbus.log"
    nimbus = Daemon("nimbus", "nimbus", "127.0.0.1", 1, [], {}, log, log)
    layout.directory.mkdir(parents=True)
    description = Description(1, "default", "id", 0.0, "2.8.3", state, ClusterSpec(), [nimbus], [])
    write(layout.description_file, description)
    done = CliRunner().invoke(app, ["local", "logs", "--daemon", daemon])
    assert done.exit_code == 0
    assert f"no logs of {daemon} are in" in done.stderr


def test_a_disk_that_is_full_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "/state/default/conf/nimbus.yaml")

    monkeypatch.setattr("stormpilot.local.cluster.storm_home", lambda *_: None)
    monkeypatch.setattr("stormpilot.local.build.build", full)
    error = refusal("up", "--scheduler", "default")
    assert error.exit_code == 3
    assert "/state/default/conf/nimbus.yaml: No space left on device (STORMPILOT_STATE and" in str(error)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("STORMPILOT_STATE")
    monkeypatch.setattr(Path, "home", none)
    error = refusal("status")
    assert error.exit_code == 2
    assert "set STORMPILOT_STATE to a folder" in str(error)


def test_a_lock_that_cannot_be_written_is_a_usage_error(state: Path) -> None:
    (state / "clusters" / ".default.lock").mkdir(parents=True)
    error = refusal("up", "--scheduler", "default")
    assert error.exit_code == 2
    assert "STORMPILOT_STATE" in str(error)


def test_down_all_with_nothing_up_is_fine() -> None:
    assert CliRunner().invoke(app, ["local", "down", "--all"]).exit_code == 0


def test_state_that_cannot_be_written_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STORMPILOT_STATE", str(tmp_path / "file" / "below"))
    error = refusal("up", "--scheduler", "default")
    assert error.exit_code == 2
    assert "STORMPILOT_STATE" in str(error)
