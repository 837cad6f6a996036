"""Mined numbers of long synthetic logs against what was planted in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.generate.logs.truth import TopologyTruth
from stormpilot.history.mine import on_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.log import Selection
from stormpilot.messages import thresholds as th

MONTH = Spec(days=30, window_s=300, parallelism=2, nodes=3)
WITHIN = 0.05


def test_a_month_gives_back_what_was_planted(tmp_path: Path) -> None:
    truth = generate(tmp_path / "month", MONTH, seed=5).topologies[0]
    (mined,) = on_duckdb.mine(
        str(tmp_path / "month"), Selection(("made1",)), MiningCriteria(), with_sizing=True
    ).topologies
    found = {(e.name, *e.of): e for e in mined.thresholds.entries}
    for key, planted in _planted(truth).items():
        entry = found[key]
        assert entry.source == "mined", (key, entry.text)
        assert entry.value == pytest.approx(planted, rel=WITHIN), key
        assert entry.rows > 0 and truth_span(entry.from_ms, entry.to_ms) > 0.9 * 30 * 86_400_000
    assert mined.sizing is not None and mined.sizing.problem is not None, mined.sizing
    sized = {c.id: c for c in mined.sizing.problem.components}
    assert {(s.from_, s.stream, s.to) for s in truth.selectivity} == {
        (i.component, i.stream, c.id) for c in sized.values() for i in c.inputs
    }
    assert mined.profile is not None and mined.profile.forecast_error_ratio is not None
    assert mined.profile.forecast_error_ratio == pytest.approx(0.674 * truth.noise_ratio, rel=0.6)


def truth_span(from_ms: int, to_ms: int) -> int:
    return to_ms - from_ms


def _planted(t: TopologyTruth) -> dict[tuple[str, ...], float]:
    planted: dict[tuple[str, ...], float] = {
        (th.GAIN_RATIO,): t.gain_threshold_ratio,
        (th.NOISE_RATIO,): t.noise_ratio,
        (th.OVERLOAD_S,): t.overload_s,
    }
    planted |= {(th.CPU_LIMIT_RATIO, k.supervisor): k.knee_ratio for k in t.knees if k.above >= 100}
    planted |= {(th.SELECTIVITY, s.from_, s.stream, s.to): s.value for s in t.selectivity}
    planted |= {(th.CPU_MHZ_PER_TPS, c.component): c.mhz_per_tps for c in t.cpu if not c.component.startswith("__")}
    assert len([k for k in planted if k[0] == th.CPU_LIMIT_RATIO]) >= 2
    return planted


def test_overloads_and_queues_are_told_by_the_limit_in_the_log_where_the_daily_peak_is_above_the_knee(
    tmp_path: Path,
) -> None:
    """By the knee every working day would be one overload of hours, and no queue would tell of any."""
    spec = Spec(days=14, window_s=120, parallelism=1, nodes=2, lowest_knee_ratio=0.36, highest_knee_ratio=0.42)
    truth = generate(tmp_path / "log", spec, seed=5).topologies[0]
    (mined,) = on_duckdb.mine(str(tmp_path / "log"), Selection(), MiningCriteria()).topologies
    found = {(e.name, *e.of): e for e in mined.thresholds.entries}
    for knee in truth.knees:
        assert found[th.CPU_LIMIT_RATIO, knee.supervisor].value == pytest.approx(knee.knee_ratio, abs=0.03)
    x = found[th.OVERLOAD_S,]
    assert (x.source, x.by) == ("mined", "logged") and "by the mined B(n)" in x.text
    assert x.value == pytest.approx(truth.overload_s, rel=WITHIN)
    assert x.low is not None and x.high is not None and x.low <= truth.overload_s <= x.high
    high = found[th.OTD_QUEUE_HIGH,]
    assert high.source == "mined" and high.value is not None and high.value > truth.queue_before_overload_tuples
