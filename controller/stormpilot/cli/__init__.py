"""The command line `stormpilot`: one file per group of commands; this one puts them together.

Exit codes: 0 done, 1 refused or infeasible, 2 usage or configuration, 3 ZooKeeper, Storm, Java or Maven not reachable.
Modules of the stages are imported inside the commands, so that no command pays for another one's libraries.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import stormpilot
from stormpilot.cli import (
    compute,
    control,
    doctor,
    local,
    model,
    plan,
    rollout,
    routes,
    size,
    submit,
    thresholds,
    trafficlog,
)
from stormpilot.cli.output import console_err
from stormpilot.errors import StormpilotError

app = typer.Typer(
    name="stormpilot",
    help="Measured, traffic-aware placement for Apache Storm.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
control.register(app)
submit.register(app)
routes.register(app)
rollout.register(app)
app.command()(doctor.doctor)
app.command("planners")(compute.planners)
app.command("size")(size.size)
app.command("predict")(size.predict)
app.add_typer(plan.app, name="plan")
app.add_typer(model.app, name="model")
app.add_typer(local.app, name="local")
app.add_typer(trafficlog.app, name="history")
app.add_typer(thresholds.app, name="thresholds")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(stormpilot.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; our own errors become one sentence on stderr and their exit code."""
    try:
        app()
    except StormpilotError as e:
        console_err.print(f"[bold red]stormpilot:[/] {_escape(str(e))}", soft_wrap=True)
        sys.exit(e.exit_code)
    except BrokenPipeError:  # the reader of our output (head, less) went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
