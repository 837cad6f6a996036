"""Command `stormpilot history replay`: what the past would have looked like, and what would have been best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli import files
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table, say
from stormpilot.cli.trafficlog_mine import MasterOption, SettingsOption, parse_time
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.history.mine.findings import Mined
    from stormpilot.history.mine.reading import Log
    from stormpilot.history.replay.choose import Tried, Verdict
    from stormpilot.history.replay.play import Rules
    from stormpilot.history.replay.score import Totals
    from stormpilot.history.replay.study import Replay

SHOWN = 6
COLUMNS = ("", "cost", "between\nnodes", "overload\nmin", "moves", "executors\nmoved", "restart\ns", "held out:\ncost")


def replay(
    log: Annotated[
        str | None, typer.Option("--log", metavar="DIR", help="The traffic log: a folder, or any path of Spark's.")
    ] = None,
    planner: Annotated[
        str | None, typer.Option("--planner", "-p", help="Play this planner for all topologies; none: find the best.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE[,VALUE]", help="Of the planner; several values: all are played."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME=VALUE[,VALUE]", help="Of `decide`, e.g. gain_threshold_ratio=0.05,0.2."),
    ] = None,
    forecast: Annotated[
        Path | None,
        typer.Option(
            "--forecast",
            exists=True,
            dir_okay=False,
            help="Also plan for what profiles foretell: the file of `history mine -o`.",
        ),
    ] = None,
    topology: Annotated[list[str] | None, typer.Option("--topology", "-t", help="Only these (names).")] = None,
    since: Annotated[str, typer.Option(help="A time, or 7d, 12h before the end.")] = "7d",
    until: Annotated[str | None, typer.Option(help="A time. [default: the end of the log]")] = None,
    step: Annotated[float, typer.Option(min=1, max=1440, help="Minutes that are taken together.")] = 60.0,
    hold_out: Annotated[
        float, typer.Option(min=0, help="Days at the end that the best is not chosen by, but checked on.")
    ] = 1.0,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds for each plan.")] = 0.5,
    restart_s: Annotated[
        float | None, typer.Option(min=0, help="How long a worker stands. [default: measured, else decide.restart_s]")
    ] = None,
    overload_weight: Annotated[float, typer.Option(min=0, help="Distances that a tuple on a full node costs.")] = 10.0,
    restart_weight: Annotated[float, typer.Option(min=0, help="Distances that a tuple held up costs.")] = 10.0,
    master: MasterOption = None,
    conf: SettingsOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep replay.json and runs.parquet in this folder.")
    ] = None,
    publish: Annotated[
        bool | None,
        typer.Option(
            "--publish/--no-publish", help="Write what is recommended to ZooKeeper. [default: with --zookeeper]"
        ),
    ] = None,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Play planners over the recorded past: network cost, overload, moves, beside what really happened.

    With --planner: what it would have looked like. Without: every planner with several parameters,
    for each topology the best of them, checked on days that it was not chosen by.
    """
    from stormpilot.history.replay import evidence
    from stormpilot.history.replay.grid import DEFAULT_PLANNER, asked, grid
    from stormpilot.history.replay.score import Weights
    from stormpilot.history.replay.study import Question, study
    from stormpilot.history.replay.values import Setting
    from stormpilot.history.spark import session, settings_of

    if planner is None and (param or rule):
        raise UsageError("--param and --rule go with --planner")
    rules, where = _rules(config, log, budget, restart_s)
    planned = rules.config.planner
    default = Setting(planner=planned.name or DEFAULT_PLANNER, params=planned.params)
    settings = (
        grid(default, forecast=forecast is not None) if planner is None else asked(planner, param or [], rule or [])
    )
    mined = [] if forecast is None else read_mined(forecast)
    if planner is not None and mined:
        settings += asked(planner, param or [], rule or [], forecast=True)
    question = Question(
        settings=settings,
        together=planner is not None,
        step_s=round(step * 60),
        hold_out_s=hold_out * 86_400 if planner is None else 0.0,
        rules=rules,
        weights=Weights(overload=overload_weight, restart=restart_weight),
    )
    if output is not None:
        files.make_folder(output, "--output")
    with session(master, settings_of(conf or [])) as spark:
        part = selected(spark, where, topology or [], since, until)
        answer, played = study(part, question, mined, _tell, _progress)
    if output is not None:
        evidence.write(output, answer, played)
        _tell(f"kept in {output / evidence.REPLAY} and {output / evidence.RUNS}")
    if publish or (publish is None and zookeeper is not None):
        if planner is not None:
            raise UsageError("--publish is for recommendations, which are made without --planner")
        from stormpilot.history.replay.publishing import publish as publish_to

        where_to = place(zookeeper, root, config)
        with connected(where_to) as store:
            written = publish_to(answer, store, where_to.paths)
        _tell(f"written to ZooKeeper for {', '.join(written)}")
    if format is Format.json:
        print_json(answer)
    else:
        _show(answer)


