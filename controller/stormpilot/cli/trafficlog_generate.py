"""Command `stormpilot trafficlog generate`: a synthetic traffic log with ground truth."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli import files
from stormpilot.cli.compute import SeedOption
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table, say
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.generate.logs import Spec, Truth


def generate(
    directory: Annotated[
        Path | None, typer.Argument(help="Folder to write into: new or empty.", metavar="DIR", show_default=False)
    ] = None,
    days: Annotated[float, typer.Option(help="How much time the log covers.")] = 30.0,
    topologies: Annotated[int, typer.Option(help="How many topologies, each on nodes of its own.")] = 1,
    nodes: Annotated[int, typer.Option(help="Supervisors of each topology.")] = 4,
    parallelism: Annotated[int, typer.Option(help="Executors of each wide component.")] = 6,
    window_s: Annotated[int, typer.Option(help="Seconds of one measurement.")] = 60,
    edge_rows: Annotated[
        int | None, typer.Option(min=1, help="As wide topologies as it takes for so many rows of edges, at least.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another part of the ground truth; --keys lists them."),
    ] = None,
    seed: SeedOption = 0,
    keys: Annotated[bool, typer.Option("--keys", help="List what --set takes, and exit.")] = False,
    format: FormatOption = Format.table,
) -> None:
    """Generate a synthetic traffic log, with its ground truth in truth.json.

    The log is as the controller would have written it. The ground truth: noise, latency knees, daily
    peaks, drift, overloads, failures, selectivities and CPU per tuple. What `trafficlog mine` finds
    in the log can be compared with it.
    """
    from stormpilot.config.options import options_of
    from stormpilot.generate.logs import Spec
    from stormpilot.generate.logs import generate as made

    if keys:
        options = options_of(Spec)
        print_table(["key", "default", "range", "meaning"], [[o.name, o.default, o.range, o.meaning] for o in options])
        return
    if directory is None:
        raise UsageError("DIR is missing, expected a folder to write into; or give --keys")
    given = {"days": days, "topologies": topologies, "nodes": nodes, "parallelism": parallelism, "window_s": window_s}
    spec = _spec(given, set_ or [], edge_rows)
    started_s = time.monotonic()
    files.make_folder(directory, "DIR")
    try:
        with _progress(spec) as progress:
            truth = made(directory, spec, seed, progress)
    except OSError as e:
        raise UsageError(f"{directory}: cannot write the log: {e.strerror or e}") from e
    took_s = time.monotonic() - started_s
    if format is Format.json:
        print_json(truth)
        return
    _show(directory, truth, took_s)


def _spec(given: dict[str, Any], more: list[str], edge_rows: int | None) -> Spec:
    import msgspec

    from stormpilot.generate.logs import Spec

    options = {name: f"--{name.replace('_', '-')}" for name in given}
    for one in more:
        key, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"--set {one}: expected KEY=VALUE")
        given[key], options[key] = value, f"--set {key}"
    try:
        spec = msgspec.convert(given, Spec, strict=False)
        return spec if edge_rows is None else spec.with_edge_rows(edge_rows)
    except msgspec.ValidationError as e:
        if unknown := re.fullmatch("Object contains unknown field `(.+)`", str(e)):
            raise UsageError(f"--set {unknown[1]}: there is no such key; --keys lists them") from e
        text, _, field = str(e).partition(" - at `$.")
        raise UsageError(f"{options.get(field.rstrip('`'), 'what to make')}: {text}") from e
    except ValueError as e:
        raise UsageError(f"--edge-rows: {e}") from e


class _progress:  # noqa: N801 (a context, used as one)
    """A bar on a terminal, a line per tenth elsewhere."""

    def __init__(self, spec: Spec):
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.fields[rows]:>12,} of about {task.fields[all]:,} edge rows"), BarColumn())
        self._all = spec.edge_rows
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console_err, transient=True)
        self._task = self._bar.add_task("", total=1.0, rows=0, all=self._all)
        self._said = 0.0

    def __enter__(self) -> Any:
        if console_err.is_terminal:
            self._bar.start()
        return self._tell

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _tell(self, part: float, rows: int) -> None:
        if console_err.is_terminal:
            self._bar.update(self._task, completed=part, rows=rows)
        elif part - self._said >= 0.1 or part == 1.0:
            self._said = part
            console_err.print(f"{part:.0%}: {rows:,} edge rows", highlight=False)


def _show(directory: Path, truth: Truth, took_s: float) -> None:
    print_table(["table", "rows"], [[name, f"{n:,}"] for name, n in sorted(truth.rows.items())])
    say("")
    rows = [
        [
            t.name,
            f"{t.noise_ratio:.3f}",
            f"{t.overload_s:.0f} ({t.overloads})",
            " ".join(f"{k.knee_ratio:.2f}" for k in t.knees),
            t.placements,
        ]
        for t in truth.topologies
    ]
    print_table(["topology", "noise", "X s (overloads)", "latency knees", "placements"], rows)
    size_mb = sum(p.stat().st_size for p in directory.rglob("*.parquet")) / 1e6
    say(f"\n{directory}: {size_mb:,.1f} MB in {took_s:.0f} s; truth.json has the ground truth")
