"""The page of headlines: what is compared with what, and what counts as reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.command import machine
from benchmarks.headlines import fewest, figures, other_pages, page
from benchmarks.headlines.__main__ import completed, restore
from benchmarks.headlines.connections import summary

FEWEST = "fewest nodes that hold a given rate"


def one(who: str, mean: float, most: float) -> dict[str, Any]:
    """What was measured under a placement."""
    rate = {"mean_ms": mean, "p99_ms": 2 * mean, "inter_node_share": 0.5, "failed": 0, "throughput_tps": 100.0}
    rate |= {"cpu_per_node_percent": {"n1": 30.0, "n2": 50.0}}
    full = {"throughput_tps": most, "failed": 0, "cpu_per_node_percent": {"n1": 60.0, "n2": 90.0}}
    return {"who": who, "at_rate": rate, "saturated": full, "load_average": 1.0}


def found(*passes: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """A run of passes of the chain."""
    names = dict.fromkeys(m["who"] for one_pass in passes for m in one_pass)
    parameters = {
        **{"nodes": 4, "cores": 0.4, "mbit": 50.0, "rate_tps": 100.0, "max_spout_pending": 50, "sleep_ms": 1},
        "chain": {"stages": 5, "replication": 2, "payload_bytes": 500, "selectivity": 1.0, "keys": 1000},
    }
    case = {
        "parameters": parameters,
        "placements": {n: {"why": "", "metrics": {"max_load_ratio": 0.9}} for n in names},
    }
    machine = {"cores": 2, "cpu": "a processor", "python": "3.11"}
    measured = [{"case": "chain", "phase_s": 15.0, "measured": list(one_pass), "complete": True} for one_pass in passes]
    return {"machine": machine, "connections": None, "cases": {"chain": case}, "passes": measured}


ABBA = (
    (one("default", 100.0, 100.0), one("online", 70.0, 120.0), one("best", 60.0, 150.0)),
    (one("best", 90.0, 100.0), one("online", 90.0, 120.0), one("default", 100.0, 100.0)),
)


def line(lines: list[list[str]], what: str) -> list[str]:
    (chosen,) = [row for row in lines if what in row[0]]
    return chosen


def test_a_plan_that_is_storms_own_placement_is_not_compared_with_it() -> None:
    run = found(*ABBA)
    run["cases"]["chain"]["placements"]["best"]["metrics"]["moved_executors"] = 0.0
    assert not [row for row in page.headlines(run) if "`best` to default" in row[0]]
    assert "leaves everything where Storm's default placed it" in " ".join(page.sections(run)).replace("\n", " ")


def test_change_is_that_of_each_pass() -> None:
    changes = figures.pairs(found(*ABBA), "chain", "online", "default", figures.latency)
    assert changes == pytest.approx([-0.3, -0.1])


def test_pass_that_was_cut_short_is_left_out_of_a_change() -> None:
    assert len(figures.pairs(found(ABBA[0], ABBA[1][:2]), "chain", "online", "default", figures.latency)) == 1


def test_claim_that_was_missed_is_said_to_be_missed() -> None:
    lines = page.headlines(found((one("default", 100.0, 100.0), one("online", 85.0, 100.0))))
    assert line(lines, "`online` to default")[1:] == ["-15%", page.ONLINE_CLAIM, "**no**"]


def test_claim_that_was_reached_is_said_to_be_reached_with_its_spread() -> None:
    lines = page.headlines(found(*ABBA))
    assert line(lines, "`online` to default")[1] == "-20% (-30% to -10%)"
    assert line(lines, "`online` to default")[3] == "yes"
    assert line(lines, "most tuples/s, `best` to default")[1] == "+25% (+0% to +50%)"


def test_placement_that_could_not_be_made_stays_in_the_table_with_its_reason() -> None:
    run = found(*ABBA)
    run["cases"]["chain"]["placements"]["ras"] = {"why": "not enough CPU", "metrics": None}
    assert any("RAS" in row[1] and row[-1] == "not enough CPU" for row in page.rows(run))


def test_page_says_how_often_each_placement_was_measured() -> None:
    text = " ".join("\n".join(page.sections(found(ABBA[0], ABBA[1][:2]))).split())
    assert "measured 1 to 2 times" in text


def test_page_says_where_the_rate_was_not_carried() -> None:
    run = found(*ABBA)
    run["passes"][1]["measured"][1]["at_rate"]["throughput_tps"] = 80.0
    text = " ".join("\n".join(page.sections(run)).split())
    assert "did not carry its 100 tuples/s in each window under `online` 80 (the least" in text
    assert text.count("did not carry") == 1


def test_page_says_why_a_figure_of_ours_was_missed() -> None:
    even = (one("default", 100.0, 100.0), one("online", 70.0, 120.0), one("best", 77.0, 150.0))
    text = " ".join("\n".join(page.sections(found(even))).split())
    assert "`best` is not below `online` on the reference chain: between nodes it leaves 50%" in text
    assert "when full (CPU of 60% to 90%)" in text
    assert "is not below" not in "\n".join(page.sections(found(ABBA[0])))


def test_page_says_what_online_had_to_gain_where_it_misses_its_claim() -> None:
    missed = found((one("default", 100.0, 100.0), one("online", 99.0, 120.0)))
    text = " ".join("\n".join(page.sections(missed)).split())
    assert "`online` is not 20% below default on the reference chain: between nodes it leaves 50%, default 50%;" in text
    assert "under default the p99 is 2.0 times the mean" in text
    reached = found((one("default", 100.0, 100.0), one("online", 75.0, 120.0)))
    assert "`online` is not" not in "\n".join(page.sections(reached))


def test_page_says_how_little_is_between_the_latency_objective_and_best() -> None:
    run = found((one("default", 100.0, 100.0), one("best", 70.0, 150.0), one("best latency", 77.0, 165.0)))
    assert line(page.headlines(run), "mean latency, `best latency` to `best`")[1:4] == [
        "+10%",
        "ours: below `best`",
        "**no**",
    ]
    assert line(page.headlines(run), "most tuples/s, `best latency` to `best`")[1:4] == [
        "+10%",
        "ours: no fewer",
        "yes",
    ]
    text = " ".join("\n".join(page.sections(run)).split())
    assert (
        "`best latency` is not below `best` on the reference chain: 50% against 50% between nodes; the busiest" in text
    )
    assert "used to 50% against 50%, 1.25 against 1.25 times the mean one; the passes do not overlap (77.0 to" in text
    assert "The most is 165 against 150 tuples/s." in text


def test_page_says_where_storms_own_placement_is_faster() -> None:
    slower = (one("default", 100.0, 100.0), one("online", 120.0, 120.0), one("best", 110.0, 150.0))
    text = " ".join("\n".join(page.sections(found(slower))).split())
    assert "`best` is not below default on the reference chain: 50% against 50% between nodes; the busiest" in text
    assert "A controller would leave it as it is: 0% less traffic between nodes is below the 10%" in text
    assert "not below default" not in "\n".join(page.sections(found(ABBA[0])))


def test_published_page_has_its_json_beside_it(tmp_path: Path) -> None:
    page.publish(found(*ABBA), tmp_path)
    assert json.loads((tmp_path / "headlines.json").read_text())["passes"][0]["complete"]
    assert "[headlines.json](headlines.json)" in (tmp_path / "headlines.md").read_text()


def test_run_goes_on_from_what_was_published_of_a_machine_like_this_one(tmp_path: Path) -> None:
    published, here, other = tmp_path / "headlines.json", tmp_path / "here", tmp_path / "other"
    run = found(*ABBA) | {"machine": machine()}
    for number, one_pass in enumerate(run["passes"], 1):
        one_pass["pass"] = number
    published.write_text(json.dumps(run))
    here.mkdir()
    (here / "chain-2.json").write_text("{}")
    nodes = {"cpu": machine()["cpu"], "trials": []}
    published.write_text(json.dumps(run | {"fewest": nodes}))
    restore(published, here)
    assert json.loads((here / "chain-1.json").read_text()) == run["passes"][0]
    assert (here / "chain-2.json").read_text() == "{}"
    assert json.loads((here / fewest.FILE).read_text()) == nodes
    anew = tmp_path / "anew"
    anew.mkdir()
    (anew / "chain-plans.json").write_text("{}")
    restore(published, anew)
    assert not (anew / "chain-1.json").exists(), "a pass of other plans"
    published.write_text(json.dumps(run | {"machine": {"cpu": "another"}, "fewest": {"cpu": "another", "trials": []}}))
    other.mkdir()
    restore(published, other)
    assert not list(other.iterdir())


def test_part_of_another_machine_stays_and_says_so(tmp_path: Path) -> None:
    """A topology that was published, and not measured here, is kept under the processor it was measured on."""
    published = tmp_path / "headlines.json"
    was = found(*ABBA) | {"machine": {"cores": 2, "cpu": "another"}, "fewest": None}
    published.write_text(json.dumps(was))
    new = found(*ABBA) | {"fewest": None}
    flights = {**new["cases"]["chain"], "parameters": {**new["cases"]["chain"]["parameters"], "cpu": "mine"}}
    new["cases"] = {"flights": flights}
    new["passes"] = [{**p, "case": "flights"} for p in new["passes"]]
    both = completed(new, published)
    assert list(both["cases"]) == ["chain", "flights"]
    assert [p["case"] for p in both["passes"]] == ["chain"] * len(ABBA) + ["flights"] * len(ABBA)
    assert "(another; these on mine: `flights`)" in page.sections(both)[1]
    assert completed(found(*ABBA) | {"fewest": None}, published)["machine"]["cpu"] == "a processor"
    assert completed(new, tmp_path / "none.json") == new


def test_headlines_of_other_pages_are_read_from_their_json(tmp_path: Path) -> None:
    assert other_pages.lines(tmp_path) == []
    assert len(other_pages.missing(tmp_path)) == len(other_pages.MISSING)
    pairs = [
        {"dag": "d", "rateTps": 50.0, "allocation": "lsa", "mapping": "rsm", "slots": 10},
        {"dag": "d", "rateTps": 50.0, "allocation": "mba", "mapping": "sam", "slots": 8},
    ]
    pair = {"dag": "d", "allocation": "mba", "mapping": "sam"}
    even = {**pair, "shuffle": "even", "sizedForTps": 10.0, "actualTps": 9.0}
    local = {**even, "shuffle": "local", "actualTps": 2.0}
    (tmp_path / "sizes.json").write_text(json.dumps({"rows": {"published": pairs}, "cluster": [even, local]}))
    (tmp_path / "accuracy.json").write_text(json.dumps({"summary": {"after_node_median": 0.04, "after_node_p95": 0.2}}))
    saved, sustained, accuracy = other_pages.lines(tmp_path)
    assert saved[1:4] == ["-20% (-20% to -20%)", "33% to 50% fewer slots [S17]", "**no** (1 of 1 below)"]
    assert sustained[1] == "MBA+SAM 90%"
    assert (sustained[3], accuracy[3]) == ("**no**", "yes")
    rows = [
        {"variant": v, "targets": "java", "moves": 2, "period_s": 60.0, "seconds_down_by": {"40": down}}
        for v, down in (("assignment", 20), ("rolling", 1))
    ]
    (tmp_path / "moves.json").write_text(json.dumps({"rows": rows}))
    assert other_pages.lines(tmp_path)[-1][1:4] == ["-95%, 1 s in 2 moves", "-87% [N24]", "yes"]
    assert other_pages.missing(tmp_path) == []
    steps = [
        {"step": 0, "inter_node_share": 0.5, "throughput_tps": 100.0, "mean_ms": 20.0},
        {"step": 9, "inter_node_share": 0.01, "throughput_tps": 110.0, "mean_ms": 10.0},
    ]
    by_form = {"communication": {"form": "communication", "rows": steps}}
    (tmp_path / "moves.json").write_text(json.dumps({"rows": [], "otd": by_form}))
    assert [line[1:4] for line in other_pages.lines(tmp_path)[-3:]] == [
        ["50.0% at first, 1.0% after 9 steps", "50% to < 6% within 61 steps [N24]", "yes"],
        ["+10%", "+19% [N24]", "**no**"],
        ["-50%", "-14% [N24]", "yes"],
    ]


def test_page_lists_what_is_not_measured() -> None:
    text = "\n".join(page.sections(found(*ABBA) | {"missing": ["a claim"]}))
    assert "- a claim." in text
    asked = {"rate_tps": 100.0, "nodes": 4, "sleep_ms": 1, "cpu": "a processor"}
    for run in (None, {**asked, "trials": []}):
        assert FEWEST in "\n".join(page.sections(found(*ABBA) | {"fewest": run}))
    held = {"repetition": 1, "nodes": 2, "holds": True, "why": "", "windows": [], "load_average": 1.0}
    whole = {**asked, "trials": [{"who": who, **held} for who in fewest.CONTENDERS]}
    assert FEWEST not in "\n".join(page.sections(found(*ABBA) | {"fewest": whole}))
    words = " ".join(text.split())
    assert (
        "- latency and the most tuples/s of reference chain, other settings, reference chain, unlike nodes, `w" in words
    )


def test_network_metric_is_compared_on_what_was_placed() -> None:
    values = {"optimum": {"a": 0.2, "b": 0.4, "c": 0.4}, "storm even": {"a": 0.4, "b": 0.4}}
    rows = {r["who"]: r for r in summary({"values": values})}
    assert rows["storm even"]["placed"] == 2
    assert rows["storm even"]["optimal_share"] == 0.5
    assert rows["storm even"]["above_optimum"] == pytest.approx(0.8 / 0.6 - 1)


def test_planning_anew_is_compared_within_each_turn() -> None:
    def windows(ms: float) -> list[dict[str, Any]]:
        window = {"throughput_tps": 3000.0, "mean_ms": ms, "p99_ms": 2 * ms, "inter_node_share": 0.5}
        window |= {"steps": {"a>b": 0.1 * ms, "b>c": 1 - 0.1 * ms}, "modelled_ms": 2 * ms}
        return [window | {"cpu_per_node_percent": {"n1": 50.0 - ms, "n2": 50.0 + ms}}] * 2

    def turn(online: float) -> dict[str, Any]:
        ms = {"default": 10.0, "offline": 9.0, "online of the turn before": 10.0, "best of the turn before": 8.0}
        ms |= {"online": online, "best": 8.0, "best latency": 6.0}
        return {
            "heavy": "first",
            "load_average": 1.0,
            "measured": {
                who: windows(m) for who, m in {**ms, "online": online, "best": 8.0, "best latency": 6.0}.items()
            },
        }

    asked = {"rate_tps": 2000.0, "turn_s": 360, "heavier": 3, "windows": 2, "cpu": "another"}
    run = asked | {"turns": [turn(9.0), turn(7.0), turn(8.0)]}
    told = page.summary(found(*ABBA) | {"changing": run})
    assert line(told, "`online` for the traffic of now to that for")[1:4] == [
        "-20% (-30% to -10%)",
        "ours: lower",
        "yes",
    ]
    assert line(told, "`best` for the traffic of now to that for")[1:4] == ["+0% (+0% to +0%)", "ours: lower", "**no**"]
    assert line(told, "`best` for the traffic of now to default")[1] == "-20% (-20% to -20%)"
    assert line(told, "`best latency` for the traffic of now to `best` for it")[1:4:2] == ["-25% (-25% to -25%)", "yes"]
    text = "\n".join(page.sections(found(*ABBA) | {"changing": run}))
    assert "| `online` of the turn before | 3 | 10.0 (10.0 to 10.0) | 20 (20 to 20) | 50% (50% to 50%) | 1.20" in text
    assert "| Storm default | 3 | 10.0 (10.0 to 10.0) |" in text
    assert "| `best latency` | 3 | 6.0" in text
    text = " ".join(text.split())
    assert "`best` for the traffic of now is not below `best` for the traffic before." in text
    assert "tells 100% of the scatter of the mean latency (r²), the share between nodes 0%, the same share" in text
    assert "every step weighing alike whatever it carries, 0%, and the latency that the model says" in text
    assert "(`objective: latency`) 100%." in text
    assert "50% against 50% of the tuples between nodes, 50% against 50% of the steps of a tuple's way, 1.16" in text
    assert "steps of a tuple's way, 1.16 against 1.16 times the CPU of the mean node on the busiest one" in text
    assert "`online` for the traffic of now is not below" not in text
