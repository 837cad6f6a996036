"""`stormpilot trial-run`: what would have been done and won in mode `advise`, with the cluster's own figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot import clock
from stormpilot.cli import files
from stormpilot.cli.live import UNNAMED, Live, live_command
from stormpilot.cli.output import note, print_table, say, say_line
from stormpilot.cli.records import moment_ms
from stormpilot.cli.stdout import print_and_write
from stormpilot.errors import NothingFoundError, UnreachableError, UsageError

if TYPE_CHECKING:
    from stormpilot.operate.trial import Obstacle
    from stormpilot.trafficlog.trial import TopologyTrial

SHOWN = 10  # proposals of a topology in the text; the page and the JSON have all


@live_command
def trial_run(
    live: Live,
    topology: Annotated[
        list[str] | None, typer.Argument(help="Only these topologies (names or ids). [default: all]")
    ] = None,
    since: Annotated[str, typer.Option(help="e.g. 30m, 2h, 7d, or a date: 2026-01-31[T12:00].")] = "7d",
    log: Annotated[
        str | None, typer.Option("--log", metavar="DIR", help="Folder of the traffic log. [default: traffic_log.dir]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a page here, and the same as .json beside it.")
    ] = None,
) -> None:
    """Report what the controller would have moved in mode `advise`, and what that would have won and cost.

    It reads the controller's traffic log, and with --config or --zookeeper checks that every
    topology is in mode advise. Nothing is changed. Exit code 4: the log has no decision since then.
    """
    from stormpilot.config import Config
    from stormpilot.printable import without_login
    from stormpilot.trafficlog.place import place_of
    from stormpilot.trafficlog.trial import trial_run as figures

    beside = None if output is None else files.page_files(output, "--output", "trial.html")
    config = live.settings or Config()
    where = log or config.traffic_log.dir
    if where is None:
        raise UsageError("give --log DIR (or a --config with traffic_log.dir, without which nothing is kept)")
    now_ms = clock.now_ms()
    from_ms = moment_ms(since, now_ms / 1000)
    if from_ms >= now_ms:
        raise UsageError(f"--since {since} is not in the past")
    place, where = place_of(where), without_login(where)
    place.check_there()
    found = _obstacles(live, now_ms)
    apart_s = config.decide.cool_down_s
    topologies = figures(place, from_ms, now_ms, apart_s, _left_out, topology or ())
    if not topologies:
        whom, right = (f" about {', '.join(topology)}", "is the name right, and ") if topology else ("", "")
        raise NothingFoundError(
            f"the traffic log {where} has no decision{whom} since {since}: {right}does a controller run with this "
            "traffic_log?"
        )
    there = {name for t in topologies for name in (t.name, *t.ids)}
    for name in topology or ():
        if name not in there:
            note(f"{name}: the log has no decision about it since {since}")
    from_ms = max(from_ms, min(t.from_ms for t in topologies))
    answer = {
        "log": where,
        "from_ms": from_ms,
        "to_ms": now_ms,
        "obstacles": found,
        "topologies": topologies,
    }

    def show() -> None:
        live.answer(_document(answer), lambda: _show(where, since, from_ms, now_ms, found, topologies))

    def write() -> None:
        if output is None or beside is None:
            return
        from stormpilot.history.report.trial import page

        files.write_text(output, page(where, from_ms, now_ms, found, topologies), "page")
        files.write(beside, _document(answer), "trial run's figures")
        note(f"{output} and {beside}")

    print_and_write(show, write)


def _document(answer: dict[str, Any]) -> Any:
    from stormpilot.messages.casing import camel, camel_name

    return {camel_name(k): camel(v) for k, v in answer.items()}


def _left_out(path: str, cause: Exception) -> None:
    note(f"left out: {path}: {cause}")


def _obstacles(live: Live, now_ms: int) -> list[Obstacle] | None:
    """Problems of the installation for a trial run; None where no installation is named."""
    if live.where.source == UNNAMED:
        return None
    from stormpilot.operate.status import gather
    from stormpilot.operate.trial import Obstacle, obstacles

    try:
        with live.reading() as (_, seen):
            pass
    except UnreachableError as e:
        return [Obstacle("", f"not looked at: {e}", "")]
    return obstacles(gather(live.where.hosts, live.where.paths, seen, [], seen.problems, now_ms))


def _show(
    where: str,
    since: str,
    from_ms: int,
    to_ms: int,
    found: list[Obstacle] | None,
    topologies: list[TopologyTrial],
) -> None:
    from stormpilot.trafficlog.trial_text import (
        PROPOSAL_COLUMNS,
        SKIPPED_COLUMNS,
        SUM_COLUMNS,
        certainty_lines,
        lasting,
        proposal_cells,
        skipped_cells,
        sum_cells,
        total_line,
    )

    say_line(
        "trial run",
        f"{clock.utc(from_ms)} to {clock.utc(to_ms)} UTC ({lasting((to_ms - from_ms) / 1000)}), from {where}",
    )
    if found is None:
        say_line("set-up", "not looked at: give --config or --zookeeper")
    elif not found:
        say_line("set-up", "every topology is in mode advise and reports its load", "green")
    for o in found or ():
        whom = f"{o.topology}: " if o.topology else ""
        say_line("set-up", f"{whom}{o.text}" + (f"; {o.fix}" if o.fix else ""), "yellow")
    say_line("in all", total_line(topologies))
    published = [f"{t.name} ({t.published})" for t in topologies if t.published]
    if published:
        say_line("note", f"plans were published in this time, so this is not a trial alone: {', '.join(published)}")
    say("")
    print_table(SUM_COLUMNS, [sum_cells(t) for t in topologies])
    for t in topologies:
        say(f"\n{t.name}")
        ranked = sorted(t.proposals, key=lambda p: -p.saved_tuples)[:SHOWN]
        if ranked:
            print_table(PROPOSAL_COLUMNS, [proposal_cells(p) for p in sorted(ranked, key=lambda p: p.from_ms)])
            if len(t.proposals) > SHOWN:
                say(f"the {SHOWN} of {len(t.proposals)} proposals that would have saved most; -f json has all")
            say(f"last proposal: {t.proposals[-1].text}")
        else:
            say("nothing was proposed")
        if t.skipped:
            print_table(SKIPPED_COLUMNS, [skipped_cells(s) for s in t.skipped], "not moved because")
        say("how sure this is")
        for line in certainty_lines(t):
            say(f"- {line}", indent=2)
