"""`stormpilot doctor`: what is wrong with a live installation, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.live import Live, live_command
from stormpilot.cli.nimbus_login import NimbusJaasOption, nimbus_login
from stormpilot.cli.output import say, say_line

if TYPE_CHECKING:
    from stormpilot.doctor import Finding

COLOURS = {"ok": "green", "skipped": "dim", "warn": "yellow", "fail": "bold red"}


@live_command
def doctor(
    live: Live,
    nimbus: Annotated[
        str | None,
        typer.Option(
            "--nimbus", metavar="HOST[:PORT]", help="host:port of Nimbus. [default: as registered in ZooKeeper]"
        ),
    ] = None,
    nimbus_jaas: NimbusJaasOption = None,
) -> None:
    """Check an installation and tell how to fix what is wrong.

    Exit code 1: something is wrong; 3: ZooKeeper does not answer.
    """
    from stormpilot import doctor as doctors
    from stormpilot.config.secrets import exposed_files
    from stormpilot.errors import UnreachableError

    where, settings = live.where, live.settings
    signs = None if settings is None else settings.publish.plan_key_file is not None
    exposed = {} if settings is None or live.config is None else exposed_files(settings, live.config)
    evidence = doctors.gather(where.hosts, where.paths, where.login, nimbus, nimbus_login(nimbus_jaas), signs, exposed)
    findings = doctors.examine(evidence)
    counts = {level: sum(f.level is level for f in findings) for level in doctors.Level}
    failed = counts[doctors.Level.fail]
    shown = {"zookeeper": where.hosts, "root": where.paths.root, "failed": failed, "findings": findings}
    live.answer(shown, lambda: _show(findings, counts))
    if evidence.error and all(s.error for s in evidence.servers):
        raise typer.Exit(UnreachableError.exit_code)
    if failed:
        raise typer.Exit(1)


def _show(findings: list[Finding], counts: dict[Any, int]) -> None:
    from stormpilot import doctor as doctors

    for f in findings:
        say_line(f.level.value, f"{f.check:<11} {f.text}", head_style=COLOURS[f.level.value], width=7)
        if f.fix:
            head = "note" if f.level is doctors.Level.ok else "fix"
            say_line("", f"{'':<11} {head}: {f.fix}", width=7)
    failed, warned, skipped = (counts[level] for level in ("fail", "warn", "skipped"))
    summary = f"{failed} wrong, {warned} to look at" if failed or warned else "nothing is wrong"
    say(f"\n{summary}" + (f", {skipped} not checked" if skipped else ""))
