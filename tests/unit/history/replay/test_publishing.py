"""What replay recommends reaches the controllers, and what was mined makes its forecasts."""

from __future__ import annotations

import msgspec
import pytest

import builders
from stormpilot.errors import UsageError
from stormpilot.history.mine.findings import Mined
from stormpilot.history.replay.choose import Tried, Verdict
from stormpilot.history.replay.coming import coming_of, looks_ahead, without_forecast
from stormpilot.history.replay.confirm import Gain
from stormpilot.history.replay.publishing import publish
from stormpilot.history.replay.score import Totals, Weights
from stormpilot.history.replay.study import Replay
from stormpilot.history.replay.values import Setting
from stormpilot.messages.core import decode, encode
from stormpilot.messages.thresholds import (
    HOURS_OF_WEEK,
    EdgeProfile,
    Profile,
    ThresholdEntry,
    Thresholds,
    hour_of_week,
)
from stormpilot.zookeeper.paths import Paths
from tests.unit.history.mine.test_publishing import Store

PATHS = Paths("/stormpilot")
OLD, NEW = "flights-1-1700000000", "flights-7-1800000000"
HOUR_MS = 3_600_000


def replay() -> Replay:
    setting = Setting(planner="best", params={"objective": "network_cost"}, decide={"cpu_limit_ratio": 0.6})
    best = Tried(setting=setting, chosen_by=Totals(steps=144), score=0.7, held_out_score=0.8)
    default = Tried(setting=Setting(planner="best"), chosen_by=Totals(steps=144), score=1.0, held_out_score=1.1)
    verdict = Verdict(
        topology_id=OLD, topology_name="flights", tried=[best, default], as_it_was=default, default=default,
        recommended=best, kept_default=False, text="cost -30.0% against the default", restart_s=15.0,
        gain=Gain(ratio=0.27, low=0.2, high=0.4, days=7),
    )  # fmt: skip
    return Replay(
        log="/log", from_ms=5, to_ms=9, split_ms=None, step_s=3600, steps=144, edge_rows=10, together=False,
        budget_s=0.5, weights=Weights(), verdicts=[verdict], at_ms=77,
    )  # fmt: skip


def test_recommendation_is_written_beside_mined_numbers() -> None:
    entry = ThresholdEntry(name="decide.overload_s", value=300.0)
    there = Thresholds(topology_id=NEW, topology_name="flights", mined_at_ms=1, from_ms=1, to_ms=2, entries=[entry])
    store = Store({PATHS.topology(NEW): b"", PATHS.thresholds(NEW): encode(there)})
    assert publish(replay(), store, PATHS) == [OLD, NEW]
    written = decode(store.nodes[PATHS.thresholds(NEW)], Thresholds, "")
    assert written.entries == [entry]
    r = written.recommendation
    assert r is not None
    assert (r.planner, r.params) == ("best", {"objective": "network_cost", "decide.cpu_limit_ratio": 0.6})
    assert (r.score, r.default_score, r.windows, r.replayed_at_ms) == (0.7, 1.0, 144, 77)
    assert (r.held_out_score, r.default_held_out_score) == (0.8, 1.1)
    assert (r.held_out_days, r.gain_low_ratio, r.gain_high_ratio) == (7, 0.2, 0.4)
    fresh = decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "")
    assert (fresh.topology_id, fresh.entries) == (OLD, [entry])
    assert fresh.recommendation == r


def test_recommendation_does_not_hide_what_was_mined_under_a_former_id() -> None:
    def there(topology_id: str, value: float, at_ms: int, name: str = "flights") -> Thresholds:
        entry = ThresholdEntry(name="decide.overload_s", value=value)
        return Thresholds(
            topology_id=topology_id, topology_name=name, mined_at_ms=at_ms, from_ms=1, to_ms=2, entries=[entry]
        )

    former = [there(OLD, 300.0, 5), there("flights-2-1750000000", 400.0, 9), there("flights-too-1-1", 500.0, 99, "x")]
    nodes = {PATHS.thresholds(t.topology_id): encode(t) for t in former}
    hiding = Thresholds(topology_id=NEW, topology_name="flights", mined_at_ms=50, from_ms=1, to_ms=2)
    for own in ({}, {PATHS.thresholds(NEW): encode(hiding)}):
        store = Store({**nodes, **own, PATHS.topology(NEW): b""})
        publish(replay(), store, PATHS)
        written = decode(store.nodes[PATHS.thresholds(NEW)], Thresholds, "")
        assert (written.topology_id, written.mined_at_ms, written.entries) == (NEW, 9, former[1].entries)
        assert written.recommendation is not None
        assert decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "").entries == former[0].entries


@pytest.mark.parametrize("order", [1, -1])
def test_the_id_of_a_name_with_the_most_steps_says_what_is_recommended(order: int) -> None:
    long = replay().verdicts[0]
    few = Tried(setting=Setting(planner="online"), chosen_by=Totals(steps=5), score=1.0)
    short = msgspec.structs.replace(long, topology_id=NEW, tried=[few], default=few, recommended=few, kept_default=True)
    store = Store({PATHS.topology(NEW): b""})
    publish(msgspec.structs.replace(replay(), verdicts=[long, short][::order]), store, PATHS)
    for topology_id in (OLD, NEW):
        r = decode(store.nodes[PATHS.thresholds(topology_id)], Thresholds, "").recommendation
        assert r is not None
        assert (r.planner, r.windows) == ("best", 144)


