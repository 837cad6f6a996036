"""Algorithm 1 on components whose true peak rates are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormpilot.errors import RefusedError
from stormpilot.sizing.profiling import IDLE, RateGrid, Rules, Standing, Trial, performance, rises_no_more, search
from stormpilot.sizing.stability import latency_slope

GRID = RateGrid(10.0, 0.1, True, 10_000.0)
UNITS = RateGrid(1.0, 1.0, False, 200.0)


class Component:
    """Sustains `capacity(threads)`; a trial above is unstable. `wrong`: trials (by number) that noise turns round."""

    def __init__(
        self, capacity: Callable[[int], float], grid: RateGrid, wrong: Callable[[int], bool] = lambda _: False
    ):
        self.capacity, self.grid, self.wrong = capacity, grid, wrong
        self.trials: list[tuple[int, int]] = []

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        rate = self.grid.rate(step)
        stable = rate <= self.capacity(threads)
        if stable and self.wrong(len(self.trials)):
            stable = False
        self.trials.append((threads, step))
        return Trial(threads=threads, step=step, rate_tps=rate, stable=stable, cpu_share=rate / 1000, memory_share=0.1)


def falling(threads: int) -> float:
    return 300.0 - 20.0 * threads


def flat(threads: int) -> float:
    return 105.0


def rising(threads: int) -> float:
    return 40.0 * min(threads, 5)


SHAPES = {"falls": (falling, 3), "flat": (flat, 3), "rises, then flat": (rising, 7)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", [GRID, UNITS._replace(most_tps=400.0)])
def test_peaks_are_the_highest_rates_within_capacity_and_threads_end_where_they_stop_rising(
    shape: str, grid: RateGrid
) -> None:
    capacity, last = SHAPES[shape]
    peaks = search(Component(capacity, grid), grid, Rules(repeats=0))
    assert [p.threads for p in peaks] == list(range(1, last + 1))
    for p in peaks:
        assert p.rate_tps <= capacity(p.threads) < grid.rate(p.step + 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(1.0, 190.0), min_size=1, max_size=6), st.booleans())
def test_bisection_finds_the_peaks_of_unit_steps(capacities: list[float], relative: bool) -> None:
    grid = RateGrid(1.0, 0.07, True, 200.0) if relative else UNITS
    rules = Rules(most_threads=len(capacities), repeats=0)
    found = search(Component(lambda q: capacities[q - 1], grid), grid, rules)
    stepwise = search(
        Component(lambda q: capacities[q - 1], grid), grid, Rules(most_threads=len(capacities), exhaustive=True)
    )
    assert [(p.threads, p.step) for p in found] == [(p.threads, p.step) for p in stepwise]


@settings(max_examples=100, deadline=None)
@given(st.floats(1.0, 190.0), st.integers(-5, 300))
def test_a_guess_changes_no_peak(capacity: float, step: int) -> None:
    rules = Rules(most_threads=1, repeats=0)
    (plain,) = search(Component(lambda _: capacity, UNITS), UNITS, rules)
    (guessed,) = search(Component(lambda _: capacity, UNITS), UNITS, rules, guess=lambda _: step)
    assert guessed == plain


def test_a_good_guess_needs_two_trials_and_those_that_tell_what_few_tuples_and_none_take() -> None:
    component = Component(lambda _: 150.5, UNITS)
    search(component, UNITS, Rules(most_threads=1, repeats=0), guess=lambda _: UNITS.step_at(150.5))
    assert component.trials == [(1, 149), (1, 150), (1, 0), (1, 7), (1, IDLE)]


def test_a_peak_near_the_lowest_rate_needs_no_trial_of_that() -> None:
    component = Component(lambda _: 2.5, UNITS)
    search(component, UNITS, Rules(most_threads=1, repeats=0), guess=lambda _: 1)
    assert (1, 0) not in component.trials


@given(st.booleans(), st.integers(0, 100))
def test_the_step_at_a_rate_is_that_rate_s(relative: bool, step: int) -> None:
    grid = RateGrid(3.0, 0.1, relative, 1e6)
    assert grid.step_at(grid.rate(step)) == step
    assert grid.rate(grid.step_at(100.0)) <= 100.0 < grid.rate(grid.step_at(100.0) + 1)


def test_bisection_needs_a_fraction_of_the_trials() -> None:
    few, many = Component(lambda _: 150.0, UNITS), Component(lambda _: 150.0, UNITS)
    search(few, UNITS, Rules(most_threads=1, repeats=0))
    search(many, UNITS, Rules(most_threads=1, repeats=0, exhaustive=True))
    assert len(few.trials) < len(many.trials) / 8


def test_no_trial_is_made_twice_unless_it_was_unstable() -> None:
    component = Component(rising, GRID)
    peaks = search(component, GRID, Rules(repeats=1))
    for (threads, step), times in Counter(component.trials).items():
        assert times == (1 if GRID.rate(step) <= rising(threads) else 2)
    assert len(peaks) == 7


def test_a_disturbed_trial_is_repeated_and_changes_nothing() -> None:
    quiet = search(Component(rising, GRID), GRID, Rules())
    noisy = search(Component(rising, GRID, wrong=lambda n: n % 7 == 3), GRID, Rules(repeats=2))
    assert [(p.threads, p.step) for p in noisy] == [(p.threads, p.step) for p in quiet]


def test_what_is_clearly_unstable_is_not_repeated() -> None:
    component = Component(flat, GRID)

    def run(threads: int, step: int, attempt: int) -> Trial:
        assert attempt == 0
        trial = component(threads, step, attempt)
        return Trial(threads=threads, step=step, rate_tps=trial.rate_tps, stable=trial.stable, clear=not trial.stable)

    assert len(search(run, GRID, Rules(repeats=5))) == 3


def test_a_component_that_never_settles_is_refused() -> None:
    with pytest.raises(RefusedError, match="one thread does not sustain 10/s"):
        search(Component(lambda _: 0.0, GRID), GRID, Rules())


def test_threads_end_where_no_rate_is_stable_any_more() -> None:
    peaks = search(Component(lambda q: 50.0 * q if q < 3 else 0.0, GRID), GRID, Rules())
    assert [p.threads for p in peaks] == [1, 2]


def test_the_highest_rate_and_the_most_threads_bound_the_search() -> None:
    grid = GRID._replace(most_tps=100.0)
    peaks = search(Component(lambda q: 1e6 * q, grid), grid, Rules(most_threads=2))
    assert [p.step for p in peaks] == [grid.last] * 2
    assert [p.threads for p in search(Component(rising, GRID), GRID, Rules(most_threads=5, thread_step=2))] == [1, 3, 5]


def test_a_search_goes_on_where_it_stopped() -> None:
    """The known trials are handed in: the same peaks, and only trials that are new are carried out."""
    whole = Component(rising, GRID)
    expected = search(whole, GRID, Rules())
    known: dict[tuple[int, int, int], Trial] = {}
    carried_out = 0
    for _ in range(100):
        left = 4

        def run(threads: int, step: int, attempt: int) -> Trial:
            nonlocal left, carried_out
            key = (threads, step, attempt)
            if key not in known:
                if left == 0:
                    raise TimeoutError
                left -= 1
                carried_out += 1
                known[key] = Component(rising, GRID)(threads, step, attempt)
            return known[key]

        try:
            peaks = search(run, GRID, Rules())
            break
        except TimeoutError:
            continue
    assert peaks == expected
    assert carried_out == len(whole.trials)


def test_progress_tells_bounds_and_what_is_left() -> None:
    told: list[Standing] = []
    search(Component(flat, UNITS), UNITS, Rules(most_threads=1, repeats=0), told.append)
    assert told[0].text == "1 thread: no rate is stable yet"
    assert told[-2].text == "1 thread: 104/s is stable, 106/s is not; at most 1 rate left, then more threads or done"
    assert [p.rate_tps for p in told[-1].peaks] == [105.0], "it is known, whatever comes after it"
    assert told[-1].text == "1 thread: 105/s is stable"
    left = [s.trials_left for s in told if s.trials_left is not None]
    assert left == sorted(left, reverse=True)


def test_rates_of_a_fast_task_read_without_exponents() -> None:
    text = Standing([], 2, 11_562.7, 13_990.9, None).text
    assert text == "2 threads: 11,563/s is stable, 13,991/s is not"


def test_the_slope_of_peaks_is_relative_to_the_highest() -> None:
    def peaks(*rates: float) -> list[Trial]:
        return [Trial(threads=i + 1, step=0, rate_tps=r, stable=True) for i, r in enumerate(rates)]

    assert not rises_no_more(peaks(1, 1), Rules())
    assert rises_no_more(peaks(5, 5, 5), Rules())
    assert rises_no_more(peaks(5, 4, 3), Rules())
    assert not rises_no_more(peaks(5, 5, 5.1), Rules())
    assert rises_no_more(peaks(1, 5000, 5000, 5001), Rules())


def test_a_model_has_a_point_for_each_number_of_threads() -> None:
    trials = [
        Trial(threads=1, step=3, rate_tps=30.0, stable=True, cpu_share=1.02, memory_share=0.2),
        Trial(threads=2, step=3, rate_tps=31.0, stable=True, cpu_share=0.9, memory_share=0.3),
    ]
    made = performance("pi", trials)
    assert [(p.threads, p.rate_tps, p.cpu_share, p.memory_share) for p in made.points] == [
        (1, 30.0, 1.0, 0.2),
        (2, 31.0, 0.9, 0.3),
    ]


def trial(threads: int, tps: float, cpu_share: float, memory_share: float = 0.2) -> Trial:
    return Trial(
        threads=threads, step=IDLE if tps == 0 else 0, rate_tps=tps, stable=True, completed_tps=tps,
        cpu_share=cpu_share, memory_share=memory_share,
    )  # fmt: skip


PEAKS = [trial(1, 100.0, 0.6, 0.20), trial(3, 150.0, 0.9, 0.30)]


def test_a_model_knows_what_its_worker_takes_without_threads_and_tuples() -> None:
    base = performance("x", PEAKS, [trial(1, 0.0, 0.12), trial(3, 0.0, 0.16), *PEAKS]).base
    assert base is not None
    assert (base.cpu_share, base.thread_cpu_share, base.memory_share) == pytest.approx((0.1, 0.02, 0.15))


def test_idle_threads_that_seem_to_take_less_than_fewer_take_nothing() -> None:
    base = performance("x", PEAKS, [trial(1, 0.0, 0.13), trial(3, 0.0, 0.11), *PEAKS]).base
    assert base is not None
    assert (base.cpu_share, base.thread_cpu_share) == pytest.approx((0.12, 0.0))


def test_a_worker_that_restarted_without_tuples_tells_nothing() -> None:
    restarted = msgspec.structs.replace(trial(3, 0.0, 0.0), why="the worker restarted")
    base = performance("x", PEAKS, [trial(1, 0.0, 0.12), restarted]).base
    assert base is not None
    assert (base.cpu_share, base.thread_cpu_share) == pytest.approx((0.12, 0.0))


def test_trials_far_below_the_peak_tell_what_few_tuples_take_even_if_they_look_unstable() -> None:
    few = msgspec.structs.replace(trial(1, 8.0, 0.3), stable=False)
    trials = [few, trial(1, 1.0, 0.2), trial(1, 90.0, 0.5), trial(3, 8.0, 0.9), trial(1, 0.0, 0.1), *PEAKS]
    assert [(x.rate_tps, x.cpu_share) for x in performance("x", PEAKS, trials).light] == [(1.0, 0.2), (8.0, 0.3)]


def test_without_such_trials_nothing_is_known_of_cpu_and_of_one_point_nothing_at_all() -> None:
    base = performance("x", PEAKS, PEAKS).base
    assert base is not None
    assert (base.cpu_share, base.memory_share) == pytest.approx((0.0, 0.15))
    assert performance("x", PEAKS[:1], PEAKS).base is None


def test_level_latency_with_noise_and_outliers_is_stable() -> None:
    noise = np.random.default_rng(3).normal(0, 0.004, 20)
    points = [(0.5 * i, 0.02 + float(noise[i]) + (0.5 if i == 17 else 0.0)) for i in range(20)]
    slope = latency_slope(points)
    assert slope is not None
    assert slope.low <= 0.001


@pytest.mark.parametrize("excess", [0.02, 0.05, 0.5])
def test_a_component_that_falls_behind_is_unstable(excess: float) -> None:
    noise = np.random.default_rng(4).normal(0, 0.004, 20)
    slope = latency_slope([(0.5 * i, 0.02 + excess * 0.5 * i + float(noise[i])) for i in range(20)])
    assert slope is not None
    assert slope.low > 0.001
    assert slope.middle == pytest.approx(excess, abs=0.005)


def test_too_few_points_have_no_slope() -> None:
    assert latency_slope([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]) is None
    assert latency_slope([(1.0, float(i)) for i in range(9)]) is None
