"""`stormpilot size` and `predict`: what they read, print, write, and end with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doubles.commands import in_process as run
from sizing_problems import EXAMPLE


def document(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "-f", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """model.json and plan.json of MBA and SAM at 100/s, and what `size` printed."""
    folder = tmp_path_factory.mktemp("sizing")
    model, plan = folder / "model.json", folder / "plan.json"
    done = run("size", EXAMPLE, "--placement", "sam", "-o", model, "--plan", plan)
    assert done.returncode == 0, done.stderr
    return model, plan, done.stdout


def test_both_allocations_stand_side_by_side(written: tuple[Path, Path, str]) -> None:
    lines = written[2].splitlines()
    blob = next(line for line in lines if line.startswith("blob"))
    assert blob.split() == ["blob", "100", "50", "337%", "1196%", "170", "=", "3x50", "+", "20", "315%", "326%"]
    assert "lsa: 13 slots, 3 D3 + 1 D1" in lines
    assert "mba: 7 slots, 2 D3" in lines
    assert any("mba+sam supports 80/s of the 100/s asked for: shuffles split evenly" in line for line in lines)


def test_a_plan_that_the_local_shuffle_spoils_says_what_the_even_one_supports(tmp_path: Path) -> None:
    local = tmp_path / "local.yaml"
    local.write_text(EXAMPLE.read_text().replace("shuffle: even", "shuffle: local"))
    lines = run("size", local, "--placement", "sam").stdout.splitlines()
    assert any("/s asked for: shuffles prefer threads near the sender" in line for line in lines)
    assert any(line.startswith("it supports 80/s with `topology.disable.loadaware.messaging: true`") for line in lines)
    assert not any(line.startswith("it supports") for line in run("size", EXAMPLE).stdout.splitlines())


ONE_POINT = """\
name: flights
rate_tps: 30
slot: {cpu_mhz: 1000, memory_mb: 1000}
vms: [{name: node, slots: 4}]
components:
  - {id: source, static: {cpu_share: 0, memory_share: 0}}
  - {id: parse, model: parse, inputs: [{component: source}]}
models:
  - {name: parse, points: [{threads: 1, rate_tps: 10, cpu_share: 0.3, memory_share: 0.1}]}
"""


def test_threads_beyond_those_measured_are_noted_by_size_and_by_predict(tmp_path: Path) -> None:
    file, plan = tmp_path / "flights.yaml", tmp_path / "plan.json"
    file.write_text(ONE_POINT)
    note = "note: parse: 3 threads on a slot, measured up to 1: taken to do what the last point does"
    assert note in run("size", file, "--allocation", "lsa", "--placement", "sam", "--plan", plan).stdout.splitlines()
    assert note in run("predict", file, "--allocation", "lsa", "--plan", plan).stdout.splitlines()
    assert "note:" not in run("size", file, "--allocation", "mba", "--placement", "sam").stdout


def test_all_placements_as_json() -> None:
    found = document("size", EXAMPLE, "--rate", "50")
    assert {m: a["slots"] for m, a in found["allocations"].items()} == {"lsa": 7, "mba": 4}
    assert found["allocations"]["mba"]["vms"] == {"D3": 1}
    pairs = [(p["allocation"], p["placement"]) for p in found["placements"]]
    assert pairs == [(a, p) for a in ("lsa", "mba") for p in ("dsm", "rsm", "sam")]
    assert all(p["predicted"]["supportedTps"] > 0 for p in found["placements"])
    assert all(
        p["slots"] == found["allocations"][p["allocation"]]["slots"] + p["extraSlots"] for p in found["placements"]
    )


def test_allocation_and_placement_can_be_chosen() -> None:
    found = document("size", EXAMPLE, "--allocation", "lsa", "--placement", "dsm")
    assert list(found["allocations"]) == ["lsa"]
    assert [p["placement"] for p in found["placements"]] == ["dsm"]


def test_the_written_model_is_planned_by_plan_compute_as_size_planned_it(
    written: tuple[Path, Path, str], tmp_path: Path
) -> None:
    model, plan, _ = written
    again = tmp_path / "plan.json"
    done = run("plan", "compute", "--model", model, "--planner", "sam", "--param", "spill=false", "-o", again)
    assert done.returncode == 0, done.stderr
    ours, theirs = json.loads(plan.read_text()), json.loads(again.read_text())
    assert ours["topologies"] == theirs["topologies"]
    assert ours["metrics"]["total_tps"] == theirs["metrics"]["total_tps"] == pytest.approx(500)


def test_predict_names_rate_slot_and_component_that_limit(written: tuple[Path, Path, str]) -> None:
    model, plan, _ = written
    done = run("predict", EXAMPLE, "--model", model, "--plan", plan)
    assert done.returncode == 0, done.stderr
    assert "linear supports 80/s of each source where shuffles split evenly over threads, 100/s if" in done.stdout
    assert "40 threads of table, which sustain 20/s together" in done.stdout


def test_predict_makes_the_model_from_the_file_where_none_is_given(written: tuple[Path, Path, str]) -> None:
    model, plan, _ = written
    assert document("predict", EXAMPLE, "--plan", plan) == document(
        "predict", EXAMPLE, "--plan", plan, "--model", model
    )


def test_predict_shows_loads_at_another_rate(written: tuple[Path, Path, str]) -> None:
    model, plan, _ = written
    low = document("predict", EXAMPLE, "--model", model, "--plan", plan, "--at", "40")
    full = document("predict", EXAMPLE, "--model", model, "--plan", plan)
    assert low["supportedTps"] == full["supportedTps"] == pytest.approx(80)
    assert [2 * v["cpuShare"] for v in low["vms"]] == pytest.approx([v["cpuShare"] for v in full["vms"]])


def test_predict_blames_a_wrong_rate_on_its_option_alone(written: tuple[Path, Path, str]) -> None:
    """It named the plan's file, and asked whether `size` had the same rate."""
    done = run("predict", EXAMPLE, "--plan", written[1], "--at", "-5")
    assert done.returncode == 2
    assert done.stderr.strip() == "stormpilot: --at is -5.0, expected tuples/s above 0, at most 1e9"


