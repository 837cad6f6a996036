"""Output of commands: tables for people, JSON for programs (`-f table|json`), progress and errors on stderr.

JSON, of every command that reads, and of the HTTP API:

- field names are camelCase; the unit is in the name (`leftS`: seconds, `restartMs`: milliseconds, `interNodeTps`);
- a moment is an integer, milliseconds since 1970-01-01T00:00Z, and its name ends in `AtMs` or in `Ms` after a
  preposition (`createdAtMs`, `sinceMs`, `untilMs`, `fromMs`, `toMs`), as in every message in ZooKeeper;
- keys of a map are names (of metrics, settings, topologies) and stay as they are: `inter_node_tps`, `decide.mode`;
- a model or a plan is printed as in `model.json` and `plan.json`, which other commands read.

All text goes out by the functions here: they escape characters that cannot be printed, which names and errors of others
may have, so that these send a terminal nothing.
"""

from __future__ import annotations

import enum
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stormpilot.messages.casing import camel
from stormpilot.printable import printable, printable_json, printable_lines, whole

DEFAULT_WIDTH = 80


def with_width(console: Console) -> Console:
    """The console, with the usual columns where COLUMNS says that it has none."""
    if not console.width:
        console.width = DEFAULT_WIDTH
    return console


console = with_width(Console())
console_err = with_width(Console(stderr=True))

NUMBER = re.compile(r"[-+]?\d[\d,.]*%?")
HEAD = 11
"""Columns of the bold word in front of a line."""


class Format(enum.StrEnum):
    """Output format of a reading command."""

    table = "table"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", "-f", help="A table for people or JSON for programs.")]


def print_json(value: Any) -> None:
    """Print a value (structs allowed) as indented JSON on stdout, with camelCase field names."""
    print_document(camel(value))


def print_document(value: Any) -> None:
    """Print a value that is a file's content (a model, a plan) as it stands in the file."""
    document = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    typer.echo(printable_json(document, getattr(sys.stdout, "encoding", None) or "utf-8"))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, *, gap: int = 2
) -> None:
    """Print rows; numbers (also as text) are right-aligned, floats get three significant decimals, None is a dash.

    On a terminal a row is folded between words only; where not even that fits, each row becomes a block of lines
    `column  value`. A file or a pipe gets every row on one line. `gap`: blanks between columns.
    """
    cells = [[_cell(v) for v in row] for row in rows]
    heads = [name.split("\n") for name in columns]
    natural = [max(map(cell_len, [*head, *(r[i] for r in cells)])) for i, head in enumerate(heads)]
    widths: list[int] | None = natural
    if console.is_terminal:
        least = [max(map(_longest_word, [*head, *(r[i] for r in cells)])) for i, head in enumerate(heads)]
        widths = _fitted(natural, least, console.width - gap * (len(columns) - 1))
    if title:
        say(title)
    if widths is None:
        _blocks([" ".join(head).strip() for head in heads], cells)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.padding = (0, gap, 0, 0)
    for i, name in enumerate(columns):
        numeric = bool(rows) and all(_is_number(r[i]) for r in rows)
        table.add_column(name, justify="right" if numeric else "left", width=widths[i], overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    if console.is_terminal:
        console.print(table)
    else:
        Console(file=console.file, width=sum(widths) + gap * len(widths) + 1).print(table)


def _fitted(natural: list[int], least: list[int], room: int) -> list[int] | None:
    """Widths that fit: the widest columns shrink first, none below its longest word; None where that is too little."""
    if sum(least) > room:
        return None
    widths = list(natural)
    while (over := sum(widths) - room) > 0:
        i = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        others = max((w for j, w in enumerate(widths) if j != i and w > least[j] and w < widths[i]), default=0)
        widths[i] = max(least[i], widths[i] - over, others)
    return widths


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _blocks(names: list[str], cells: list[list[str]]) -> None:
    indent = max(map(len, names)) + 2
    for i, row in enumerate(cells):
        if i:
            console.print()
        for name, value in zip(names, row, strict=True):
            if value != "-":
                say(f"{name:<{indent}}{value}", indent=indent)


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and bool(NUMBER.fullmatch(value)))


def say(text: str, *, indent: int = 0) -> None:
    """Print text as it is: no markup, no colours; a terminal folds it between words, never within an id."""
    for line in printable_lines(text).split("\n"):
        console.print(_folded(console, line, indent), markup=False, emoji=False, highlight=False, soft_wrap=True)


def say_line(head: str, text: str, style: str = "", *, head_style: str = "bold", width: int = HEAD) -> None:
    """Print a line that a word heads, the following lines below its text."""
    whole = _folded(console, printable_lines(f"{head:<{width}} {text}"), width + 1)
    shown = Text(whole)
    shown.stylize(head_style, 0, len(head))
    if style:
        shown.stylize(style, width + 1, len(whole))
    console.print(shown, soft_wrap=True)


def note(text: str) -> None:
    """Print a sentence that is no result, on stderr."""
    console_err.print(
        _folded(console_err, printable_lines(text), 0), markup=False, emoji=False, highlight=False, soft_wrap=True
    )


def say_error(text: str) -> None:
    """Print an error, on stderr."""
    lines = printable_lines(f"stormpilot: {text}").split("\n")
    shown = Text("\n".join(_folded(console_err, line, 0) for line in lines))
    shown.stylize("bold red", 0, len("stormpilot:"))
    console_err.print(shown, soft_wrap=True)


def _folded(where: Console, line: str, indent: int) -> str:
    if not where.is_terminal or len(line) <= where.width:
        return line
    lead = indent or len(line) - len(line.lstrip())
    return textwrap.fill(
        line,
        where.width,
        subsequent_indent=" " * lead,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else whole(value)
    return printable(str(value))
