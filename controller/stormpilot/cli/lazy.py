"""Groups of commands whose modules are imported only when a command is run or asked for its own help.

Help is plain text with a heading for each panel: nothing is folded to a box, and no library for drawing is loaded.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from stormpilot.cli.commands import ENTRIES, VERB
from stormpilot.cli.panels import GROUPS, PANELS, Entry
from stormpilot.cli.usage import PlainCommand


class LazyCommand(TyperCommand):
    """A row of the table; it becomes the command itself when that is run."""

    def __init__(self, entry: Entry):
        word = entry.name.rpartition(" ")[2]
        super().__init__(word, help=entry.summary, rich_help_panel=entry.panel, rich_markup_mode=None)
        self.entry = entry

    @functools.cached_property
    def real(self) -> Any:
        """The command with its parameters."""
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        function = _function(self.entry)
        settings = getattr(function, "context_settings", {})
        app.command(self.name, cls=PlainCommand, epilog=shown(self.entry.example), context_settings=settings)(function)
        return typer.main.get_command(app)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """A context of the command itself."""
        return self.real.make_context(*args, **extra)


class CommandGroup(TyperGroup):
    """The commands whose names begin with `prefix`; of the root with none."""

    prefix = ""

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        words = {f"{self.prefix}{g.name}": g for g in GROUPS} if not self.prefix else {}
        for entry in ENTRIES:
            first, _, rest = entry.name.removeprefix(self.prefix).partition(" ")
            if entry.name.startswith(self.prefix) and not rest:
                self.commands[first] = LazyCommand(entry)
        for name, g in words.items():
            self.commands[name] = subgroup(name)(
                name=name,
                help=g.summary,
                epilog=shown(next(e.example for e in ENTRIES if e.name.startswith(f"{name} "))),
                rich_help_panel=g.panel,
                no_args_is_help=True,
                rich_markup_mode=None,
            )

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each panel."""
        shown = [c for c in self.commands.values() if not c.hidden]
        width = max(len(c.name or "") for c in shown)
        for panel in (*PANELS, ""):
            rows = [
                (f"{c.name:<{width}}", (c.help or "").partition("\n")[0])
                for c in shown
                if (getattr(c, "rich_help_panel", "") or "") == panel
            ]
            if rows:
                with formatter.section(panel or "Commands"):
                    formatter.write_dl(rows)


def shown(example: str) -> str:
    """The last lines of a help text."""
    return f"\b\nExample:\n  {example}"


def subgroup(name: str) -> type[CommandGroup]:
    """The group of the commands that begin with this word."""
    return type("SubGroup", (CommandGroup,), {"prefix": f"{name} ", "__doc__": CommandGroup.__doc__})


def _function(entry: Entry) -> Any:
    if entry.where == VERB:
        from stormpilot.cli.steer import command_of
        from stormpilot.operate.verbs import verb_named

        return command_of(verb_named(entry.name))
    module, _, name = entry.where.partition(":")
    return getattr(importlib.import_module(module), name)
