"""Commands `stormpilot history ...`: make, mine and replay traffic logs. Other modules here add their verbs."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="The traffic log: mine thresholds, replay planners, make logs for tests.")


@app.callback()
def _history() -> None:
    pass
