"""`stormpilot history mine`: thresholds, costs and profiles from the traffic log, with Spark."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from stormpilot import clock
from stormpilot.cli import files
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table, say
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.config import Config
    from stormpilot.history.mine.findings import Mined
    from stormpilot.messages.thresholds import ThresholdEntry

Times = tuple[datetime | None, datetime | None]
MOST_ROWS = 60  # of a topology's table
MasterOption = Annotated[
    str | None,
    typer.Option(help="Spark's master: local[N], spark://HOST:PORT, yarn, k8s://HOST:PORT. [default: local[*]]"),
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
]


def mine(
    log: Annotated[
        str | None,
        typer.Option("--log", help="Folder of the log (traffic_log.dir), or any path that Spark reads: s3a:, hdfs:."),
    ] = None,
    topology: Annotated[
        list[str] | None, typer.Option("--topology", "-t", help="Only this topology (name or id); may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only from then on: 2026-01-31, 2026-01-31T12:00, 14d (ago).")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only what ended before then.")] = None,
    master: MasterOption = None,
    conf: SettingsOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all that was mined there, as JSON.")
    ] = None,
    sizing: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write what `stormpilot size` reads there: TOPOLOGY.json, with what was seen of it."
        ),
    ] = None,
    publish: Annotated[
        bool | None,
        typer.Option(
            "--publish/--no-publish",
            help="Give it to the controllers: write it to ZooKeeper. [default: with --zookeeper]",
        ),
    ] = None,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Mine thresholds, costs and profiles from a traffic log. What the log is too short for keeps its default."""
    from stormpilot.config import Config, load

    settings = load(config) if config is not None else Config()
    path = log or settings.traffic_log.dir
    if path is None:
        raise UsageError("give --log DIR (or a --config with traffic_log.dir)")
    now = datetime.now(UTC)
    times = parse_time("--since", since, now), parse_time("--until", until, now)
    if output is not None:
        files.make_folder(output.parent, "--output")
    if sizing is not None:
        files.make_folder(sizing, "--sizing")
    mined = _mined(path, topology, times, settings, master, conf, with_sizing=sizing is not None)
    if format is Format.json:
        print_json({"topologies": mined})
    else:
        for m in mined:
            _print(m)
    if output is not None:
        files.write(output, {"topologies": mined}, "mined thresholds")
    if sizing is not None:
        _write_sizing(sizing, mined)
    if publish or (publish is None and zookeeper is not None):
        from stormpilot.history.mine.publishing import publish as publish_to

        where = place(zookeeper, root, config)
        with connected(where) as store:
            written = publish_to(mined, store, where.paths)
        console_err.print(f"written to ZooKeeper for {', '.join(written)}", highlight=False)


def _mined(
    path: str,
    only: list[str] | None,
    times: Times,
    config: Config,
    master: str | None,
    conf: list[str] | None,
    *,
    with_sizing: bool,
) -> list[Mined]:
    from stormpilot.history import spark
    from stormpilot.history.mine.findings import Terms

    settings = spark.settings_of(conf or [])
    by = f"{getpass.getuser()}@{socket.gethostname()}"
    terms = Terms(config=config, now_ms=clock.now_ms(), by=by, log=path)
    with spark.session(master, settings) as session:
        from stormpilot.history.mine import job
        from stormpilot.history.mine.progress import progress
        from stormpilot.history.mine.reading import Selection, open_log

        found = open_log(session, path, Selection(tuple(only or ()), *times))
        with progress(session, job.STEPS, console_err) as step:
            return job.mine(found, terms, step, with_sizing=with_sizing)


def _write_sizing(folder: Path, mined: list[Mined]) -> None:
    """A file for each topology that can be sized; for the others why not."""
    for m in mined:
        name = m.thresholds.topology_name
        if m.sizing is None or m.sizing.problem is None:
            why = "the log has no nodes" if m.sizing is None else m.sizing.notes[0]
            console_err.print(f"{name} cannot be sized from this log: {why}", markup=False, highlight=False)
            continue
        file = folder / f"{quote(name, safe='')}.json"
        files.write(file, m.sizing.problem, "topology to size")
        console_err.print(f"{file}: read it with `stormpilot size`", markup=False, highlight=False, soft_wrap=True)
        for note in m.sizing.notes:
            console_err.print(f"  {note}", markup=False, highlight=False, soft_wrap=True)


def parse_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """A time from `2026-01-31`, `2026-01-31T12:00` (UTC unless it says more) or `7d`, `12h`, `30m` before `now`."""
    if text is None:
        return None
    units = {"d": "days", "h": "hours", "m": "minutes"}
    if text[-1:] in units and text[:-1].replace(".", "", 1).isdigit():
        return now - timedelta(**{units[text[-1]]: float(text[:-1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError as e:
        raise UsageError(
            f"{option} is {text!r}, expected a time such as 2026-01-31, 2026-01-31T12:00 or 7d (ago)"
        ) from e
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _print(m: Mined) -> None:
    """Thresholds first, then what components cost; what has no number last, each with why."""
    t = m.thresholds
    say(f"{t.topology_name} ({t.topology_id}): {_day(t.from_ms)} to {_day(t.to_ms)}, {_span(t.from_ms, t.to_ms)}")
    shown = [_row(e) for e in sorted(t.entries, key=lambda e: e.source == "default")]
    columns = ["number", "of", "value", "unit", "source", "rows", "over", "why"]
    print_table(columns, shown[:MOST_ROWS])
    if len(shown) > MOST_ROWS:
        say(f"and {len(shown) - MOST_ROWS} more; all are in the output of -f json")
    if t.performance:
        print_table(
            ["performance of", "threads in a worker", "tuples/s", "CPU MHz", "memory MB", "rows"],
            [[p.component, p.threads, p.rate_tps, p.cpu_mhz, p.memory_mb, p.rows] for p in t.performance[:MOST_ROWS]],
        )
    if m.profile is None:
        say("no profile of its week: the log is shorter than one")
    else:
        error = m.profile.forecast_error_ratio
        tested = "never tested" if error is None else f"off by {error:.1%} in windows that it was not made from"
        say(f"profile of its week: {len(m.profile.edges)} edges, {tested}")
    say("")


def _row(e: ThresholdEntry) -> list[object]:
    value = None if e.value is None else f"{e.value:.4g}"
    over = _span(e.from_ms, e.to_ms) if e.rows else None
    return [e.name, " ".join(e.of), value, e.unit, e.source, e.rows, over, e.text]


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def _span(from_ms: int, to_ms: int) -> str:
    hours = (to_ms - from_ms) / 3_600_000
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
