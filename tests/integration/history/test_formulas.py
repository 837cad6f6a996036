"""The formulas of docs/concepts/mining.md, worked out from the files of a log by numpy alone: the product's numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history.mine import on_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.log import Selection
from stormpilot.messages import thresholds as th

SPEC = Spec(days=12, window_s=300, parallelism=2, nodes=3, topologies=1, failures_per_day=1.0)
MAD = 1.4826
Row = dict[str, Any]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days of one topology."""
    folder = tmp_path_factory.mktemp("formulas") / "log"
    generate(folder, SPEC, seed=12)
    return folder


@pytest.fixture(scope="module")
def mined(log: Path) -> dict[tuple[str, ...], Any]:
    """Findings of the product: entries by name and scope, performance points by component and threads."""
    (found,) = on_duckdb.mine(str(log), Selection(), MiningCriteria()).topologies
    entries: dict[tuple[str, ...], Any] = {(e.name, *e.of): e for e in found.thresholds.entries}
    points = {("point", p.component, str(p.threads)): p for p in found.thresholds.performance if p.by == "logged"}
    return entries | points


@cache
def rows(log: Path, table: str) -> list[Row]:
    """All rows of a table, in the order of time."""
    found = [r for f in sorted((log / table).rglob("*.parquet")) for r in pq.ParquetFile(f).read().to_pylist()]
    for r in found:
        r["hour"], r["at_s"] = int(r["window_to"].timestamp() // 3600), r["window_to"].timestamp() % 3600
    return sorted(found, key=lambda r: r["window_to"])


def grouped(found: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by a key."""
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    for r in found:
        groups[key(r)].append(r)
    return groups


def five_digits(values: Iterable[float]) -> list[float]:
    """Values as quantiles take them."""
    return [0.0 if v == 0 else float(f"{v:.4e}") for v in values]


def test_noise_is_that_around_the_line_of_each_hour(log: Path, mined: dict[tuple[str, ...], Any]) -> None:
    of_week: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    measured = [w for w in rows(log, "windows") if w["measured"] and w["inter_node_tps"] is not None]
    for hour in grouped(measured, lambda w: (w["topology_id"], w["assigned_since"], w["hour"])).values():
        n = len(hour)
        if n < 8:
            continue
        x, y = (np.array([w[c] for w in hour]) for c in ("at_s", "inter_node_tps"))
        half = n - n // 2
        run = np.median(x[half:]) - np.median(x[:half])
        slope = (np.median(y[half:]) - np.median(y[:half])) / run
        level = np.median(y - slope * x) + slope * x
        off = np.abs(y / level - 1)[level > 0] * n / (n - 2)
        of_week[(hour[0]["hour"] + 72) % 168] += zip(off, level[level > 0], strict=True)
    ratios, weights, windows = [], [], 0
    for off_of_hour in of_week.values():
        far = 4 * MAD * np.median([o for o, _ in off_of_hour])
        near = [(o, level) for o, level in off_of_hour if o <= far]
        ratios.append(MAD * np.median([o for o, _ in near]))
        weights.append(sum(level for _, level in near))
        windows += len(near)
    noise = mined[th.NOISE_RATIO,]
    assert (noise.source, noise.rows) == ("mined", windows)
    assert noise.value == pytest.approx(weighted_median(ratios, weights), rel=1e-9)
    assert mined[th.GAIN_RATIO,].value == pytest.approx(max(3 * noise.value, 0.02), rel=1e-9)


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Where half of the weight is below."""
    order = np.argsort(values)
    upto, half = np.cumsum(np.array(weights)[order]), sum(weights) / 2
    reached = upto >= half * (1 - 1e-9), upto > half * (1 + 1e-9)
    return float(np.mean([np.array(values)[order][np.argmax(r)] for r in reached]))


def executor_hours(log: Path) -> dict[Any, list[Row]]:
    """Rows of an executor at one place in one hour."""
    whole = {w["window_to"] for w in rows(log, "windows") if w["measured"]}
    own = [
        e for e in rows(log, "executors") if e["measured"] and (e["covered_s"] or 0) > 0 and e["component"][:2] != "__"
    ]
    for e in own:
        e["whole"] = e["window_to"] in whole
    return grouped(own, lambda e: (e["component"], e["executor"], e["supervisor"], e["assigned_since"], e["hour"]))


def test_an_executors_noise_is_the_scatter_around_its_hours_line(log: Path, mined: dict[tuple[str, ...], Any]) -> None:
    noises: list[tuple[int, float, float]] = []
    for hour in executor_hours(log).values():
        traffic = np.array([(e["received_tps"] or 0.0) + (e["sent_tps"] or 0.0) for e in hour])
        x, n = np.array([e["at_s"] for e in hour]), len(hour)
        if n >= 8 and traffic.mean() > 0:
            line = np.polynomial.Polynomial.fit(x, traffic, 1)
            scatter = math.sqrt(((traffic - line(x)) ** 2).sum() / (n - 2))
            noises.append((hour[0]["hour"], traffic.mean(), scatter))
    mean_of = {h: np.mean([tps for at, tps, _ in noises if at == h]) for h in {at for at, _, _ in noises}}
    usual = weighted_median([scatter for *_, scatter in noises], [mean_of[h] for h, *_ in noises])
    entry = mined[th.OTD_ASC,]
    assert entry.source == "mined" and entry.value == pytest.approx(max(1.0, 3 * usual), rel=1e-6)


def overload_windows(log: Path) -> dict[str, list[Row]]:
    """Windows of each node with `over`, by the limit in the log."""
    nodes = grouped((n for n in rows(log, "nodes") if n["limit_mhz"]), lambda n: n["supervisor"])
    for of_node in nodes.values():
        for n in of_node:
            n["ratio"] = n["load_mhz"] / n["limit_mhz"]
            n["over"] = n["ratio"] >= 1
    return nodes


def test_x_is_the_95th_percentile_of_overloads_that_ended_by_themselves(
    log: Path, mined: dict[tuple[str, ...], Any]
) -> None:
    placements: defaultdict[Any, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for e in (e for hour in executor_hours(log).values() for e in hour):
        placements[e["topology_id"], e["assigned_since"]][e["supervisor"]].append(e)
    changes, presence = defaultdict(set), defaultdict(list)
    order = sorted(placements, key=lambda p: p[1])
    for i, key in enumerate(order):
        last = max(e["window_to"] for own in placements[key].values() for e in own)
        for supervisor, own in placements[key].items():
            changes[supervisor] |= {key[1], order[i + 1][1] if i + 1 < len(order) else last}
            presence[supervisor].append((min(e["window_from"] for e in own), max(e["window_to"] for e in own)))
    lengths = []
    for supervisor, of_node in overload_windows(log).items():
        ends = [n["window_to"].timestamp() for n in of_node]
        usual = float(np.median(np.diff(ends)))
        i = 0
        while i < len(of_node):
            j = i
            while (
                of_node[i]["over"]
                and j + 1 < len(of_node)
                and of_node[j + 1]["over"]
                and ends[j + 1] - ends[j] <= 3 * usual
            ):
                j += 1
            if of_node[i]["over"]:
                known = i > 0 and j + 1 < len(of_node) and ends[i] - ends[i - 1] <= 3 * usual >= ends[j + 1] - ends[j]
                moved = known and any(
                    of_node[j]["window_from"] < at <= of_node[j + 1]["window_to"] for at in changes[supervisor]
                )
                there = any(
                    of_node[j]["window_to"] > began and of_node[i]["window_from"] < ended
                    for began, ended in presence[supervisor]
                )
                if known and there and not moved:
                    lengths.append(ends[j] - ends[i] + usual)
            i = j + 1
    entry = mined[th.OVERLOAD_S,]
    assert entry.source == "mined" and len(lengths) > 20 and f"95% of {len(lengths)} overloads" in entry.text
    assert entry.value == pytest.approx(np.quantile(five_digits(lengths), 0.95), rel=1e-6)


def test_selectivity_is_the_median_over_hours_of_sent_per_received(
    log: Path, mined: dict[tuple[str, ...], Any]
) -> None:
    whole = {w["window_to"] for w in rows(log, "windows") if w["measured"]}
    sent: defaultdict[Any, float] = defaultdict(float)
    for e in rows(log, "edges"):
        if e["window_to"] in whole and not any(
            e[c].startswith("__") for c in ("from_component", "to_component", "stream")
        ):
            sent[(e["from_component"], e["stream"], e["to_component"]), e["hour"]] += e["rate_tps"]
    taken: defaultdict[Any, float] = defaultdict(float)
    for (component, *_, hour), own in executor_hours(log).items():
        taken[component, hour] += sum(e["received_tps"] or 0.0 for e in own if e["whole"])
    edges = {edge for edge, _ in sent if sum(v for (c, _), v in taken.items() if c == edge[0]) > 0}
    assert len(edges) >= 3
    for edge in edges:
        ratios = [v / taken[edge[0], h] for (e, h), v in sent.items() if e == edge and taken[edge[0], h] > 0]
        entry = mined[(th.SELECTIVITY, *edge)]
        assert entry.source == "mined" and entry.value == pytest.approx(np.median(ratios), rel=1e-9), edge


def test_cpu_is_a_line_through_the_medians_of_twenty_classes_of_rates(
    log: Path, mined: dict[tuple[str, ...], Any]
) -> None:
    hours = [h for h in executor_hours(log).values() if len(h) >= 5]
    names = {k[1] for k, e in mined.items() if k[0] == th.CPU_MHZ_PER_TPS and e.source == "mined"}
    assert len(names) >= 2
    for component in names:
        own = [h for h in hours if h[0]["component"] == component]
        received = [np.mean([e["received_tps"] for e in h if e["received_tps"] is not None] or [0.0]) for h in own]
        emitted = [np.mean([e["emitted_tps"] for e in h if e["emitted_tps"] is not None] or [0.0]) for h in own]
        rates = np.array(received if sum(received) > 0 else emitted)
        cpu = np.array([np.mean([e["cpu_mhz"] for e in h]) for h in own])
        low, high = (np.quantile(five_digits(rates[cpu > 0]), part) for part in (0.02, 0.98))
        used = (cpu > 0) & (rates >= low) & (rates <= high)
        classes = np.floor((rates[used] - low) / (high - low) * 20)
        points = [
            (np.median(rates[used][classes == c]), np.median(cpu[used][classes == c]), int((classes == c).sum()))
            for c in sorted(set(classes))
        ]
        x, y, w = (np.array(column, dtype=float) for column in zip(*points, strict=True))
        slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(w))
        if intercept < 0:
            slope, intercept = (w * x * y).sum() / (w * x * x).sum(), 0.0
        assert mined[th.CPU_MHZ_PER_TPS, component].value == pytest.approx(slope, rel=1e-6), component
        assert mined[th.CPU_INTERCEPT_MHZ, component].value == pytest.approx(intercept, rel=1e-6, abs=1e-9), component


def test_performance_is_the_99th_percentile_where_the_node_was_not_over_its_limit(
    log: Path, mined: dict[tuple[str, ...], Any]
) -> None:
    over = {(n["supervisor"], n["window_to"]): n["over"] for of in overload_windows(log).values() for n in of}
    placed = [e for e in rows(log, "executors") if e["supervisor"] is not None and e["component"][:2] != "__"]
    rates, cpu = defaultdict(list), defaultdict(list)
    key = lambda e: (e["supervisor"], e["port"], e["component"], e["window_to"])  # noqa: E731
    for (supervisor, _, component, at), own in grouped(placed, key).items():
        if all(e["measured"] for e in own) and over.get((supervisor, at)) is False:
            driving = [
                next((e[c] for c in ("received_tps", "emitted_tps", "sent_tps") if (e[c] or 0) > 0), 0.0) for e in own
            ]
            rates[component, len(own)].append(sum(driving))
            cpu[component, len(own)].append(sum(e["cpu_mhz"] for e in own))
    points = {k: p for k, p in mined.items() if k[0] == "point"}
    assert len(points) >= 3
    for (_, component, threads), point in points.items():
        own_rates, own_cpu = rates[component, int(threads)], cpu[component, int(threads)]
        assert point.rows == pytest.approx(len(own_rates) * int(threads))
        assert point.rate_tps == pytest.approx(np.quantile(five_digits(own_rates), 0.99), rel=1e-6)
        assert point.cpu_mhz == pytest.approx(np.quantile(five_digits(own_cpu), 0.99), rel=1e-6)


def test_a_knee_is_the_candidate_with_the_least_squares(log: Path, mined: dict[tuple[str, ...], Any]) -> None:
    windows = [
        w for w in rows(log, "windows") if w["measured"] and (w["latency_p95_ms"] or 0) > 0 and w["busiest_load_ratio"]
    ]
    usual = np.quantile(five_digits(w["latency_p95_ms"] for w in windows), 0.5)
    found = 0
    for supervisor, own in grouped(windows, lambda w: w["busiest_supervisor"]).items():
        entry = mined[th.CPU_LIMIT_RATIO, supervisor]
        if entry.source == "default":
            continue
        x, y, weight = [], [], []
        for _, of_bin in sorted(grouped(own, lambda w: math.floor(w["busiest_load_ratio"] / 0.01 + 0.5)).items()):
            days = [(float(np.log(np.median([w["latency_p95_ms"] / usual for w in day]))), len(day))
                    for day in grouped(of_bin, lambda w: w["window_to"].date()).values()]  # fmt: skip
            days.sort()
            upto = np.cumsum([n for _, n in days])
            y.append(days[int(np.argmax(upto * 2 >= upto[-1]))][0])
            x.append(np.mean([w["busiest_load_ratio"] for w in of_bin]))
            weight.append(len(of_bin))
        u, latency, n = np.array(x), np.array(y), np.array(weight, dtype=float)
        best = (math.inf, math.nan)
        for candidate in 0.30 + 0.005 * np.arange(140):
            above = u > candidate
            if above.sum() < 3 or (~above).sum() < 3:
                continue
            columns = [np.ones_like(u), np.maximum(0, u - candidate), np.maximum(0, u - candidate - 0.05)]
            design = np.sqrt(n)[:, None] * np.stack(columns, axis=1)
            design = np.vstack([design, [0, 0, math.sqrt(0.001)]])
            target = np.append(np.sqrt(n) * latency, 0.0)
            (_, slope, _), *_ = np.linalg.lstsq(design, target, rcond=None)
            left = ((design @ np.linalg.lstsq(design, target, rcond=None)[0] - target) ** 2).sum()
            if slope > 0 and left < best[0] - 1e-12:
                best = (left, candidate)
        assert entry.value == pytest.approx(min(max(best[1], 0.3), 0.8), abs=1e-9), supervisor
        found += 1
    assert found >= 2


def test_restart_and_otd_are_quantiles(log: Path, mined: dict[tuple[str, ...], Any]) -> None:
    files = sorted((log / "outcomes").rglob("*.parquet"))
    down = [r["downtime_s"] for f in files for r in pq.ParquetFile(f).read().to_pylist() if (r["downtime_s"] or 0) > 0]
    restart = mined[th.RESTART_S,]
    assert restart.source == "mined" and restart.value == pytest.approx(np.median(down), abs=5e-4)
    soon = {}
    for supervisor, of_node in overload_windows(log).items():
        for i, n in enumerate(of_node):
            coming = any(later["over"] for later in of_node[i + 1 : i + 4])
            soon[supervisor, n["window_to"]] = (n["over"], coming, n["ratio"])
    kinds: dict[bool, list[float]] = {True: [], False: []}
    workers = grouped(
        (e for e in rows(log, "executors") if e["supervisor"] is not None and e["component"][:2] != "__"),
        lambda e: (e["supervisor"], e["port"], e["window_to"]),
    )
    for (supervisor, _, at), own in workers.items():
        by_component = groupby(sorted(own, key=lambda e: str(e["component"])), key=lambda e: e["component"])
        whole = any(all(e["measured"] for e in of) for _, of in by_component)
        over, coming, ratio = soon.get((supervisor, at), (True, False, 0.0))
        if whole and not over:
            kinds[coming].append(ratio)
    high, low, rare = (np.quantile(five_digits(kinds[k]), p) for k, p in ((True, 0.75), (False, 0.75), (False, 0.95)))
    entry = mined[th.OTD_CPU_HIGH,]
    assert (entry.source == "mined") == (high > rare and low < high <= 1)
    if entry.source == "mined":
        assert entry.value == pytest.approx(high, abs=1e-6)
        assert mined[th.OTD_CPU_LOW,].value == pytest.approx(low, abs=1e-6)