def test_predict_does_not_give_a_node_what_others_use_there(written: tuple[Path, Path, str], tmp_path: Path) -> None:
    """Where the plan has them; where it has none of them, where they run."""
    model, plan = (json.loads(file.read_text()) for file in written[:2])
    first, second = (s["id"] for s in model["supervisors"][:2])
    executor = {"start": 1, "end": 1, "component": "a", "cpu_mhz": model["supervisors"][0]["mhz"]}
    at = [{"start": 1, "supervisor": first, "port": 9000}]
    other = {"id": "o", "name": "o", "workers": 1, "components": [{"id": "a"}], "executors": [executor]}
    model["topologies"].append({**other, "assignment": at})
    (tmp_path / "model.json").write_text(json.dumps(model))
    here = {"id": "o", "workers": [{"supervisor": second, "port": 9000, "executors": [[1, 1]]}]}
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "topologies": [*plan["topologies"], here]}))

    def cores(*files: Path) -> dict[str, float]:
        found = document("predict", EXAMPLE, "--model", files[0], "--plan", files[1])
        return {v["supervisor"]: v["cores"] for v in found["vms"]}

    free = cores(*written[:2])
    assert cores(tmp_path / "model.json", written[1]) == {**free, first: pytest.approx(free[first] - 1)}
    then = cores(tmp_path / "model.json", tmp_path / "plan.json")
    assert then == {**free, second: pytest.approx(free[second] - 1)}


def test_a_plan_of_another_rate_ends_with_2_and_says_what_to_do(written: tuple[Path, Path, str]) -> None:
    done = run("predict", EXAMPLE, "--plan", written[1], "--rate", "50")
    assert done.returncode == 2
    assert "executors of linear" in done.stderr
    assert "--model" in done.stderr


def test_a_wrong_key_ends_with_2_and_names_line_and_field(tmp_path: Path) -> None:
    wrong = tmp_path / "size.yaml"
    wrong.write_text(EXAMPLE.read_text().replace("selectivity: 1.0", "selectivty: 1.0"))
    done = run("size", wrong)
    assert done.returncode == 2
    line = next(i for i, text in enumerate(wrong.read_text().splitlines(), 1) if "selectivty" in text)
    assert (
        f"size.yaml:{line}: components[2].inputs[0].selectivty: unknown key; did you mean selectivity?" in done.stderr
    )


def test_a_missing_file_ends_with_2(tmp_path: Path) -> None:
    done = run("size", tmp_path / "nowhere.yaml")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stderr


def test_a_performance_model_that_is_not_there_is_told_with_the_file_that_names_it(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().split("\nmodels:\n")[0] + "\nmodels:\n  - {file: pi.json}\n"
    (tmp_path / "size.yaml").write_text(text)
    done = run("size", tmp_path / "size.yaml")
    line = text.splitlines().index("  - {file: pi.json}") + 1
    assert (done.returncode, f"size.yaml:{line}: models[0].file: " in done.stderr) == (2, True), done.stderr
    assert "pi.json: cannot read" in done.stderr


def test_a_model_of_too_many_pairs_is_refused_with_1(tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    done = run("size", EXAMPLE, "--rate", "1000", "--allocation", "mba", "--placement", "dsm", "-o", out)
    assert done.returncode == 1
    assert "pairs of threads" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("rate", ["0", "-5", "nan", "inf"])
def test_a_rate_that_is_none_ends_with_2(rate: str) -> None:
    done = run("size", EXAMPLE, "--rate", rate)
    assert done.returncode == 2
    assert "--rate" in done.stderr


def test_a_rate_beyond_reason_is_refused_with_1() -> None:
    done = run("size", EXAMPLE, "--rate", "1e9")
    assert done.returncode == 1
    assert "expected at most 100,000" in done.stderr
