"""What is tried, what is chosen, and how the log becomes models again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stormpilot.errors import UsageError
from stormpilot.history.replay.choose import AS_IT_WAS, LEAST_STEPS, Tried, Verdict, Yardsticks, choose
from stormpilot.history.replay.confirm import DayCost
from stormpilot.history.replay.grid import DEFAULT_PLANNER, asked, grid
from stormpilot.history.replay.past import Yardstick
from stormpilot.history.replay.play import Rules
from stormpilot.history.replay.read import Past, Restart
from stormpilot.history.replay.rebuild import Rows, steps_of
from stormpilot.history.replay.score import Totals
from stormpilot.history.replay.study import hold_out_days
from stormpilot.history.replay.values import PACES, Setting
from stormpilot.model.values import Component, Input
from stormpilot.planner import PLANNERS, planner_named
from stormpilot.planner.registry import params_of

STEP_MS = 3_600_000


def test_every_planner_is_tried_and_the_default_comes_first() -> None:
    settings = grid()
    assert settings[0] == Setting(planner=DEFAULT_PLANNER)
    assert {s.planner for s in settings} == set(PLANNERS)
    assert len({s.name for s in settings}) == len(settings)
    for s in settings:  # all of them can be played
        params_of(planner_named(s.planner), s.params)
        Rules().of(s)


def test_what_is_configured_is_the_default() -> None:
    configured = Setting(planner="online", params={"alpha": 0.1})
    settings = grid(configured)
    assert settings[0] == configured
    assert {s.planner for s in settings if s.decide} == {"online"}


def test_forecasts_are_tried_only_when_there_are_any() -> None:
    assert not any(s.forecast for s in grid())
    assert any(s.forecast for s in grid(forecast=True))


def test_several_values_make_all_combinations() -> None:
    names = [s.name for s in asked("offline", ["alpha=0,0.5", "beta=0.25"], ["consecutive_hits=1,2"])]
    assert names == [
        "offline alpha=0, beta=0.25, decide.consecutive_hits=1",
        "offline alpha=0, beta=0.25, decide.consecutive_hits=2",
        "offline alpha=0.5, beta=0.25, decide.consecutive_hits=1",
        "offline alpha=0.5, beta=0.25, decide.consecutive_hits=2",
    ]


def test_words_and_switches_are_parameters_too() -> None:
    (s,) = asked("best", ["objective=network_cost", "exact_workers=true"], [])
    assert s.params == {"objective": "network_cost", "exact_workers": True}


@pytest.mark.parametrize(("planner", "given", "said"), [("offline", "gamma=1", "gamma"), ("offline", "alpha", "alpha")])
def test_what_a_planner_does_not_have_is_refused(planner: str, given: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(planner, [given], [])


def test_a_parameter_of_the_wrong_kind_is_refused_in_words() -> None:
    """It said `expected int or NoneType`."""
    with pytest.raises(UsageError, match=r"iterations is '1\.5x', expected a whole number or none$"):
        asked("best", ["iterations=1.5x"], [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("gain_treshold_ratio=0.1", "no such setting; did you mean gain_threshold_ratio"),
        ("nix=1", "^--rule nix: .* no such setting; `stormpilot config explain decide` lists them$"),
        ("gain_threshold_ratio=0.1,7", "^--rule gain_threshold_ratio: 7, expected 0 to 1$"),
        ("move_strategy=fast", "^--rule move_strategy: 'fast', expected auto, restart, rolling$"),
        ("consecutive_hits", "^--rule consecutive_hits: expected name=value"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_its_option(given: str, said: str) -> None:
    """It was refused after Spark had started, with the words of a library for JSON."""
    with pytest.raises(UsageError, match=said):
        asked("online", [], [given])


# --- choosing ---------------------------------------------------------------------------------------------------------


DAYS = 7
TUPLES = 1000.0


def entry(
    name: str, score: float, days: Sequence[float] = (), steps: int = LEAST_STEPS, workers: int = 0, **more: Any
) -> Tried:
    """A setting with its score, and what a tuple cost on each day held out."""
    return Tried(
        setting=Setting(planner=name, **more),
        chosen_by=Totals(steps=steps, restarted_workers=workers),
        score=score,
        held_out_score=sum(days) / len(days) if days else None,
        held_out_days=[DayCost(number=i, cost=c * TUPLES, tuples=TUPLES) for i, c in enumerate(days)],
    )


def always(cost: float) -> list[float]:
    return [cost] * DAYS


def chosen(*tries: Tried, off: float = 0.0, held_out_off: float = 0.0, barred: dict[str, str] | None = None) -> Verdict:
    was = Tried(setting=None, chosen_by=Totals(), score=2.0)
    yardsticks = Yardsticks(chosen_by=Yardstick(cost=off), held_out=Yardstick(cost=held_out_off))
    return choose("t", "t", tries, was, 15.0, yardsticks, barred)


def test_best_is_recommended_when_it_also_wins_on_held_out_days() -> None:
    verdict = chosen(entry("best", 1.0, always(1.0)), entry("online", 0.8, always(0.9)), entry("otd", 0.9, always(0.5)))
    assert verdict.recommended.name == "online"
    assert not verdict.kept_default
    assert "-20.0%" in verdict.text and "-10.0%" in verdict.text
    assert [t.name for t in verdict.tried] == ["online", "otd", "best"]
    assert verdict.gain is not None and verdict.gain.ratio == pytest.approx(0.1)


def test_default_stays_when_the_id_did_not_run_on_the_held_out_days() -> None:
    """A topology that was submitted again: that nothing flowed was not true."""
    gone = [
        msgspec.structs.replace(e, held_out=Totals(), held_out_score=0.0) for e in (entry("best", 1), entry("otd", 0.8))
    ]
    verdict = chosen(*gone)
    assert verdict.kept_default
    assert "on the days held out it did not run, or under another id" in verdict.text


def test_default_stays_when_the_best_loses_on_held_out_days() -> None:
    verdict = chosen(entry("best", 1.0, always(1.0)), entry("online", 0.8, always(1.1)))
    assert verdict.kept_default and verdict.recommended.name == "best"
    assert "not on the days held out" in verdict.text


def test_default_stays_when_the_gain_of_a_single_day_carries_all_of_it() -> None:
    one_day = [1.02, 0.3, 1.02, 1.02, 1.02, 1.02, 1.02]
    verdict = chosen(entry("best", 1.0, always(1.0)), entry("online", 0.8, one_day))
    assert verdict.gain is not None and verdict.gain.ratio > 0.05
    assert verdict.kept_default and "may be chance" in verdict.text


def test_one_held_out_day_confirms_nothing() -> None:
    verdict = chosen(entry("best", 1.0, [1.0]), entry("online", 0.8, [0.5]))
    assert verdict.kept_default
    assert "1 days held out, 5 needed" in verdict.text


def test_gain_below_the_error_of_the_flow_model_is_none() -> None:
    tries = entry("best", 1.0, always(1.0)), entry("online", 0.9, always(0.9))
    assert not chosen(*tries, off=0.05, held_out_off=0.05).kept_default
    unsure = chosen(*tries, held_out_off=0.15)
    assert unsure.kept_default and "flow model's error of 15.0%" in unsure.text
    assert chosen(*tries, off=0.15).gain is None  # it was not even chosen


def test_of_settings_that_the_yardstick_cannot_tell_apart_the_one_that_restarts_least_is_best() -> None:
    tries = (
        entry("best", 1.0, always(1.0)),
        entry("online", 0.80, always(0.8), workers=9),
        entry("otd", 0.81, always(0.8), workers=2),
    )
    assert chosen(*tries).recommended.name == "online"
    assert chosen(*tries, off=0.02).recommended.name == "otd"


def test_setting_whose_forecast_knows_the_held_out_days_is_not_recommended() -> None:
    knowing = entry("best", 0.5, always(0.5), forecast=True)
    verdict = chosen(
        entry("best", 1.0, always(1.0)), knowing, entry("online", 0.8, always(0.9)), barred={knowing.name: "it knows"}
    )
    assert verdict.recommended.name == "online"
    assert verdict.tried[0].name == knowing.name  # shown, and why it is not taken
    assert verdict.barred == {"best forecast": "it knows"}


def test_default_stays_when_nothing_is_better_or_too_little_is_known() -> None:
    assert chosen(entry("best", 1.0, always(1.0)), entry("online", 1.0, always(0.5))).kept_default
    verdict = chosen(entry("best", 1.0, always(1.0), steps=LEAST_STEPS - 1), entry("online", 0.5, always(0.5)))
    assert verdict.kept_default and "too little data" in verdict.text


def test_without_held_out_days_it_says_that_it_is_not_confirmed() -> None:
    verdict = chosen(entry("best", 1.0), entry("online", 0.8))
    assert verdict.recommended.name == "online" and "not confirmed" in verdict.text
    assert verdict.as_it_was.name == AS_IT_WAS


@pytest.mark.parametrize(("days", "held_out"), [(30, 7), (14, 7), (10, 5), (7, 5), (4, 2), (2, 1), (1, 0), (0.5, 0)])
def test_half_of_the_days_are_held_out_at_most_a_week_and_enough_of_them_to_tell(days: float, held_out: int) -> None:
    assert hold_out_days(days) == held_out


def test_restart_time_of_held_out_days_does_not_help_to_choose() -> None:
    known = [Restart("t", at, 10.0) for at in (1, 2, 3)] + [Restart("t", at, 90.0) for at in range(4, 9)]
    past = Past([], 0, known)
    assert past.restart_s(4) == {"t": 10.0}
    assert past.restart_s(None) == {"t": 90.0}
    assert past.restart_s(3) == {}  # two moves are too few


# --- the log becomes models -------------------------------------------------------------------------------------------

NODE: dict[str, Any] = {
    "step": 5, "host": "h1", "rack": "/r", "storm_rack": "/storms", "site": None, "cores": 2.0, "mhz": 1000.0,
    "limit_mhz": 1600.0, "memory_mb": 4096.0, "slots": 3,
}  # fmt: skip


def executor(start: int, component: str, supervisor: str | None, port: int | None, **more: Any) -> dict[str, Any]:
    row = {
        "step": 5, "topology_id": "t-1", "topology_name": "t", "executor": start, "last_task": start,
        "component": component, "supervisor": supervisor, "port": port, "cpu_mhz": 100.0, "memory_mb": 64.0,
        "measured": True, "queue": None, "spout": component == "a",
    }  # fmt: skip
    return row | more


def rows(**more: Any) -> Rows:
    base: dict[str, Any] = {
        "nodes": [{**NODE, "supervisor": "s1", "ports": [6700, 6701, 6702]}],
        "executors": [executor(1, "a", "s1", 6700), executor(2, "b", "s1", 6701), executor(3, "__acker", "gone", 6700)],
        "edges": [
            {"step": 5, "topology_id": "t-1", "from_executor": 1, "to_executor": 2, "stream": "x", "rate_tps": 7.0},
            {"step": 5, "topology_id": "t-1", "from_executor": 1, "to_executor": 9, "stream": "x", "rate_tps": 7.0},
        ],
    }
    return Rows(**(base | more))


def test_model_has_placement_traffic_and_limits_of_the_log() -> None:
    (step,) = steps_of(rows(), STEP_MS)
    assert (step.from_ms, step.to_ms) == (5 * STEP_MS, 6 * STEP_MS)
    (s,) = step.model.supervisors
    assert (s.slots, s.limit_mhz, s.rack, s.storm_rack) == ([6700, 6701, 6702], 1600.0, "/r", "/storms")
    (t,) = step.model.topologies
    assert [(a.start, a.supervisor, a.port) for a in t.assignment] == [(1, "s1", 6700), (2, "s1", 6701)]
    assert [(e.from_, e.to, e.stream, e.rate) for e in step.model.traffic] == [(1, 2, "x", 7.0)]


def test_what_old_logs_do_not_know_is_derived() -> None:
    (step,) = steps_of(rows(nodes=[{**NODE, "supervisor": "s1", "ports": None}]), STEP_MS)
    assert step.model.supervisors[0].slots == [6700, 6701, 6702]
    (t,) = step.model.topologies
    assert t.workers == 3
    assert {c.id: c.kind for c in t.components} == {"a": "spout", "b": "bolt", "__acker": "system"}


def test_port_that_is_used_later_is_not_known_before() -> None:
    node = {**NODE, "supervisor": "s1", "ports": None}
    first, second = steps_of(
        rows(
            nodes=[node, {**node, "step": 6}],
            executors=[executor(1, "a", "s1", 6700), executor(1, "a", "s1", 6900, step=6)],
        ),
        STEP_MS,
    )
    assert first.model.supervisors[0].slots == [6700, 6701, 6702]
    assert 6900 in second.model.supervisors[0].slots


def test_what_the_log_knows_of_a_topology_is_used() -> None:
    graph = [Component(id="a", kind="spout"), Component(id="b", inputs=[Input(component="a", stream="x")])]
    asking = [msgspec.structs.replace(c, resources={"cpu.pcore.percent": 10.0}) for c in graph]
    known = {
        "step": 5, "topology_id": "t-1", "workers": 4, "owner": "o", "priority": 3, "loadaware": False,
        "components": msgspec.json.encode(asking).decode(),
    }  # fmt: skip
    (step,) = steps_of(rows(topologies=[known]), STEP_MS)
    (t,) = step.model.topologies
    assert (t.workers, t.owner, t.priority, t.loadaware) == (4, "o", 3, False)
    assert t.components == graph, "the log does not say what supervisors offer"


def test_paces_are_relative_and_missing_parts_are_steady() -> None:
    found = [{"step": 5, "topology_id": "t-1", "pace": p, "cpu_mhz": c} for p, c in ((0, 100.0), (59, 300.0))]
    (step,) = steps_of(rows(paces=found, unmeasured=[(5, "t-1"), (6, "t-1")]), STEP_MS)
    pace = step.pace["t-1"]
    assert len(pace) == PACES
    assert (pace[0], pace[30], pace[59]) == (0.5, 1.0, 1.5)
    assert step.unmeasured == ["t-1"]


def in_parts(topology_id: str, parts: range, step: int, cpu_mhz: float | None = 100.0) -> list[dict[str, Any]]:
    return [{"step": step, "topology_id": topology_id, "pace": p, "cpu_mhz": cpu_mhz} for p in parts]


def of_topology(topology_id: str, name: str, step: int, port: int = 6700) -> dict[str, Any]:
    return executor(1, "a", "s1", port, step=step) | {"topology_id": topology_id, "topology_name": name}


THREE_STEPS = [{**NODE, "step": n, "supervisor": "s1", "ports": [6700, 6701]} for n in (5, 6, 7)]


@pytest.mark.parametrize(("name", "port"), [("t", 6701), ("u", 6700)], ids=["same name", "same slot"])
def test_of_topologies_that_follow_one_another_in_a_step_the_last_one_counts(name: str, port: int) -> None:
    """Both at once would fill the node twice."""
    there = {5: ["t-1-1"], 6: ["t-1-1", f"{name}-2-2"], 7: [f"{name}-2-2"]}
    found = [
        of_topology(t, t[0], n, 6700 if t == "t-1-1" else port) for n, topologies in there.items() for t in topologies
    ]
    parts = in_parts("t-1-1", range(60), 5) + in_parts("t-1-1", range(20), 6)
    parts += in_parts(f"{name}-2-2", range(25, 60), 6) + in_parts(f"{name}-2-2", range(60), 7)
    first, second, third = steps_of(rows(nodes=THREE_STEPS, executors=found, edges=[], paces=parts), STEP_MS)
    assert [[t.id for t in s.model.topologies] for s in (first, second, third)] == [
        ["t-1-1"],
        [f"{name}-2-2"],
        [f"{name}-2-2"],
    ]
    assert (first.unmeasured, second.unmeasured, third.unmeasured) == ([], ["t-1-1"], [])
    assert second.pace == {f"{name}-2-2": [0.0] * 25 + [1.0] * 35}


def test_a_topology_has_no_load_before_it_came_and_after_it_went() -> None:
    found = [of_topology("t-1-1", "t", n) for n in (5, 6)] + [of_topology("u-2-2", "u", n, 6701) for n in (6, 7)]
    parts = in_parts("t-1-1", range(10, 60), 5) + in_parts("t-1-1", range(20), 6)
    parts += in_parts("u-2-2", range(15, 30), 6, None) + in_parts("u-2-2", range(30, 60), 6)
    first, second, _ = steps_of(rows(nodes=THREE_STEPS, executors=found, edges=[], paces=parts), STEP_MS)
    assert first.pace["t-1-1"] == [1.0] * 60, "before the log began it may have run"
    assert second.pace["t-1-1"] == [1.0] * 20 + [0.0] * 40
    assert second.pace["u-2-2"] == [0.0] * 15 + [1.0] * 45, "it was there in windows that do not count"
    assert len(second.model.topologies) == 2


def test_two_that_swap_slots_in_a_step_both_count() -> None:
    found = [of_topology("t-1-1", "t", n) for n in (5, 6, 7)] + [of_topology("u-2-2", "u", n) for n in (6, 7)]
    parts = in_parts("t-1-1", range(59), 6) + in_parts("u-2-2", range(60), 6)
    steps = steps_of(rows(nodes=THREE_STEPS, executors=found, edges=[], paces=parts), STEP_MS)
    assert [len(s.model.topologies) for s in steps] == [1, 2, 2]


def test_evidence_is_written_and_read_again(tmp_path: Path) -> None:
    from stormpilot.history.replay import evidence

    with pytest.raises(UsageError, match="cannot be read"):
        evidence.read(tmp_path)
    (tmp_path / "replay.json").write_text("{}")
    with pytest.raises(UsageError, match="trafficlog replay"):
        evidence.read(tmp_path)
