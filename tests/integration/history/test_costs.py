"""Selectivity, CPU per tuple, performance points, profiles and restarts, on literal rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stormpilot.history.frames import DataFrame, current, fn
from stormpilot.history.mine.columns import quantile
from stormpilot.history.mine.cpu import cpu, cpu_bins
from stormpilot.history.mine.performance import performance
from stormpilot.history.mine.restart import restart_s
from stormpilot.history.mine.selectivity import selectivity, taken_in
from stormpilot.history.mine.surroundings import machines
from stormpilot.history.mine.weekly_profile import every_window, forecast_error, held_out, profile
from tests.integration.history.conftest import Made, Table, at, collected, evidence, of_all_days

HOUR_0 = int(at(0).timestamp() // 3600)


def hours(component: str, hour: int, **columns: Any) -> dict[str, Any]:
    rates = {"received_tps": 0.0, "emitted_tps": 0.0, "sent_tps": 0.0, "cpu_mhz": 10.0, "core_mhz": 2500.0}
    row = {"topology_name": "flights", "component": component, "hour": hour, "windows": 60, **rates, **columns}
    sums = {"received": 60 * row["received_tps"], "emitted": 60 * row["emitted_tps"]}
    return {**row, **sums, **evidence()}


def edge(sender: str, receiver: str, hour: int, rate_tps: float, stream: str = "default") -> dict[str, Any]:
    ends = {"from_component": sender, "stream": stream, "to_component": receiver}
    return {"topology_name": "flights", **ends, "hour": hour, "rate_tps": rate_tps, **evidence()}


def test_selectivity_is_what_goes_along_an_edge_per_tuple_taken_in(made: Made) -> None:
    """Of a bolt received, of a spout emitted, of one without ids what went along its busiest edge."""
    executors, edges = [], []
    for h in range(3):
        executors += [hours("spout", h, emitted_tps=100.0 + h), hours("quiet", h, sent_tps=80.0)]
        executors += [hours("split", h, received_tps=50.0 + h), hours("split", h, received_tps=50.0)]
        edges += [edge("spout", "split", h, 60 * (100.0 + h)), edge("quiet", "split", h, 60 * 40.0)]
        edges += [edge("quiet", "log", h, 60 * 4.0), edge("split", "count", h, 60 * 7.5 * (100.0 + h))]
    edges[-1]["rate_tps"] /= 10  # an hour with a restart in it
    hour_rows, edge_rows = made(executors), made(edges)
    found = of_all_days(selectivity(edge_rows, taken_in(hour_rows, edge_rows)))
    assert {(r.from_component, r.to_component): (pytest.approx(r.selectivity), r.hours, r.rows) for r in found} == {
        ("spout", "split"): (1.0, 3, 3),
        ("quiet", "split"): (1.0, 3, 3),
        ("quiet", "log"): (0.1, 3, 3),
        ("split", "count"): (7.5, 3, 3),
    }


def test_cpu_is_a_line_over_the_rate_with_an_intercept(made: Made) -> None:
    rows = [hours("count", h, received_tps=50.0 + h, cpu_mhz=40 + 0.5 * (50 + h)) for h in range(200)]
    rows += [hours("count", 0, received_tps=60.0 + h, cpu_mhz=2000.0) for h in range(0, 200, 50)]  # a busy neighbour
    rows += [hours("spout", h, emitted_tps=10.0 + h, cpu_mhz=0.2 * (10 + h) - 1) for h in range(100)]
    rows += [hours("level", h, received_tps=30.0) for h in range(50)]
    found = {r.component: r for r in of_all_days(cpu(cpu_bins(made(rows))))}
    assert found["count"].mhz_per_tps == pytest.approx(0.5, rel=0.01)
    assert found["count"].intercept_mhz == pytest.approx(40, rel=0.02)
    assert found["count"].r2 > 0.99 and found["count"].core_mhz == 2500
    assert found["spout"].intercept_mhz == 0 and found["spout"].mhz_per_tps == pytest.approx(0.2, rel=0.1)
    assert "level" not in found


def worker(minute: int, component: str, threads: int, rate_tps: float) -> dict[str, Any]:
    cost = {"cpu_mhz": rate_tps / 2, "memory_mb": 64.0 * threads, "over": minute >= 80}
    return {
        "topology_name": "flights",
        "by": "logged",
        "component": component,
        "threads": threads,
        "rate_tps": rate_tps,
        **cost,
    } | evidence(minute)


def test_performance_is_the_peak_while_the_node_was_not_over_its_limit(made: Made) -> None:
    rows = [worker(m, "count", 2, 100.0 + m) for m in range(100)] + [worker(m, "count", 1, 30.0) for m in range(100)]
    rows += [worker(m, "idle", 1, 0.0) for m in range(100)]
    points = {(r.component, r.threads): r for r in of_all_days(performance(made(rows)))}
    assert set(points) == {("count", 1), ("count", 2)}
    two = points["count", 2]
    assert (two.rate_tps, two.cpu_mhz) == (pytest.approx(178.21), pytest.approx(89.105))
    assert (two.memory_mb, two.windows) == (128.0, 80)


def test_quantile_is_the_same_however_rows_are_spread(made: Made) -> None:
    """Standalone workers get rows in another order than local threads; `percentile_approx` would answer otherwise."""
    values = made([{"x": i * 7919 % 30_011 / 7.0} for i in range(30_000)])
    ways = [values, values.orderBy("x"), values.orderBy(fn.desc("x"))]
    ways += [values.repartition(5)] if current() == "spark" else []
    asked = [w.agg(quantile("x", 0.99).alias("high"), quantile("x", 0.5).alias("middle")) for w in ways]
    found = [collected(a)[0] for a in asked]
    assert len({(r.high, r.middle) for r in found}) == 1
    assert (found[0].high, found[0].middle) == (
        pytest.approx(30_011 / 7 * 0.99, 1e-3),
        pytest.approx(30_011 / 14, 1e-3),
    )
    few = made([{"x": x} for x in (0.0, -3.0, 1234.5678, 0.0)])
    (row,) = collected(few.agg(quantile("x", 1.0).alias("most"), quantile("x", 0.0).alias("least")))
    assert (row.most, row.least) == (pytest.approx(1234.6), -3.0)


def weekly(weeks: float, growth: float = 0.0) -> list[dict[str, Any]]:
    """A window an hour with a rate of 100 + hour of the week, growing from week to week."""
    found = []
    for h in range(round(weeks * 168)):
        rate = (100.0 + h % 168) * (1 + growth * (h // 168))
        found.append(edge("a", "b", HOUR_0 + h, rate))
    return found


def test_profile_is_the_median_rate_of_each_hour_of_the_week(made: Made) -> None:
    rows = made(weekly(3, growth=0.1))
    found = {r.hour_of_week: r for r in collected(profile(rows))}
    assert len(found) == 168
    assert (found[0].rate_tps, found[0].weeks, found[0].windows) == (pytest.approx(110.0), 3, 3)


def test_forecast_is_tested_on_the_last_week_that_it_was_not_made_from(made: Made) -> None:
    found = {r.from_component: r for r in of_all_days(forecast_error(held_out(made(weekly(2, growth=0.25)))))}
    assert set(found) == {None, "a"}
    assert found["a"].forecast_error_ratio == pytest.approx(0.2) and found["a"].windows == 168
    assert found[None].weighted_error_ratio == pytest.approx(0.2)


def test_with_nine_days_the_last_day_is_the_test_and_with_seven_there_is_none(made: Made) -> None:
    nine = collected(held_out(made(weekly(9 / 7))).where("test"))
    seven = collected(held_out(made(weekly(1))).where("test"))
    assert (len(nine), len(seven)) == (24, 0)


def batch(made: Made, weeks: int, burst: Callable[[int], bool], topology_id: str = "flights-1-17") -> DataFrame:
    """Windows of 5 minutes: a steady edge has 100/s, the other one rows only in windows with a burst, of 6,000/s."""
    minutes = range(5, weeks * 168 * 60, 5)
    rows = []
    for minute in minutes:
        edges = [edge("a", "b", 0, 100.0)] + [edge("b", "c", 0, 6000.0)] * burst(minute)
        rows += [
            {**e, "topology_id": topology_id, "window_to": at(minute), "possible": True, "last": at(minute)}
            for e in edges
        ]
    whole = [
        {"topology_id": i, "window_to": at(m), "total_tps": 100.0} for i in (topology_id, "other-1-1") for m in minutes
    ]
    rows.append({**rows[0], "from_component": "x", "window_to": at(1), "last": at(1)})  # in no window measured whole
    wrong = {"from_component": "a", "to_component": "b", "window_to": at(minutes[-1]), "last": at(minutes[-1])}
    rows.append({**rows[0], **wrong, "rate_tps": 1e20, "possible": False})
    return every_window(made(rows), made(whole))


def test_windows_without_a_tuple_on_an_edge_count_as_nothing_in_its_profile(made: Made) -> None:
    every = batch(made, 1, lambda minute: minute % 60 == 30)
    found = {(r.from_component, r.hour_of_week): r for r in collected(profile(every))}
    assert (found["b", 5].rate_tps, found["b", 5].windows, found["b", 5].rows) == (0.0, 12, 1)
    assert (found["a", 5].rate_tps, found["a", 5].windows, found["a", 5].rows) == (100.0, 12, 12)
    often = batch(made, 1, lambda minute: minute % 60 >= 20)
    assert {r.rate_tps for r in collected(profile(often)) if r.from_component == "b"} == {6000.0}


def test_rate_that_is_impossible_is_no_window_without_tuples(made: Made) -> None:
    only = edge("a", "b", 0, 7.0)
    rows = [
        {**only, "topology_id": "i", "window_to": at(m), "rate_tps": rate, "possible": rate < 1e15}
        for m, rate in ((1, 7.0), (2, 1e20))
    ]
    whole = [{"topology_id": "i", "window_to": at(m), "total_tps": 7.0 * (m < 3)} for m in (1, 2, 3)]
    found = collected(every_window(made(rows), made(whole)))
    assert sorted((r.window_to.minute, r.rate_tps, r.rows) for r in found) == [(1, 7.0, 1), (3, 0.0, 0)]


def test_window_whose_edges_are_lost_is_no_window_without_tuples(made: Made) -> None:
    """Of a file that cannot be read; tuples of the system alone say that the window's file is there."""
    only = {**edge("a", "b", 0, 7.0), "topology_id": "i", "possible": True}
    rows = [{**only, "window_to": at(1)}, {**only, "window_to": at(3), "rate_tps": 2.0}]
    rows[1] |= {"from_component": None, "stream": None, "to_component": None}
    whole = [{"topology_id": "i", "window_to": at(m), "total_tps": 7.0 * (m != 4)} for m in (1, 2, 3, 4)]
    found = collected(every_window(made(rows), made(whole)))
    assert sorted((r.window_to.minute, r.rate_tps) for r in found) == [(1, 7.0), (3, 0.0), (4, 0.0)]


