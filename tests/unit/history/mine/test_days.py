"""Intervals from draws of days."""

from __future__ import annotations

import numpy as np
import pytest

from stormpilot.history.mine.days import DRAWS, interval, of_quantile, resampled


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