def test_recommendation_without_anything_mined_stands_alone() -> None:
    store = Store()
    publish(replay(), store, PATHS)
    written = decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "")
    assert (written.entries, written.mined_at_ms) == ([], 77)
    assert written.recommendation is not None


def test_thresholds_that_cannot_be_read_keep_no_other_topology_from_its_recommendation() -> None:
    both = replay()
    other = msgspec.structs.replace(both.verdicts[0], topology_id="other-2-1700000000", topology_name="other")
    store = Store({PATHS.thresholds(OLD): b"not json"})
    with pytest.raises(UsageError, match=PATHS.thresholds(OLD)):
        publish(msgspec.structs.replace(both, verdicts=[*both.verdicts, other]), store, PATHS)
    assert decode(store.nodes[PATHS.thresholds(other.topology_id)], Thresholds, "").recommendation is not None


def test_recommended_limit_that_differs_from_the_mined_one_is_told() -> None:
    knee = ThresholdEntry(
        name="decide.cpu_limit_ratio", scope="supervisor", of=["s1"], value=0.505, low=0.49, high=0.52
    )
    there = Thresholds(topology_id=OLD, topology_name="flights", mined_at_ms=1, from_ms=1, to_ms=2, entries=[knee])
    store = Store({PATHS.thresholds(OLD): encode(there)})
    publish(replay(), store, PATHS)
    r = decode(store.nodes[PATHS.thresholds(OLD)], Thresholds, "").recommendation
    assert r is not None
    assert "B(n) of 0.6 is above what was mined: 0.505 (0.490 to 0.520) on s1" in r.text


def mined(error_ratio: float | None) -> Mined:
    noon = [100.0] * HOURS_OF_WEEK
    noon[hour_of_week(12 * HOUR_MS)] = noon[hour_of_week(13 * HOUR_MS)] = 200.0
    edge = EdgeProfile(from_="a", stream="default", to="b", rate_tps=noon)
    profile = Profile(
        topology_id="other id", topology_name="chains", mined_at_ms=0, from_ms=0, to_ms=9, edges=[edge],
        forecast_error_ratio=error_ratio,
    )  # fmt: skip
    thresholds = Thresholds(topology_id="other id", topology_name="chains", mined_at_ms=0, from_ms=0, to_ms=9)
    return Mined(thresholds=thresholds, profile=profile)


def grown(lead_s: float, from_h: int) -> float:
    """By how much all traffic of a step before `from_h` is forecast to grow."""
    model = builders.two_chains()
    found = coming_of([mined(0.05)], 0.15, lead_s)(model, from_h * HOUR_MS, (from_h + 1) * HOUR_MS)
    assert found.moved == {"chains"}
    before = {(e.from_, e.to): e.rate for e in model.traffic}
    after = {(e.from_, e.to): e.rate for e in found.model.traffic}
    ratios = [after[pair] / rate for pair, rate in before.items()]
    assert ratios == pytest.approx([ratios[0]] * len(ratios))
    return ratios[0]


def test_forecast_moves_the_step_before_along_the_profile_of_that_name() -> None:
    assert grown(0.0, 12) == pytest.approx(2.0)
    assert grown(0.0, 8) == pytest.approx(1.0)


def test_longer_lead_than_a_step_looks_for_the_peak_in_all_of_it() -> None:
    assert grown(3 * 3600.0, 8) == pytest.approx(1.0)
    assert grown(6 * 3600.0, 8) == pytest.approx(2.0)
    assert grown(16 * 3600.0, 8) == pytest.approx(2.0)


def test_profile_that_is_not_good_enough_makes_no_forecast() -> None:
    model = builders.two_chains()
    for error in (0.2, None):
        found = coming_of([mined(error)], 0.15, 0.0)(model, 12 * HOUR_MS, 13 * HOUR_MS)
        assert (found.model, found.moved, found.overloaded) == (model, frozenset(), {})


def test_topology_that_gets_no_forecast_is_told_with_its_reason() -> None:
    assert without_forecast([mined(0.05)], 0.15) == []
    assert without_forecast([mined(0.2)], 0.15) == [
        "no forecasts for chains: its profile is off by 20.0%, history.max_forecast_error_ratio is 15.0%"
    ]
    assert "never tested" in without_forecast([mined(None)], 0.15)[0]
    assert "no profile" in without_forecast([msgspec.structs.replace(mined(0.05), profile=None)], 0.15)[0]


def test_profile_made_from_the_replayed_time_is_told() -> None:
    assert looks_ahead([mined(0.05)], from_ms=5) == ["chains"]
    assert looks_ahead([mined(0.05)], from_ms=9) == []
    assert looks_ahead([msgspec.structs.replace(mined(0.05), profile=None)], from_ms=5) == []
