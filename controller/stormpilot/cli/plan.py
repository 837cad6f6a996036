"""Commands `stormpilot plan ...`."""

from __future__ import annotations

import typer

from stormpilot.cli import compute, live_plan

app = typer.Typer(no_args_is_help=True, help="Plans: what the controller wants, and what that would move.")
app.command("show")(live_plan.show)
app.command("diff")(live_plan.diff)
app.command("compute")(compute.compute)
