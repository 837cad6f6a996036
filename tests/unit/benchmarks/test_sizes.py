"""Sizes by model: the dataflows have what the paper's text says, and the page tells what was reached and what not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import pytest

from benchmarks.sizes import day, outcome, page
from benchmarks.sizes.cases import NODES, cases, problem_of
from benchmarks.sizes.cluster import topology_of
from benchmarks.sizes.compare import Models, measured_models, published_models, row, rows, with_predictions
from benchmarks.sizes.dags import ALL, APPLICATIONS, MICRO, SOURCE, Dag, linear_of
from micro_tasks.parse_xml import IN_TURN
from stormpilot.decide.reasons import Reason
from stormpilot.sizing.advice import Advice
from stormpilot.sizing.performance import Performance, Point
from stormpilot.sizing.placement import Placed
from stormpilot.sizing.prediction import threads_of
from stormpilot.sizing.problem import Problem, Slot
from stormpilot.sizing.rates import input_gains

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sizing.example.yaml"


@pytest.fixture(scope="module")
def models() -> Models:
    """Those of the paper."""
    return published_models(EXAMPLE)


def problem(models: Models, name: str) -> Problem:
    """A dataflow, ready to be sized."""
    return next(d for d in ALL if d.name == name).problem(models.by_task, models.slot)


def test_micro_dataflows_have_the_five_tasks_once_and_the_paths_of_the_paper(models: Models) -> None:
    for dag, components in zip(MICRO, (7, 4, 5), strict=True):
        made = dag.problem(models.by_task, models.slot)
        assert {c.id for c in made.components} == {SOURCE, *models.by_task}
        assert nx.dag_longest_path_length(made.graph()) + 2 == components  # a sink, and edges to nodes


def test_the_hub_of_the_star_takes_in_twice_the_rate_and_all_else_takes_it_in_once(models: Models) -> None:
    assert {c: g for c, g in input_gains(problem(models, "star")).items() if g != 1.0} == {"xml": 2.0}
    assert set(input_gains(problem(models, "diamond")).values()) == {1.0}


def test_applications_have_the_tasks_and_rates_that_the_paper_tells(models: Models) -> None:
    table = {}
    for dag in APPLICATIONS:
        made = dag.problem(models.by_task, models.slot)
        gains = input_gains(made)
        assert 7 <= len(made.components) - 1 <= 15
        assert 2 <= sum(gains[c] for c, n in made.graph().out_degree() if n == 0) <= 4
        table[dag.name] = gains["table"]
    assert table == {"finance": 2.0, "traffic": 1.0, "grid": 3.0}


@pytest.mark.parametrize(("rate_tps", "lsa", "mba"), [(50.0, 7, 4), (100.0, 13, 7)])
def test_the_line_needs_the_slots_that_the_paper_prints(models: Models, rate_tps: float, lsa: int, mba: int) -> None:
    line = problem(models, "linear")
    assert row(line, rate_tps, "lsa", "rsm")["estimatedSlots"] == lsa
    assert row(line, rate_tps, "mba", "sam")["estimatedSlots"] == mba


def test_loads_of_slots_are_at_what_the_plan_supports_where_that_is_less_than_its_rate(models: Models) -> None:
    found = row(problem(models, "linear"), 50.0, "mba", "sam")
    assert found["loadsAtTps"] == found["supportedTps"] < 50.0
    assert len(found["slotLoads"]) == found["slots"]


def test_measured_models_have_the_memory_that_was_held_as_a_share_of_a_slot(tmp_path: Path) -> None:
    point = {"threads": 1, "rate_tps": 100.0, "cpu_share": 1.2, "memory_mb": 256.0}
    slot = {"cores": 0.5, "mhz": 2000.0, "memory_mb": 1024.0}
    (tmp_path / "profile.json").write_text(
        json.dumps({"profiles": {"pi": [{"points": [point], "slot": slot}], "xml": []}})
    )
    found = measured_models(tmp_path / "profile.json")
    assert found is not None
    assert (found.slot.cpu_mhz, found.cores, list(found.by_task)) == (1000.0, 0.5, ["pi"])
    (only,) = found.by_task["pi"].points
    assert (only.cpu_share, only.memory_share) == (1.0, 0.25)
    assert measured_models(tmp_path / "nothing.json") is None


def test_what_was_carried_out_is_predicted_by_where_its_tuples_go() -> None:
    """Three threads of pi beside the source sustain 30/s and get all; four elsewhere wait."""
    model = Performance(
        name="pi",
        points=[Point(threads=q, rate_tps=10.0 * q, cpu_share=0.1 * q, memory_share=0.1) for q in (1, 8)],
    )
    line = msgspec.structs.replace(
        linear_of(["pi"], [10.0]).problem({"pi": model}, Slot(cpu_mhz=1000.0, memory_mb=1000.0)), shuffle="local"
    )
    one = {
        "placement": {"a:1": {"source": 1, "pi": 3}, "b:1": {"pi": 4}},
        "actualTps": 20.0,
        "slotLoads": [{"slot": "b:1", "actual": [0.2, 0.1]}, {"slot": "a:1", "actual": None}],
    }
    found = with_predictions(line, one)
    assert (found["predictedTps"], found["evenTps"]) == pytest.approx((30.0, 70.0))
    assert [load["predicted"][0] for load in found["slotLoads"]] == pytest.approx([0.0, 0.2])


def carried_out(actual_tps: float = 38.0) -> dict[str, Any]:
    """A pair that ran on two slots."""
    return {
        **{
            "dag": "linear",
            "shuffle": "even",
            "allocation": "mba",
            "mapping": "sam",
            "threads": {"source": 1, "pi": 2},
            "slots": 2,
            "step": 0.05,
        },
        **{
            "sizedForTps": 40.0,
            "predictedTps": 50.0,
            "evenTps": 55.0,
            "actualTps": actual_tps,
            "loadAverage": 3.0,
        },
        "placement": {"n1:1": {"source": 1}, "n2:1": {"pi": 2}},
        "placedAsNow": True,
        "slotLoads": [
            {"slot": "n1:1", "predicted": [0.2, 0.1], "proportional": 0.2, "actual": [0.3, 0.2]},
            {"slot": "n2:1", "predicted": [0.9, 0.4], "proportional": 0.9, "actual": None},
        ],
    }


@pytest.fixture(scope="module")
def found(models: Models) -> dict[str, Any]:
    """A run: two dataflows at one rate, and a pair that was carried out."""
    dags = [Dag("linear", MICRO[0].streams, [50.0]), Dag("finance", APPLICATIONS[0].streams, [50.0])]
    return {
        "machine": {"cores": 2, "cpu": "a CPU"},
        "tasks": ["pi"],
        "slot": {"cpu_mhz": 1000.0, "memory_mb": 1024.0},
        "rows": {"published": rows(dags, models)},
        "cluster": [carried_out()],
        "left": 0,
        "day": {},
    }


def test_slots_that_are_saved_are_a_part_of_those_of_lsa_with_rsm(found: dict[str, Any]) -> None:
    (linear, _) = page.slots_needed(found["rows"]["published"])
    assert linear[:4] == ["linear", "50", "7", "7"]
    assert (linear[6], linear[-1]) == ("4", "43%")


def test_cpu_of_slots_of_many_components_is_told_apart() -> None:
    few, many = {"pi": 2, "xml": 1}, {f"xml_{i}": 1 for i in range(outcome.MANY_COMPONENTS)}
    loads = [
        {"slot": "a:1", "actual": [0.5, 0.1], "predicted": [0.4, 0.1], "proportional": 0.5},
        {"slot": "b:1", "actual": [0.9, 0.1], "predicted": [0.5, 0.1], "proportional": 0.9},
    ]
    one = {"placement": {"a:1": few, "b:1": many}, "slotLoads": loads}
    text = outcome.cpu_errors([one, one])
    assert "took +40 points of CPU" in text
    assert "others +10" in text
    assert "R² would be 1.00" in text
    assert outcome.cpu_errors([{**one, "slotLoads": loads[:1]}]) == ""


def test_page_says_what_slots_took_on_cores_of_other_mhz() -> None:
    one, other = carried_out() | {"coreMhz": 2600.0}, carried_out() | {"coreMhz": 2300.0}
    load = {"slot": "n1", "predicted": [0.5, 0.4], "proportional": 0.5}
    one["slotLoads"], other["slotLoads"] = [{**load, "actual": [0.5, 0.4]}], [{**load, "actual": [0.4, 0.4]}]
    said = outcome.by_cores([one, other])
    assert "slots took 0.80 on cores of 2,300 MHz and 1.00 on cores of 2,600 MHz of what was predicted" in said
    assert outcome.by_cores([one, one]) == ""
    alike = {**one, "coreMhz": one["coreMhz"] + 0.002}
    assert "on cores of 2,600 MHz and 1.00 on cores of 2,600 MHz of another machine" in outcome.by_cores([one, alike])


def test_page_names_the_dataflow_that_misses_the_claim(found: dict[str, Any]) -> None:
    text = " ".join("\n".join(page.sections(found)).split())
    assert "needs 14% to 43% fewer slots than LSA+RSM" in text
    assert "Missed by finance at 50/s." in text


def test_page_has_sustained_by_planned_and_by_predicted_rate(found: dict[str, Any]) -> None:
    assert outcome.cluster(found["cluster"]) == [
        ["linear", "even", "MBA+SAM", "2", "source 1, pi 2", "1", "40.0", "55.0", "50.0", "38.0", "95%", "76%", "3.0"],
    ]
    assert outcome.slots(found["cluster"])[1][2:] == ["pi 2", "1", "90%", "-", "40%", "-"]


def test_repetitions_of_a_case_stand_together_with_their_spread() -> None:
    again = [carried_out(38.0), carried_out(44.0), carried_out(39.0)]
    again[1]["slotLoads"][0] |= {"predicted": [0.24, 0.1], "actual": [0.36, 0.2]}
    (line,) = outcome.cluster(again)
    assert (line[5], line[9], line[10]) == ("3", "39.0 (38.0 to 44.0)", "98% (95% to 110%)")
    assert outcome.slots(again)[0][2:6] == ["source 1", "3", "20% (20% to 24%)", "30% (30% to 36%)"]
    assert outcome.planned_parts(again) == {"MBA+SAM": [39 / 40]}


def test_page_has_the_parts_of_the_plan_that_the_even_shuffle_held_and_what_is_left(found: dict[str, Any]) -> None:
    local = {**carried_out(20.0), "shuffle": "local"}
    other = {**carried_out(44.0), "dag": "star"}
    some = {**found, "left": 3, "cluster": [carried_out(38.0), other, local]}
    text = " ".join("\n".join(page.sections(some)).split())
    assert "MBA+SAM sustained 95% to 110% in 2 cases." in text
    assert "3 runs more are left." in text


def test_cases_are_those_that_fit_on_the_nodes_and_applications_where_all_tasks_are_known(models: Models) -> None:
    tasks = list(models.by_task)
    found = cases(models, tasks)
    assert {case.problem.name for case in found} == {"linear", "diamond", "star", "finance"}
    assert all(case.slots is not None and case.slots <= NODES for case in found)
    assert [case.problem.shuffle for case in found[-3:]] == ["even", "local", "local"]
    assert len({case.name for case in found}) == len(found)
    assert {case.problem.name for case in cases(models, tasks[:-1])} == {"linear"}


def test_page_says_what_was_placed_otherwise_on_the_cluster(models: Models, found: dict[str, Any]) -> None:
    case = next(c for c in cases(models, list(models.by_task)) if c.slots == 2)
    placed = case.placed()
    assert isinstance(placed, Placed)
    first, second = threads_of(case.problem, placed.model, placed.plan).values()
    assert case.places({"b": second, "a": first}), "slots are alike"
    assert not case.places({"a": {**first, **second}})
    said = " ".join("\n".join(page.sections(found | {"cluster": [carried_out() | {"placedAsNow": False}]})).split())
    assert "the mapping put other threads of 1 of MBA+SAM together than on the machines of the table" in said
    assert "the mapping put other threads" not in "\n".join(page.sections(found))


def test_rates_are_by_the_task_that_is_full_first(models: Models) -> None:
    """Parse XML as the hub of the star takes in twice the rate."""
    slow = {
        **models.by_task,
        "xml": Performance(name="xml", points=[Point(threads=1, rate_tps=20.0, cpu_share=0.5, memory_share=0.1)]),
    }
    star = problem_of(MICRO[2], Models(slow, models.slot), "even", 0.9)
    assert star.rate_tps == 9.0


def test_the_hub_sends_to_each_of_its_receivers_in_turn(models: Models) -> None:
    star = problem_of(MICRO[2], models, "even", 0.9)
    made = topology_of(star, dict.fromkeys((c.id for c in star.components), 2))
    streams = {b: [(i.componentId, i.streamId) for i in made.thrift_bolts[b].common.inputs] for b in ("blob", "table")}
    assert streams == {"blob": [("xml", IN_TURN[0])], "table": [("xml", IN_TURN[1])]}


def played(slots: float, through_ratio: float, changes: list[str]) -> dict[str, Any]:
    """A day, all hours alike."""
    hours = [{"tps": tps, "throughTps": through_ratio * tps, "slots": slots} for tps in day.HOURS_TPS]
    said = [{"hour": 8, "what": what} for what in changes]
    return {"hourS": 30.0, "hours": hours, "changes": said, "cpu": "a CPU", "loadAverage": [1.0, 2.0]}


def test_page_has_what_a_size_that_follows_the_day_needs_and_loses(found: dict[str, Any]) -> None:
    days = {"peak": played(3.0, 1.0, []), "followed": played(1.5, 0.9, ["SCALE_UP, for 240/s"])}
    text = "\n".join(page.sections({**found, "day": days}))
    assert "| peak | 72 | 100.0% | 0 | 0 | 0 |" in text
    assert "| followed | 36 | 90.0% | 24 | 1 | 0 |" in text
    assert "| 0 | 60 | 3 | 60 | 1.5 | 54 |" in text
    assert "on standby" not in text
    days |= {"standby": played(3.0, 1.0, ["SCALE_UP, for 240/s"] * 2)}
    text = " ".join("\n".join(page.sections({**found, "day": days})).split())
    assert "| standby | 72 | 100.0% | 0 | 1 | 0 |" in text
    assert "all but one of a component on standby at first" in text
    assert "`followed` takes 50% fewer slot hours" in text


def test_a_day_is_told_as_apply_size_was_when_it_was_played() -> None:
    days = {"peak": played(3.0, 1.0, []), "followed": played(1.5, 0.9, [])}
    assert "placement in force after the rebalance" in day.paragraphs(days, 2)[3].replace("\n", " ")
    days["followed"] |= {"restartsOnce": True}
    told = day.paragraphs(days, 2)[3].replace("\n", " ")
    assert "through is what is sent in 72 s, while workers restarted: 2.4 hours of this day, and 0.08% of" in told
    assert "after the rebalance" not in told


def test_tuples_are_counted_on_where_the_source_starts_again_within_an_hour() -> None:
    counting = day.Counting()
    for hour, trial, completed in ((0, 1, 5), (0, 1, 9), (0, 1, 2), (1, 2, 4)):
        counting.count(hour, trial, [{"task": 3, "completed": completed}])
    assert dict(counting.completed) == {0: 11, 1: 4}


def test_the_operator_understands_what_is_proposed() -> None:
    advice = Advice("up", 190.0, 180.0, 237.5, {"pi": (1, 2)}, (1, 3), held=False, more_tasks={})
    found = day.PROPOSED.search(f"{Reason.SCALE_UP}: {advice.text}")
    assert found is not None
    assert found.groups() == ("SCALE_UP", "237.5")


def test_correlation_needs_four_points() -> None:
    line = [(0.1, 0.2), (0.2, 0.4), (0.3, 0.6)]
    assert outcome.r_squared(line) is None
    assert outcome.r_squared([*line, (0.4, 0.8)]) == pytest.approx(1.0)
    assert outcome.r_squared([(0.1, 1.0), (0.2, 1.0), (0.3, 1.0), (0.4, 1.0)]) is None


def test_published_page_has_its_json_beside_it(found: dict[str, Any], tmp_path: Path) -> None:
    page.publish(found, tmp_path)
    assert json.loads((tmp_path / "sizes.json").read_text())["cluster"] == [carried_out()]
    assert "[sizes.json](sizes.json)" in (tmp_path / "sizes.md").read_text()


def test_a_line_has_its_tasks_in_order() -> None:
    assert linear_of(["xml", "pi"], [1.0]).streams == "source>xml xml>pi"
