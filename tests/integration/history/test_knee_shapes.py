"""Knees of shapes that `trafficlog generate` does not make: no B(n) far below the real one, whatever the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.history.shapes import PER_DAY, queueing, utilisation
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.knee import knees, latency_bins
from stormpilot.history.mine.limit import cpu_limit
from stormpilot.messages.thresholds import ThresholdEntry
from tests.integration.history.conftest import Table, collected, window

Floats = npt.NDArray[np.float64]
pytestmark = pytest.mark.parametrize("engine", ["duckdb"], indirect=True)


def limit(table: Table, u: Floats, latency: Floats, supervisors: Sequence[str] = ("a",), seed: int = 1) -> Any:
    """What is mined of each of the supervisors, which followed one another."""
    noise = np.exp(0.05 * np.random.default_rng(seed + 1000).standard_normal(len(u)))
    rows = [
        window(
            5 * (i + 1),
            measured=True,
            busiest_supervisor=supervisors[i * len(supervisors) // len(u)],
            busiest_load_ratio=float(u[i]),
            latency_p95_ms=float(20 * latency[i] * noise[i]),
        )
        for i in range(len(u))
    ]
    bins = [vars(r) for r in collected(latency_bins(table("windows", rows)))]
    found = {r["supervisor"]: r for r in knees(bins)}
    return {s: cpu_limit(s, found.get(s), MiningCriteria()) for s in supervisors}


def near(entry: ThresholdEntry, knee: float, off: float = 0.03) -> bool:
    """Whether a knee was mined, near the planted one."""
    return entry.source != "default" and entry.value is not None and abs(entry.value - knee) <= off


SEEDS = pytest.mark.parametrize("seed", range(4))


@SEEDS
def test_peaks_that_pass_the_knee_every_day_do_not_move_it(table: Table, seed: int) -> None:
    u = utilisation(7, seed, mean=0.6, swing=0.25, bursts=0)
    entry = limit(table, u, queueing(u, 0.65), seed=seed)["a"]
    assert near(entry, 0.65), entry


@SEEDS
def test_of_two_knees_the_limit_lies_at_one_or_between_them(table: Table, seed: int) -> None:
    u = utilisation(14, seed)
    entry = limit(table, u, queueing(u, 0.6, 1.0) * queueing(u, 0.75), seed=seed)["a"]
    assert entry.source != "default" and 0.57 <= entry.value <= 0.78, entry


@SEEDS
def test_a_node_that_never_passes_its_knee_keeps_the_default_as_not_known(table: Table, seed: int) -> None:
    u = utilisation(14, seed, bursts=0)
    entry = limit(table, u, queueing(u, 0.7), seed=seed)["a"]
    assert entry.source == "default" and entry.text.startswith("not known:"), entry


@SEEDS
def test_a_node_that_passes_every_limit_in_its_band_keeps_the_default_as_fine(table: Table, seed: int) -> None:
    u = utilisation(14, seed)
    entry = limit(table, u, np.ones(len(u)), seed=seed)["a"]
    assert entry.source == "default" and entry.text.startswith("the default is fine:"), entry


@SEEDS
def test_a_node_that_was_only_seen_above_its_knee_keeps_the_default_as_not_known(table: Table, seed: int) -> None:
    """Its knee is not where it was seen first: latency rises from there on."""
    at = np.arange(14 * PER_DAY)
    u = 0.8 - 0.08 * np.cos(at / PER_DAY * 2 * np.pi) + 0.03 * np.random.default_rng(seed).standard_normal(len(at))
    u = u.clip(0.66, 0.97)
    entry = limit(table, u, queueing(u, 0.5), seed=seed)["a"]
    assert entry.source == "default" and entry.text.startswith("not known: latency rises from"), entry


@pytest.mark.parametrize(
    "latency",
    [
        lambda u: 1 / (1 - u),
        lambda u: (1 - u**2) ** -0.5,
        lambda u: np.exp(2 * u),
    ],
)
@SEEDS
def test_latency_that_rises_smoothly_has_no_knee(table: Table, seed: int, latency: Callable[[Floats], Floats]) -> None:
    """A level and a line bend such a curve in the middle of what was seen: with two weeks that came in force."""
    for u in (utilisation(14, seed), utilisation(14, seed, 0.45, 0.3, 0)):
        entry = limit(table, u, latency(u), seed=seed)["a"]
        assert entry.source == "default" and entry.text.startswith("not known: latency rises smoothly"), entry


def test_a_low_knee_that_few_draws_of_days_have_waits_for_an_operator(table: Table) -> None:
    """Two weeks of data, and yet nobody knows: one half of the draws is as near to a curve without a knee."""
    u = utilisation(14, 0)
    entry = limit(table, u, queueing(u, 0.5, 2.0), seed=0)["a"]
    assert entry.source == "proposed" and "of draws of days" in entry.text, entry


@SEEDS
def test_a_node_that_was_renamed_has_a_knee_under_each_name(table: Table, seed: int) -> None:
    u = utilisation(14, seed)
    found = limit(table, u, queueing(u, 0.68), ("before", "after"), seed=seed)
    assert all(near(e, 0.68) for e in found.values()), found


@pytest.mark.parametrize(
    "drift",
    [
        lambda days: 1 + 0.03 * days,  # latency itself
        lambda days: np.where(days < 7, 1.0, 1.6),  # a release
    ],
)
@SEEDS
def test_latency_that_drifts_by_itself_moves_the_knee_little(
    table: Table, seed: int, drift: Callable[[Floats], Floats]
) -> None:
    u = utilisation(14, seed)
    days = np.arange(len(u)) / PER_DAY
    entry = limit(table, u, queueing(u, 0.66) * drift(days), seed=seed)["a"]
    assert near(entry, 0.66), entry
