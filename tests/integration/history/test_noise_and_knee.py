"""Noise floor and latency knee, on literal rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stormpilot.history.mine.knee import knees, latency_bins
from stormpilot.history.mine.noise import executor_noise, noise
from tests.integration.history.conftest import Made, Table, at, collected, evidence, of_all_days, window


def traffic(minute: int, tps: float, **columns: Any) -> dict[str, Any]:
    return window(minute, **{"measured": True, "inter_node_tps": tps, **columns})


def test_noise_is_the_scatter_around_the_line_of_an_hour(table: Table) -> None:
    """A rise within the hour is none, nor are a few bursts or what was not measured."""
    swing = [traffic(m, (100 + m) * (1.05 if m % 2 else 0.95)) for m in range(60)]
    burst = [traffic(60 + m, 200 * (1.05 if m % 2 else 0.95)) for m in range(60)]
    burst[30]["inter_node_tps"] = 900.0
    hidden = [traffic(30, 9e9, measured=False), traffic(31, None)]
    (row,) = of_all_days(noise(table("windows", swing + burst + hidden)))
    assert row.noise_ratio == pytest.approx(1.4826 * 0.05, rel=0.1)
    assert (row.windows, row.rows, row.hours_of_week) == (119, 119, 2)  # without the burst


def test_noise_is_that_of_the_hours_with_traffic(table: Table) -> None:
    """Two of three hours have a trickle that varies by half, the third one varies by 2%."""
    night = [traffic(m, 0.6 if m % 2 else 0.4) for m in range(120)]
    day = [traffic(120 + m, 1020.0 if m % 2 else 980.0) for m in range(60)]
    (row,) = of_all_days(noise(table("windows", night + day)))
    assert row.noise_ratio == pytest.approx(1.4826 * 0.02, rel=0.1)
    assert row.windows == 180


def test_a_new_placement_is_no_noise(table: Table) -> None:
    """Nor is a stretch too short for a line."""
    before = [traffic(m, 300.0) for m in range(30)]
    after = [traffic(m, 100.0, assigned_since=at(29)) for m in range(30, 60)]
    short = [traffic(m, 50.0 * m, assigned_since=at(60)) for m in range(60, 65)]
    (row,) = of_all_days(noise(table("windows", before + after + short)))
    assert row.noise_ratio == pytest.approx(0.0, abs=1e-9)
    assert row.windows == 60


def test_one_executors_noise_is_the_median_of_those_with_traffic(made: Made) -> None:
    assert _of_executors(
        made, [(12, 100.0, 4.0), (12, 100.0, 6.0), (12, 100.0, 50.0), (12, 0.0, 0.0), (5, 100.0, 9.0)]
    ) == (
        6.0,
        3,
    )


def test_one_executors_noise_is_that_of_the_hours_with_traffic(made: Made) -> None:
    """Of 24 hours 16 have a trickle, whose noise is next to nothing."""
    nights = [(12, 0.1, 0.02)] * 16
    assert _of_executors(made, [*nights, *[(12, 1000.0, 10.0)] * 8], apart=True) == (10.0, 24)


def _of_executors(made: Made, hours: list[tuple[int, float, float]], *, apart: bool = False) -> tuple[float, int]:
    """Noise, and executor hours; all of one hour, or each of an hour of its own."""
    rows = [
        {
            "topology_name": "flights",
            "hour": i * apart,
            "windows": w,
            "traffic_tps": t,
            "traffic_noise_tps": n,
            **evidence(),
        }
        for i, (w, t, n) in enumerate(hours)
    ]
    (row,) = of_all_days(executor_noise(made(rows)))
    return row.executor_noise_tps, row.executor_hours


def latency(minute: int, load_ratio: float, p95_ms: float, supervisor: str = "a") -> dict[str, Any]:
    return window(
        minute, measured=True, busiest_supervisor=supervisor, busiest_load_ratio=load_ratio, latency_p95_ms=p95_ms
    )


def bending(supervisor: str, knee: float | None, base_ms: float = 20.0) -> list[dict[str, Any]]:
    """Six windows at every percent of utilisation; latency rises steeply and ever more above `knee`."""
    rows = []
    for i in range(20, 96):
        u = i / 100
        over = 0.0 if knee is None else max(0.0, u - knee)
        for k in range(6):
            wobble = 1 + 0.02 * (k - 2.5)
            rows.append(latency(len(rows), u, base_ms * wobble * (1 + 8 * over / (1.05 - u)), supervisor))
    return rows


def found_in(table: Table, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The knees of windows, by supervisor."""
    bins = [vars(r) for r in collected(latency_bins(table("windows", rows)))]
    return {r["supervisor"]: SimpleNamespace(**r) for r in knees(bins)}


def test_knee_is_where_latency_begins_to_rise(table: Table) -> None:
    found = found_in(table, bending("a", 0.62) + bending("b", 0.75))
    assert found["a"].knee_ratio == pytest.approx(0.62, abs=0.03)
    assert found["b"].knee_ratio == pytest.approx(0.75, abs=0.03)
    assert found["a"].rise_ratio > 5 * found["a"].band_ratio
    assert {s: (round(r.highest_ratio, 2), r.rows) for s, r in found.items()} == {"a": (0.95, 456), "b": (0.95, 456)}


def test_bins_far_above_the_knee_neither_move_it_nor_are_left_out(table: Table) -> None:
    """A node that was seen at 14 times its usual latency does not stay in its band."""
    rows = [r for r in bending("a", 0.64) if r["busiest_load_ratio"] <= 0.68 or r["busiest_load_ratio"] >= 0.85]
    found = found_in(table, rows)["a"]
    assert found.knee_ratio == pytest.approx(0.64, abs=0.05)
    assert found.rise_ratio > 5


def test_a_knee_with_the_fewest_bins_above_it_is_rejected(table: Table) -> None:
    """It slid down until it had them: where it really is nobody has seen."""
    rows = [r for r in bending("a", 0.64) if r["busiest_load_ratio"] <= 0.665]
    steep = [{**r, "latency_p95_ms": r["latency_p95_ms"] * 2} for r in rows if r["busiest_load_ratio"] > 0.655]
    level = [r for r in rows if r["busiest_load_ratio"] <= 0.655]
    assert found_in(table, level + steep)["a"].knee_ratio is None


def test_level_latency_has_no_knee(table: Table) -> None:
    found = found_in(table, bending("a", None))["a"]
    assert found.knee_ratio is None or found.rise_ratio < 0.1
