"""All jobs in order: each big table is read once and condensed, everything else is made of that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from stormpilot.errors import NothingFoundError
from stormpilot.history.frames import DataFrame, Window, current, fn
from stormpilot.history.mine import health, knee, noise, otd, overload, surroundings
from stormpilot.history.mine.columns import NODE_NUMBERS, WINDOW_NUMBERS, count, possible
from stormpilot.history.mine.condense import (
    IMPOSSIBLE,
    edge_windows,
    executor_hours,
    executor_sums,
    whole,
    worker_windows,
)
from stormpilot.history.mine.cpu import cpu, cpu_bins
from stormpilot.history.mine.days import together
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog, Rows, findings, limits
from stormpilot.history.mine.health import Health, topologies_of
from stormpilot.history.mine.log import Ask, Log, topologies_in
from stormpilot.history.mine.performance import performance
from stormpilot.history.mine.restart import restart_s
from stormpilot.history.mine.selectivity import EDGE, selectivity, taken_in
from stormpilot.history.mine.weekly_profile import every_window, forecast_error, held_out, profile
from stormpilot.printable import first_few

Step = Callable[[str], AbstractContextManager[object]]
_NAME = "topology_name"
_KNOWN = "core_mhz IS NOT NULL"
STEPS = ("executors", "workers", "edges")
MOST_NAMES = 8  # of topologies in a sentence


def mine(
    log: Log, criteria: MiningCriteria, step: Step = lambda _: nullcontext(), *, with_sizing: bool = False
) -> MinedLog:
    """Mine a log; `step` is entered with each of `STEPS`. `with_sizing`: what `stormpilot size` reads, too.

    Raises
    ------
    NothingFoundError
        No windows in the selected part of the log, or numbers of no topology can be worked out.
    """
    rows, kept = Rows(), []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame)
        return frame

    def drop(frame: DataFrame) -> None:
        log.drop(frame)
        kept[:] = [k for k in kept if k is not frame]

    try:
        with step("executors"):
            components = graph_changes if with_sizing else without_components
            windows = keep(log.keep(log.query(components, log.table("windows"))))
            measured = keep(log.keep(log.query(whole, windows)))
            sums = keep(log.condensed("executors", ("executors", "windows"), known_executor_sums, measured))
            hours = keep(log.keep(log.query(executor_hours, sums)))
            found = log.answers(
                {
                    "noise": Ask(noise.noise, windows),
                    "bins": Ask(knee.latency_bins, windows),
                    "in_time": Ask(health.in_time, windows),
                    "restart_s": Ask(restart_s, log.table("outcomes")),
                    "topologies": Ask(topologies, windows, hours),
                    "executor_noise": Ask(noise.executor_noise, hours),
                    "cpu": Ask(cpu_lines, hours),
                }
            )
            rows.topologies, rows.restart_s = found["topologies"], found["restart_s"]
            if not rows.topologies:
                raise NothingFoundError(f"{log.path}: {_why_empty(log)}")
            rows.noise, rows.executor_noise = (together(found[n], _NAME) for n in ("noise", "executor_noise"))
            rows.cpu, rows.knees = together(found["cpu"], _NAME, "component"), knee.knees(found["bins"])
            in_time = found["in_time"]
        with step("workers"):
            b = limits(rows.knees, criteria)
            nodes = keep(log.keep(log.query(known_nodes, log.table("nodes"))))
            loads = keep(log.keep(log.query(overload.loads, nodes, log.limits(b) if b else None)))
            workers = keep(log.keep(log.query(worker_loads, sums, loads)))
            asked = {
                "overload_s": Ask(overload.of_topologies, loads, hours, keep(log.keep(everyones_changes(log, hours)))),
                "performance": Ask(performance, workers),
                "otd": Ask(otd.otd, workers),
                "impossible": Ask(impossible, nodes, sums),
            }
            if with_sizing:
                asked["graphs"] = Ask(surroundings.graphs, windows)
                asked["peaks"] = Ask(surroundings.peaks, workers)
                asked["machines"] = Ask(surroundings.machines, nodes)
            found = log.answers(asked)
            wrong = [*found["impossible"]]
            rows.overload_s, rows.otd = found["overload_s"], together(found["otd"], _NAME, "by")
            rows.performance = together(found["performance"], _NAME, "by", "component", "threads")
            rows.graphs, rows.peaks, rows.machines = (found.get(n, []) for n in ("graphs", "peaks", "machines"))
            drop(workers)
            drop(sums)
        with step("edges"):
            all_edges = keep(log.condensed("edges", ("edges",), edge_windows))
            edges, every = log.query(known_edges, all_edges), log.query(every_window, all_edges, measured)
            found = log.answers(
                {
                    "selectivity": Ask(selectivities, edges, measured, hours),
                    "profile": Ask(profile, every),
                    "forecast_error": Ask(tested_forecasts, every),
                    "impossible": Ask(impossible_edges, all_edges),
                }
            )
            rows.profile = found["profile"]
            rows.selectivity, rows.forecast_error = (
                together(found[n], _NAME, *EDGE[1:]) for n in ("selectivity", "forecast_error")
            )
    finally:
        for frame in kept:
            log.drop(frame)
    mined, failed = findings(rows, criteria)
    wrong += [*found["impossible"], {"name": "windows", "rows": sum(r["impossible"] for r in in_time)}]
    quality = Health(
        tables=log.tables_health(),
        topologies=topologies_of(in_time),
        skipped=list(log.skipped),
        reused=log.reused,
        impossible={r["name"]: r["rows"] for r in sorted(wrong, key=lambda r: str(r["name"])) if r["rows"]},
    )
    return MinedLog(engine=current(), topologies=mined, failed=failed, health=quality)


def _why_empty(log: Log) -> str:
    asked, there = log.selection.topologies, topologies_in(log.path)
    known = any(name == t or name.startswith(f"{t}-") or t.startswith(name) for t in asked for name in there)
    if asked and there and not known:
        return f"the log has nothing of {', '.join(asked)}; it has {first_few(there, MOST_NAMES)}"
    health = log.tables_health()
    if "windows" in log.tables or (health and not any("1" in t.rows_by_version for t in health)):
        return f"no windows {log.selection}".rstrip()
    return (
        "there is no table windows, which mining rests on: a log of version 1 of the schema, which only `trafficlog "
        "replay` reads; a controller of this version adds the table to the same log, and then that part is mined"
    )


# --- findings of several steps: each is one query ---------------------------------------------------------------------


def without_components(windows: DataFrame) -> DataFrame:
    """Table `windows` without its widest column, which only sizing and replay read."""
    return _judged(windows.drop("components"))


def _judged(windows: DataFrame) -> DataFrame:
    """A window with an impossible number was not measured."""
    return windows.withColumn("measured", fn.col("measured") & possible(*WINDOW_NUMBERS))


def graph_changes(windows: DataFrame) -> DataFrame:
    """Table `windows` with `components` only where they are others than in the window before: they hardly change."""
    before = fn.lag("components").over(Window.partitionBy("topology_id").orderBy("window_to"))
    changed = before.isNull() | (before != fn.col("components"))
    return _judged(windows.withColumn("components", fn.when(changed, fn.col("components"))))


def known_nodes(nodes: DataFrame) -> DataFrame:
    """Table `nodes` without rows of version 1, which have neither this nor `core_mhz` and know too little."""
    return nodes.where("ports IS NOT NULL").drop("ports", "host", "rack", "storm_rack", "site")


def known_executor_sums(executors: DataFrame, measured: DataFrame) -> DataFrame:
    """`executor_sums` without rows of version 1."""
    return executor_sums(executors.where(_KNOWN), measured)


def impossible(nodes: DataFrame, sums: DataFrame) -> DataFrame:
    """Rows that are left out: name (of their table), rows (null: none)."""
    of_nodes = nodes.where(~possible(*NODE_NUMBERS)).agg(fn.count(fn.lit(1)).alias("rows"))
    of_executors = sums.where(fn.col("kind") == IMPOSSIBLE).agg(count("rows").alias("rows"))
    return of_nodes.withColumn("name", fn.lit("nodes")).unionByName(
        of_executors.withColumn("name", fn.lit("executors"))
    )


def impossible_edges(edges: DataFrame) -> DataFrame:
    """Rows of edges that are left out: name, rows (null: none)."""
    found = edges.where("NOT possible AND from_component IS NOT NULL").agg(count("rows").alias("rows"))
    return found.withColumn("name", fn.lit("edges"))


def known_edges(edges: DataFrame) -> DataFrame:
    """`edge_windows` of components, without what is impossible."""
    return edges.where("possible AND from_component IS NOT NULL")


def worker_loads(sums: DataFrame, loads: DataFrame) -> DataFrame:
    """`worker_windows` with the states of their nodes."""
    return otd.worker_states(worker_windows(sums), loads)


def cpu_lines(executor_hours: DataFrame) -> DataFrame:
    """`cpu` of its bins."""
    return cpu(cpu_bins(executor_hours))


def everyones_changes(log: Log, hours: DataFrame) -> DataFrame:
    """When placements on nodes changed: of all topologies, for a move of any of them ends an overload."""
    if not log.selection.topologies:
        return log.query(overload.changes, hours)
    return log.query(overload.changes_of_all, log.table("executors", of_all=True))


def selectivities(edges: DataFrame, measured: DataFrame, hours: DataFrame) -> DataFrame:
    """`selectivity` in windows that were measured whole."""
    complete = edges.join(measured, ["topology_id", "window_to"], "left_semi")
    return selectivity(complete, taken_in(hours, complete))


def tested_forecasts(edges: DataFrame) -> DataFrame:
    """`forecast_error` on what is held out."""
    return forecast_error(held_out(edges))


def topologies(windows: DataFrame, executor_hours: DataFrame) -> DataFrame:
    """Topologies of the log: topology_name, topology_id (the newest), rows, first, last, supervisors, components."""
    places = executor_hours.groupBy("topology_name").agg(
        fn.collect_set("supervisor").alias("supervisors"), fn.collect_set("component").alias("components")
    )
    return (
        windows.groupBy("topology_name")
        .agg(
            fn.max_by("topology_id", "window_to").alias("topology_id"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
        .join(places, "topology_name", "left")
    )
