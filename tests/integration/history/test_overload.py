"""Overload episodes and what comes before them, on literal rows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history import frames
from stormpilot.history.frames import DataFrame
from stormpilot.history.mine import job, reading_duckdb
from stormpilot.history.mine.condense import executor_hours, whole
from stormpilot.history.mine.log import Selection
from stormpilot.history.mine.otd import otd, states
from stormpilot.history.mine.overload import changes, episodes, loads, overload_s, presence
from tests.integration.history.conftest import Made, Table, at, collected, evidence, of_all_days


def nodes(pattern: str, supervisor: str = "a") -> list[dict[str, Any]]:
    """A window a minute: `#` over the limit, `.` below it, blank = not logged."""
    node = {"supervisor": supervisor, "cores": 4.0, "mhz": 1000.0, "limit_mhz": 3200.0}
    load = {"#": 3600.0, ".": 2000.0}
    return [
        {"window_from": at(m), "window_to": at(m + 1), **node, "load_mhz": load[c]}
        for m, c in enumerate(pattern)
        if c != " "
    ]


def placed(made: Made, *since: int, supervisor: str = "a", name: str = "flights", until: int = 10_000) -> DataFrame:
    """Hours of a topology on one node, whose placement changed at these minutes."""
    who = {"topology_name": name, "topology_id": f"{name}-1-17", "supervisor": supervisor}
    ends = [*since[1:], until]
    rows = [
        {**who, "assigned_since": at(s), "rows": 1, "first": at(s), "last": at(e)}
        for s, e in zip(since, ends, strict=True)
    ]
    return made(rows)


def lengths(made: Made, table: Table, pattern: str, *since: int) -> list[tuple[float, bool]]:
    at_load = loads(table("nodes", nodes(pattern)), None)
    found = collected(episodes(at_load, changes(placed(made, *(since or (-60,))))))
    return sorted((r.lasted_s, r.by_itself) for r in found)


def test_an_episode_is_a_run_of_windows_over_the_limit(made: Made, table: Table) -> None:
    assert lengths(made, table, "..###..#......") == [(60.0, True), (180.0, True)]


def test_an_episode_that_a_change_of_the_placement_ends_did_not_end_by_itself(made: Made, table: Table) -> None:
    """A change while it goes on does not end it."""
    assert lengths(made, table, "..####...", -60, 6) == [(240.0, False)]
    assert lengths(made, table, "..####...", -60, 4) == [(240.0, True)]


def test_overload_while_a_worker_restarts_is_one(made: Made, table: Table) -> None:
    """Its load is not known then."""
    seen = nodes("..##..#...")
    for row in seen[4:6]:
        row["load_mhz"] = None
    found = collected(episodes(loads(table("nodes", seen), None), changes(placed(made, -60))))
    assert [(r.lasted_s, r.by_itself) for r in found] == [(300.0, True)]


def test_how_long_it_was_is_not_known_across_a_gap_or_the_ends_of_the_log(made: Made, table: Table) -> None:
    assert lengths(made, table, "##...##          ##...#.....##") == [(60.0, True)]


def test_a_clock_that_was_ahead_and_is_set_back_makes_no_overloads(made: Made, table: Table) -> None:
    """Its windows stand between those of the hour that came again: of one hour over the limit, 60 of a minute."""
    ahead = nodes("." * 20)
    for row in ahead:
        row |= {k: row[k] + timedelta(minutes=40, seconds=30) for k in ("window_from", "window_to")}
    seen = nodes("." * 20 + " " * 20 + "#" * 20 + "..##" + "." * 60)
    found = collected(episodes(loads(table("nodes", ahead + seen), None), changes(placed(made, -60))))
    assert [(r.lasted_s, r.by_itself) for r in found] == [(120.0, True)]


def test_a_mined_limit_stands_beside_the_logged_one(made: Made, table: Table) -> None:
    """And beside it: a number by a knee that nobody knows for sure does not replace the one by the limit in force."""
    limits = made([{"supervisor": "a", "cpu_limit_ratio": 0.4}])
    both = table("nodes", nodes("..") + nodes("..", "b"))
    assert {(r.by, r.supervisor, round(r.load_ratio, 3), r.over) for r in collected(loads(both, limits))} == {
        ("logged", "a", 0.625, False),
        ("logged", "b", 0.625, False),
        ("mined", "a", 1.25, True),
        ("mined", "b", 0.625, False),
    }


def test_x_is_the_95th_percentile_of_those_that_ended_by_themselves(made: Made) -> None:
    def episode(minute: int, lasted_s: float, by_itself: bool = True, supervisor: str = "a") -> dict[str, Any]:
        times = {"first": at(minute), "last": at(minute + 1), "rows": 1}
        return {"by": "logged", "supervisor": supervisor, "lasted_s": lasted_s, "by_itself": by_itself, **times}

    rows = [episode(m, 60.0 * (1 + m)) for m in range(21)] + [episode(30, 9e9, by_itself=False)]
    rows += [episode(2, 1.0, supervisor="b"), episode(-500, 9e9)]  # of another node; before the topology was there
    hours = placed(made, -60).union(placed(made, -60, supervisor="b", name="other"))
    found = {(r.topology_name, r.supervisor): r for r in collected(overload_s(made(rows), presence(hours)))}
    assert set(found) == {("flights", None), ("flights", "a"), ("other", None), ("other", "b")}
    assert found["flights", None].overload_s == 20 * 60.0
    assert (found["flights", "a"].episodes, found["flights", "a"].moved, found["flights", "a"].rows) == (21, 1, 22)


def test_otd_levels_are_those_of_workers_before_overloads_and_of_the_others(made: Made, table: Table) -> None:
    pattern = "." * 20 + "##" + "." * 80
    by_window = states(loads(table("nodes", nodes(pattern)), None))
    assert sorted(r.window_to.minute for r in collected(by_window.where("soon AND NOT over"))) == [18, 19, 20]
    who = {"topology_name": "flights", "topology_id": "flights-1-17", "supervisor": "a", "port": 6700}
    workers = [
        {**who, "window_to": at(m + 1), "queue": queue, **evidence(m)}
        for m in range(102)
        for queue in ((2000, 3000) if 17 <= m < 20 else (m, 40))  # of two components
    ]
    found = made(workers).join(by_window, ["supervisor", "window_to"])
    (row,) = of_all_days(otd(found))
    assert (row.soon, row.others) == (3, 97)
    assert row.queue_high_tuples == 5000 and 100 < row.queue_low_tuples < row.queue_rare_tuples < 142
    assert row.cpu_high == row.cpu_low == 0.625


def test_moves_of_others_count_where_one_topology_is_mined(tmp_path: Path) -> None:
    """They end overloads of the nodes that they share."""
    generate(tmp_path / "hour", Spec(days=1 / 24, parallelism=2, nodes=2, topologies=2), seed=4)

    def changes(selection: Selection) -> set[tuple[Any, ...]]:
        with frames.engine("duckdb"), reading_duckdb.open_log(str(tmp_path / "hour"), selection) as log:
            measured = log.keep(log.query(whole, log.table("windows")))
            sums = log.condensed("executors", ("executors", "windows"), job.known_executor_sums, measured)
            found = log.rows(job.everyones_changes(log, log.query(executor_hours, sums)))
        return {(r["supervisor"], r["at"]) for r in found}

    every = changes(Selection())
    assert len(every) > 2
    assert changes(Selection(("made2",))) == every
