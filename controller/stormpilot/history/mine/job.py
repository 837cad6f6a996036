"""All jobs in order: each big table is read once and condensed, everything else is made of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from stormpilot.errors import NothingFoundError
from stormpilot.history.frames import DataFrame, current, fn
from stormpilot.history.mine import health, knee, noise, otd, overload, surroundings
from stormpilot.history.mine.condense import edge_windows, executor_hours, whole, worker_windows
from stormpilot.history.mine.cpu import cpu, cpu_bins
from stormpilot.history.mine.days import together
from stormpilot.history.mine.entries import Terms
from stormpilot.history.mine.findings import MinedLog, Rows, findings, limits
from stormpilot.history.mine.health import Health, topologies_of
from stormpilot.history.mine.log import Log
from stormpilot.history.mine.performance import performance
from stormpilot.history.mine.restart import restart_s
from stormpilot.history.mine.selectivity import EDGE, selectivity, taken_in
from stormpilot.history.mine.weekly_profile import forecast_error, held_out, profile

Step = Callable[[str], AbstractContextManager[object]]
_NAME = "topology_name"
_KNOWN = "core_mhz IS NOT NULL"
STEPS = ("windows", "executors", "overloads", "workers", "edges", "profiles")


def mine(log: Log, terms: Terms, step: Step = lambda _: nullcontext(), *, with_sizing: bool = False) -> MinedLog:
    """Mine a log; `step` is entered with each of `STEPS`. `with_sizing`: what `stormpilot size` reads, too.

    Raises
    ------
    NothingFoundError
        No windows in the selected part of the log, or numbers of no topology can be worked out.
    """
    rows, kept = Rows(), []
    # rows of version 1 have neither this nor `core_mhz`, and know too little
    nodes = log.table("nodes").where("ports IS NOT NULL")

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(log.keep(frame))
        return kept[-1]

    def condensed(kind: str, tables: Sequence[str], make: Callable[[DataFrame], DataFrame]) -> DataFrame:
        kept.append(log.condensed(kind, tables, make))
        return kept[-1]

    def drop(frame: DataFrame) -> None:
        log.drop(frame)
        kept[:] = [k for k in kept if k is not frame]

    try:
        with step("windows"):
            windows = keep(log.table("windows").drop("components"))
            rows.noise = together(log.rows(noise.noise(windows, by_day=True)), _NAME)
            rows.knees = knee.knees(log.rows(knee.latency_bins(windows)))
            rows.restart_s = log.rows(restart_s(log.table("outcomes")))
            in_time = topologies_of(log.rows(health.in_time(windows)))
        with step("executors"):
            measured = keep(whole(windows))
            both = ("executors", "windows")
            hours = condensed("executor_hours", both, lambda e: executor_hours(e.where(_KNOWN), measured))
            rows.topologies = log.rows(topologies(windows, hours))
            if not rows.topologies:
                raise NothingFoundError(f"{log.path}: {_why_empty(log)}")
            rows.executor_noise = together(log.rows(noise.executor_noise(hours, by_day=True)), _NAME)
            rows.cpu = together(log.rows(cpu(cpu_bins(hours, by_day=True))), _NAME, "component")
        with step("overloads"):
            b = limits(rows.knees, terms)
            loads = keep(overload.loads(nodes, log.limits(b) if b else None))
            episodes = overload.episodes(loads, overload.changes(hours))
            rows.overload_s = log.rows(overload.overload_s(episodes, overload.presence(hours)))
        with step("workers"):
            states = otd.states(loads)
            alone = condensed("worker_windows", ("executors",), lambda e: worker_windows(e.where(_KNOWN)))
            workers = keep(alone.join(states, ["supervisor", "window_to"]))
            drop(alone)
            rows.performance = together(
                log.rows(performance(workers, by_day=True)), _NAME, "by", "component", "threads"
            )
            rows.otd = together(log.rows(otd.otd(workers, by_day=True)), _NAME, "by")
            if with_sizing:
                rows.graphs = log.rows(surroundings.graphs(log.table("windows")))
                rows.peaks = log.rows(surroundings.peaks(workers))
                rows.machines = log.rows(surroundings.machines(nodes))
            drop(workers)
        with step("edges"):
            edges = condensed("edge_windows", ("edges",), edge_windows)
            complete = edges.join(measured, ["topology_id", "window_to"], "left_semi")
            sent = selectivity(complete, taken_in(hours, complete), by_day=True)
            rows.selectivity = together(log.rows(sent), *EDGE)
        with step("profiles"):
            rows.profile = log.rows(profile(edges))
            rows.forecast_error = together(log.rows(forecast_error(held_out(edges), by_day=True)), *EDGE)
    finally:
        for frame in kept:
            log.drop(frame)
    mined, failed = findings(rows, terms)
    found = Health(tables=log.tables_health(), topologies=in_time, skipped=list(log.skipped), reused=log.reused)
    return MinedLog(engine=current(), topologies=mined, failed=failed, health=found)


def _why_empty(log: Log) -> str:
    if "windows" in log.tables:
        return f"no windows {log.selection}".rstrip()
    return (
        "there is no table windows, which mining rests on: a log of version 1 of the schema, which only `trafficlog "
        "replay` reads; a controller of this version adds the table to the same log, and then that part is mined"
    )


def topologies(windows: DataFrame, executor_hours: DataFrame) -> DataFrame:
    """What there is: topology_name, topology_id (the newest), rows, first, last, supervisors, components."""
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
