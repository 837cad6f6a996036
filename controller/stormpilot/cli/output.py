"""How commands print: tables for people, JSON for programs (`-f table|json`), progress and errors on stderr."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

console = Console()
console_err = Console(stderr=True)


class Format(enum.StrEnum):
    """What a reading command prints."""

    table = "table"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", "-f", help="A table for people or JSON for programs.")]


def print_json(value: Any) -> None:
    """Print a value (msgspec structs allowed) as indented JSON on stdout."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print rows; numbers are right-aligned, floats get three significant decimals, None is a dash."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for i, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(r[i], (int, float)) or r[i] is None for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(v) for v in row))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)
