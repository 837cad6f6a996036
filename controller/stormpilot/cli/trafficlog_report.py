"""Command `stormpilot trafficlog report`: a traffic log, what was mined of it and what was replayed, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stormpilot.cli import files
from stormpilot.cli.output import say
from stormpilot.cli.trafficlog import TrafficLog, offline_traffic_log_command, read_mined


@offline_traffic_log_command
def report(
    source: TrafficLog,
    mined: Annotated[
        Path | None, typer.Option("--mined", help="The file of `trafficlog mine -o`.", exists=True, dir_okay=False)
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="The folder of `trafficlog replay -o`.", exists=True)
    ] = None,
    since: Annotated[str, typer.Option(help="A time, or 30d, 12h before the end.")] = "30d",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page; the same as .json is written beside it.")
    ] = Path("trafficlog.html"),
) -> None:
    """Write a report on a traffic log as one HTML page, with its figures as JSON beside it.

    Who sends to whom, a week, latency over load, what was mined and replayed. The page loads
    nothing from elsewhere.
    """
    from stormpilot.history.replay import evidence

    where = source.path
    found = [] if mined is None else read_mined(mined)
    replayed = None if replay is None else evidence.read(replay)
    runs = None if replay is None else (replay if replay.is_dir() else replay.parent) / evidence.RUNS
    beside = files.page_files(output, "--output", "trafficlog.html", {"--mined": mined})
    with source.spark() as spark:
        from stormpilot.history.report.gather import gather

        topologies = gather(source.before_the_end(spark, since))
    from stormpilot.history.report.page import page

    files.write_text(output, page(where, topologies, found, replayed, runs), "page")
    everything = {"log": where, "topologies": topologies, "mined": found, "replay": replayed}
    files.write(beside, everything, "report's figures")
    say(f"{output} and {beside}: {', '.join(t.name for t in topologies)}")
