"""Command `stormpilot trafficlog replay`: what the past would have looked like, and what would have been best."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli import files
from stormpilot.cli.output import note, print_table, say
from stormpilot.cli.progress import progress
from stormpilot.cli.stdout import print_and_write
from stormpilot.cli.trafficlog import PublishOption, TrafficLog, read_mined, traffic_log_command
from stormpilot.errors import UsageError
from stormpilot.history.spark import CONNECT
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.history.replay.choose import Tried, Verdict
    from stormpilot.history.replay.play import Rules
    from stormpilot.history.replay.score import Totals
    from stormpilot.history.replay.study import Replay

SHOWN = 6
TOLD = 20
"""Where nobody watches, so many lines tell how far it is."""
COLUMNS = ("", "cost", "between\nnodes", "overload\nmin", "moves", "executors\nmoved", "restart\ns", "held out:\ncost")


@traffic_log_command
def replay(
    source: TrafficLog,
    planner: Annotated[
        str | None,
        typer.Option("--planner", "-p", help="Replay this planner for all topologies. [default: find the best]"),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", metavar="NAME=VALUE[,VALUE]", help="Parameter of the planner; every value is replayed."
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", metavar="NAME=VALUE[,VALUE]", help="Setting of `decide`, e.g. gain_threshold_ratio=0.05,0.2."
        ),
    ] = None,
    forecast: Annotated[
        Path | None,
        typer.Option(
            "--forecast",
            exists=True,
            dir_okay=False,
            help="Also plan for the forecast of profiles: the file of `trafficlog mine -o`.",
        ),
    ] = None,
    mined: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Say where B(n) differs from the mined one: a file as of --forecast."
        ),
    ] = None,
    since: Annotated[str, typer.Option(help="A time, or 14d, 12h before the end.")] = "14d",
    step: Annotated[float, typer.Option(min=1, max=1440, help="Minutes of one step.")] = 60.0,
    hold_out: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Days at the end that the best is not chosen by, but confirmed on. [default: half, at most 7]",
        ),
    ] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds for each plan.")] = 0.5,
    restart_s: Annotated[
        float | None, typer.Option(min=0, help="Downtime of a worker. [default: measured, else decide.restart_s]")
    ] = None,
    overload_weight: Annotated[float, typer.Option(min=0, help="Distances that a tuple on a full node costs.")] = 10.0,
    restart_weight: Annotated[float, typer.Option(min=0, help="Distances that a tuple held up costs.")] = 10.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write replay.json and runs.parquet to this folder.")
    ] = None,
    publish: PublishOption = None,
) -> None:
    """Replay planners over the recorded past: network cost, overload and moves, beside what happened.

    With --planner: what it would have looked like. Without: every planner with several parameters,
    for each topology the best of them, checked on days that it was not chosen by.
    """
    from stormpilot.history.replay.grid import DEFAULT_PLANNER, asked, grid
    from stormpilot.history.replay.score import Weights
    from stormpilot.history.replay.study import Question, study
    from stormpilot.history.replay.values import Setting

    if planner is None and (param or rule):
        raise UsageError("--param and --rule go with --planner")
    if planner is not None and source.publishes(publish):
        raise UsageError("--publish is for recommendations, which are made without --planner")
    source.path  # noqa: B018 (a missing log is refused first)
    rules = _rules(source, budget, restart_s)
    planned = rules.config.planner
    default = Setting(planner=planned.name or DEFAULT_PLANNER, params=planned.params)
    settings = (
        grid(default, forecast=forecast is not None) if planner is None else asked(planner, param or [], rule or [])
    )
    profiles = [] if forecast is None else read_mined(forecast)
    compared = profiles if mined is None else read_mined(mined)
    if planner is not None and profiles:
        settings += asked(planner, param or [], rule or [], forecast=True)
    question = Question(
        settings=settings,
        together=planner is not None,
        step_s=round(step * 60),
        hold_out_s=0.0 if planner is not None else None if hold_out is None else hold_out * 86_400,
        rules=rules,
        weights=Weights(overload=overload_weight, restart=restart_weight),
    )
    if source.master is not None and source.master.startswith(CONNECT):
        raise UsageError(f"--master {source.master}: replay runs planners in executors, which Spark Connect cannot")
    if output is not None:
        files.make_folder(output, "--output")
    with source.spark() as spark, progress("replaying") as shown:
        part = source.before_the_end(spark, since)

        def update(done: int, total: int) -> None:
            if shown.live or done == total or done % max(1, total // TOLD) == 0:
                shown.update(f"{done} of {total} runs", done, total)

        answer, played = study(part, question, profiles, note, update, compared)
    then: list[Callable[[], None]] = []
    if output is not None:
        then.append(partial(_keep, output, answer, played))
    if source.publishes(publish):
        from stormpilot.history.replay.publishing import publish as publish_to

        then.append(lambda: source.publish(lambda store, paths: publish_to(answer, store, paths)))
    print_and_write(lambda: source.answer(answer, lambda: _show(answer)), *then)


def _keep(folder: Path, answer: Replay, played: Any) -> None:
    from stormpilot.history.replay import evidence

    evidence.write(folder, answer, played)
    note(f"kept in {folder / evidence.REPLAY} and {folder / evidence.RUNS}")


def _rules(source: TrafficLog, budget_s: float, restart_s: float | None) -> Rules:
    import msgspec

    from stormpilot.history.replay.play import Rules

    if restart_s is None:
        return Rules(source.used, budget_s)
    decide = msgspec.structs.replace(source.used.decide, restart_s=restart_s)
    return Rules(msgspec.structs.replace(source.used, decide=decide), budget_s, measured=False)


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
            more = f" ({counted(left, 'more setting')} in the JSON)" if left > 0 else ""
            say(f"recommended: {verdict.recommended.name}: {verdict.text}{more}")
        say(f"restart {verdict.restart_s:.0f} s per worker{_yardstick(verdict)}")
        say("")
    for text in answer.notes:
        say(f"note: {text}")
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
    off = verdict.yardsticks
    error = off.chosen_by.error_ratio
    if error is None or abs(error) < 0.005:
        return ""
    return (
        f"; the flow model says {error:+.0%} inter-node traffic for what was measured, and a tuple's network cost is "
        f"off by {off.chosen_by.cost:.3g} ({off.held_out.cost:.3g} held out): smaller differences count as none"
    )
