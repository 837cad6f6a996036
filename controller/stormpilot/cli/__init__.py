"""The command line `stormpilot`: `commands.py` lists the commands, `lazy.py` loads the one that is run.

Exit codes: 0 done, 1 refused or infeasible, 2 usage or configuration, 3 ZooKeeper, Storm, Java or Maven not reachable,
4 nothing to work on, 130 interrupted (Ctrl-C).
Modules of the stages are imported inside the commands, so that no command pays for another one's libraries.

One style: a topology is always an argument; `-o` names the file (or folder) that is written, `-f table|json` what is
printed; `output.py` says how JSON is written. Commands that read a running system are `live.live_command`s, those that
change it come from `stormpilot.operate.verbs.VERBS` (`steer.py`).
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import stormpilot
from stormpilot.cli.interrupts import INTERRUPTED, interruptible
from stormpilot.cli.lazy import CommandGroup, shown
from stormpilot.cli.machine_code import note_when_compiling
from stormpilot.cli.stdout import ReaderGoneError, ignore_stderr_errors, told_apart
from stormpilot.errors import StormpilotError
from stormpilot.printable import printable

app = typer.Typer(
    name="stormpilot",
    cls=CommandGroup,
    help="Measured, traffic-aware placement for Apache Storm.",
    epilog=shown("stormpilot status --help"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(stormpilot.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; our own errors become one sentence on stderr and their exit code."""
    ignore_stderr_errors()
    note_when_compiling()
    try:
        with interruptible(), told_apart():
            app()
    except StormpilotError as e:
        from stormpilot.cli.output import say_error

        text = str(e)
        for given in sys.argv:  # names of files too, which may have several lines
            if not given.isprintable():
                text = text.replace(given, printable(given))
        say_error(text)
        sys.exit(e.exit_code)
    except ReaderGoneError:
        sys.exit(0)
    except SystemExit as e:
        if e.code == INTERRUPTED:
            from stormpilot.cli.output import say_error

            say_error("interrupted")
        raise
