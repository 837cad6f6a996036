"""`stormpilot doctor`: what is wrong with a live installation, and how to mend it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, place
from stormpilot.cli.output import Format, FormatOption, console, print_json

COLOURS = {"ok": "green", "skipped": "dim", "warn": "yellow", "fail": "bold red"}


def doctor(
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
    nimbus: Annotated[
        str | None,
        typer.Option("--nimbus", help="host:port of Nimbus. [default: where the plug-in runs, 6627]"),
    ] = None,
) -> None:
    """Check a live installation and say how to mend what is wrong; exit code 1 if anything is, 3 without ZooKeeper."""
    from stormpilot import doctor as doctors
    from stormpilot.errors import UnreachableError

    where = place(zookeeper, root, config)
    evidence = doctors.gather(where.hosts, where.paths, where.auth, nimbus)
    findings = doctors.examine(evidence)
    failed = sum(1 for f in findings if f.level is doctors.Level.fail)
    warned = sum(1 for f in findings if f.level is doctors.Level.warn)
    if output is Format.json:
        print_json({"zookeeper": where.hosts, "root": where.paths.root, "failed": failed, "findings": findings})
    else:
        for f in findings:
            colour = COLOURS[f.level]
            line = f"[{colour}]{f.level.value:<7}[/] {f.check:<11} {escape(f.text)}"
            console.print(line, soft_wrap=True, highlight=False)
            if f.mend:
                console.print(f"{'':<20}[bold]mend:[/] {escape(f.mend)}", soft_wrap=True, highlight=False)
        summary = f"{failed} wrong, {warned} to look at" if failed or warned else "nothing is wrong"
        console.print(f"\n{summary}", highlight=False)
    if evidence.error and all(s.error for s in evidence.servers):
        raise typer.Exit(UnreachableError.exit_code)
    if failed:
        raise typer.Exit(1)
