"""Performance models: interpolation between trials and its inverse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing_problems import model, performance
from stormpilot.sizing.performance import Base, Light, Line, Performance, Point


@st.composite
def performances(draw: st.DrawFn) -> Performance:
    threads = sorted({1, *draw(st.sets(st.integers(2, 80), max_size=5))})
    rates = st.floats(0.5, 500).map(lambda x: round(x, 2))
    return model("m", *((q, draw(rates), draw(st.floats(0, 1)), draw(st.floats(0, 1))) for q in threads))


def test_a_measured_point_is_what_was_measured() -> None:
    assert performance("azure-blob").at(20) == Point(threads=20, rate_tps=10, cpu_share=0.15, memory_share=0.26)


def test_between_two_points_rate_cpu_and_memory_are_on_the_line() -> None:
    """A quarter of the way from 10 to 50 threads."""
    p = model("m", (1, 2.0, 0.1, 0.1), (10, 10.0, 0.2, 0.4), (50, 30.0, 0.6, 0.8)).at(20)
    assert (p.rate_tps, p.cpu_share, p.memory_share) == pytest.approx((15.0, 0.3, 0.5))


def test_beyond_the_last_point_nothing_changes_and_it_is_said() -> None:
    blob = performance("azure-blob")
    assert blob.at(400) == blob.points[-1]
    assert blob.measured(50)
    assert not blob.measured(51)


def test_the_best_is_the_peak_with_the_fewest_threads() -> None:
    assert performance("parse-xml").best.threads == 1
    assert performance("pi").best.threads == 2
    assert performance("azure-blob").best.threads == 50
    assert model("flat", (1, 5.0, 0.1, 0.1), (4, 9.0, 0.1, 0.1), (8, 9.0, 0.1, 0.1)).best.threads == 4


@pytest.mark.parametrize(
    ("rate", "threads"), [(0.5, 1), (2.0, 1), (2.1, 2), (10.0, 20), (20.0, 35), (29.9, 50), (30.0, 50)]
)
def test_fewest_threads_for_a_rate(rate: float, threads: int) -> None:
    assert performance("azure-blob").threads_for(rate) == threads


def test_a_rate_above_the_best_needs_more_than_one_slot() -> None:
    with pytest.raises(ValueError, match="no number of threads"):
        performance("azure-blob").threads_for(30.1)


@given(performances(), st.floats(0.01, 1))
def test_threads_for_a_rate_sustain_it_and_one_fewer_does_not(p: Performance, part: float) -> None:
    rate = part * p.best.rate_tps
    q = p.threads_for(rate)
    assert p.at(q).rate_tps >= rate * (1 - 1e-6)
    assert all(p.at(fewer).rate_tps < rate for fewer in range(1, q))


@pytest.mark.parametrize("points", [[2, 3], [1, 4, 4], [1, 5, 3]])
def test_points_start_with_one_thread_and_rise(points: list[int]) -> None:
    with pytest.raises(ValueError, match="points"):
        model("m", *((q, 1.0, 0.1, 0.1) for q in points))


def test_a_base_is_part_of_every_point() -> None:
    points = [Point(threads=1, rate_tps=1.0, cpu_share=0.2, memory_share=0.3)]
    with pytest.raises(ValueError, match=r"base: more than a point has, expected at most 0\.2 and 0\.3"):
        Performance(name="x", points=points, base=Base(cpu_share=0.1, memory_share=0.31))


BASE = Base(cpu_share=0.1, memory_share=0.1, thread_cpu_share=0.02)


def test_cpu_of_threads_goes_through_the_light_trials_of_one_thread_up_to_their_peak() -> None:
    """Of each of four threads that take in 40/s together: what one takes at 10/s."""
    points = [
        Point(threads=1, rate_tps=100.0, cpu_share=0.6, memory_share=0.2),
        Point(threads=4, rate_tps=200.0, cpu_share=0.9, memory_share=0.3),
    ]
    x = Performance(name="x", points=points, base=BASE, light=[Light(rate_tps=10.0, cpu_share=0.2)])
    assert x.cpu(1).knots == tuple(pytest.approx(k) for k in [(0.0, 0.02), (10.0, 0.1), (100.0, 0.5)])
    assert x.cpu(4).knots == tuple(pytest.approx(k) for k in [(0.0, 0.08), (40.0, 0.4), (200.0, 0.8)])
    assert x.cpu(4).at(20.0) == pytest.approx(0.24)
    assert x.cpu(4).at(280.0) == pytest.approx(1.0)


def test_light_trials_that_would_take_more_than_the_peak_do_not_count() -> None:
    points = [
        Point(threads=1, rate_tps=100.0, cpu_share=0.6, memory_share=0.2),
        Point(threads=8, rate_tps=200.0, cpu_share=0.7, memory_share=0.3),
    ]
    x = Performance(name="x", points=points, base=BASE, light=[Light(rate_tps=10.0, cpu_share=0.2)])
    assert x.cpu(8).knots == tuple(pytest.approx(k) for k in [(0.0, 0.16), (200.0, 0.6)])


@pytest.mark.parametrize("rates", [[100.0], [20.0, 10.0], [10.0, 10.0]])
def test_light_trials_rise_below_the_peak_of_one_thread_and_need_a_base(rates: list[float]) -> None:
    points = [Point(threads=1, rate_tps=100.0, cpu_share=0.6, memory_share=0.2)]
    light = [Light(rate_tps=r, cpu_share=0.2) for r in rates]
    with pytest.raises(ValueError, match=r"light: .* expected rising rates below 100"):
        Performance(name="x", points=points, base=BASE, light=light)
    with pytest.raises(ValueError, match="light: base is missing"):
        Performance(name="x", points=points, light=light)


def test_a_line_of_one_knot_is_level() -> None:
    assert Line(((0.0, 3.0),)).at(17.0) == 3.0
