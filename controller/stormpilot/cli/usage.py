"""Help of a command with its values in the usual form: `[OPTIONS] TOPOLOGY [HOST]`, `--output PATH`."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

VALUES = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", str: "TEXT", Path: "PATH"}


class PlainCommand(TyperCommand):
    """A command whose parameters are named so; a `metavar` of their own stays."""

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        for p in self.params:
            if p.metavar is None:
                p.metavar = str(p.name).upper() if p.param_type_name == "argument" else _value(p)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line, word by word."""
        return ["[OPTIONS]", *(_place(p) for p in self.get_params(ctx) if p.param_type_name == "argument")]

    def parameters(self, ctx: Any) -> Iterator[tuple[str, str, str]]:
        """Of every parameter that is shown: `argument` or `option`, its name with its value, its meaning."""
        for p in self.get_params(ctx):
            record = p.get_help_record(ctx)
            if record is not None:
                is_argument = p.param_type_name == "argument"
                yield p.param_type_name, str(p.metavar) if is_argument else record[0], record[1]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Two lists: arguments and options."""
        shown = list(self.parameters(ctx))
        for kind, heading in (("argument", "Arguments"), ("option", "Options")):
            rows = [(name, meaning) for k, name, meaning in shown if k == kind]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _place(argument: Any) -> str:
    """An argument in the usage line; one that describes several words stands as it is."""
    name = str(argument.metavar)
    if " " in name:
        return name
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")


def _value(option: Any) -> str | None:
    """The value of an option: its kind, or the words that it may be; None for a switch, and where typer names it so."""
    known = getattr(option, "type_descriptor", None)
    if known is None or option.is_flag:
        return None
    if known.choices is not None:
        return f"[{'|'.join(str(getattr(c, 'value', c)) for c in known.choices)}]"
    kind = known.annotation
    (kind,) = typing.get_args(kind) if typing.get_origin(kind) is list else (kind,)
    return VALUES.get(kind)
