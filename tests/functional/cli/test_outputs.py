"""Files that commands write: looked at before the work, and never written over one another."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import SPREAD, model, topology
from doubles.trial_log import MINUTES, write_trial_log
from sizing_problems import EXAMPLE
from stormpilot import clock, planner

PLANNING = [
    "plan compute -p online --model {m}",
    "plan compare -p online --model {m}",
    "what-if -p online --model {m} --scale-rate flights=1",
]


@pytest.fixture
def m(tmp_path: Path) -> Path:
    file = tmp_path / "m.json"
    file.write_bytes(msgspec.json.encode(model(topology(SPREAD))))
    return file


@pytest.mark.parametrize("command", PLANNING)
@pytest.mark.parametrize(("output", "said"), [("nowhere/o.json", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_written_is_refused_before_planning(
    run: Run, m: Path, monkeypatch: pytest.MonkeyPatch, command: str, output: str, said: str
) -> None:
    def planned(*_: object, **__: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(planner, "compute", planned)
    output = str(m.parent / output)
    done = run(*command.format(m=m).split(), "-o", output)
    assert (done.code, done.err) == (2, f"stormpilot: {output}: cannot write this file for --output: {said}")


@pytest.mark.parametrize("command", [*PLANNING, f"size {EXAMPLE} --placement sam"])
def test_what_was_computed_is_printed_where_it_cannot_be_written(run: Run, m: Path, command: str) -> None:
    done = run(*command.format(m=m).split(), "-o", "/dev/full")
    assert done.code == 2
    assert "/dev/full: cannot write the" in done.err
    assert len(done.out.splitlines()) > 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plan compute -p online -m {m} -o {m}", "--output {m}: is the file of --model too"),
        ("model generate planted --hidden {new} -o {folder}/./new.json", "--hidden {new}: is the file of --output too"),
        ("model generate production --from {m} -o {m}", "--output {m}: is the file of --from too"),
        ("size {sizing} -o {new} --plan {new}", "--plan {new}: is the file of --output too"),
        ("size {sizing} -o {sizing}", "--output {sizing}: is the file of FILE too"),
    ],
)
def test_two_files_in_one_are_refused(run: Run, m: Path, command: str, said: str) -> None:
    sizing = m.parent / "sizing.yaml"
    sizing.write_bytes(EXAMPLE.read_bytes())
    names = {"m": m, "new": m.parent / "new.json", "folder": m.parent, "sizing": sizing}
    before = m.read_bytes(), sizing.read_bytes()
    done = run(*command.format(**names).split())
    assert (done.code, said.format(**names) in done.err) == (2, True), done.err
    assert before == (m.read_bytes(), sizing.read_bytes())
    assert not names["new"].exists()


def test_one_file_may_be_read_twice(run: Run, m: Path) -> None:
    """The error is about its content."""
    done = run("what-if", "-p", "online", "--model", m, "--new-topology", m, "-o", m.parent / "new.json")
    assert (done.code, "is in the model already" in done.err) == (1, True), done.err


def test_the_null_device_takes_two_files(run: Run) -> None:
    assert run("size", EXAMPLE, "--placement", "sam", "-o", "/dev/null", "--plan", "/dev/null").code == 0


@pytest.mark.parametrize(
    ("command", "output"),
    [
        *itertools.product(["trial-run --since 1h", "trafficlog report"], [".", "/", "{}", "{}/trial.json"]),
        ("trial-run --since 1h", "/dev/full"),
    ],
)
def test_a_page_that_cannot_be_written_is_one_error(
    run: Run, tmp_path: Path, command: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write_trial_log(tmp_path / "log", clock.now_ms() - MINUTES * 60_000)
    name = output.format(tmp_path)
    done = run(*command.split(), "--log", log, "-o", name)
    assert (done.code, name.strip(".") in done.err) == (2, True), done.err


def test_a_page_does_not_take_the_place_of_what_was_mined(run: Run, tmp_path: Path) -> None:
    mined = tmp_path / "mined.json"
    mined.write_text('{"topologies":[]}')
    done = run("trafficlog", "report", "--log", tmp_path, "--mined", mined, "-o", tmp_path / "mined.html")
    assert (done.code, "is the file of --mined too" in done.err) == (2, True)
