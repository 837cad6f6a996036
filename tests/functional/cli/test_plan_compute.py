"""`stormpilot plan compute`: what it reads, writes, prints, and ends with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.commands import in_process as run
from doubles.models import model, topology
from interrupts import interrupt, sigint

STORMPILOT = Path(sys.executable).with_name("stormpilot")


def as_json(cpu_mhz: float = 200.0) -> dict[str, Any]:
    """The model as somebody else's program would write it, with keys that we do not know."""
    document: dict[str, Any] = json.loads(msgspec.json.encode(model(topology(cpu_mhz=cpu_mhz))))
    document["comment"] = "unknown keys are ignored"
    document["supervisors"][0]["colour"] = "green"
    return document


def test_a_model_file_becomes_a_plan_file(tmp_path: Path) -> None:
    source, out = tmp_path / "model.json", tmp_path / "plan.json"
    source.write_text(json.dumps(as_json()))
    done = run("plan", "compute", "--model", source, "--planner", "online", "--seed", "1", "--budget", "10", "-o", out)
    assert done.returncode == 0, done.stderr
    plan = json.loads(out.read_text())
    assert plan["planner"] == "online"
    assert plan["seed"] == 1
    assert plan["metrics"]["inter_node_tps"] == 0
    assert "inter_node_tps" in done.stdout
    held = sorted(e for t in plan["topologies"] for w in t["workers"] for e in w["executors"])
    assert held == [[1, 1], [2, 2], [3, 3], [4, 4]]


def test_without_a_file_the_plan_is_the_output(tmp_path: Path) -> None:
    source = tmp_path / "model.json"
    source.write_text(json.dumps(as_json()))
    done = run("plan", "compute", "--model", source, "--planner", "default")
    assert done.returncode == 0
    assert json.loads(done.stdout)["planner"] == "default"


def test_no_plan_ends_with_1_and_says_why(tmp_path: Path) -> None:
    source, out = tmp_path / "model.json", tmp_path / "plan.json"
    source.write_text(json.dumps(as_json(cpu_mhz=1500.0)))
    done = run("plan", "compute", "--model", source, "--planner", "online", "-o", out)
    assert done.returncode == 1
    assert "no plan exists" in done.stderr
    assert "cpu" in done.stderr.lower()
    assert not out.exists()


def test_partial_plans_what_fits_and_names_what_is_left_out(tmp_path: Path) -> None:
    """3000 MHz in all: flights runs with 800, audit and wordcount wait with 1600 each; audit has priority."""
    source, out = tmp_path / "model.json", tmp_path / "plan.json"
    waits = [topology({}, name, cpu_mhz=400.0) for name in ("audit", "wordcount")]
    audit = msgspec.structs.replace(waits[0], priority=1)
    source.write_bytes(msgspec.json.encode(model(waits[1], audit, topology())))
    whole = run("plan", "compute", "--model", source, "--planner", "online")
    assert whole.returncode == 1
    done = run("plan", "compute", "--model", source, "--planner", "online", "--partial", "-o", out)
    assert done.returncode == 0, done.stderr
    plan = json.loads(out.read_text())
    assert [t["id"] for t in plan["topologies"]] == ["audit-1", "flights-1"]
    assert list(plan["left_out"]) == ["wordcount-1"]
    assert "left out: wordcount" in done.stdout
    assert "3000 MHz" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n"supervisors": [\n}', "model.json:3"),
        ('{"supervisors": [], "topologies": [{"id": 5}]}', "topologies[0].id"),
        ('{"topologies": [], "traffic": []}', "supervisors"),
        ('{"schema": 9, "supervisors": [], "topologies": []}', "schema"),
    ],
)
def test_a_wrong_file_ends_with_2_and_names_the_place(tmp_path: Path, text: str, expected: str) -> None:
    source = tmp_path / "model.json"
    source.write_text(text)
    done = run("plan", "compute", "--model", source)
    assert done.returncode == 2
    assert "model.json" in done.stderr
    assert expected in done.stderr


