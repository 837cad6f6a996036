"""`stormpilot trafficlog mine`: thresholds, costs and profiles from the traffic log, with DuckDB or Spark."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import quote

import typer

from stormpilot import clock
from stormpilot.cli import files
from stormpilot.cli.live import user
from stormpilot.cli.output import console_err, note, print_table, say
from stormpilot.cli.stdout import print_and_write
from stormpilot.cli.trafficlog import PublishOption, TrafficLog, parse_time, tell_skipped, traffic_log_command
from stormpilot.errors import UsageError
from stormpilot.history.engines import Asked, chosen, is_local
from stormpilot.history.frames import Name
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.history.mine.findings import Mined, MinedLog
    from stormpilot.history.mine.log import Log
    from stormpilot.messages.thresholds import ThresholdEntry

Times = tuple[datetime | None, datetime | None]
MOST_ROWS = 60  # of a topology's table
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")


class Keep(NamedTuple):
    """Whether condensed days are kept, and where; None: within the log."""

    on: bool
    folder: Path | None


@traffic_log_command
def mine(
    source: TrafficLog,
    since: Annotated[
        str | None, typer.Option(help="Only from this time on: 2026-01-31, 2026-01-31T12:00, 14d (ago).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all that was mined to this file, as JSON.")
    ] = None,
    sizing: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write what `stormpilot size` reads to this folder: TOPOLOGY.json, one for each."
        ),
    ] = None,
    engine: Annotated[
        Asked, typer.Option(help="duckdb: on this machine, no Java; spark: clusters, object stores; auto: as it fits.")
    ] = Asked.auto,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse bad files, duplicates, rows of version 1.")] = False,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep condensed days here instead of in the log's folder `condensed`."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read all days again and keep nothing.")] = False,
    publish: PublishOption = None,
) -> None:
    """Mine thresholds, costs and profiles from a traffic log.

    What the log is too short for keeps its default. A file that cannot be used is named and left
    out.
    """
    if cache is not None and no_cache:
        raise UsageError("--cache and --no-cache exclude each other")
    source.path  # noqa: B018 (a missing log is refused first)
    now = datetime.now(UTC)
    times = parse_time("--since", since, now), parse_time("--until", source.until, now)
    for option, path in (("--output", output), ("--sizing", sizing)):
        if path is not None and _ADDRESS.match(str(path)):
            raise UsageError(f"{option} {path}: expected a place on this machine; --publish brings numbers elsewhere")
    if output is not None:
        files.make_folder(output.parent, "--output")
        files.check_outputs({"--output": output})
    if sizing is not None:
        files.make_folder(sizing, "--sizing")
    choice = chosen(engine, source.path, source.master, source.conf)
    note(f"mining with {choice.name}: {choice.why}")
    if cache is not None and not is_local(source.path):
        raise UsageError("--cache: condensed days are kept of logs on this machine only")
    keep = Keep(on=not no_cache, folder=cache)
    document = _mined(source, choice.name, times, keep, with_sizing=sizing is not None, strict=strict)
    mined = document.topologies
    there = {m.thresholds.topology_name for m in mined} | {f.name for f in document.failed}
    for name in sorted(t for t in set(source.topologies) if not {t, t.rsplit("-", 2)[0]} & there):
        note(f"{name}: the log has no such topology, or nothing of it in this time")
    _tell(document, strict=strict)
    then: list[Callable[[], None]] = []
    if output is not None:
        then.append(partial(files.write, output, document, "mined thresholds"))
    if sizing is not None:
        then.append(partial(_write_sizing, sizing, mined))
    if source.publishes(publish):
        if source.settings is None:
            note("note: no --config: floors and caps are stormpilot's defaults, not those of your controller.yaml")
        from stormpilot.history.mine.publishing import publish as publish_to

        history = source.used.history
        then.append(lambda: source.publish(lambda store, paths: publish_to(mined, store, paths, history)))
    print_and_write(lambda: source.answer(document, lambda: _print_all(mined)), *then)


def _mined(source: TrafficLog, engine: Name, times: Times, keep: Keep, *, with_sizing: bool, strict: bool) -> MinedLog:
    from stormpilot.history.mine import job
    from stormpilot.history.mine.entries import MiningCriteria
    from stormpilot.history.mine.log import Selection
    from stormpilot.history.mine.progress import progress
    from stormpilot.history.mine.quality import Skipped

    by = f"{user()}@{socket.gethostname()}"
    criteria = MiningCriteria(config=source.used, now_ms=clock.now_ms(), by=by, log=source.path)
    selection = Selection(source.topologies, *times)
    told = set[Skipped]()

    def look(log: Log) -> None:
        tell_skipped([s for s in log.skipped if s not in told], strict=strict)
        told.update(log.skipped)

    with ExitStack() as stack:
        if engine == "duckdb":
            from stormpilot.history.mine import on_duckdb

            session, run = None, on_duckdb.mine
        else:
            session = stack.enter_context(source.spark())
            from stormpilot.history.mine import on_spark

            run = partial(on_spark.mine, session)
        step = stack.enter_context(progress(session, job.STEPS, console_err))
        return run(
            source.path,
            selection,
            criteria,
            step,
            with_sizing=with_sizing,
            look=look,
            keep=keep.on,
            cache=keep.folder,
        )


def _tell(document: MinedLog, *, strict: bool) -> None:
    """Say what is wrong with the data; `UsageError` instead where `strict`."""
    reused = document.health.reused
    if reused is not None and reused.problem:
        note(f"condensed days are not kept for the next time: {reused.problem}")
    lines = document.health.warnings + [f"{f.name} cannot be mined: {f.text}" for f in document.failed]
    for line in lines:
        note(line)
    if lines and strict:
        raise UsageError(f"the traffic log is not whole (--strict): {lines[0]}")


def _write_sizing(folder: Path, mined: list[Mined]) -> None:
    """A file for each topology that can be sized; for the others why not."""
    for m in mined:
        name = m.thresholds.topology_name
        if m.sizing is None or m.sizing.problem is None:
            why = "the log has no nodes" if m.sizing is None else m.sizing.notes[0]
            note(f"{name} cannot be sized from this log: {why}")
            continue
        file = folder / f"{quote(name, safe='')}.json"
        files.write(file, m.sizing.problem, "topology to size")
        note(f"{file}: read it with `stormpilot size`")
        for text in m.sizing.notes:
            note(f"  {text}")


def _print_all(mined: list[Mined]) -> None:
    for m in mined:
        _print(m)


def _print(m: Mined) -> None:
    """Thresholds first, then what components cost; what has no number last, each with why."""
    t = m.thresholds
    from_, to = clock.utc(t.from_ms), clock.utc(t.to_ms)
    say(f"{t.topology_name} ({t.topology_id}): {from_} to {to} UTC, {_span(t.from_ms, t.to_ms)}")
    shown = [_row(e) for e in sorted(t.entries, key=lambda e: e.source == "default")]
    columns = ["number", "of", "value", "90% of draws", "unit", "source", "rows", "over", "why"]
    print_table(columns, shown[:MOST_ROWS])
    if len(shown) > MOST_ROWS:
        say(f"and {len(shown) - MOST_ROWS} more; all are in the output of -f json")
    if t.performance:
        print_table(
            ["performance of", "threads in a worker", "tuples/s", "CPU MHz", "memory MB", "by B(n)", "rows"],
            [
                [p.component, p.threads, p.rate_tps, p.cpu_mhz, p.memory_mb, p.by, p.rows]
                for p in t.performance[:MOST_ROWS]
            ],
        )
    if m.profile is None:
        say("no profile of its week: the log is shorter than one")
    else:
        error = m.profile.forecast_error_ratio
        tested = "never tested" if error is None else f"off by {error:.1%} in windows that it was not made from"
        say(f"profile of its week: {counted(len(m.profile.edges), 'edge')}, {tested}")
    say("")


def _row(e: ThresholdEntry) -> list[object]:
    value = None if e.value is None else f"{e.value:.4g}"
    over = _span(e.from_ms, e.to_ms) if e.rows else None
    sure = None if e.low is None or e.high is None else f"{e.low:.4g} to {e.high:.4g}"
    return [e.name, " ".join(e.of), value, sure, e.unit, e.source, e.rows, over, e.text]


def _span(from_ms: int, to_ms: int) -> str:
    hours = (to_ms - from_ms) / 3_600_000
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
