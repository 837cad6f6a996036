"""`stormpilot profile` and `apply-size`: what is wrong is said before anything is asked of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from doubles.commands import in_process as run
from functional.topologies.inprocess_storm import PROJECT
from sizing_problems import EXAMPLE


def said(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.returncode == 2, done.stdout
    return " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--rate-step", "fast"), "--rate-step is 'fast', expected tuples/s above 0, or a part such as 10%"),
        (("--rate-step", "-5%"), "--rate-step is '-5%'"),
        (("--first-rate", "50", "--max-rate", "10"), "--max-rate is 10, expected at least --first-rate (50)"),
        (("--jar", "missing.jar"), "missing.jar not found"),
        (("--fields", " , "), "--fields: expected at least one name"),
        (("--tuples", "missing.json"), "missing.json: cannot read the tuples"),
        (("-o", "/nowhere/pi.json"), "/nowhere/pi.json: cannot write this file for --output: No such file"),
        (("--nimbus", "nowhere:x"), "--nimbus: 'nowhere:x' is not an address"),
    ],
)
def test_wrong_options_of_a_profile(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    given = ("micro_tasks.pi:Pi", "--project", PROJECT, "-e", "local", "-o", tmp_path / "pi.json")
    assert text in said("profile", *given, "--zookeeper", "127.0.0.1:1", *options)


def test_trials_of_another_component_are_not_taken(tmp_path: Path) -> None:
    state = tmp_path / "pi.trials.jsonl"
    state.write_text('{"component":"other:Class"}\n')
    told = said(
        "profile", "micro_tasks.pi:Pi", "--project", PROJECT, "-e", "local", "-o", tmp_path / "pi.json",
        "--zookeeper", "127.0.0.1:1",
    )  # fmt: skip
    assert "has trials with another component, grid, times" in told
    assert "give --restart" in told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--nimbus is missing, expected host or host:port"),
        (("--nimbus", "n", "--rate", "0"), "--rate is 0.0, expected tuples/s above 0"),
    ],
)
def test_wrong_options_of_apply_size(options: tuple[str, ...], text: str) -> None:
    assert text in said("apply-size", EXAMPLE, *options)