def test_a_missing_file_or_planner_ends_with_2(tmp_path: Path) -> None:
    missing = run("plan", "compute", "--model", tmp_path / "nowhere.json")
    assert missing.returncode == 2
    assert "nowhere.json" in missing.stderr
    source = tmp_path / "model.json"
    source.write_text(json.dumps(as_json()))
    unknown = run("plan", "compute", "--model", source, "--planner", "magic")
    assert unknown.returncode == 2
    assert "online" in unknown.stderr


def test_planners_are_listed_with_their_parameters() -> None:
    done = run("planners", "-f", "json")
    assert done.returncode == 0
    listed = {p["name"]: p for p in json.loads(done.stdout)}
    (alpha,) = listed["online"]["params"]
    assert (alpha["name"], alpha["default"], alpha["type"]) == ("alpha", 0.0, "number")
    assert "workers hold equally many executors" in alpha["meaning"]


def test_one_planner_is_described_in_full() -> None:
    done = run("planners", "best")
    assert done.returncode == 0
    assert "objective=inter_node" in done.stdout
    assert "restart_tps=0.0" in done.stdout
    assert "tuples/s" in done.stdout
    assert "online" not in done.stdout
    assert run("planners", "magic").returncode == 2


def test_model_from_stdin_and_plan_to_stdout() -> None:
    done = subprocess.run(
        [STORMPILOT, "plan", "compute", "--model", "-", "--planner", "online"],
        input=json.dumps(as_json()),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["planner"] == "online"


def test_parameters_are_given_by_name(tmp_path: Path) -> None:
    source = tmp_path / "model.json"
    source.write_text(json.dumps(as_json()))
    done = run("plan", "compute", "--model", source, "--planner", "online", "--param", "alpha=0.5")
    assert json.loads(done.stdout)["params"] == {"alpha": 0.5}
    for wrong, said in (("alpha", "expected name=value"), ("beta=1", "alpha"), ("alpha=high", "alpha")):
        refused = run("plan", "compute", "--model", source, "--planner", "online", "--param", wrong)
        assert refused.returncode == 2
        assert said in refused.stderr


def test_exact_workers_is_for_planners_that_can_be_held_to_it(tmp_path: Path) -> None:
    """All four executors fit one worker, and with no traffic between the pairs `best` may use two or one."""
    source = tmp_path / "model.json"
    source.write_text(json.dumps(as_json()))
    held = run(
        "plan", "compute", "--model", source, "--planner", "best", "--exact-workers", "--param", "iterations=2000"
    )
    assert held.returncode == 0, held.stderr
    assert json.loads(held.stdout)["params"]["exact_workers"] is True
    assert json.loads(held.stdout)["metrics"]["workers"] == 2
    always = run("plan", "compute", "--model", source, "--planner", "online", "--exact-workers")
    assert json.loads(always.stdout)["metrics"]["workers"] == 2
    refused = run("plan", "compute", "--model", source, "--planner", "default", "--exact-workers")
    assert refused.returncode == 2
    assert "default" in refused.stderr


def test_a_plan_that_the_clock_cut_short_says_so(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    assert run("model", "generate", "loaded", "--executors", "200", "-o", model).returncode == 0
    done = run("plan", "compute", "--model", model, "--planner", "best", "--budget", "0.2")
    assert done.returncode == 0, done.stderr
    assert "clock" in done.stderr
    assert "clock" in " ".join(json.loads(done.stdout)["notes"])


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """A model on which a search without a budget takes long."""
    file = tmp_path / "model.json"
    assert run("model", "generate", "loaded", "--executors", "200", "-o", file).returncode == 0
    return file


@pytest.mark.parametrize("budget", [(), ("--budget", "600")])
def test_an_interrupted_search_ends_with_its_best_plan(
    loaded: Path, monkeypatch: pytest.MonkeyPatch, budget: tuple[str, ...]
) -> None:
    """It ended without any: minutes of searching were lost."""
    interrupt(monkeypatch, after=10)
    with sigint():
        done = run("plan", "compute", "--model", loaded, "--param", "threads=1", *budget)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert done.returncode == 0, done.stderr
    assert "interrupted after" in done.stderr
    assert "clock" in " ".join(json.loads(done.stdout)["notes"])


def test_interrupted_twice_it_ends_without_a_plan(loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, after=10, times=2)
    with sigint():
        done = run("plan", "compute", "--model", loaded, "--param", "threads=1")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("stormpilot: interrupted\n")
