"""Numbers that mining finds: each with its evidence and interval, or the default with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stormpilot.config import Config, parse
from stormpilot.errors import NothingFoundError
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import Mined, Rows, findings, limits
from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import ThresholdEntry

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
MONTH_H = 720.0
CPU = {"cpu_low": 0.5, "cpu_high": 0.7, "cpu_rare": 0.6}
OTD = {**CPU, "queue_low_tuples": 40, "queue_high_tuples": 4000, "queue_rare_tuples": 900}


def row(hours: float = MONTH_H, rows: int = 43_200, **columns: Any) -> dict[str, Any]:
    evidence = {"rows": rows, "first": BEGIN, "last": BEGIN + timedelta(hours=hours)}
    return {"topology_name": "flights", **evidence, **columns}


def topology(hours: float = MONTH_H) -> dict[str, Any]:
    return row(hours, topology_id="flights-1-1767571200", supervisors=["sup-a"], components=["count"])


def mined(criteria: MiningCriteria | None = None, *, hours: float = MONTH_H, **rows: list[dict[str, Any]]) -> Mined:
    ((one,), failed) = findings(Rows(topologies=[topology(hours)], **rows), criteria or MiningCriteria())
    assert not failed
    return one


def test_a_topology_that_makes_no_numbers_costs_itself_alone() -> None:
    both = [topology(), topology() | {"topology_name": "broken"}]
    bad = noise(0.05) | {"topology_name": "broken", "noise_ratio": "many"}
    found, failed = findings(Rows(topologies=both, noise=[noise(0.05), bad]), MiningCriteria())
    assert [m.thresholds.topology_name for m in found] == ["flights"]
    assert [(f.name, f.text) for f in failed] == [("broken", "ValueError: could not convert string to float: 'many'")]
    with pytest.raises(NothingFoundError, match="no topology can be mined: broken: ValueError"):
        findings(Rows(topologies=both[1:], noise=[bad]), MiningCriteria())


def found(m: Mined, name: str, *of: str) -> ThresholdEntry:
    (entry,) = [e for e in m.thresholds.entries if e.name == name and e.of == list(of)]
    return entry


def noise(ratio: float, **more: Any) -> dict[str, Any]:
    return row(**{"noise_ratio": ratio, "windows": 40_000, "hours_of_week": 168, **more})


def knee(**more: Any) -> dict[str, Any]:
    shape = {"knee_ratio": 0.7, "low": 0.68, "high": 0.71, "found_share": 1.0, "rise_ratio": 1.2, "band_ratio": 0.1}
    seen = {"bins_above": 20, "windows_above": 400, "highest_ratio": 0.9, "days": 30}
    return row(**{"supervisor": "sup-a", **shape, **seen, **more})


def test_gain_threshold_is_three_times_the_noise_with_its_evidence() -> None:
    entry = found(mined(noise=[noise(0.05)]), th.GAIN_RATIO)
    assert (entry.value, entry.source, entry.rows) == (pytest.approx(0.15), "mined", 43_200)
    assert (entry.from_ms, entry.to_ms) == (1767571200000, 1767571200000 + 720 * 3_600_000)
    assert "3 x the noise of 0.050" in entry.text


def by_day(column: str, *values: float, **more: Any) -> dict[str, Any]:
    """Days of a group, as `days.together` hangs them on its row."""
    return {"by_day": [row(24.0, 1440, **{column: v, "day": 20_000 + i}) for i, v in enumerate(values)], **more}


@pytest.mark.parametrize(
    ("rows", "column", "values", "name", "of"),
    [
        ("noise", "noise_ratio", (0.04, 0.05, 0.06), th.NOISE_RATIO, ()),
        ("noise", "noise_ratio", (0.04, 0.05, 0.06), th.GAIN_RATIO, ()),
        ("executor_noise", "executor_noise_tps", (3.0, 4.0, 5.0), th.OTD_ASC, ()),
        ("otd", "cpu_high", (0.65, 0.7, 0.75), th.OTD_CPU_HIGH, ()),
        ("otd", "queue_low_tuples", (30.0, 40.0, 50.0), th.OTD_QUEUE_LOW, ()),
        ("selectivity", "selectivity", (1.8, 2.0, 2.2), th.SELECTIVITY, ("a", "default", "b")),
        ("cpu", "mhz_per_tps", (0.4, 0.5, 0.6), th.CPU_MHZ_PER_TPS, ("count",)),
        ("cpu", "intercept_mhz", (30.0, 40.0, 50.0), th.CPU_INTERCEPT_MHZ, ("count",)),
        ("forecast_error", "forecast_error_ratio", (0.1, 0.2, 0.3), th.FORECAST_ERROR_RATIO, ()),
    ],
)
def test_every_number_has_an_interval_over_days_or_none_where_days_are_few(
    rows: str, column: str, values: tuple[float, ...], name: str, of: tuple[str, ...]
) -> None:
    edge = {"from_component": "a", "stream": "default", "to_component": "b"}
    whole = {
        "noise": noise(0.05),
        "executor_noise": row(executor_noise_tps=4.0, executor_hours=900),
        "otd": row(by="logged", soon=900, others=9000, **OTD),
        "selectivity": row(selectivity=2.0, **edge) | {"hours": 700},
        "cpu": cpu_row(),
        "forecast_error": row(
            forecast_error_ratio=0.2, weighted_error_ratio=0.2, windows=9, **dict.fromkeys(edge, None)
        ),
    }[rows]
    entry = found(mined(**{rows: [whole | by_day(column, *values * 3)]}), name, *of)
    assert entry.value is not None and entry.low is not None and entry.high is not None
    assert entry.low < entry.value < entry.high
    assert entry.days == 9
    few = found(mined(**{rows: [whole | by_day(column, *values)]}), name, *of)
    assert (few.value, few.low, few.high, few.days) == (entry.value, None, None, 3)


def test_performance_points_have_intervals_over_days() -> None:
    point = row(by="logged", component="count", threads=1, rate_tps=900.0, cpu_mhz=2000.0, memory_mb=64.0, windows=900)
    (p,) = mined(performance=[point | by_day("rate_tps", *[850.0, 950.0] * 5)]).thresholds.performance
    assert p.low_tps is not None and p.high_tps is not None and p.low_tps < 900 < p.high_tps and p.days == 10


def test_default_always_says_that_nobody_knows_better_or_that_it_is_fine() -> None:
    for m in (mined(), mined(hours=1.0, noise=[noise(0.05, windows=60, hours=1.0, rows=60)])):
        for e in m.thresholds.entries:
            assert e.text.startswith(("not known: ", "the default is fine: ")), e


def test_how_much_data_is_enough_is_configured() -> None:
    few = noise(0.05, windows=40)
    entry = found(mined(noise=[few]), th.GAIN_RATIO)
    assert (entry.source, "40 windows" in entry.text, "200 needed" in entry.text) == ("default", True, True)
    config = parse("history: {enough: {noise_windows: 40}}", "c.yaml")
    assert found(mined(MiningCriteria(config=config), noise=[few]), th.GAIN_RATIO).source == "mined"


def test_gain_threshold_does_not_fall_below_the_noise_floor_of_the_configuration() -> None:
    entry = found(mined(noise=[noise(0.001)]), th.GAIN_RATIO)
    assert (entry.value, entry.source) == (Config().verify.noise_floor_ratio, "mined")
    assert "raised to the floor" in entry.text


def test_an_hour_of_data_keeps_every_default_and_says_why() -> None:
    short = {"hours": 1.0, "rows": 60}
    m = mined(
        hours=1.0,
        noise=[noise(0.05, windows=60, **short)],
        executor_noise=[row(executor_noise_tps=3.0, executor_hours=20, **short)],
        knees=[knee(**short)],
        overload_s=[row(by="logged", supervisor=None, overload_s=300.0, episodes=3, moved=0, samples=[], **short)],
        otd=[row(by="logged", soon=10, others=50, **OTD, **short)],
        restart_s=[row(restart_s=8.0, moves=1, samples=[], **short)],
        selectivity=[
            row(from_component="a", stream="default", to_component="b", selectivity=2.0, hours_seen=1, **short)
            | {"hours": 1}
        ],
        cpu=[cpu_row(hours=1)],
    )
    assert {e.source for e in m.thresholds.entries} == {"default"}
    assert all(e.text for e in m.thresholds.entries)
    config = Config()
    assert found(m, th.GAIN_RATIO).value == config.decide.gain_threshold_ratio
    assert found(m, th.OVERLOAD_S).value == config.decide.overload_s
    assert found(m, th.CPU_LIMIT_RATIO, "sup-a").value == config.decide.cpu_limit_ratio
    assert found(m, th.OTD_QUEUE_HIGH).value == config.otd.queue_high_tuples
    assert found(m, th.SELECTIVITY, "a", "default", "b").value is None
    assert found(m, th.OVERLOAD_S).text == "not known: 3 overloads that ended by themselves, 20 needed"
    assert "1 hours, 24 needed" in found(m, th.GAIN_RATIO).text
    assert m.profile is None


def test_a_log_without_anything_keeps_defaults_too() -> None:
    m = mined()
    assert found(m, th.CPU_MHZ_PER_TPS, "count").text == "not known: no hours of executors with different rates"
    assert {e.source for e in m.thresholds.entries} == {"default"}
    assert found(m, th.GAIN_RATIO).text.startswith("not known: 43200 windows, none measured whole")


def test_windows_that_were_left_out_are_not_told_as_none() -> None:
    m = mined()
    for entry in (found(m, th.NOISE_RATIO), found(m, th.CPU_LIMIT_RATIO, "sup-a")):
        assert "43200 windows" in entry.text and "no windows" not in entry.text


def test_knee_is_capped_by_the_configuration() -> None:
    low, high = knee(), knee(knee_ratio=0.85)
    assert found(mined(knees=[low]), th.CPU_LIMIT_RATIO, "sup-a").value == 0.7
    capped = found(mined(knees=[high]), th.CPU_LIMIT_RATIO, "sup-a")
    assert (capped.value, capped.source) == (Config().decide.cpu_limit_ratio, "mined")
    assert "above 0.850, capped" in capped.text


@pytest.mark.parametrize("flat", [{"rise_ratio": 0.05}, {"rise_ratio": 0.4, "band_ratio": 0.5}])
def test_latency_that_stays_in_its_band_is_no_knee(flat: dict[str, float]) -> None:
    entry = found(mined(knees=[knee(**flat)]), th.CPU_LIMIT_RATIO, "sup-a")
    assert (entry.value, entry.source) == (Config().decide.cpu_limit_ratio, "default")
    assert entry.text == "the default is fine: latency stays in its band up to a utilisation of 0.90"


def test_default_that_is_fine_is_told_from_one_that_nobody_knows_better() -> None:
    flat = knee(knee_ratio=None, highest_ratio=0.6, rise_ratio=0.05)
    unseen = found(mined(knees=[flat]), th.CPU_LIMIT_RATIO, "sup-a")
    rare = found(mined(knees=[knee(found_share=0.4)]), th.CPU_LIMIT_RATIO, "sup-a")
    few = found(mined(knees=[knee(rows=20)]), th.CPU_LIMIT_RATIO, "sup-a")
    assert {e.source for e in (unseen, rare, few)} == {"default"}
    assert unseen.text == "not known: latency stays in its band up to a utilisation of 0.60, and none higher was seen"
    assert rare.text == "not known: a knee at 0.700 is in only 40% of draws of days"
    assert few.text.startswith("not known: 20 windows as the busiest node, 200 needed")


@pytest.mark.parametrize(
    ("none", "why"),
    [
        ({"at_foot": True, "smooth": True}, "latency rises from 0.66 on, and hardly any lower utilisation was seen"),
        ({"at_foot": False, "smooth": True}, "latency rises smoothly with utilisation"),
        ({"at_foot": False, "smooth": False}, "latency rises, and too few windows up to a utilisation of 0.90 tell"),
    ],
)
def test_latency_that_rises_without_a_knee_is_never_called_fine(none: dict[str, bool], why: str) -> None:
    rising = knee(knee_ratio=None, lowest_ratio=0.66, **none)
    entry = found(mined(knees=[rising]), th.CPU_LIMIT_RATIO, "sup-a")
    assert entry.source == "default" and entry.text.startswith(f"not known: {why}")


@pytest.mark.parametrize(
    ("little", "why"),
    [
        ({"days": 3}, "3 days, 7 needed"),
        ({"days": 7, "last": BEGIN + timedelta(days=6)}, "6 days, 7 needed"),
        ({"windows_above": 20}, "20 windows above it, 50 needed"),
        ({"low": 0.4, "high": 0.62}, "an interval that is too wide"),
        ({"low": None, "high": None}, "an interval that is too wide"),
        ({"found_share": 0.8}, "a knee in only 80% of draws of days"),
    ],
)
def test_a_limit_far_below_the_configured_one_waits_for_an_operator_on_little_data(
    little: dict[str, Any], why: str
) -> None:
    sure = knee(knee_ratio=0.6, low=0.59, high=0.62)
    assert found(mined(knees=[sure]), th.CPU_LIMIT_RATIO, "sup-a").source == "mined"
    entry = found(mined(knees=[sure | little]), th.CPU_LIMIT_RATIO, "sup-a")
    assert (entry.source, entry.value) == ("proposed", 0.6)
    assert f"far below 0.8 on {why}: it waits for `thresholds freeze`" in entry.text
    near = found(mined(knees=[knee(knee_ratio=0.75, **little)]), th.CPU_LIMIT_RATIO, "sup-a")
    assert near.source == "mined"


def test_limit_has_its_interval_and_what_decided_it() -> None:
    entry = found(mined(knees=[knee()]), th.CPU_LIMIT_RATIO, "sup-a")
    assert (entry.low, entry.high) == (0.68, 0.71)
    assert "400 windows in 20 bins above it on 30 days, from 0.680 to 0.710 in 90% of draws of days" in entry.text


def test_overloads_are_those_by_the_limit_in_the_log_and_the_mined_one_is_told_where_it_differs() -> None:
    by_log = row(by="logged", supervisor=None, overload_s=399.0, episodes=40, moved=1, samples=[])
    by_knee = by_log | {"by": "mined", "overload_s": 1560.0}
    entry = found(mined(overload_s=[by_knee, by_log]), th.OVERLOAD_S)
    assert (entry.value, entry.by) == (399.0, "logged")
    assert entry.text.endswith("; by the mined B(n) 1560 s")
    same = found(mined(overload_s=[by_knee | {"overload_s": 401.0}, by_log]), th.OVERLOAD_S)
    assert "by the mined" not in same.text


def test_performance_points_are_those_by_the_limit_in_the_log_and_by_the_mined_one_where_they_differ() -> None:
    point = row(by="logged", component="count", threads=1, rate_tps=900.0, cpu_mhz=2000.0, memory_mb=64.0, windows=900)
    other = [point | {"by": "mined", "rate_tps": 700.0}, point | {"by": "mined", "threads": 2, "rate_tps": 899.0}]
    m = mined(performance=[point, point | {"threads": 2}, *other])
    assert [(p.threads, p.by, p.rate_tps) for p in m.thresholds.performance] == [
        (1, "logged", 900.0),
        (1, "mined", 700.0),
        (2, "logged", 900.0),
    ]


def test_overloads_are_measured_against_mined_limits_only() -> None:
    assert limits([knee(), knee(supervisor="sup-b", rise_ratio=0.0)], MiningCriteria()) == {"sup-a": 0.7}


def test_a_supervisor_has_an_overload_time_of_its_own_only_with_enough_episodes() -> None:
    all_ = row(by="logged", supervisor=None, overload_s=600.0, episodes=25, moved=4, samples=[])
    few, many = row(by="logged", supervisor="sup-a", overload_s=400.0, episodes=19, moved=0, samples=[]), None
    assert [e.value for e in mined(overload_s=[all_, few]).thresholds.entries if e.name == th.OVERLOAD_S] == [600.0]
    many = few | {"episodes": 20}
    m = mined(overload_s=[all_, many])
    assert (found(m, th.OVERLOAD_S).value, found(m, th.OVERLOAD_S, "sup-a").value) == (600.0, 400.0)
    assert found(m, th.OVERLOAD_S, "sup-a").scope == "supervisor"


def test_otd_thresholds_come_in_pairs_or_not_at_all() -> None:
    told = row(by="logged", soon=200, others=9000, **OTD | {"queue_high_tuples": 300})
    m = mined(otd=[told])
    assert (found(m, th.OTD_CPU_LOW).value, found(m, th.OTD_CPU_HIGH).value) == (0.5, 0.7)
    assert (found(m, th.OTD_QUEUE_LOW).value, found(m, th.OTD_QUEUE_HIGH).value) == (1000.0, 10_000.0)
    assert "does not tell" in found(m, th.OTD_QUEUE_HIGH).text


def cpu_row(**more: Any) -> dict[str, Any]:
    line = {"component": "count", "intercept_mhz": 40.0, "mhz_per_tps": 0.5, "from_tps": 50.0, "to_tps": 150.0}
    return row(**{**line, "core_mhz": 2500.0, "r2": 0.99}) | {"hours": 500} | more


def test_cpu_line_says_its_range_and_milliseconds() -> None:
    m = mined(cpu=[cpu_row()])
    assert found(m, th.CPU_MHZ_PER_TPS, "count").value == 0.5
    assert found(m, th.CPU_INTERCEPT_MHZ, "count").value == 40.0
    assert (
        "50 to 150 tuples/s; 0.2 ms per tuple and 16 ms/s on a core of 2500 MHz"
        in found(m, th.CPU_MHZ_PER_TPS, "count").text
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"from_tps": 100.0, "to_tps": 110.0}, "rates hardly differ"),
        ({"mhz_per_tps": -0.1}, "does not rise"),
        ({"r2": 0.2}, "explains only 20%"),
        ({"hours": 3}, "24 needed"),
    ],
)
def test_a_line_that_tells_nothing_is_not_given(wrong: dict[str, float], why: str) -> None:
    entry = found(mined(cpu=[cpu_row(**wrong)]), th.CPU_MHZ_PER_TPS, "count")
    assert (entry.value, entry.source) == (None, "default")
    assert why in entry.text


def test_profile_has_a_rate_for_every_hour_that_was_seen() -> None:
    edge = {"from_component": "a", "stream": "default", "to_component": "b"}
    hours = [row(hour_of_week=h, rate_tps=100.0 + h, weeks=4, windows=240, **edge) for h in range(167)]
    errors = [
        row(forecast_error_ratio=0.1, weighted_error_ratio=0.11, windows=100, **edge),
        row(
            forecast_error_ratio=0.2,
            weighted_error_ratio=0.21,
            windows=100,
            from_component=None,
            stream=None,
            to_component=None,
        ),
    ]
    m = mined(profile=hours, forecast_error=errors)
    assert m.profile is not None
    (profile,) = m.profile.edges
    assert (profile.from_, profile.to, profile.weeks, profile.forecast_error_ratio) == ("a", "b", 4, 0.1)
    assert profile.rate_tps[:2] == [100.0, 101.0] and profile.rate_tps[167] is None
    assert m.profile.forecast_error_ratio == 0.2
    assert found(m, th.FORECAST_ERROR_RATIO).value == 0.2


def test_what_was_mined_passes_as_messages() -> None:
    m = mined(noise=[noise(0.05)], cpu=[cpu_row()])
    assert msgspec.json.decode(msgspec.json.encode(m), type=Mined) == m
