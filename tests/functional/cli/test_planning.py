"""The commands around a model file as a user types them: generate, validate, show, compare, explain, diff."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles.commands import Run
from doubles.models import HALF, PAIRED, SPREAD, model, plan, topology
from stormpilot.model.values import Edge, Plan
from stormpilot.planner import PLANNERS, Planner

QUICK = ("--planner", "default", "--planner", "online", "--budget", "5")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the four executors of `doubles.models`, spread, and two plans of them."""
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(topology(SPREAD))))
    (tmp_path / "half.json").write_bytes(msgspec.json.encode(plan(HALF)))
    (tmp_path / "paired.json").write_bytes(msgspec.json.encode(plan(PAIRED)))
    return tmp_path


# --- generate, show ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["small", "loaded", "planted"])
def test_every_kind_is_generated_valid_and_the_same_for_the_same_seed(run: Run, kind: str, tmp_path: Path) -> None:
    a, b, c = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    for file, seed in ((a, 7), (b, 7), (c, 8)):
        assert run("model", "generate", kind, "--seed", str(seed), "-o", file).code == 0
    assert a.read_bytes() == b.read_bytes() != c.read_bytes()
    assert run("model", "validate", a, "-f", "json").json()["errors"] == 0
    shown = run("model", "show", a, "-f", "json").json()
    assert shown["executors"] > 5
    assert shown["totalTps"] > 0


def test_sizes_are_those_asked_for(run: Run) -> None:
    sizes = ("--executors", "48", "--nodes", "6", "--racks", "3", "--topologies", "2", "--load", "0.6")
    made = run("model", "generate", "loaded", *sizes, "--shape", "linear").json()
    assert len(made["supervisors"]) == 6
    assert [s["rack"] for s in made["supervisors"]] == ["/r0", "/r0", "/r1", "/r1", "/r2", "/r2"]
    assert sum(len(t["executors"]) for t in made["topologies"]) == 48
    assert [t["id"] for t in made["topologies"]] == ["linear-0", "linear-1"]
    demand = sum(e["cpu_mhz"] for t in made["topologies"] for e in t["executors"])
    assert demand / sum(s["cores"] * s["mhz"] for s in made["supervisors"]) == pytest.approx(0.6, rel=0.05)


