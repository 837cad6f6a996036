"""Commands `stormpilot history ...`: plans that a topology had; make, mine and replay traffic logs."""

from __future__ import annotations

import typer

from stormpilot.cli import history_generate, history_mine, history_replay, history_report, records

app = typer.Typer(
    cls=records.HistoryGroup,
    no_args_is_help=True,
    help="`history TOPOLOGY`: the plans that it had. And the traffic log: mine thresholds, replay, make logs.",
)
app.command()(records.plans)
app.command("generate")(history_generate.generate)
app.command("mine")(history_mine.mine)
app.command("replay")(history_replay.replay)
app.command("report")(history_report.report)
