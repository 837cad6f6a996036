"""How commands print: tables for people, JSON for programs (`-f table|json`), progress and errors on stderr."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

console = Console()
console_err = Console(stderr=True)

WIDEST = 10_000
NUMBER = re.compile(r"[-+]?\d[\d,.]*%?")


class Format(enum.StrEnum):
    """What a reading command prints."""

    table = "table"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", "-f", help="A table for people or JSON for programs.")]


def print_json(value: Any) -> None:
    """Print a value (msgspec structs allowed) as indented JSON on stdout."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, *, gap: int = 2
) -> None:
    """Print rows; numbers (also as text) are right-aligned, floats get three significant decimals, None is a dash.

    A terminal folds what is too wide for it; a file or a pipe gets every row on one line. `gap`: blanks between
    columns.
    """
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.padding = (0, gap, 0, 0)
    for i, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(r[i]) for r in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(v) for v in row))
    if console.is_terminal:
        console.print(table)
    else:
        wide = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
        Console(file=console.file, width=max(wide, len(title or ""))).print(table)  # one prints no wider than it is


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and bool(NUMBER.fullmatch(value)))


def say(text: str) -> None:
    """Print a line as it is: no markup, no colours for numbers, folded by the terminal only."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)
