"""Synthetic logs: the real layout and schema, the same rows for the same seed, and the truth in the rows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from stormpilot.errors import RefusedError
from stormpilot.generate.logs import Spec, Truth, generate
from stormpilot.generate.logs.log import read_truth
from stormpilot.trafficlog.schema import HOPS, TABLES, VERSION, version_of

SPEC = Spec(days=1.1, window_s=300, parallelism=4, nodes=3, overloads_per_day=3, failures_per_day=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    directory = tmp_path_factory.mktemp("made") / "log"
    return directory, generate(directory, SPEC, seed=5)


def column(directory: Path, table: str, name: str) -> np.ndarray:
    return np.asarray(pq.read_table(directory / table).column(name).to_numpy())


def test_files_lie_where_the_controller_writes_them_with_its_columns(made: tuple[Path, Truth]) -> None:
    directory, truth = made
    for table, schema in TABLES.items():
        files = sorted((directory / table).rglob("*.parquet"))
        assert files, table
        for file in files:
            found = pq.read_schema(file)
            assert found.remove_metadata().equals(schema), table
            assert version_of(found) == VERSION
            assert file.parent.parent.name.startswith("date=") or table == "nodes"
        assert sum(pq.read_metadata(f).num_rows for f in files) == truth.rows[table]
    assert not list(directory.rglob("*.tmp"))
    assert read_truth(directory) == truth


def test_day_of_a_file_is_the_day_of_its_windows_ends(made: tuple[Path, Truth]) -> None:
    table = ds.dataset(made[0] / "windows", partitioning="hive").to_table(columns=["window_to", "date"])
    assert table.num_rows
    pairs = zip(table.column("window_to").to_pylist(), table.column("date").to_pylist(), strict=True)
    assert all(f"{at:%Y-%m-%d}" == str(day) for at, day in pairs)


def test_same_seed_makes_the_same_rows_and_another_seed_others(tmp_path: Path) -> None:
    spec = Spec(days=0.05, parallelism=2)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, spec, seed)
    a, b, c = (pq.read_table(tmp_path / name / "edges").drop(["topology", "date"]) for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)


def test_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(RefusedError, match="is not empty"):
        generate(tmp_path, SPEC)


def test_log_whose_day_is_one_gap_is_generated(tmp_path: Path) -> None:
    told: list[int] = []
    spec = Spec(days=0.003, parallelism=1, failures_per_day=100)
    truths = [generate(tmp_path / str(seed), spec, seed, lambda _, rows: told.append(rows)) for seed in range(12)]
    assert [t.rows.get("edges", 0) for t in truths] == told
    assert 0 in told


def test_rate_that_falls_to_nothing_is_refused() -> None:
    assert Spec(days=30, drift_per_week_ratio=-0.2)
    with pytest.raises(ValueError, match=r"drift_per_week_ratio is -0\.2: nothing is left of the rate"):
        Spec(days=35, drift_per_week_ratio=-0.2)


def test_planted_cpu_law_is_in_the_rows(made: tuple[Path, Truth]) -> None:
    directory, truth = made
    rows = pq.read_table(directory / "executors")
    component, measured = rows.column("component").to_pylist(), rows.column("measured").to_pylist()
    received, cpu = rows.column("received_tps").to_pylist(), rows.column("cpu_mhz").to_pylist()
    law = next(c for c in truth.topologies[0].cpu if c.component == "count")
    mine = [i for i, c in enumerate(component) if c == "count" and measured[i]]
    slope, intercept = np.polyfit([received[i] for i in mine], [cpu[i] for i in mine], 1)
    assert slope == pytest.approx(law.mhz_per_tps, rel=0.02)
    assert intercept == pytest.approx(law.intercept_mhz, rel=0.1)


def test_planted_selectivity_is_in_the_rows(made: tuple[Path, Truth]) -> None:
    directory, truth = made
    windows = pq.read_table(directory / "windows")
    whole = windows.filter(windows.column("measured")).column("window_to").to_pylist()
    edges = pq.read_table(directory / "edges", columns=["window_to", "from_component", "to_component", "rate_tps"])
    seen: dict[tuple[str, str], float] = {}
    kept = set(whole)
    for at, a, b, rate in zip(*(edges.column(c).to_pylist() for c in edges.column_names), strict=True):
        if at in kept:
            seen[a, b] = seen.get((a, b), 0.0) + rate
    for s in truth.topologies[0].selectivity:
        taken = sum(v for (a, b), v in seen.items() if b == s.from_ and a != "__acker")
        if s.from_ != "events":
            assert seen[s.from_, s.to] / taken == pytest.approx(s.value, rel=0.01)


def test_inter_node_rate_of_a_window_is_the_sum_of_its_edges(made: tuple[Path, Truth]) -> None:
    directory, _ = made
    edges = pq.read_table(directory / "edges", columns=["window_to", "hop", "rate_tps"])
    sums: dict[object, float] = {}
    for at, hop, rate in zip(*(edges.column(c).to_pylist() for c in edges.column_names), strict=True):
        assert hop in HOPS
        sums[at] = sums.get(at, 0.0) + (rate if hop == "network" else 0.0)
    windows = pq.read_table(directory / "windows")
    for row in windows.filter(windows.column("measured")).to_pylist():
        assert row["inter_node_tps"] == pytest.approx(sums[row["window_to"]])


def test_overloads_that_end_by_themselves_have_the_planted_length(tmp_path: Path) -> None:
    spec = Spec(days=20, window_s=300, parallelism=1, nodes=2, bursts_per_day=12, overloads_per_day=0.3)
    truth = generate(tmp_path / "log", spec, seed=3).topologies[0]
    assert truth.overloads > 30
    assert truth.lasting >= 3
    assert truth.overload_s == pytest.approx(spec.overload_windows * 300, rel=0.1)
    nodes = pq.read_table(tmp_path / "log" / "nodes").sort_by([("supervisor", "ascending"), ("window_to", "ascending")])
    over = np.asarray(nodes.column("load_mhz")) >= np.asarray(nodes.column("limit_mhz"))
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[False], over, [False]]).astype(int))))[::2]
    assert np.percentile(runs[runs < 22], 95) == pytest.approx(spec.overload_windows, abs=1)
    assert (runs >= 22).sum() >= 3  # those that a move ended


def test_spec_grows_to_the_rows_that_are_asked_for() -> None:
    spec = Spec(days=30, topologies=3).with_edge_rows(100_000_000)
    assert 100_000_000 <= spec.edge_rows < 130_000_000
    with pytest.raises(ValueError, match="need more than"):
        Spec(days=0.01).with_edge_rows(10**10)


def test_interrupted_day_leaves_no_file_behind(tmp_path: Path) -> None:
    def stop(part: float, rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "log", SPEC, seed=5, progress=stop)
    assert not list(tmp_path.rglob("*.tmp"))
    assert not (tmp_path / "log" / "truth.json").exists()


def test_a_begin_beyond_all_calendars_is_refused_by_its_name() -> None:
    """Microseconds, say: it died at the first date."""
    with pytest.raises(msgspec.ValidationError, match="start_ms"):
        msgspec.convert({"start_ms": 1_767_571_200_000_000}, Spec)
