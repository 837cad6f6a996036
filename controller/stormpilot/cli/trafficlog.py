"""Commands `stormpilot history ...`: plans that a topology had; make, mine and replay traffic logs."""

from __future__ import annotations

import typer

from stormpilot.cli import (
    records,
    trafficlog_generate,
    trafficlog_mine,
    trafficlog_replay,
    trafficlog_report,
)

app = typer.Typer(
    cls=records.HistoryGroup,
    no_args_is_help=True,
    help="`history TOPOLOGY`: the plans that it had. And the traffic log: mine thresholds, replay, make logs.",
)
app.command()(records.plans)
app.command("generate")(trafficlog_generate.generate)
app.command("mine")(trafficlog_mine.mine)
app.command("replay")(trafficlog_replay.replay)
app.command("report")(trafficlog_report.report)