def _rules(config: Path | None, log: str | None, budget_s: float, restart_s: float | None) -> tuple[Rules, str]:
    import msgspec

    from stormpilot.config import Config, load
    from stormpilot.history.replay.play import Rules

    read = Config() if config is None else load(config)
    where = log or read.traffic_log.dir
    if where is None:
        raise UsageError("which traffic log? --log DIR, or --config with traffic_log.dir")
    if restart_s is None:
        return Rules(read, budget_s), where
    decide = msgspec.structs.replace(read.decide, restart_s=restart_s)
    return Rules(msgspec.structs.replace(read, decide=decide), budget_s, measured=False), where


def selected(spark: Any, path: str, topologies: list[str], since: str, until: str | None) -> Log:
    """The part of the log that is asked for; its end is that of its nodes."""
    from datetime import UTC, datetime, timedelta

    from stormpilot.history.mine.reading import Selection, open_log
    from stormpilot.history.replay.read import last_end_ms

    whole = open_log(spark, path, Selection(topologies=tuple(topologies)))
    last_ms = last_end_ms(whole)
    if last_ms is None:
        raise UsageError(f"the traffic log {path} has no windows")
    end = datetime.fromtimestamp(last_ms / 1000, UTC) + timedelta(milliseconds=1)
    end = parse_time("--until", until, end) or end
    begin = parse_time("--since", since, end) or end
    if begin >= end:
        raise UsageError(f"--since {since} is not before {end:%Y-%m-%dT%H:%MZ}, the end")
    return open_log(spark, path, Selection(tuple(topologies), begin, end))


def read_mined(path: Path) -> list[Mined]:
    """What `history mine -o` wrote."""
    import msgspec

    from stormpilot.history.mine.findings import Mined

    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, list[Mined]])["topologies"]
    except (msgspec.DecodeError, ValueError, KeyError, RecursionError) as e:
        raise UsageError(f"{path} is not what `stormpilot history mine -o` writes: {e}") from e


def _tell(text: str) -> None:
    console_err.print(text, markup=False, highlight=False, soft_wrap=True)


def _progress(done: int, total: int) -> None:
    if console_err.is_terminal:
        console_err.print(f"{done} of {total} runs", end="\r", highlight=False)


# --- for people -------------------------------------------------------------------------------------------------------


def _show(answer: Replay) -> None:
    from stormpilot.history.replay.study import best_first

    for verdict in answer.verdicts:
        shown = verdict.tried if answer.together else best_first(verdict, SHOWN)
        rows = [_row(t, verdict, answer) for t in (verdict.as_it_was, *shown)]
        columns = COLUMNS if answer.split_ms is not None else COLUMNS[:-1]
        say(f"{verdict.topology_name}{_span(answer)}")
        print_table(columns, [r[: len(columns)] for r in rows])
        if not answer.together:
            left = len(verdict.tried) - len(shown)
            more = f" ({left} more settings in the JSON)" if left > 0 else ""
            say(f"recommended: {verdict.recommended.name}: {verdict.text}{more}")
        say(f"restart {verdict.restart_s:.0f} s per worker{_yardstick(verdict)}")
        say("")
    for note in answer.notes:
        say(f"note: {note}")
    w = answer.weights
    say(
        f"cost: mean distance of a tuple (1 same node, 2 same rack, 3 beyond), + {w.overload:g} for one on a node at "
        f"B(n) or more, + {w.restart:g} for one held up by a restart; less is better"
    )


def _row(t: Tried, verdict: Verdict, answer: Replay) -> list[object]:
    sums = t.chosen_by
    name = t.name + (
        " (default)" if t is not verdict.as_it_was and t == verdict.default and not answer.together else ""
    )
    return [name, t.score, *_sums(sums), t.held_out_score]


def _sums(t: Totals) -> list[object]:
    minutes = f"{t.overload_minutes:,.0f}"
    return [f"{t.inter_node_share:.1%}", minutes, t.moves, t.moved_executors, f"{t.restart_s:,.0f}"]


def _span(answer: Replay) -> str:
    from datetime import UTC, datetime

    begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (answer.from_ms, answer.split_ms or answer.to_ms))
    held = (
        "" if answer.split_ms is None else f"; held out: the {(answer.to_ms - answer.split_ms) / 86_400_000:g} d after"
    )
    return f"  {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, steps of {answer.step_s / 60:g} min{held}"


def _yardstick(verdict: Verdict) -> str:
    error = verdict.yardstick_error
    if error is None or abs(error) < 0.005:
        return ""
    return (
        f"; the flow model says {error:+.0%} inter-node traffic for what was measured: smaller differences mean nothing"
    )