def test_a_placed_model_is_shown_with_what_it_costs(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    assert run("model", "generate", "loaded", "--executors", "40", "--place", "default", "-o", out).code == 0
    shown = run("model", "show", out, "-f", "json").json()
    assert shown["unplacedExecutors"] == 0
    assert shown["present"]["inter_node_tps"] > 0
    text = run("model", "show", out).out
    assert "CPU: executors need" in text
    assert "inter_node_tps" in text


def test_the_hidden_plan_of_a_planted_model_is_a_plan_of_it(run: Run, tmp_path: Path) -> None:
    out, hidden = tmp_path / "m.json", tmp_path / "hidden.json"
    sizes = ("--executors", "80", "--nodes", "4")
    assert run("model", "generate", "planted", *sizes, "-o", out, "--hidden", hidden).code == 0
    moves = run("plan", "diff", "--model", out, hidden, "-f", "json").json()
    assert len(moves["moves"]) == 80
    assert moves["after"] == json.loads(hidden.read_text())["metrics"]


def test_traffic_is_made_up_for_a_structure_of_yours(run: Run, files: Path) -> None:
    made = run("model", "generate", "production", "--from", files / "m.json").json()
    assert [t["id"] for t in made["topologies"]] == ["flights-1"]
    assert {(e["from"], e["to"]) for e in made["traffic"]} == {(a, b) for a in (1, 2) for b in (3, 4)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected a kind"),
        (("tiny",), "there is no kind 'tiny'; there are: small, loaded, unlike, planted, production"),
        (("small", "--topologies", "3"), "--topologies is not for small"),
        (("loaded", "--shape", "ring"), ": --shape ring: there is no such shape; there are: "),
        (("loaded", "--load", "1.5"), ": --load is 1.5, expected"),
        (("loaded", "--executors", "3"), ": --executors is 3, expected"),
        (("loaded", "--executors", "12", "--topologies", "2", "--shape", "etl"), "too few for etl"),
        (("unlike", "--spread", "0.5"), ": --spread is 0.5, expected"),
        (("small", "--executors", "3"), ": --executors is 3 and --nodes 4, expected at least 6 and 2"),
        (("planted", "--executors", "10"), ": --executors is 10, expected at least 8 for each of 2 nodes"),
        (("loaded", "--memory-load", "0"), ": --memory-load is not for loaded, which takes --executors"),
        (("small", "--racks", "99"), "--racks is 99"),
        (("small", "--hidden", "x.json"), "only planted has a hidden plan"),
        (("loaded", "--hidden", "x.json", "--executors", "3"), "only planted has a hidden plan"),
        (("production",), "--from"),
        (
            ("planted", "--nodes", "13", "--topologies", "7"),
            ": --nodes is 13, expected at least 2 for each of 7 topologies",
        ),
        (("planted", "--load", "2"), ": --load is 2.0, expected a part of the CPU above 0, at most 1"),
        (("unlike", "--memory-load", "1.2"), ": --memory-load is 1.2, expected a part of the memory above 0"),
        (("unlike", "--nodes", "10", "--sites", "3"), ": --nodes is 10, expected at least 2, and 5 for each site"),
    ],
)
def test_what_cannot_be_generated_is_said(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("model", "generate", *arguments)
    assert done.code == 2
    assert said in done.err


def test_kinds_and_shapes_are_listed(run: Run) -> None:
    text = run("model", "generate", "--list").out
    for name in ("small", "loaded", "planted", "production", "flights", "wordcount", "etl"):
        assert name in text
    assert "--slots, --memory-load, --sites" in text


# --- validate ---------------------------------------------------------------------------------------------------------


def test_all_problems_are_listed_and_end_with_2(run: Run, files: Path) -> None:
    document = json.loads((files / "m.json").read_text())
    document["topologies"][0]["workers"] = 0
    document["traffic"][0]["to"] = 99
    document["topologies"][0]["executors"][0]["measured"] = False
    (files / "bad.json").write_text(json.dumps(document))
    done = run("model", "validate", files / "bad.json")
    assert done.code == 2
    assert "topologies[0].workers: flights-1: is 0, expected at least 1" in done.out
    assert "traffic[0].to: flights-1 has no executor that starts at task 99" in done.out
    assert "warning: " in done.out
    assert "2 errors, 2 warnings" in done.err
    as_json = run("model", "validate", files / "bad.json", "-f", "json")
    assert as_json.code == 2
    assert json.loads(as_json.out)["errors"] == 2


def test_one_warning_is_one(run: Run, files: Path) -> None:
    document = json.loads((files / "m.json").read_text())
    document["topologies"][0]["workers"] = 0
    document["topologies"][0]["executors"][0]["measured"] = False
    (files / "bad.json").write_text(json.dumps(document))
    assert run("model", "validate", files / "bad.json").err.strip().endswith("bad.json: 1 error, 1 warning")


def test_a_sound_model_is_called_valid(run: Run, files: Path) -> None:
    done = run("model", "validate", files / "m.json")
    assert done.code == 0
    assert "valid: 1 topology, 4 executors" in done.out


def test_what_is_no_json_is_named_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{\n"supervisors": [\n}')
    done = run("model", "validate", tmp_path / "m.json")
    assert done.code == 2
    assert "m.json:3: JSON is malformed" in done.err


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_has_the_present_placement_and_a_row_for_each_planner(run: Run, files: Path) -> None:
    done = run("plan", "compare", "--model", files / "m.json", *QUICK, "--seeds", "2", "-f", "json").json()
    rows = {r["planner"]: r for r in done["rows"]}
    assert set(rows) == {"present", "default", "online"}
    assert rows["present"]["metrics"]["inter_node_tps"] == 1000.0
    assert rows["online"]["metrics"]["inter_node_tps"] == 0.0
    assert rows["online"]["gap"] == 0.0
    assert rows["online"]["planned"] == rows["online"]["seeds"] == 2
    assert done["bound"] == {
        "kind": "least found",
        "interNodeTps": 0.0,
        "by": "default",  # both, this one first
        "metric": "inter_node_tps",
    }
    assert len(done["runs"]) == 4


def test_the_bound_is_what_exact_proves(run: Run, tmp_path: Path) -> None:
    """Executors of 400 MHz on nodes of 1000: two each, so one of the two pairs can be kept and both are."""
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(topology(SPREAD, cpu_mhz=400.0))))
    planners = ("--planner", "exact", "--planner", "default")
    done = run("plan", "compare", "--model", tmp_path / "m.json", *planners, "-f", "json").json()
    assert (done["bound"]["kind"], done["bound"]["by"]) == ("proved optimum", "exact")
    assert done["bound"]["interNodeTps"] == 0.0
    assert {r["planner"]: r["gap"] for r in done["rows"]}["exact"] == 0.0


