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


def run(*args: str, log: str = "/nowhere") -> None:
    CliRunner().invoke(app, ["trafficlog", *args, "--log", log], catch_exceptions=False)


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


@pytest.mark.parametrize("command", ["replay", "report"])
@pytest.mark.parametrize("log", ["/nowhere", "file:///nowhere"])
def test_a_log_that_is_not_there_is_refused_at_once(command: str, log: str, tmp_path: Path) -> None:
    output = tmp_path / ("out" if command == "replay" else "out.html")
    with pytest.raises(UsageError, match=f"^{log}: there is no such folder"):
        run(command, "-o", str(output), log=log)


@pytest.mark.parametrize("command", ["replay", "report", "mine --engine spark"])
def test_what_is_no_log_is_refused_at_once(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="is not a traffic log"):
        run(*command.split(), log=str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, expected the folder of a traffic log"):
        run(*command.split(), log=str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--master", "yarn"], {}),
        (["--conf", "spark.hadoop.fs.defaultFS=hdfs://name"], {}),
        ([], {"HADOOP_CONF_DIR": "/etc/hadoop"}),
    ],
)
def test_a_log_that_may_be_on_sparks_file_system_is_left_to_spark(
    options: list[str], environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AssertionError, match="Spark was started"):
        run("report", "-o", str(tmp_path / "out.html"), *options)


def test_servers_in_the_environment_alone_do_not_ask_for_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORMPILOT_ZOOKEEPER", "127.0.0.1:1")
    (tmp_path / "edges").mkdir()
    with pytest.raises(AssertionError, match="Spark was started"):
        run("replay", "--planner", "online", log=str(tmp_path))
    with pytest.raises(UsageError, match="--publish is for recommendations"):
        run("replay", "--planner", "online", "--zookeeper", "127.0.0.1:1")
