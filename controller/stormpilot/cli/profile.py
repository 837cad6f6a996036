"""`stormpilot profile`: trial runs on a cluster that make the performance model of a component."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.files import check_outputs
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place, signing_key, user
from stormpilot.cli.nimbus_login import NimbusJaasOption, nimbus_login
from stormpilot.cli.output import Format, FormatOption, note, print_json, print_table, say
from stormpilot.cli.profile_options import beside, check_plot, conditions, nimbus_address, rate_grid, specimen_of
from stormpilot.cli.progress import Progress, progress
from stormpilot.cli.stdout import print_and_write
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.sizing.profiling import Standing, Trial
    from stormpilot.trials.bench import Bench
    from stormpilot.trials.record import Record

IDLE_SHARE = 0.5


class _TimeUpError(Exception):
    """The time limit is reached; what was measured is kept."""


def profile(
    component: Annotated[
        str, typer.Argument(help="module:Class of the project's src/, or with --jar the name of a Java class.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The performance model, which `size` reads (JSON).")],
    project: Annotated[Path, typer.Option("--project", help="Directory of the streamparse project.")] = Path(),
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="Entry of envs in config.json; needed if several.")
    ] = None,
    jar: Annotated[Path | None, typer.Option("--jar", "-j", help="The jar that has COMPONENT, a Java class.")] = None,
    outputs: Annotated[str, typer.Option(help="Fields that a Java class emits, by commas; empty for none.")] = "value",
    argument: Annotated[
        list[str] | None, typer.Option(help="Argument of a Java class's constructor (YAML value); repeatable.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model. [default: that of the class]")] = None,
    nimbus: Annotated[
        str | None,
        typer.Option("--nimbus", metavar="HOST[:PORT]", help="Wins over config.json and STREAMPARSE_NIMBUS."),
    ] = None,
    nimbus_jaas: NimbusJaasOption = None,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
    on: Annotated[
        str | None, typer.Option("--on", help="Supervisor or host for the component. [default: one that runs nothing]")
    ] = None,
    source_on: Annotated[
        str | None, typer.Option("--source-on", help="Supervisor or host for source and sink. [default: another one]")
    ] = None,
    sources: Annotated[int, typer.Option(min=1, max=64, help="Tasks of the source, and of the sink.")] = 2,
    fields: Annotated[str, typer.Option(help="Fields of the source's tuples, by commas.")] = "message_id",
    tuples: Annotated[
        Path | None, typer.Option(help="JSON list of tuples (lists of values), sent in turn. [default: a number]")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="KEY=VALUE", help="Topology option (YAML value); repeatable."),
    ] = None,
    runner: Annotated[
        str | None, typer.Option("--runner", help="Command on worker hosts that runs Python components.")
    ] = None,
    first_rate: Annotated[float, typer.Option(min=0.01, help="The lowest rate, tuples/s.")] = 10.0,
    rate_step: Annotated[str, typer.Option(help="From one rate to the next: tuples/s, or a part as 10%.")] = "10%",
    max_rate: Annotated[float, typer.Option(min=0.01, help="The highest rate, tuples/s.")] = 100_000.0,
    max_threads: Annotated[int, typer.Option(min=1, max=1000, help="The most threads.")] = 16,
    thread_step: Annotated[int, typer.Option(min=1, max=1000, help="From one number of threads to the next.")] = 1,
    window: Annotated[int, typer.Option(min=2, max=100, help="Peak rates that have to be level to end.")] = 3,
    flat: Annotated[
        float, typer.Option(help="Level: the peak rate grows by at most this part of the highest, per thread.")
    ] = 0.001,
    slope: Annotated[float, typer.Option(help="Stable: latency grows by at most this, s each second.")] = 0.001,
    settle: Annotated[
        float,
        typer.Option(min=2, max=600, help="A new worker is kept busy until it does no more than so many s before."),
    ] = 10.0,
    warm_up: Annotated[
        float, typer.Option(min=0.5, max=3600, help="Seconds at the beginning of a trial that are left out.")
    ] = 3.0,
    trial: Annotated[float, typer.Option(min=3, max=3600, help="Seconds of a trial that are measured.")] = 10.0,
    repeats: Annotated[int, typer.Option(min=0, max=20, help="Times that an unstable trial is repeated.")] = 1,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Try every rate in turn, no bisection.")] = False,
    limit: Annotated[float, typer.Option(min=0, help="Minutes after which it stops; run it again to go on.")] = 120.0,
    state: Annotated[
        Path | None, typer.Option("--state", help="Where trials are kept. [default: OUTPUT with .trials.jsonl]")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Forget the trials of an earlier run.")] = False,
    plot: Annotated[Path | None, typer.Option(help="The plot: .svg, .png, .pdf. [default: OUTPUT with .svg]")] = None,
    format: FormatOption = Format.table,
) -> None:
    """Profile a component by trial runs on a cluster: its peak rate, CPU and memory for rising numbers of threads.

    Source and sink run on one node, the component alone on a slot of another. An interrupted profile
    goes on where it stopped. Exit code 1: refused, or the time limit was reached.
    """
    from stormpilot.config import Config, load
    from stormpilot.sizing.profiling import Rules, performance, search
    from stormpilot.submit.options import parse_options
    from stormpilot.trials import output as written
    from stormpilot.trials.bench import Bench
    from stormpilot.trials.component import jar_with_resources
    from stormpilot.trials.feeder import Times
    from stormpilot.trials.record import Record

    options = parse_options(option or [])
    fed = specimen_of(component, project, environment, jar, outputs, argument, fields, tuples, sources)
    grid = rate_grid(first_rate, rate_step, max_rate)
    rules = Rules(max_threads, thread_step, window, flat, repeats, exhaustive)
    times = Times(settle, warm_up, trial, slope)
    called = name or fed.short
    if called == written.SOURCE:
        raise UsageError(f"a model cannot be named {called}, as what sends to it in its file: give another --name")
    drawn, kept = plot or beside(output, ".svg"), state or beside(output, ".trials.jsonl")
    check_outputs(
        {
            "--output": output,
            "--plot" if plot else "--output (.svg)": drawn,
            "--state" if state else "--output (.trials.jsonl)": kept,
        },
        {"--tuples": tuples, "--jar": jar},
    )
    check_plot(drawn)
    if restart:
        kept.unlink(missing_ok=True)
    capacity = (Config() if config is None else load(config)).load.capacity
    record = Record(kept, conditions(fed, grid, times, options, runner, capacity))
    earlier = len(record)
    ends_s = time.monotonic() + 60 * limit
    address = replace(nimbus_address(fed, nimbus), login=nimbus_login(nimbus_jaas))
    where = place(zookeeper, root, config)
    peaks: list[Trial] = []
    plotted = False
    with (
        _in_order(),
        TemporaryDirectory() as scratch,
        connected(where) as session,
        progress(f"profile {fed.short}") as shown,
    ):
        if jar is not None:
            merged = Path(scratch) / jar.name
            merged.write_bytes(jar_with_resources(jar))
            fed = replace(fed, jar=merged)
        told = _Told(shown, record)
        bench = Bench(
            fed, grid, times, address, session, where.paths,
            on=on or record.node or None, source_on=source_on, runner=runner, options=options, by=user(),
            key=signing_key(config), capacity=capacity, tell=told.doing,
        )  # fmt: skip
        bench.check()
        try:
            made = _Kept(bench, record, told, ends_s)
            peaks = search(made.run, grid, rules, told.standing, made.guess)
        except _TimeUpError:
            peaks = told.peaks
        finally:
            bench.close()
    slot = record.slot
    if slot is None or not peaks:
        raise RefusedError(f"{limit:g} minutes are over with {counted(len(record), 'trial')}: run it again to go on")
    model = performance(called, peaks, record.trials)

    def show() -> None:
        if format is Format.json:
            print_json({"model": model, "slot": slot, "peaks": peaks, "trials": len(record), "complete": told.complete})
        else:
            _show(model.name, peaks, record)

    def draw() -> None:
        nonlocal plotted
        plotted = _drawn(drawn, model.name, peaks, record)

    print_and_write(show, lambda: written.write(output, written.problem(model, slot)), draw)
    if format is Format.table:
        say(f"model   {output}")
        if plotted:
            say(f"plot    {drawn}")
        say(f"trials  {record.file}")
    if len(record) == earlier:
        trials = "the only trial is" if earlier == 1 else f"all {earlier} trials are"
        note(f"note: {trials} from an earlier run; --restart measures anew")
    if not told.complete:
        raise RefusedError(f"{limit:g} minutes are over: the model ends early; run it again to go on")


@contextmanager
def _in_order() -> Iterator[None]:
    """Make SIGTERM and SIGHUP (a terminal that closes) an exception, as Ctrl-C is: the trial topology is killed."""

    def end(number: int, _: object) -> None:
        for known in before:
            signal.signal(known, signal.SIG_IGN)
        raise SystemExit(128 + number)

    ends = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is not signal.SIG_IGN]  # nohup ignores
    before = {s: signal.signal(s, end) for s in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Told:
    """Progress, and what of the search is complete."""

    def __init__(self, shown: Progress, record: Record) -> None:
        self._shown, self._record = shown, record
        self._standing = ""
        self.peaks: list[Trial] = []
        self.complete = True

    def standing(self, standing: Standing) -> None:
        """The search goes on to another rate."""
        self.peaks = list(standing.peaks)
        self._standing = standing.text

    def doing(self, text: str) -> None:
        """The bench does something."""
        trials = f"{len(self._record)} trial{'' if len(self._record) == 1 else 's'} so far"
        self._shown.update(f"{text} ({'; '.join(filter(None, (trials, self._standing)))})")


class _Kept:
    """Trials and guesses: those that are known are taken from the record, others are made and kept."""

    def __init__(self, bench: Bench, record: Record, told: _Told, ends_s: float) -> None:
        self._bench, self._record, self._told, self._ends_s = bench, record, told, ends_s

    def run(self, threads: int, step: int, attempt: int) -> Trial:
        """One trial."""
        known = self._record.find(threads, step, attempt)
        if known is not None:
            return known
        self._in_time()
        made = self._bench(threads, step, attempt)
        self._record.add(attempt, made, self._bench.slot, self._bench.node)
        return made

    def guess(self, threads: int) -> int:
        """Where the search with so many threads begins."""
        return self._record.guess(threads, self._make)

    def _make(self, threads: int) -> int:
        self._in_time()
        return self._bench.guess(threads)

    def _in_time(self) -> None:
        if time.monotonic() > self._ends_s:
            self._told.complete = False
            raise _TimeUpError


def _drawn(file: Path, name: str, peaks: list[Trial], record: Record) -> bool:
    from stormpilot.trials.output import plot

    try:
        plot(file, name, peaks, record.trials)
    except UnreachableError as e:
        note(f"no plot: {e}")
        return False
    return True


def _show(name: str, peaks: list[Trial], record: Record) -> None:
    from stormpilot.sizing.performance import rate_text

    rows = [
        [
            str(p.threads),
            rate_text(p.rate_tps),
            f"{p.cpu_share:.0%}",
            f"{p.memory_share:.0%}",
            f"{p.memory_mb:,.0f}",
            None if p.heap_mb is None else f"{p.heap_mb:,.0f}",
            None if p.latency_ms is None else f"{p.latency_ms:,.1f}",
        ]
        for p in peaks
    ]
    slot = record.slot
    assert slot is not None
    print_table(
        ["threads", "peak tuples/s", "CPU", "memory", "RSS MB", "heap MB", "latency ms"],
        rows,
        title=f"{name}: {counted(len(record), 'trial')}; "
        f"100% = a slot of {slot.cores:g} cores, {slot.memory_mb:,.0f} MB",
    )
    idle = [str(p.threads) for p in peaks if p.cpu_share < IDLE_SHARE]
    if idle:
        note(
            f"note: with {', '.join(idle)} threads less than {IDLE_SHARE:.0%} of the slot's CPU was used: the "
            "component waits for something, or the source is what limits (--sources, a node with more cores)"
        )
