"""`stormpilot token new`: access to the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from stormpilot.cli.output import Format, FormatOption, print_json
from stormpilot.errors import UsageError


def new(
    name: Annotated[str, typer.Argument(help="Name of the person or program, recorded in the audit log.")],
    role: Annotated[
        str,
        typer.Option(
            help="viewer reads; operator also pauses, approves, drains and the like; admin may do everything."
        ),
    ] = "viewer",
    format: FormatOption = Format.table,
) -> None:
    """Make a token and print it, once, with its line for the file that api.tokens_file names."""
    from stormpilot.api.tokens import Role, new_token

    if role not in Role.__members__:
        raise UsageError(f"--role is {role!r}, expected {', '.join(Role.__members__)}")
    token, line = new_token(name, Role[role])
    if format is Format.json:
        print_json({"token": token, "line": line})
        return
    typer.echo(token)
    typer.echo(
        f"Keep it: it is stored nowhere. Add this line to the file that api.tokens_file names:\n{line}", err=True
    )
