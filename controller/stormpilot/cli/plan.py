"""Commands `stormpilot plan ...`."""

from __future__ import annotations

import typer

from stormpilot.cli import compare, compute, explain, live_plan, plan_diff, verbs

app = typer.Typer(no_args_is_help=True, help="Plans: of model files, and what the controller wants of what runs.")
app.command("compute")(compute.compute)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.command("diff")(plan_diff.diff)
app.command("show")(live_plan.show)
app.command("now")(verbs.plan_now)
