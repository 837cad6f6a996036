"""Slots to VMs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormpilot.sizing.acquisition import acquire
from stormpilot.sizing.problem import VmSize

D = [VmSize(name="D1", slots=1), VmSize(name="D2", slots=2), VmSize(name="D3", slots=4)]


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (1, ["D1"]),
        (3, ["D3"]),
        (4, ["D3"]),
        (7, ["D3", "D3"]),
        (13, ["D3", "D3", "D3", "D1"]),
        (14, ["D3", "D3", "D3", "D2"]),
    ],
)
def test_the_largest_first_then_the_smallest_that_holds_the_rest(slots: int, expected: list[str]) -> None:
    assert [v.name for v in acquire(slots, D)] == expected


def test_with_one_size_the_rest_gets_a_whole_one() -> None:
    assert len(acquire(9, [VmSize(name="big", slots=8)])) == 2


@given(st.integers(1, 500), st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True))
def test_there_are_slots_enough_and_less_than_one_vm_too_many(slots: int, sizes: list[int]) -> None:
    got = sum(v.slots for v in acquire(slots, [VmSize(name=f"v{n}", slots=n) for n in sizes]))
    assert slots <= got < slots + max(sizes)
