"""`make bench-react`: its tables and its jobs, without a cluster."""

from __future__ import annotations

import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from benchmarks.react import page, step
from stormpilot.config import DecideSection

MACHINE = {"cores": 2, "memory_gb": 24, "python": "3.11", "load_average": [1.5, 1.0, 1.0], "date": "2026-01-31"}
STEP = {
    "gain_seen_s": 10.0,
    "published_s": 15.0,
    "applied_s": 17.0,
    "running_s": 30.0,
    "downtime_s": 9.0,
}
JOBS = Path(__file__).resolve().parents[3] / "benchmarks" / "react"


RESTARTS = "restart: its workers restart, since they cannot all be emptied: sort [2, 2]: its grouping is not routed"
SWITCHED = "rolling: without restarts, by giving the tuples of 2 tasks to tasks that stand by"


def row(setting: str, sentence: str, **more: Any) -> dict[str, Any]:
    """A setting of one step."""
    step = {**STEP, "phases": {}, "strategy": sentence, **more}
    return {"setting": setting, "steps": [step], "median": {**STEP, **more}, "machine": MACHINE}


def test_reaction_is_told_by_setting_and_against_what_storm_takes_itself() -> None:
    restarts = row("restarts", RESTARTS)
    restarts["steps"] *= 2
    text = page.page({"step": {"machine": MACHINE, "rows": [restarts]}}, ["restarts", "rolling"])
    assert "Not measured yet: `rolling`, the part `held`." in text
    assert "| restarts | 1 | restarts | 10.0 | 15.0 | 17.0 | 30.0 | 9.0 | 15.0 | 2.0 | 1.5 |" in text
    assert "| restarts | median |  | 10.0 | 15.0 | 17.0 | 30.0 | 9.0 | 15.0 | 2.0 | 1.5 |" in text
    assert "a better placement runs after 30 s (wanted: within twice Storm's own part, 30 s).\n" in text


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        (RESTARTS, "restarts"),
        ("rolling: without restarts, in 2 steps", "rolling, in 2 steps"),
        ("rolling: without restarts, in 1 step; 3 workers stay as they are", "rolling, in 1 step"),
        (SWITCHED, "switches"),
        ("", "-"),
    ],
)
def test_strategy_of_a_plan_is_told_in_a_word(sentence: str, said: str) -> None:
    assert page.strategy(sentence) == said


def test_missed_reaction_is_told_with_where_the_seconds_went() -> None:
    rolled = row("rolling", "rolling: without restarts, in 2 steps", running_s=95.0, phases={"1 draining": 15.2})
    lines = page.goals([row("before: rolling", SWITCHED), rolled, row("standby", SWITCHED, running_s=18.0)])
    lines = [" ".join(line.split()) for line in lines]
    assert lines[0].startswith(
        "- rolling: a better placement runs after 95 s (wanted: under 30 s), missed: the plan took 15 s, carrying "
        "it out 80 s. Of these 40 s are Storm's in 2 steps: "
    )
    assert lines[1:] == [
        "- standby: a better placement runs after 18 s (wanted: under 30 s).",
        "- rolling, step 1, begin of each phase in seconds after it: 1 draining 15.2.",
    ]


def test_of_one_step_nothing_is_said_to_be_above_the_goal_by_itself() -> None:
    (line,) = page.goals([row("rolling", "rolling: without restarts, in 1 step", running_s=45.0)])
    assert line.endswith("carrying it out 30 s.")


def test_held_topology_is_told_with_what_was_wanted_predicted_and_got_through() -> None:
    window = {"through_tps": 61.8, "latency_ms": {"p50": 100.2, "p99": None}}
    row = {
        "wanted_tps": 90.0,
        "before": window,
        "after": {**window, "through_tps": 89.6},
        "what_if": {"carried": [{"nowTps": 63.4, "plannedTps": None}]},
        "freed_s": None,
        "plans": [{"reason": "OVERLOAD"}],
        "machine": MACHINE,
    }
    text = page.page({"held": {"machine": MACHINE, "rows": [row]}}, [])
    assert "| 1 | 90 | 61.8 | 63 | 89.6 | - | never | 100, - | 100, - | OVERLOAD | 1.5 |" in text


def test_every_setting_has_the_same_without_looking_for_steps_beside_it() -> None:
    """Before and after in one run: they differ in nothing else."""
    by_name = {s.name: s for s in step.SETTINGS}
    for name in ("restarts", "rolling", "standby"):
        after, before = by_name[name], by_name[f"before: {name}"]
        assert replace(before, name=name, controller=after.controller) == after
        assert before.controller["load"]["change_window_s"] == 0


def test_no_step_is_made_before_the_cool_down_of_the_plan_before_is_over() -> None:
    """Its rest would be measured as the time of the reaction."""
    for setting in step.SETTINGS:
        cool_down_s = setting.controller.get("decide", {}).get("cool_down_s", DecideSection().cool_down_s)
        assert setting.calm_s > cool_down_s, setting.name


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The source of `step` as task 1 of 1, at 1,000 tuples/s, with a clock of our own."""
    monkeypatch.setattr(sys, "path", [str(JOBS / "step" / "src"), *sys.path])
    import step_components

    made = step_components.Source(input_stream=BytesIO(), output_stream=BytesIO())
    made.component_name = "source"
    made.initialize(
        {"step.rate.tps": 1000, "step.favour.ratio": 0.9, "step.period.secs": 100}, {"task->component": {"1": "source"}}
    )
    made.sides = []
    made.emit = lambda values, tup_id: made.sides.append(values[1])
    made.now = 0.0
    monkeypatch.setattr(step_components.time, "monotonic", lambda: made._due)
    monkeypatch.setattr(step_components.time, "time", lambda: made.now)
    return made


@pytest.mark.parametrize(("now", "favoured"), [(99.0, "east"), (100.0, "west"), (250.0, "east")])
def test_nine_of_ten_tuples_go_to_the_side_whose_turn_it_is(source: Any, now: float, favoured: str) -> None:
    source.now = now
    for _ in range(1000):
        source.next_tuple()
    assert source.sides.count(favoured) == pytest.approx(900, abs=2)


def test_part_that_goes_east_may_come_from_a_file(source: Any, tmp_path: Path) -> None:
    source._file = str(tmp_path / "east")
    for part in (0.0, 0.25, 1.0):
        (tmp_path / "east").write_text(str(part))
        source._looked, source._number, source.sides = -1.0, 0, []
        for _ in range(400):
            source.next_tuple()
        assert source.sides.count("east") == pytest.approx(400 * part, abs=1)


def test_held_source_emits_at_the_rate_of_its_file_and_forgets_what_was_due_long_ago(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(JOBS / "held" / "src"), *sys.path])
    import held_components

    rate = tmp_path / "rate"
    rate.write_text("10")
    made = held_components.Source(input_stream=BytesIO(), output_stream=BytesIO())
    clock = [1000.0]
    monkeypatch.setattr(held_components.time, "monotonic", lambda: clock[0])
    made.initialize({"held.rate.file": str(rate)}, {})
    sent: list[str] = []
    made.emit = lambda values, tup_id: sent.append(values[0])
    clock[0] += 60.0  # held for a minute: two seconds of it are made up for
    made._due = clock[0] - 60.0
    monkeypatch.setattr(held_components.time, "sleep", lambda _: None)
    for _ in range(100):
        made.next_tuple()
    assert 20 <= len(sent) <= 22