def test_forecast_of_bursts_that_come_at_other_times_is_off(made: Made) -> None:
    """Where nothing was forecast and nothing came, nothing was tested."""
    ends = batch(made, 2, lambda minute: minute < 168 * 60)
    found = {r.from_component: r for r in of_all_days(forecast_error(held_out(ends)))}
    assert (found["b"].forecast_error_ratio, found["b"].weighted_error_ratio, found["b"].windows) == (1.0, 1.0, 2016)
    assert found["a"].forecast_error_ratio == 0.0
    rare = batch(made, 2, lambda minute: minute % 60 == 30)
    found = {r.from_component: r for r in of_all_days(forecast_error(held_out(rare)))}
    assert (found["b"].forecast_error_ratio, found["b"].windows) == (1.0, 168)


def test_restart_is_the_median_of_what_was_measured(table: Table) -> None:
    moves = [
        {"topology_name": "flights", "at": at(m), "published_at": at(m - 1), "downtime_s": s}
        for m, s in enumerate((8.0, 9.0, 40.0, None))
    ]
    (row,) = collected(restart_s(table("outcomes", moves)))
    assert (row.restart_s, row.moves) == (9.0, 3)


def test_machines_are_those_of_the_last_hour(table: Table) -> None:
    """Supervisors that were replaced are no machines that a topology could be given."""
    node = {"cores": 8.0, "mhz": 2000.0, "limit_mhz": 12_800.0, "load_mhz": 10.0, "memory_mb": 4096.0, "slots": 4}
    rows = [{"window_to": at(m), "supervisor": "old", **node} for m in (0, 1)]
    rows += [{"window_to": at(m), "supervisor": "new", **node, "cores": float(c)} for m, c in ((1, 4), (90, 16))]
    rows += [{"window_to": at(40), "supervisor": "restarts", **node}]
    found = {r.supervisor: r.cores for r in collected(machines(table("nodes", rows)))}
    assert found == {"new": 16.0, "restarts": 8.0}