def test_without_exact_the_bound_is_what_semidefinite_programming_proves(run: Run, tmp_path: Path) -> None:
    """All four executors exchange 10 tuples/s, and a node holds two: four of the six pairs are apart in every plan."""
    pairs = itertools.combinations(range(1, 5), 2)
    rates = [Edge(topology="flights-1", from_=a, to=b, rate=10.0) for a, b in pairs]
    whole = msgspec.structs.replace(model(topology(SPREAD, cpu_mhz=500.0)), traffic=rates)
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(whole))
    done = run("plan", "compare", "--model", tmp_path / "m.json", *QUICK, "-f", "json").json()
    assert (done["bound"]["kind"], done["bound"]["by"]) == ("proved bound", "semidefinite programming")
    assert done["bound"]["interNodeTps"] == pytest.approx(40.0, rel=1e-3)
    assert done["rows"][0]["gap"] == pytest.approx(0.0, abs=1e-3)


def test_a_planner_that_fails_or_finds_nothing_is_a_row(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object) -> Any:
        raise ZeroDivisionError("of course")

    broken = Planner("broken", "fails", "here", PLANNERS["default"].params, raising)
    monkeypatch.setitem(PLANNERS, "broken", broken)
    (files / "full.json").write_bytes(msgspec.json.encode(model(topology(cpu_mhz=1500.0))))
    both = ("--planner", "broken", "--planner", "online")
    failed = run("plan", "compare", "--model", files / "m.json", *both)
    assert failed.code == 0
    assert "broken: it raised ZeroDivisionError: of course" in failed.out
    assert "online" in failed.out
    full = run("plan", "compare", "--model", files / "full.json", *both, "-f", "json").json()
    rows = {r["planner"]: r for r in full["rows"]}
    assert rows["online"]["state"] == "infeasible"
    assert "no plan exists (cpu)" in rows["online"]["text"]
    assert rows["present"]["state"] == "infeasible"
    assert full["bound"] is None
    assert "online: no plan exists (cpu)" in run("plan", "compare", "--model", files / "full.json", *both).out


def test_no_row_of_the_comparison_is_wider_than_a_terminal(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    run("model", "generate", "planted", "--executors", "1000", "--place", "default", "-o", out)
    text = run("plan", "compare", "--model", out, *QUICK).out
    header = next(line for line in text.splitlines() if line.startswith("planner"))
    table = text.splitlines()[text.splitlines().index(header) :][:4]
    assert max(len(line) for line in table) <= 100


def test_compare_writes_everything(run: Run, files: Path) -> None:
    done = run("plan", "compare", "--model", files / "m.json", *QUICK, "-o", files / "all.json")
    assert done.code == 0
    assert len(json.loads((files / "all.json").read_text())["runs"]) == 2
    assert "least found" in done.out


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_says_what_another_supervisor_would_cost(run: Run, files: Path) -> None:
    found = run("plan", "explain", "--model", files / "m.json", "--plan", files / "paired.json", "-f", "json").json()
    assert [e["start"] for e in found] == [1, 3, 2, 4]  # by traffic: the pair of 800 tuples/s first
    first = found[0]
    assert (first["inWorkerTps"], first["leavingTps"], first["verdict"]) == (800.0, 0.0, "least")
    assert (first["second"]["supervisor"], first["second"]["interNodeDeltaTps"]) == ("b", 800.0)


def test_explain_names_no_wish_that_the_placement_gives_up(run: Run, tmp_path: Path) -> None:
    """No supervisor is of the site: planners use all, and `site forbids` was said of those."""
    t = topology(HALF)
    wishes = [msgspec.structs.replace(c, site="nowhere", site_required=False) for c in t.components]
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(model(msgspec.structs.replace(t, components=wishes))))
    found = run("plan", "explain", "--model", tmp_path / "m.json", "--executor", "2", "-f", "json").json()
    assert (found[0]["verdict"], found[0]["better"]["supervisor"]) == ("improvable", "b")


