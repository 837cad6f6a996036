"""`stormpilot token new`: access to the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from stormpilot.cli.output import Format, FormatOption, print_json
from stormpilot.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Tokens: who may do what over HTTP.")


@app.callback()
def _group() -> None:
    """Keep `new` a word of its own, although it is the only one."""


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Of the person or program; the audit will say it.")],
    role: Annotated[
        str,
        typer.Option(help="viewer reads; operator also pauses, approves, drains and the like; admin may everything."),
    ] = "viewer",
    output: FormatOption = Format.table,
) -> None:
    """Make a token and print it, once, with the line to add to the file that api.tokens_file names."""
    from stormpilot.api.tokens import Role, new_token

    if role not in Role.__members__:
        raise UsageError(f"--role is {role!r}, expected {', '.join(Role.__members__)}")
    token, line = new_token(name, Role[role])
    if output is Format.json:
        print_json({"token": token, "line": line})
        return
    typer.echo(token)
    typer.echo(
        f"Keep it: it is stored nowhere. Add this line to the file that api.tokens_file names:\n{line}", err=True
    )
