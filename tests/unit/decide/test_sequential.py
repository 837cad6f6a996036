"""How soon a gain is believed, and how often wrongly."""

from __future__ import annotations

import random

import pytest

from stormpilot.decide.sequential import ENOUGH, evidence

THRESHOLD, CYCLES_IN_A_ROW = 0.1, 3


def believed(gains: list[float], noise: float, *, sequential: bool) -> int:
    """How often a gain is believed: in so many cycles in a row, and by the sequential test before that."""
    count, total, found = 0, 0.0, 0
    for gain in gains:
        if gain < THRESHOLD:
            count, total = 0, 0.0
            continue
        count, total = count + 1, total + evidence(gain, THRESHOLD, noise)
        if count >= CYCLES_IN_A_ROW or (sequential and total >= ENOUGH):
            count, total, found = 0, 0.0, found + 1
    return found


@pytest.mark.parametrize("noise", [0.05, 0.15, 0.3, 0.9])
def test_false_alarms_are_those_of_a_fixed_number_of_cycles(noise: float) -> None:
    """A hundred thousand cycles of noise, of which `noise` is three standard deviations, and no gain."""
    rng = random.Random(1)
    gains = [rng.gauss(0.0, noise / 3) for _ in range(100_000)]
    fixed = believed(gains, noise, sequential=False)
    assert believed(gains, noise, sequential=True) <= fixed + 1


def test_noise_that_is_three_times_the_known_one_is_hardly_believed() -> None:
    """Planners choose among noisy measurements, so gains vary more than shares."""
    rng = random.Random(2)
    gains = [rng.gauss(0.0, 0.05) for _ in range(100_000)]
    assert believed(gains, 0.05, sequential=True) <= believed(gains, 0.05, sequential=False) + 10


@pytest.mark.parametrize(("gain", "noise", "cycles"), [(0.5, 0.05, 1), (0.3, 0.05, 1), (0.2, 0.05, 2), (0.5, 0.3, 19)])
def test_the_larger_the_gain_against_the_noise_the_sooner_it_is_believed(
    gain: float, noise: float, cycles: int
) -> None:
    assert (cycles - 1) * evidence(gain, THRESHOLD, noise) < ENOUGH <= cycles * evidence(gain, THRESHOLD, noise)


def test_nothing_is_evidence_of_a_gain_where_none_is_needed() -> None:
    assert evidence(0.5, 0.0, 0.05) == evidence(0.04, 0.1, 0.05) == 0.0
