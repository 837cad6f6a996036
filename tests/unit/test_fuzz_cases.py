"""A little of every kind of hostile input, and every case that broke something once (`make fuzz` finds them)."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzzing

DECODERS = [t for t in fuzzing.TARGETS if t not in fuzzing.OF_CYCLES]


@pytest.mark.parametrize("target", DECODERS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_hostile_input_is_a_value_or_an_error_with_its_place(target: str, chance: random.Random) -> None:
    fuzzing.TARGETS[target](chance)


@pytest.mark.parametrize(("target", "seed"), fuzzing.cases())
def test_what_broke_something_once_does_not_any_more(target: str, seed: int) -> None:
    fuzzing.run(target, seed)