def test_explain_of_the_present_placement_and_of_one_executor(run: Run, files: Path) -> None:
    text = run("plan", "explain", "--model", files / "m.json", "--executor", "3").out
    assert "y [3,3] on b (host-b) port 1" in text
    assert "x [1,1]  over the network (a)" in text
    assert "better: a (host-a) in a worker that runs there: -800.0 tuples/s between nodes" in text
    table = run("plan", "explain", "--model", files / "m.json", "--component", "x", "--top", "1").out
    assert "1 of 2 executors" in table
    assert "b would be better (-800)" in table


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--component", "z"), "no component 'z'; there are: x, y"),
        (("z",), "no topology 'z'; there are: flights"),
        (("--executor", "9"), "no executor starts at task 9"),
        (("--plan", "nowhere.json"), "nowhere.json: cannot read the plan"),
    ],
)
def test_explain_says_what_is_not_there(run: Run, files: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("plan", "explain", "--model", files / "m.json", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_plan_of_another_model_is_refused(run: Run, files: Path) -> None:
    half = msgspec.json.decode((files / "half.json").read_bytes(), type=Plan)
    (worker, _) = half.topologies[0].workers
    short = msgspec.structs.replace(half, topologies=[msgspec.structs.replace(half.topologies[0], workers=[worker])])
    (files / "short.json").write_bytes(msgspec.json.encode(short))
    done = run("plan", "explain", "--model", files / "m.json", "--plan", files / "short.json")
    assert done.code == 2
    assert "1 of 4 executors of the model are not in the plan: flights: y [4,4]" in done.err
    (files / "else.json").write_bytes(msgspec.json.encode(plan({("zz", 1): (1, 2, 3, 4)})))
    done = run("plan", "diff", "--model", files / "m.json", files / "else.json")
    assert done.code == 2
    assert "the model has no slot zz:1" in done.err


# --- diff -------------------------------------------------------------------------------------------------------------


def test_diff_of_two_plans(run: Run, files: Path) -> None:
    done = run("plan", "diff", "--model", files / "m.json", files / "half.json", files / "paired.json")
    assert done.code == 0
    words = " ".join(done.out.split())
    assert "1 of 4 executors moves; 2 workers start or restart (4 executors in them), 0 stop" in words
    assert "inter_node_tps 200 0 -100.0%" in words
    assert "x [2,2] a:1 b:1" in words


def test_diff_from_the_present_assignment(run: Run, files: Path) -> None:
    found = run("plan", "diff", "--model", files / "m.json", files / "paired.json", "-f", "json").json()
    assert [(m["start"], m["before"], m["after"]) for m in found["moves"]] == [(2, "a:1", "b:1"), (3, "b:1", "a:1")]
    (files / "spread.json").write_bytes(msgspec.json.encode(plan(SPREAD)))
    same = run("plan", "diff", "--model", files / "m.json", files / "spread.json")
    assert "every executor stays where it is" in same.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.json", "b.json"), "expected one running topology, or --model model.json [A.json] B.json (files)"),
        (("a.json",), "expected one running topology, or --model"),
        (("flights", "a.json"), "expected one running topology, or --model"),
        ((), "Missing argument"),
        (("--model", "m.json", "a", "b", "c"), "expected one or two plans, not 3"),
    ],
)
def test_diff_says_which_uses_there_are(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("plan", "diff", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_model_that_does_not_compile_sends_to_validate(run: Run, files: Path) -> None:
    document = json.loads((files / "m.json").read_text())
    document["traffic"][0]["to"] = 99
    (files / "bad.json").write_text(json.dumps(document))
    done = run("model", "show", files / "bad.json")
    assert done.code == 2
    assert "bad.json: traffic[0]" in done.err
    assert "model validate" in done.err
