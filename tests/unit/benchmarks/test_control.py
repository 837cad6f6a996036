"""`make bench-control`: its tables, without a cluster."""

from __future__ import annotations

import pytest

from benchmarks.control import cycles, page, soak

MACHINE = {"cores": 2, "memory_gb": 24, "python": "3.11", "load_average": [1.5, 1.0, 1.0], "date": "2026-01-31"}


def test_a_page_has_a_table_for_every_part_that_was_run() -> None:
    rows = [
        {
            "supervisors": 500,
            "executors": 20_000,
            "ms": {k: [1.0, 2.0, 9.0] for k in ("storm", "unchanged", "whole", "moving")},
        }
    ]
    text = page.page({"shim": {"machine": MACHINE, "rows": rows}})
    assert "| 500 | 20,000 | 2.0 (2.0, 9.0) |" in text
    assert "2 cores and 24 GB, Python 3.11, load average at the end 1.5" in text


def test_cpu_and_load_stand_beside_the_clock_where_they_were_taken() -> None:
    row = {
        **{"supervisors": 500, "executors": 20_000, "pairs": 10, "cycle_s": {"median": 40.0, "min": 30.0, "max": 50.0}},
        **{"controller_reads_kb_per_s": 1.0, "controller_writes_kb_per_s": 1.0, "reports_kb_per_s": 1.0},
        **{"controller_peak_mb": 100.0, "decided": {"GAIN": 3}},
    }
    told = {**row, "cpu_s_per_cycle": {"controller": 12.34, "planners": 9.8}, "controller_cpu_share": 0.41}
    text = page.page({"scale": {"machine": MACHINE, "rows": [row, told]}})
    assert "| 40.00 (30.00, 50.00) | - | - | 1 |" in text
    assert "| 40.00 (30.00, 50.00) | 12.3 + 9.8 | 41% | 1 |" in text


def test_cycles_are_told_by_how_much_changed_and_one_topology_of_many_is_planned_alone() -> None:
    row = cycles.run(12, 120, 20, 1, seed=1)
    planned = {kind: [c["planned"] for c in found] for kind, found in row["cpu_s"].items()}
    assert planned["same rates"] == [0]
    assert planned["1% changed"] == [1]
    assert planned["all changed"] == [20]
    text = page.page({"cycles": {"machine": MACHINE, "rows": [row]}})
    assert "| 1% changed | 1 |" in text


def test_growth_of_memory_is_told_once_it_is_warm() -> None:
    """A quarter of the time goes by first: what is taken then is no leak."""
    series = [(10.0 * i, 100.0 + min(i, 20) * 5 + max(0, i - 20) * 0.1) for i in range(81)]
    told = soak.memory_growth(series)
    assert (told["first_mb"], told["warm_mb"], told["last_mb"]) == (100.0, 200.0, pytest.approx(206.0))
    assert told["mb_per_h"] == pytest.approx(36.0, rel=0.01)
    assert soak.memory_growth([]) == {}


def test_leader_that_loads_its_planners_does_not_leak() -> None:
    """It stood by with 180 MB until 500 s, and leads with 280 since."""
    series = [(10.0 * i, 180.0 if 10 * i < 500 else 280.0) for i in range(181)]
    samples = [
        {"at_s": at_s, "controllers": {"a:7": mb, "b:77": 0.0}, "leader": "vm:77" if at_s < 500 else "vm:7"}
        for at_s, mb in series
    ]
    ((name, (kept, led_s)),) = soak._series(samples).items()
    assert (name, kept, led_s) == ("controller a (7)", series, 500.0)
    told = soak.memory_growth(kept, led_s)
    assert (told["first_mb"], told["warm_mb"], told["warm_from_s"]) == (180.0, 280.0, 620.0)
    assert told["mb_per_h"] == pytest.approx(0.0, abs=1e-6)


def test_an_hour_is_told_with_what_was_due() -> None:
    row = {
        **{"minutes": 60.0, "executors": 100_000, "topologies": 100, "pairs": 1_800_000, "cycles": 118},
        **{"cycles_due": 120, "cycle_s": {"median": 14.2, "max": 29.0}, "cores": {"controller": 0.6, "zookeeper": 0.2}},
        **{"reports_kb_per_s": 2_100.0, "planners_mb": 900.0, "log_errors": [], "decided": {"GAIN": 3, "None": 115}},
        "memory": soak.memory_growth([(30.0 * i, 2_000.0) for i in range(120)]),
    }
    text = page.page({"hour": {"machine": MACHINE, "rows": row}})
    assert "| cycles, and how many are due | 118, 120 |" in text
    assert "| its growth once warm | +0.0 MB/h |" in text or "| its growth once warm | -0.0 MB/h |" in text
