"""A clock that goes on as before where that of the machine is set."""

from __future__ import annotations

import pytest

from stormpilot.clock import STEP_MS, SteadyClock


@pytest.fixture
def at() -> dict[str, float]:
    return {"ms": 50_000_000, "s": 7.0}


@pytest.fixture
def steady(at: dict[str, float]) -> SteadyClock:
    return SteadyClock(lambda: int(at["ms"]), lambda: at["s"])


def test_it_is_the_time_of_day(at: dict[str, float], steady: SteadyClock) -> None:
    assert steady() == 50_000_000
    at |= {"ms": 50_000_900, "s": 8.0}  # nudged
    assert steady() == 50_000_900
    at |= {"ms": 50_001_900 - STEP_MS + 1, "s": 9.0}
    assert steady() == 50_001_900 - STEP_MS + 1
    assert steady.set_by_ms is None


@pytest.mark.parametrize("by_ms", [-3_600_000, -STEP_MS, STEP_MS, 86_400_000])
def test_it_goes_on_as_before_when_the_clock_is_set_and_says_by_how_much(
    at: dict[str, float], steady: SteadyClock, by_ms: int
) -> None:
    steady()
    at |= {"ms": 50_002_000 + by_ms, "s": 9.0}
    assert steady() == 50_002_000
    assert steady.set_by_ms == by_ms
    at |= {"ms": 50_003_000 + by_ms, "s": 10.0}
    assert steady() == 50_003_000
    at |= {"ms": 50_004_000, "s": 11.0}  # and set right again
    assert (steady(), steady.set_by_ms) == (50_004_000, 0)


def test_one_that_was_set_does_not_follow_nudges_any_more(at: dict[str, float], steady: SteadyClock) -> None:
    """What it says and by how much it was set fit together."""
    steady()
    at |= {"ms": 53_600_000, "s": 7.0}
    steady()
    at |= {"ms": 53_600_500, "s": 7.0}
    assert (steady(), steady.set_by_ms) == (50_000_000, 3_600_500)
