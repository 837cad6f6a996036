"""Command `stormpilot history report`: a traffic log, what was mined of it and what was replayed, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stormpilot.cli import files
from stormpilot.cli.live import ConfigOption
from stormpilot.cli.output import console_err, say
from stormpilot.cli.trafficlog_mine import MasterOption, SettingsOption
from stormpilot.cli.trafficlog_replay import read_mined, selected
from stormpilot.errors import UsageError


def report(
    log: Annotated[
        str | None, typer.Option("--log", metavar="DIR", help="The traffic log: a folder, or any path of Spark's.")
    ] = None,
    mined: Annotated[
        Path | None, typer.Option("--mined", help="What `history mine -o` wrote.", exists=True, dir_okay=False)
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", help="What `history replay -o` wrote.", exists=True)
    ] = None,
    topology: Annotated[list[str] | None, typer.Option("--topology", "-t", help="Only these (names).")] = None,
    since: Annotated[str, typer.Option(help="A time, or 30d, 12h before the end.")] = "30d",
    until: Annotated[str | None, typer.Option(help="A time. [default: the end of the log]")] = None,
    master: MasterOption = None,
    conf: SettingsOption = None,
    config: ConfigOption = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page; the same as .json is written beside it.")
    ] = Path("history.html"),
) -> None:
    """Write a report on a traffic log: who sends to whom, a week, latency over load, what was mined
    and replayed. One HTML page without outside resources, and JSON beside it.
    """
    from stormpilot.config import Config, load
    from stormpilot.history.replay import evidence
    from stormpilot.history.spark import session, settings_of

    where = log or (Config() if config is None else load(config)).traffic_log.dir
    if where is None:
        raise UsageError("which traffic log? --log DIR, or --config with traffic_log.dir")
    found = [] if mined is None else read_mined(mined)
    replayed = None if replay is None else evidence.read(replay)
    runs = None if replay is None else (replay if replay.is_dir() else replay.parent) / evidence.RUNS
    beside = output.with_suffix(".json")
    if beside == output:
        raise UsageError(
            f"--output {output}: expected the name of the page, e.g. history.html; .json is written beside"
        )
    files.make_folder(output.parent, "--output")
    console_err.print("starting Spark", highlight=False)
    with session(master, settings_of(conf or [])) as spark:
        from stormpilot.history.report.gather import gather

        topologies = gather(selected(spark, where, topology or [], since, until))
    from stormpilot.history.report.page import page

    output.write_text(page(where, topologies, found, replayed, runs))
    everything = {"log": where, "topologies": topologies, "mined": found, "replay": replayed}
    files.write(beside, everything, "report's figures")
    say(f"{output} and {beside}: {', '.join(t.name for t in topologies)}")
