"""Intervals from draws of days."""

from __future__ import annotations

import numpy as np
import pytest

from stormpilot.history.mine.days import DRAWS, expanded, interval, of_days, of_quantile, resampled, together


def test_the_log_itself_comes_first_and_every_draw_has_as_many_days() -> None:
    times = resampled(7)
    assert times.shape == (DRAWS + 1, 7)
    assert (times[0] == 1).all() and (times.sum(axis=1) == 7).all()
    assert (resampled(7) == times).all(), "the same log, the same numbers"


def test_few_days_say_nothing_about_how_much_days_differ() -> None:
    assert resampled(3).shape == (1, 3)
    assert of_quantile([[20_000.0, 5.0], [20_001.0, 6.0], [20_002.0, 7.0]], 0.5) == (None, None)
    assert of_quantile([], 0.5) == (None, None)


def test_interval_is_wide_where_days_differ_and_narrow_where_windows_of_one_day_do() -> None:
    rng = np.random.default_rng(1)
    days = np.repeat(np.arange(20), 50)
    within = [[20_000.0 + d, 100 + 10 * rng.standard_normal()] for d in days]
    level = 100 + 10 * rng.standard_normal(20)
    between = [[20_000.0 + d, level[d]] for d in days]
    narrow, wide = (np.subtract(*of_quantile(s, 0.5)[::-1]) for s in (within, between))
    assert 0 < narrow < 2 < 5 < wide


def test_interval_does_not_depend_on_the_order_of_samples_nor_on_missing_ones() -> None:
    samples = [[20_000.0 + d, float(v)] for d in range(10) for v in (d, 3 * d)]
    assert of_quantile([None, *samples[::-1]], 0.95) == of_quantile(samples, 0.95)


@pytest.mark.parametrize(("known", "expected"), [(40, (None, None)), (60, (5.0, 5.0))])
def test_a_number_that_most_draws_do_not_have_has_no_interval(known: int, expected: tuple[float, float]) -> None:
    drawn = np.array([5.0] * known + [np.nan] * (100 - known))
    assert interval(drawn) == expected
    assert interval(drawn, 0.5) == ((4.5, 5.5) if known == 60 else (None, None))


def days(*values: float | None, rows: int = 1440) -> list[dict[str, object]]:
    return [{"name": "t", "day": 20_000 + i, "x": v, "rows": rows} for i, v in enumerate(values)]


def test_numbers_of_days_hang_on_the_number_of_all_of_them() -> None:
    whole = {"name": "t", "day": None, "x": 5.0, "rows": 9}
    other = {"name": "u", "day": None, "x": 1.0, "rows": 1}
    (a, b) = together([*days(4.0, 6.0)[::-1], whole, other], "name")
    assert ([d["x"] for d in a["by_day"]], b["by_day"]) == ([4.0, 6.0], [])


def test_interval_of_a_number_is_as_wide_as_its_days_differ() -> None:
    (sure,) = together([*days(*[5.0] * 8), {**days(5.2)[0], "day": None}], "name")
    assert of_days(sure, "x") == (5.2, 5.2)
    (unsure,) = together([*days(*[4.0, 6.0] * 4), {**days(5.2)[0], "day": None}], "name")
    low, high = of_days(unsure, "x")
    assert low is not None and high is not None and 4.0 < low < 5.2 < high < 6.5


def test_interval_of_days_holds_the_true_number_about_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(300):
        of = rng.normal(10.0, 1.0, 7)
        (row,) = together([*days(*of), {**days(float(of.mean()))[0], "day": None}], "name")
        low, high = of_days(row, "x")
        assert low is not None and high is not None
        held += low <= 10.0 <= high
    assert 0.83 < held / 300 < 0.97


def test_days_without_the_number_and_logs_of_few_days_have_no_interval() -> None:
    (row,) = together([*days(4.0, None, 5.0, 6.0), {**days(5.0)[0], "day": None}], "name")
    assert of_days(row, "x") == (None, None)
    assert of_days(None, "x") == (None, None)


def test_level_of_few_blocks_is_further_out() -> None:
    assert expanded(0.05, 10_000) == pytest.approx(0.05, abs=1e-3)
    assert expanded(0.05, 4) < expanded(0.05, 7) < 0.05
