"""The bench: what a trial used of a slot."""

from __future__ import annotations

import pytest

from stormpilot.trials.bench import beyond_slot


@pytest.mark.parametrize(
    ("cpu", "memory", "why"),
    [
        (1.02, 0.9, ""),
        (3.8, 0.9, "it takes 380% of the CPU of a slot"),
        (0.5, 2.1, "it takes 210% of the memory of a slot"),
    ],
)
def test_worker_that_took_more_than_its_slot_shows_no_rate_of_one(cpu: float, memory: float, why: str) -> None:
    """Alone on a node of four cores, four threads use all of them."""
    assert beyond_slot(cpu, memory) == why
