"""The histogram of latencies: its buckets, and quantiles of it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS, FIRST_BOUND_MS, LatencyHistogram, quantile_ms

IN_RANGE = st.floats(FIRST_BOUND_MS, BOUNDS_MS[-1])


def histogram_of(latencies_ms: list[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for latency in latencies_ms:
        histogram.add(latency)
    return histogram


@settings(deadline=None)
@given(st.lists(IN_RANGE, min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantile_is_within_ten_percent_of_the_exact_one(latencies_ms: list[float], q: float) -> None:
    exact = sorted(latencies_ms)[max(0, math.ceil(q * len(latencies_ms)) - 1)]
    assert quantile_ms(histogram_of(latencies_ms).buckets(), q) == pytest.approx(exact, rel=0.1)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), max_size=200))
def test_every_latency_stands_in_the_bucket_whose_bounds_enclose_it(latencies_ms: list[float]) -> None:
    buckets = histogram_of(latencies_ms).buckets()
    assert sum(n for _, n in buckets) == len(latencies_ms)
    lower = 0.0
    for bound, n in buckets:
        upper = math.inf if bound == ABOVE_MS else bound
        if n:
            assert sum(lower < x <= upper or x == lower == 0 for x in latencies_ms) == n
        lower = upper


@settings(deadline=None)
@given(st.lists(IN_RANGE, min_size=1, max_size=50), st.lists(IN_RANGE, max_size=50))
def test_a_later_report_holds_at_least_what_an_earlier_one_held(first: list[float], then: list[float]) -> None:
    histogram = histogram_of(first)
    before = dict(histogram.buckets())
    for latency in then:
        histogram.add(latency)
    after = dict(histogram.buckets())
    assert all(after[bound] >= n for bound, n in before.items())


def test_neighbouring_bounds_differ_by_a_tenth() -> None:
    assert all(upper / lower == pytest.approx(1.1, abs=0.001) for lower, upper in pairwise(BOUNDS_MS))
    assert BOUNDS_MS[0] == 0.1
    assert BOUNDS_MS[-1] > 600_000


def test_reported_buckets_are_neighbours_so_that_the_previous_bound_is_the_lower_one() -> None:
    bounds = [bound for bound, _ in histogram_of([1.0, 90.0]).buckets()]
    first = BOUNDS_MS.index(bounds[0])
    assert tuple(bounds) == BOUNDS_MS[first : first + len(bounds)]
    assert bounds[0] < 1.0 / 1.0001
    assert bounds[-1] >= 90.0


def test_a_latency_above_the_last_bound_counts_as_above() -> None:
    buckets = histogram_of([1e9]).buckets()
    assert buckets[-1] == [ABOVE_MS, 1]
    assert quantile_ms(buckets, 0.5) == BOUNDS_MS[-1]


def test_nothing_counted_has_no_bucket_and_no_quantile() -> None:
    assert LatencyHistogram().buckets() == []
    assert quantile_ms([], 0.5) is None


def test_a_report_of_usual_latencies_stays_small() -> None:
    assert len(histogram_of([0.5 * 1.01**k for k in range(1000)]).buckets()) < 120
