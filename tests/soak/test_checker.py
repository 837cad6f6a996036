"""The checker of the soak finds what is wrong in a history, and nothing where all is well."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doubles.hostile import bombs
from soak import history
from soak.checker import RULES, check, figures, publish, summary
from soak.history import History, Record
from soak.watcher import as_json, read_logs

T = "words-1-1763690000"
MODE, PIN = "/stormpilot/v1/settings/mode/words", "/stormpilot/v1/settings/pin/words,count,"
ACT, ADVISE = {"mode": "act", "why": "number 1"}, {"mode": "advise", "why": "number 2"}
PINNED = {"kind": "pin", "topology": "words", "component": "count", "supervisor": "s2"}
HERE, THERE = "s1:6700", "s2:6700"
NOTHING: dict[str, Any] = {"slots": [], "topologies": [], "ends": [], "blocks": False}


def test_what_is_hostile_does_not_end_the_watcher() -> None:
    assert {as_json((data, None)) for name, data in bombs().items() if "gzip" in name} == {"unreadable"}


def record(t: float, kind: str, **fields: Any) -> Record:
    return {"t": t, "kind": kind, **fields}


def cluster(t: float) -> Record:
    parts = {s: {"host": f"host-{s}", "ports": [6700, 6701]} for s in ("s1", "s2")}
    return record(t, "cluster", supervisors=parts)


def placement(t: float, first: str | None, second: str | None, topology: str = T) -> Record:
    executors = [[1, 1, "sentences", first], [2, 3, "count", second]]
    return record(t, "placement", topology=topology, name="words", executors=executors)


def plan(t: float, plan_id: str, epoch: int, zxid: int, first: str = HERE, second: str = THERE) -> Record:
    workers = [
        {"supervisor": slot.split(":")[0], "port": int(slot.split(":")[1]), "executors": [tasks]}
        for slot, tasks in ((first, [1, 1]), (second, [2, 3]))
    ]
    return record(t, "plan", topology=T, plan_id=plan_id, epoch=epoch, zxid=zxid, reason="GAIN", workers=workers)


def status(t: float, plan_id: str | None, state: str = "applied") -> Record:
    return record(t, "status", topology=T, plan_id=plan_id, state=state, code="OK")


def write(t: float, op: int, phase: str, value: Any, path: str = MODE, rule: Any = None) -> Record:
    return record(t, "write", op=op, phase=phase, verb="mode", path=path, rule=rule, value=value)


def settings(t: float, values: dict[str, Any]) -> Record:
    return record(t, "settings", began=t - 0.1, values=values)


def fault(t: float, phase: str, name: str = "worker killed", **touched: Any) -> Record:
    return record(t, "fault", n=1, name=name, phase=phase, **{**NOTHING, **touched})


def good() -> list[Record]:
    """Two leaders, a setting written and replaced, a plan after which a worker moves, a worker killed and back."""
    return [
        record(0.0, "start", seed=1, minutes=1),
        cluster(0.1),
        record(0.2, "daemons", pids={"nimbus": 10, "zookeeper-1": 11}),
        record(0.3, "epoch", value=1, zxid=5),
        record(0.4, "claim", controller="h:1", epoch=1, source="state"),
        settings(0.5, {}),
        plan(1.0, "p-1", 1, 6),
        placement(2.0, HERE, THERE),
        record(2.1, "workers", slots={HERE: [20, T], THERE: [21, T]}),
        status(2.2, "p-1"),
        write(3.0, 1, "begin", ACT),
        settings(3.1, {MODE: ACT}),
        write(3.2, 1, "ok", ACT),
        write(4.0, 2, "begin", ADVISE),
        write(4.5, 2, "ok", ADVISE),
        settings(5.0, {MODE: ADVISE}),
        record(6.0, "epoch", value=2, zxid=20),
        record(6.1, "claim", controller="h:2", epoch=2, source="one.log"),
        plan(7.0, "p-2", 2, 21, second="s2:6701"),
        status(8.0, "p-2", "moving"),
        placement(8.5, HERE, "s2:6701"),
        record(9.0, "workers", slots={HERE: [20, T], "s2:6701": [22, T]}),
        status(9.5, "p-2"),
        fault(300.0, "begin", slots=[HERE]),
        record(301.0, "workers", slots={"s2:6701": [22, T]}),
        placement(302.0, None, "s2:6701"),
        placement(304.0, HERE, "s2:6701"),
        record(305.0, "workers", slots={HERE: [30, T], "s2:6701": [22, T]}),
        fault(305.5, "end", slots=[HERE]),
        record(310.0, "settled", when="in the end", problems=[]),
        settings(311.0, {MODE: ADVISE}),
    ]


def test_a_good_history_breaks_no_rule() -> None:
    assert check(good()) == []


def with_records(*more: Record) -> Callable[[list[Record]], list[Record]]:
    return lambda records: sorted([*records, *more], key=lambda r: r["t"])


def replaced(kind: str, number: int, **fields: Any) -> Callable[[list[Record]], list[Record]]:
    """The history with other fields in the n-th record of a kind."""

    def change(records: list[Record]) -> list[Record]:
        found = copy.deepcopy(records)
        [r for r in found if r["kind"] == kind][number].update(fields)
        return found

    return change


LOST_PIN = [
    write(100.0, 7, "begin", {"why": "number 7"}, PIN, PINNED),
    write(101.0, 7, "ok", {"why": "number 7"}, PIN, PINNED),
]
REFUSED = [write(5.5, 3, "begin", {"x": 1}), write(5.6, 3, "refused", {"x": 1})]
BROKEN: dict[str, tuple[str, Callable[[list[Record]], list[Record]]]] = {
    "two lead one epoch": ("one leader per epoch", with_records(record(6.2, "claim", controller="h:1", epoch=2))),
    "an epoch falls": ("epochs rise", with_records(record(9.9, "epoch", value=1, zxid=30))),
    "an epoch is raised twice by the same number": (
        "epochs rise",
        with_records(record(9.9, "epoch", value=2, zxid=30)),
    ),
    "a deposed leader publishes": ("no plan of a deposed leader", with_records(plan(7.5, "p-3", 1, 22))),
    "an older plan is applied again": ("no old plan applied", with_records(plan(1.5, "p-0", 1, 4), status(9.8, "p-0"))),
    "a plan that nobody published is applied": ("no old plan applied", with_records(status(9.8, "p-hand"))),
    "a plan of a hostile hand is applied": (
        "no old plan applied",
        with_records(plan(9.6, "p-9", 2, 40), record(9.7, "hostile", zxids={"/x": 40}), status(9.8, "p-9")),
    ),
    "an acknowledged setting is gone": ("no setting lost", replaced("settings", -1, values={})),
    "a replaced setting is back": ("no setting lost", replaced("settings", -1, values={MODE: ACT})),
    "a setting that nobody wrote": ("no setting lost", with_records(settings(6.0, {MODE: ADVISE, PIN: {"x": 1}}))),
    "a refused write is there": (
        "no setting lost",
        with_records(
            write(5.5, 3, "begin", {"x": 1}), write(5.6, 3, "refused", {"x": 1}), settings(6, {MODE: {"x": 1}})
        ),
    ),
    "Nimbus ended": ("Nimbus stays", with_records(record(50.0, "daemons", pids={"zookeeper-1": 11}))),
    "Nimbus restarted": ("Nimbus stays", with_records(record(50.0, "daemons", pids={"nimbus": 12}))),
    "a worker restarted": (
        "workers stay",
        with_records(record(250.0, "workers", slots={HERE: [29, T], "s2:6701": [22, T]})),
    ),
    "executors moved": (
        "placements stand",
        with_records(placement(250.0, "s2:6700", "s2:6701"), placement(251.0, HERE, "s2:6701")),
    ),
    "an executor in no slot of the cluster": ("placements stand", with_records(placement(8.6, "s9:6700", "s2:6701"))),
    "an executor twice": (
        "placements stand",
        replaced("placement", 0, executors=[[1, 1, "sentences", HERE], [1, 1, "sentences", THERE]]),
    ),
    "two topologies in one slot": (
        "placements stand",
        with_records(placement(320.0, HERE, "s1:6701", "other-2-1"), placement(330.0, HERE, "s1:6701", "other-2-1")),
    ),
    "executors without a slot": (
        "placed soon",
        with_records(placement(100.0, None, "s2:6701"), placement(200.0, HERE, "s2:6701")),
    ),
    "a plan breaks a pin": (
        "nothing outside its rules",
        with_records(*LOST_PIN, plan(200.0, "p-5", 2, 50, second="s1:6701")),
    ),
    "the system does not settle": ("settles", replaced("settled", 0, problems=["no controller leads"])),
    "an error is logged": ("no error logged", with_records(record(311.0, "log", source="one", line="ERROR cycle"))),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_history_breaks_its_rule(what: str) -> None:
    rule, broken = BROKEN[what]
    records = broken(good())
    assert rule in {v.rule for v in check(records)}, check(records)


def test_every_rule_is_broken_by_one_of_these_histories() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(RULES)


UNKNOWN = [write(20.0, 9, "begin", {"x": 9}), write(25.0, 9, "unknown", {"x": 9})]


@pytest.mark.parametrize("value", [ADVISE, {"x": 9}])
def test_a_write_whose_answer_was_lost_may_have_been_carried_out_or_not(value: Any) -> None:
    records = [r for r in with_records(*UNKNOWN)(good()) if r["t"] < 311]
    assert check([*records, settings(311.0, {MODE: value})]) == []


def test_a_read_that_began_before_a_write_was_acknowledged_may_show_what_was_before() -> None:
    assert check(with_records({**settings(4.6, {MODE: ACT}), "began": 4.4})(good())) == []


def test_a_plan_that_was_made_just_after_a_pin_may_not_know_of_it() -> None:
    assert check(with_records(*LOST_PIN, plan(110.0, "p-5", 2, 50, second="s1:6701"))(good()[:-1])) == []


def test_a_worker_may_start_on_a_fresh_port_of_the_node_that_the_plan_names_and_on_no_other_node() -> None:
    moved = placement(320.0, HERE, "s2:6700")
    history_with_a_plan = [plan(319.0, "p-6", 2, 60, second="s2:6701"), status(319.5, "p-6"), moved]
    assert check(with_records(*history_with_a_plan)(good())) == []
    elsewhere = [plan(319.0, "p-6", 2, 60, second="s2:6701"), placement(320.0, HERE, "s1:6701")]
    assert {v.rule for v in check(with_records(*elsewhere)(good()))} == {"placements stand"}


def test_a_nimbus_that_a_fault_kills_may_be_another_process_afterwards() -> None:
    told = [
        fault(50.0, "begin", "Nimbus killed", ends=["nimbus"], blocks=True),
        record(51.0, "daemons", pids={"zookeeper-1": 11}),
        fault(60.0, "end", "Nimbus killed", ends=["nimbus"], blocks=True),
        record(60.5, "daemons", pids={"nimbus": 99, "zookeeper-1": 11}),
    ]
    assert check(with_records(*told)(good())) == []


def test_histories_are_read_as_they_were_written_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    times = iter((0.0, 1.5, 2.5))
    with History(tmp_path / "h.jsonl", lambda: next(times)) as log:
        log.add("start", seed=1)
        log.add("claim", controller="h:1", epoch=1, source="state")
    with log.path.open("a") as file:
        file.write('{"t": 3, "ki')
    found = history.read(log.path)
    assert found == [
        {"t": 1.5, "kind": "start", "seed": 1},
        {"t": 2.5, "kind": "claim", "controller": "h:1", "epoch": 1, "source": "state"},
    ]


def test_leaders_and_errors_are_taken_from_logs_but_not_planners_that_got_no_cpu(tmp_path: Path) -> None:
    file = tmp_path / "one.log"
    file.write_text(
        "2026-01-01T00:00:00Z INFO leading: controller=h:1 epoch=4 planner=best\n"
        "2026-01-01T00:00:01Z ERROR planner failed: planner=best\nTraceback (most recent call last):\n  File\n"
        "stormpilot.planner_process.PlannerLostError: no answer 20 s after it began: its process was ended\n"
        "2026-01-01T00:00:02Z ERROR cycle failed; retrying next period: why=x\nTraceback (most recent call last):\n"
        "KeyError: 'x'\n"
    )
    with History(tmp_path / "h.jsonl") as log:
        read_logs(log, [file])
    claim, error = history.read(log.path)
    assert (claim["kind"], claim["controller"], claim["epoch"]) == ("claim", "h:1", 4)
    assert error["kind"] == "log"
    assert error["line"].endswith("why=x ... KeyError: 'x'")


def test_the_summary_counts_what_was_done() -> None:
    said = summary(figures(good()))
    assert "faults: 1 (1 worker killed)" in said
    assert "2 leaders' epochs" in said
    assert "settings written: 2 (2 mode)" in said


def test_published_figures_have_a_column_for_each_run_and_count_broken_rules(tmp_path: Path) -> None:
    broken = [*good(), settings(99.0, {MODE: {"mode": "act", "why": "nobody wrote this"}})]
    publish([figures(good()), figures(broken)], tmp_path / "soak")
    runs = json.loads((tmp_path / "soak.json").read_text())
    assert [sum(run["broken"].values()) for run in runs] == [0, 1]
    page = (tmp_path / "soak.md").read_text().splitlines()
    assert "| no setting lost | 0 | 1 |" in page
    assert "| **rules broken** | 0 | 1 |" in page
    assert "| worker killed | 1 | 1 |" in page
