"""Where `stormpilot trafficlog` writes is looked at before Spark works for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stormpilot.cli import app
from stormpilot.errors import UsageError
from stormpilot.history import spark


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(spark, "session", started)


def run(*args: str) -> None:
    CliRunner().invoke(app, ["trafficlog", *args, "--log", "/nowhere"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("mine -o {}/mined.json", "--output"),
        ("mine --sizing {}", "--sizing"),
        ("replay -o {}", "--output"),
        ("report -o {}/trafficlog.html", "--output"),
    ],
)
def test_folder_that_cannot_be_is_refused_at_once(command: str, option: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    folder = file / "below"
    with pytest.raises(UsageError, match=f"^{folder}: cannot make this folder for {option}: Not a directory$"):
        run(*command.format(folder).split())


def test_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        run("mine", "-o", str(tmp_path / "new" / "mined.json"))
    assert (tmp_path / "new").is_dir()


def test_report_is_not_written_over_by_its_own_figures() -> None:
    with pytest.raises(UsageError, match=r"--output report\.json: expected the name of a page"):
        run("report", "-o", "report.json")


def test_servers_in_the_environment_alone_do_not_ask_for_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", "127.0.0.1:1")
    with pytest.raises(AssertionError, match="Spark was started"):
        run("replay", "--planner", "online")
    with pytest.raises(UsageError, match="--publish is for recommendations"):
        run("replay", "--planner", "online", "--zookeeper", "127.0.0.1:1")
