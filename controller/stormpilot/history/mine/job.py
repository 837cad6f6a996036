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
from stormpilot.history.mine.log import Log, Row
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

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame)
        return frame

    def drop(frame: DataFrame) -> None:
        log.drop(frame)
        kept[:] = [k for k in kept if k is not frame]

    def ask(make: Callable[..., DataFrame], *inputs: DataFrame | None, **how: object) -> list[Row]:
        return log.rows(log.query(make, *inputs, **how))

    def by_day(make: Callable[..., DataFrame], *inputs: DataFrame, keys: Sequence[str] = ()) -> list[Row]:
        return [*together(ask(make, *inputs, by_day=True), _NAME, *keys)]

    try:
        with step("windows"):
            # without columns that only replay and sizing read
            windows = keep(log.keep(log.query(without_components, log.table("windows"))))
            rows.noise = by_day(noise.noise, windows)
            rows.knees = knee.knees(ask(knee.latency_bins, windows))
            rows.restart_s = ask(restart_s, log.table("outcomes"))
            in_time = topologies_of(ask(health.in_time, windows))
        with step("executors"):
            measured = keep(log.keep(log.query(whole, windows)))
            hours = keep(log.condensed("executor_hours", ("executors", "windows"), known_executor_hours, measured))
            rows.topologies = ask(topologies, windows, hours)
            if not rows.topologies:
                raise NothingFoundError(f"{log.path}: {_why_empty(log)}")
            rows.executor_noise = by_day(noise.executor_noise, hours)
            rows.cpu = by_day(cpu_lines, hours, keys=["component"])
        with step("overloads"):
            b = limits(rows.knees, terms)
            nodes = log.query(known_nodes, log.table("nodes"))
            loads = keep(log.keep(log.query(overload.loads, nodes, log.limits(b) if b else None)))
            rows.overload_s = ask(overload.of_topologies, loads, hours)
        with step("workers"):
            alone = keep(log.condensed("worker_windows", ("executors",), known_worker_windows))
            workers = keep(log.keep(log.query(otd.worker_states, alone, loads)))
            drop(alone)
            rows.performance = by_day(performance, workers, keys=["by", "component", "threads"])
            rows.otd = by_day(otd.otd, workers, keys=["by"])
            if with_sizing:
                rows.graphs = ask(surroundings.graphs, log.table("windows"))
                rows.peaks = ask(surroundings.peaks, workers)
                rows.machines = ask(surroundings.machines, nodes)
            drop(workers)
        with step("edges"):
            edges = keep(log.condensed("edge_windows", ("edges",), edge_windows))
            rows.selectivity = by_day(selectivities, edges, measured, hours, keys=EDGE[1:])
        with step("profiles"):
            rows.profile = ask(profile, edges)
            rows.forecast_error = by_day(tested_forecasts, edges, keys=EDGE[1:])
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


# --- findings of several steps: each is one query ---------------------------------------------------------------------


def without_components(windows: DataFrame) -> DataFrame:
    """Table `windows` without its widest column."""
    return windows.drop("components")


def known_nodes(nodes: DataFrame) -> DataFrame:
    """Table `nodes` without rows of version 1, which have neither this nor `core_mhz` and know too little."""
    return nodes.where("ports IS NOT NULL")


def known_executor_hours(executors: DataFrame, measured: DataFrame) -> DataFrame:
    """`executor_hours` without rows of version 1."""
    return executor_hours(executors.where(_KNOWN), measured)


def known_worker_windows(executors: DataFrame) -> DataFrame:
    """`worker_windows` without rows of version 1."""
    return worker_windows(executors.where(_KNOWN))


def cpu_lines(executor_hours: DataFrame, *, by_day: bool) -> DataFrame:
    """`cpu` of its bins."""
    return cpu(cpu_bins(executor_hours, by_day=by_day))


def selectivities(edges: DataFrame, measured: DataFrame, hours: DataFrame, *, by_day: bool) -> DataFrame:
    """`selectivity` in windows that were measured whole."""
    complete = edges.join(measured, ["topology_id", "window_to"], "left_semi")
    return selectivity(complete, taken_in(hours, complete), by_day=by_day)


def tested_forecasts(edges: DataFrame, *, by_day: bool) -> DataFrame:
    """`forecast_error` on what is held out."""
    return forecast_error(held_out(edges), by_day=by_day)


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
