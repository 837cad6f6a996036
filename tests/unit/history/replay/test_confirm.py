"""A gain on days held out, with its interval; and B(n) that was mined beside the one of a replay."""

from __future__ import annotations

import numpy as np
import pytest

from stormpilot.history.replay.confirm import DAY_MS, LEAST_DAYS, DayCost, by_day, expanded, gain
from stormpilot.history.replay.limits import differing, sentences
from stormpilot.history.replay.score import Weights, score, totals
from stormpilot.history.replay.values import Move, Played, Setting
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry

HOUR_MS = 3_600_000


def costs(*of_tuple: float, tuples: float = 100.0) -> list[DayCost]:
    return [DayCost(number=i, cost=c * tuples, tuples=tuples) for i, c in enumerate(of_tuple)]


def step(hour: int, **more: float) -> Played:
    return Played(
        topology_id="t", from_ms=hour * HOUR_MS, length_s=3600.0, inter_node_tps=1.0, network_cost_tps=4.0,
        total_tps=2.0, busiest_load_ratio=0.5, overloaded_node_s=0.0, overloaded_tps=more.get("overloaded_tps", 0.0),
        move=Move(reason="", executors=1, workers=1, held_up_tuples=more["held_up"]) if "held_up" in more else None,
    )  # fmt: skip


def test_costs_by_day_add_up_to_the_score() -> None:
    played = [step(h, overloaded_tps=0.5) for h in range(24)] + [step(24, held_up=100.0), step(47)]
    weights = Weights(overload=3.0, restart=2.0)
    days = by_day(played, 0, weights)
    assert [d.number for d in days] == [0, 1]
    assert sum(d.cost for d in days) / sum(d.tuples for d in days) == pytest.approx(score(totals(played, 1.0), weights))
    assert [d.number for d in by_day(played, DAY_MS, weights)] == [0]  # what is before does not count


def test_gain_that_is_the_same_every_day_is_sure() -> None:
    found = gain(costs(*[2.0] * 7), costs(*[1.5] * 7))
    assert found is not None and found.confirmed
    assert (found.ratio, found.low, found.high, found.days) == (0.25, pytest.approx(0.25), pytest.approx(0.25), 7)


def test_gain_on_fewer_days_than_tell_chance_has_no_interval() -> None:
    found = gain(costs(*[2.0] * (LEAST_DAYS - 1)), costs(*[1.0] * (LEAST_DAYS - 1)))
    assert found is not None and found.ratio == 0.5
    assert found.low is None and not found.confirmed


def test_days_with_more_tuples_count_more() -> None:
    default = costs(*[1.0] * 6)
    other = [*costs(*[1.2] * 5), DayCost(number=5, cost=0.5 * 1000, tuples=1000.0)]
    heavy = [*default[:5], DayCost(number=5, cost=1000.0, tuples=1000.0)]
    found = gain(heavy, other)
    assert found is not None and found.ratio == pytest.approx(1 - (5 * 120 + 500) / 1500)


def test_days_that_only_one_of_both_has_do_not_count() -> None:
    found = gain(costs(*[2.0] * 8), costs(*[1.0] * 6))
    assert found is not None and found.days == 6
    assert gain(costs(2.0), []) is None
    assert gain(costs(0.0), costs(1.0)) is None


@pytest.mark.parametrize("days", [5, 7, 14])
def test_of_settings_that_are_no_better_few_pass(days: int) -> None:
    """Days whose differences are normally distributed around zero: one-sided, 5% would be right."""
    rng = np.random.default_rng(3)
    passed = 0
    for _ in range(400):
        found = gain(costs(*[1.0] * days), costs(*rng.normal(1.0, 0.1, days)))
        assert found is not None
        passed += found.confirmed
    assert passed / 400 < 0.09


def test_expanded_level_goes_to_the_plain_one_with_many_blocks() -> None:
    assert expanded(0.05, 10_000) == pytest.approx(0.05, abs=1e-3)
    assert expanded(0.05, 5) == pytest.approx(0.0086, abs=5e-4)  # t of 4 degrees is 2.132


def limit(value: float, of: str, low: float | None = None, high: float | None = None, **more: str) -> ThresholdEntry:
    return ThresholdEntry(name=CPU_LIMIT_RATIO, scope="supervisor", of=[of], value=value, low=low, high=high, **more)  # type: ignore[arg-type]


def test_mined_limit_below_the_replayed_one_is_told_with_its_node() -> None:
    entries = [limit(0.505, "s1", 0.49, 0.52), limit(0.69, "s2", 0.66, 0.72), limit(0.95, "s3", source="default")]
    setting = Setting(planner="best", decide={"cpu_limit_ratio": 0.7})
    (d,) = differing(entries, setting, 0.9)
    assert (d.supervisor, d.mined, d.replayed) == ("s1", 0.505, 0.7)
    (line,) = sentences([d])
    assert "0.505 (0.490 to 0.520) on s1" in line and "The lower one holds" in line


def test_setting_without_a_limit_of_its_own_has_the_configured_one() -> None:
    entries = [limit(0.6, "s1"), limit(0.8, "s2", source="proposed")]
    assert [d.supervisor for d in differing(entries, Setting(planner="best"), 0.64)] == ["s2"]
    below, above = sentences(differing([limit(0.3, "s1"), *entries], Setting(planner="best"), 0.7))
    assert "is above what was mined: 0.300 on s1, 0.600 on s1" in below
    assert "is below what was mined: 0.800, proposed on s2" in above
