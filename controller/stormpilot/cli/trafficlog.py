"""Shared options of `stormpilot trafficlog mine`, `replay` and `report`: the log, its part, and Spark."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from stormpilot.cli.live import ConfigOption, Live, RootOption, ZooKeeperOption, connected, joined, parameters_of, place
from stormpilot.cli.output import Format, FormatOption, note
from stormpilot.errors import UsageError
from stormpilot.printable import counted
from stormpilot.user_files import LARGE_BYTES, read_bytes, text_bytes

if TYPE_CHECKING:
    from stormpilot.config import Config
    from stormpilot.history.mine.findings import Mined
    from stormpilot.history.mine.quality import Skipped
    from stormpilot.history.mine.reading import SparkLog
    from stormpilot.zookeeper.client import ZooKeeper
    from stormpilot.zookeeper.paths import Paths

Own = ParamSpec("Own")
UNITS = {"d": "days", "h": "hours", "m": "minutes"}
EPOCH = datetime.fromtimestamp(0, UTC)
PublishOption = Annotated[
    bool | None,
    typer.Option(
        "--publish/--no-publish",
        help="Write the result to ZooKeeper, for the controllers. [default: where --zookeeper is typed]",
    ),
]


@dataclass(frozen=True)
class TrafficLog(Live):
    """A traffic log, the part of it that is asked for, and the Spark that reads it.

    `servers_typed`: `--zookeeper` is on the command line, and not in the environment alone.
    """

    topologies: tuple[str, ...]
    log: str | None
    until: str | None
    master: str | None
    conf: tuple[str, ...]
    servers_typed: bool

    @property
    def used(self) -> Config:
        """The configuration that `--config` names, else the defaults."""
        from stormpilot.config import Config

        return self.settings or Config()

    @property
    def path(self) -> str:
        """Where the log is, as Spark calls it."""
        from stormpilot.history.spark import as_spark_calls

        path = self.log or self.used.traffic_log.dir
        if path is None:
            raise UsageError("give --log DIR (or a --config with traffic_log.dir)")
        return as_spark_calls(path)

    @contextmanager
    def spark(self) -> Iterator[Any]:
        """A session of Spark."""
        from stormpilot.history.mine.log import tables_in
        from stormpilot.history.spark import local_bytes, only_here, session, settings_of

        if (folder := only_here(self.path, self.master, self.conf)) is not None:
            tables_in(folder, self.path)  # what is no log is refused before half a minute of Spark
        settings = settings_of(list(self.conf))
        note("starting Spark")
        with session(self.master, settings, local_bytes(self.path)) as started:
            yield started

    def before_the_end(self, spark: Any, since: str) -> SparkLog:
        """The part of the log from `since`, a time or so long before its end."""
        from stormpilot.history.mine.log import Selection
        from stormpilot.history.mine.reading import open_log
        from stormpilot.history.replay.read import last_end_ms

        whole = open_log(spark, self.path, Selection(topologies=self.topologies))
        tell_skipped(whole.skipped)
        last_ms = last_end_ms(whole)
        if last_ms is None:
            raise UsageError(f"the traffic log {self.path} has no windows")
        end = datetime.fromtimestamp(last_ms / 1000, UTC) + timedelta(milliseconds=1)
        end = parse_time("--until", self.until, end) or end
        begin = parse_time("--since", since, end) or end
        if begin >= end:
            raise UsageError(f"--since {since} is not before {end:%Y-%m-%dT%H:%MZ}, the end")
        return open_log(spark, self.path, Selection(self.topologies, begin, end))

    def publishes(self, publish: bool | None) -> bool:
        """Whether the result goes to ZooKeeper."""
        return self.servers_typed if publish is None else publish

    def publish(self, write: Callable[[ZooKeeper, Paths], list[str]]) -> None:
        """Write the result to ZooKeeper; `write` returns the names of the topologies."""
        with connected(self.where) as store:
            written = write(store, self.where.paths)
        note(
            f"written to ZooKeeper for {', '.join(written) or 'nobody: none runs that is in the log, which is too old'}"
        )


def tell_skipped(skipped: Sequence[Skipped], *, strict: bool = False) -> None:
    """Name the files that are left out; `UsageError` instead where `strict`."""
    for s in skipped:
        note(f"left out: {s.path}: {s.text}")
    if skipped and strict:
        files = counted(len(skipped), "file")
        raise UsageError(f"{files} of the traffic log cannot be used (--strict), first {skipped[0].path}")


def _traffic_log(
    topology: Annotated[
        list[str] | None, typer.Argument(help="Only these topologies (names or ids). [default: all]")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="DIR",
            help="Folder of the log, or any path that Spark reads: s3:, hdfs:. [default: traffic_log.dir]",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only what ended before this time. [default: the end of the log]")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master: local[N], spark://, sc:// or k8s://HOST:PORT, yarn. [default: local[*]]"),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
    format: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> TrafficLog:
    where = place(zookeeper, root, config)
    topologies, settings = tuple(topology or ()), tuple(conf or ())
    return TrafficLog(where, format, config, topologies, log, until, master, settings, zookeeper is not None)


def traffic_log_command(body: Callable[Concatenate[TrafficLog, Own], None]) -> Callable[..., None]:
    """Make a command of a function that reads a traffic log, which it gets as a `TrafficLog`."""
    return _command(body, {})


def offline_traffic_log_command(body: Callable[Concatenate[TrafficLog, Own], None]) -> Callable[..., None]:
    """The same for one that asks no ZooKeeper and prints nothing."""
    return _command(body, {"format": Format.table, "zookeeper": None, "root": None})


def _command(body: Callable[..., None], fixed: dict[str, Any]) -> Callable[..., None]:
    own = list(parameters_of(body).values())[1:]
    return joined(body.__name__, inspect.getdoc(body) or "", own, _traffic_log, body, fixed)


def parse_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """A time from `2026-01-31`, `2026-01-31T12:00` (UTC unless it says more) or `7d`, `12h`, `30m` before `now`.

    It is in UTC, and not before 1970: nothing in a log is older.
    """
    if text is None:
        return None
    try:
        if text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdigit():
            at = now - timedelta(**{UNITS[text[-1]]: float(text[:-1])})
        else:
            at = datetime.fromisoformat(text)
        return max(at if at.tzinfo else at.replace(tzinfo=UTC), EPOCH).astimezone(UTC)
    except (ValueError, OverflowError) as e:
        raise UsageError(
            f"{option} is {text!r}, expected a time such as 2026-01-31, 2026-01-31T12:00 or 7d (ago)"
        ) from e


def read_mined(path: Path) -> list[Mined]:
    """The file that `trafficlog mine -o` wrote."""
    import msgspec

    from stormpilot.history.mine.findings import MinedLog

    try:
        return msgspec.json.decode(text_bytes(read_bytes(path, LARGE_BYTES), path), type=MinedLog).topologies
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}") from e
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} is not what `stormpilot trafficlog mine -o` writes: {e}") from e
