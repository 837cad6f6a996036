"""`plan compare`, `explain` and `diff` where shuffled traffic follows the placement, and where a plan is partial."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import HALF, PAIRED, SPREAD, model, plan, topology
from stormpilot.model.values import Component, Input, Topology


def shuffling(cpu_mhz: float = 200.0) -> Topology:
    """The double's topology with a shuffle between its components: 1000 tuples/s go wherever a target is near."""
    y = Component(id="y", inputs=[Input(component="x", grouping="SHUFFLE")])
    t = topology(SPREAD, cpu_mhz=cpu_mhz)
    return msgspec.structs.replace(t, components=[t.components[0], y])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A shuffling model, spread, and two plans of it."""
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(shuffling())))
    (tmp_path / "half.json").write_bytes(msgspec.json.encode(plan(HALF)))
    (tmp_path / "paired.json").write_bytes(msgspec.json.encode(plan(PAIRED)))
    return tmp_path


@pytest.fixture
def partial(run: Run, tmp_path: Path) -> Path:
    """A model of which not all fits (3000 MHz; flights runs with 800, two wait for 1600 each), and a partial plan."""
    waits = [topology({}, name, cpu_mhz=400.0) for name in ("audit", "wordcount")]
    first = msgspec.structs.replace(waits[0], priority=1)
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(waits[1], first, topology())))
    done = run(
        *("plan", "compute", "--model", tmp_path / "m.json", "--planner", "online", "--partial"),
        *("-o", tmp_path / "plan.json"),
    )
    assert done.code == 0, done.err
    return tmp_path


# --- by flow ----------------------------------------------------------------------------------------------------------


def test_diff_shows_measured_pairs_and_what_shuffles_will_send(run: Run, files: Path) -> None:
    """Half: both sources have a target in their worker, which takes everything; by pairs 200 tuples/s stay remote."""
    found = run("plan", "diff", "--model", files / "m.json", files / "half.json", "-f", "json").json()
    assert (found["before"]["inter_node_tps"], found["after"]["inter_node_tps"]) == (1000.0, 200.0)
    assert (found["before"]["flow_inter_node_tps"], found["after"]["flow_inter_node_tps"]) == (1000.0, 0.0)
    words = " ".join(run("plan", "diff", "--model", files / "m.json", files / "half.json").out.split())
    assert "inter_node_tps 1,000 200 -80.0%" in words
    assert "flow_inter_node_tps 1,000 0 -100.0%" in words


def test_diff_by_measured_pairs_alone(run: Run, files: Path) -> None:
    arguments = ("plan", "diff", "--model", files / "m.json", files / "half.json", "--traffic", "measured")
    assert "flow_" not in run(*arguments).out


def test_explain_judges_a_move_by_what_all_shuffles_will_send_then(run: Run, files: Path) -> None:
    """Executor 3 beside both sources would get everything; by measured pairs it only has 800 tuples/s to bring."""
    arguments = ("plan", "explain", "--model", files / "m.json", "--executor", "3", "-f", "json")
    by_flow, measured = run(*arguments).json()[0], run(*arguments, "--traffic", "measured").json()[0]
    assert (by_flow["verdict"], by_flow["better"]["supervisor"]) == ("improvable", "a")
    assert by_flow["better"]["interNodeDeltaTps"] == pytest.approx(-1000.0)
    assert measured["better"]["interNodeDeltaTps"] == -800.0
    assert by_flow["leavingTps"] == pytest.approx(500.0)  # spread evenly from afar


def test_explain_says_by_which_traffic(run: Run, files: Path) -> None:
    arguments = ("plan", "explain", "--model", files / "m.json", "--plan", files / "half.json")
    assert "what shuffles will make of them" in run(*arguments).out
    assert "what shuffles will make of them" not in run(*arguments, "--traffic", "measured").out


def test_compare_minimises_and_ranks_what_shuffles_will_send(run: Run, files: Path) -> None:
    arguments = ("plan", "compare", "--model", files / "m.json", "-p", "default", "-p", "partition", "--budget", "5")
    found = run(*arguments, "-f", "json").json()
    rows = {r["planner"]: r for r in found["rows"]}
    assert (found["traffic"], found["bound"]["metric"]) == ("flow", "flow_inter_node_tps")
    assert rows["present"]["metrics"]["flow_inter_node_tps"] == 1000.0
    assert rows["partition"]["metrics"]["flow_inter_node_tps"] == rows["partition"]["gap"] == 0.0
    text = run(*arguments).out
    assert "by flow" in text
    assert "gap: inter-node traffic by flow above the least found" in text


def test_compare_by_measured_pairs(run: Run, files: Path) -> None:
    arguments = ("plan", "compare", "--model", files / "m.json", "-p", "exact", "--budget", "5", "-f", "json")
    found = run(*arguments, "--traffic", "measured").json()
    assert (found["traffic"], found["bound"]["kind"]) == ("measured", "proved optimum")
    assert "flow_inter_node_tps" not in found["rows"][-1]["metrics"]
    by_flow = run(*arguments).json()
    assert by_flow["bound"]["kind"] == "least found"  # the proof is of measured pairs


def test_what_if_plans_and_judges_by_flow_as_the_controller_does(run: Run, files: Path) -> None:
    arguments = ("what-if", "--model", files / "m.json", "-p", "online", "--scale-rate", "flights=2")
    found = run(*arguments, "-f", "json").json()
    flows = run("plan", "diff", "--model", files / "m.json", files / "paired.json", "-f", "json").json()["after"]
    predicted = {name for name in flows if name.startswith("flow_")}
    assert predicted
    for metrics in (found["now"], found["planned"], found["then"]):
        assert {name for name in metrics if name.startswith("flow_")} == predicted
    assert (found["now"]["flow_inter_node_tps"], found["then"]["flow_total_tps"]) == (1000.0, 2000.0)
    assert found["plan"]["metrics"] == found["then"]
    (row,) = (line for line in run(*arguments).out.splitlines() if line.startswith("flow_inter_node_tps"))
    assert row.split()[1] == "1,000"
    assert "as shuffles will send it" in row


def test_what_if_goes_by_the_traffic_of_a_configuration(run: Run, files: Path) -> None:
    (files / "controller.yaml").write_text("planner: {traffic: measured}\n")
    arguments = ("what-if", "--model", files / "m.json", "-p", "online", "--scale-rate", "flights=2", "-f", "json")
    assert "flow_" not in run(*arguments, "--config", files / "controller.yaml").out


def test_what_if_shows_flows_only_where_they_differ_with_the_placement(run: Run, files: Path) -> None:
    (files / "fields.json").write_bytes(msgspec.json.encode(model()))
    done = run("what-if", "--model", files / "fields.json", "-p", "online", "--scale-rate", "flights=2")
    assert "inter_node_tps" in done.out
    assert "flow_" not in done.out


# --- partial ----------------------------------------------------------------------------------------------------------


def test_diff_takes_a_partial_plan_and_names_what_it_leaves_out(run: Run, partial: Path) -> None:
    done = run("plan", "diff", "--model", partial / "m.json", partial / "plan.json")
    assert done.code == 0, done.err
    words = " ".join(done.out.split())
    assert "left out: wordcount-1: cpu" in words
    assert "of 8 executors move" in words
    as_json = run("plan", "diff", "--model", partial / "m.json", partial / "plan.json", "-f", "json")
    assert {m["topology"] for m in as_json.json()["moves"]} <= {"audit-1", "flights-1"}
    assert "left out: wordcount-1" in as_json.err


def test_diff_of_two_plans_that_leave_out_different_topologies(run: Run, partial: Path) -> None:
    """From a plan with flights alone to one with audit too: its executors come from nowhere."""
    (partial / "less.json").write_bytes(
        msgspec.json.encode(
            msgspec.structs.replace(plan(SPREAD), left_out={"audit-1": "not wanted", "wordcount-1": "not wanted"})
        )
    )
    files = (partial / "less.json", partial / "plan.json")
    found = run("plan", "diff", "--model", partial / "m.json", *files, "-f", "json").json()
    assert {m["topology"] for m in found["moves"] if m["before"] is None} == {"audit-1"}
    assert found["before"] == {}
    text = run("plan", "diff", "--model", partial / "m.json", *files).out
    assert "less.json: left out: audit-1: not wanted" in text


def test_explain_takes_a_partial_plan_and_names_what_it_leaves_out(run: Run, partial: Path) -> None:
    arguments = ("plan", "explain", "--model", partial / "m.json", "--plan", partial / "plan.json")
    text = run(*arguments).out
    assert "left out: wordcount-1: cpu" in text
    assert {e["topology"] for e in run(*arguments, "-f", "json").json()} == {"audit-1", "flights-1"}
    gone = run(*arguments, "wordcount")
    assert gone.code == 2
    assert "no topology 'wordcount'" in gone.err


def test_compare_of_what_fits(run: Run, partial: Path) -> None:
    arguments = ("plan", "compare", "--model", partial / "m.json", "-p", "online", "--budget", "5")
    assert run(*arguments, "-f", "json").json()["rows"][-1]["state"] == "infeasible"
    row = run(*arguments, "--partial", "-f", "json").json()["rows"][-1]
    assert (row["state"], row["gap"]) == ("planned", None)
    assert "left out: wordcount-1" in row["text"]


def test_an_executor_that_no_one_left_out_is_still_missed(run: Run, partial: Path) -> None:
    (partial / "short.json").write_bytes(msgspec.json.encode(plan(SPREAD)))
    done = run("plan", "diff", "--model", partial / "m.json", partial / "short.json")
    assert done.code == 2
    assert "8 of 12 executors of the model are not in the plan" in done.err
