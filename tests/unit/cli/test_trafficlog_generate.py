"""`stormpilot trafficlog generate`: a log and its truth, with what was asked for, and errors that name it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from stormpilot.cli import app
from stormpilot.errors import RefusedError, UsageError


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["trafficlog", "generate", *args], catch_exceptions=False)


def test_log_is_made_with_what_was_asked_for(tmp_path: Path) -> None:
    result = run(
        str(tmp_path / "log"), "--days", "0.1", "--parallelism", "2", "--set", "noise_ratio=0.1", "--seed", "4"
    )
    assert result.exit_code == 0
    truth = json.loads((tmp_path / "log" / "truth.json").read_text())
    assert (truth["seed"], truth["spec"]["days"], truth["topologies"][0]["noise_ratio"]) == (4, 0.1, 0.1)
    assert pq.read_table(tmp_path / "log" / "edges").num_rows == truth["rows"]["edges"]
    assert "edge rows" in result.stderr
    assert "made1" in result.stdout


def test_json_is_the_truth(tmp_path: Path) -> None:
    result = run(str(tmp_path / "log"), "--days", "0.02", "--parallelism", "1", "-f", "json")
    assert json.loads(result.stdout)["rows"]["windows"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "nois=1"], "--set nois: there is no such key; --keys lists them"),
        (["--set", "noise_ratio=7"], r"^--set noise_ratio: Expected `float` <= 0.2"),
        (["--window-s", "0"], "^--window-s: Expected `int` >= 1"),
        (["--set", "noise_ratio"], "expected KEY=VALUE"),
        (["--days", "0.0001"], "shorter than one window"),
        (["--days", "0.01", "--edge-rows", "99999999999"], "need more than"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(tmp_path: Path, options: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(str(tmp_path / "log"), *options)
    assert not (tmp_path / "log").exists()


def test_fewer_rows_than_one_are_refused(tmp_path: Path) -> None:
    """A log of another size was made."""
    done = run(str(tmp_path / "log"), "--days", "0.02", "--edge-rows", "-5")
    assert (done.exit_code, "--edge-rows" in done.stderr) == (2, True)


def test_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(RefusedError):
        run(str(tmp_path), "--days", "0.02")
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_keys_lists_everything_that_can_be_planted() -> None:
    """It asked for a folder, though it writes nothing."""
    result = run("--keys")
    assert result.exit_code == 0
    assert "overload_windows" in result.stdout
    assert "highest_knee_ratio" in result.stdout


def test_no_folder_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^DIR is missing, expected a folder to write into"):
        run("--days", "0.02")


def test_a_file_is_no_folder_to_write_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file: cannot make this folder for DIR: File exists"):
        run(str(tmp_path / "file"), "--days", "0.02")


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_out_of_range_makes_nothing(tmp_path: Path, seed: str) -> None:
    assert run(str(tmp_path / "log"), "--seed", seed).exit_code == 2
    assert not (tmp_path / "log").exists()
