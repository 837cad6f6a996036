"""The command `stormpilot submit`: a streamparse project to Nimbus, options as `sparse submit` has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table

if TYPE_CHECKING:
    from stormpilot.submit import Submission


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command("submit")(submit)


def submit(
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Topology file without .py; needed where there are several.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="Entry of envs in config.json; needed if several.")
    ] = None,
    project: Annotated[Path, typer.Option("--project", help="Directory of the streamparse project.")] = Path(),
    config: Annotated[Path | None, typer.Option("--config", help="Another file than its config.json.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Topology option key=value (YAML value); repeatable.")
    ] = None,
    option_file: Annotated[
        Path | None, typer.Option("--option-file", help="YAML or JSON mapping of topology options; -o wins over it.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="topology.workers")] = None,
    ackers: Annotated[int | None, typer.Option("--ackers", "-a", min=0, help="topology.acker.executors")] = None,
    debug: Annotated[bool, typer.Option("--debug", "-d", help="topology.debug")] = False,
    override_name: Annotated[
        str | None, typer.Option("--override-name", "--override_name", "-N", help="Run under this name instead.")
    ] = None,
    nimbus: Annotated[
        str | None, typer.Option("--nimbus", help="host:port; wins over config.json and STREAMPARSE_NIMBUS.")
    ] = None,
    instrument: Annotated[
        bool, typer.Option("--instrument/--no-instrument", help="Whether components report their load.")
    ] = True,
    routable: Annotated[
        bool, typer.Option("--routable", help="Let tuples follow routes: traffic can move without a restart.")
    ] = False,
    standby: Annotated[
        list[str] | None,
        typer.Option("--standby", help="component=n: so many executors more, which wait for a route; repeatable."),
    ] = None,
    runner: Annotated[
        str | None, typer.Option("--runner", help="Command on worker hosts that runs Python components.")
    ] = None,
    jar: Annotated[
        Path | None,
        typer.Option("--jar", "--local-jar-path", "--local_jar_path", "-j", help="Upload this jar, build none."),
    ] = None,
    remote_jar: Annotated[
        str | None,
        typer.Option("--remote-jar-path", "--remote_jar_path", "-R", help="Use a jar that is on Nimbus already."),
    ] = None,
    inactive: Annotated[bool, typer.Option("--inactive", "-i", help="Submit with the spouts off.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Kill a running topology of that name first.")] = False,
    wait: Annotated[int, typer.Option("--wait", min=0, help="Seconds from --force's kill to its end.")] = 5,
    timeout: Annotated[int, typer.Option("--timeout", min=1, help="Milliseconds to wait for Nimbus.")] = 60_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent; send nothing.")] = False,
    output: FormatOption = Format.table,
) -> None:
    """Submit a topology of a streamparse project, with load reporting added to its Python components."""
    from stormpilot.submit.options import parse_options, read_options
    from stormpilot.submit.routable import parse_standby
    from stormpilot.submit.submission import prepare, send

    options: dict[str, Any] = read_options(option_file) if option_file else {}
    options |= parse_options(option or [])
    if workers is not None:
        options["topology.workers"] = workers
    if ackers is not None:
        options["topology.acker.executors"] = ackers
    if debug:
        options["topology.debug"] = True
    submission = prepare(
        project,
        name,
        environment,
        options,
        nimbus,
        instrument,
        runner,
        override_name,
        config_file=config,
        jar=jar,
        remote_jar=remote_jar,
        timeout_s=timeout / 1000,
        routable=routable,
        standby=parse_standby(standby or []),
    )
    _say_hooks_are_not_run(project)
    if dry_run:
        _show(submission, output)
        return
    with console_err.status(f"submitting {submission.name} to Nimbus at {submission.nimbus}") as status:
        topology_id = send(
            submission,
            active=not inactive,
            force=force,
            wait_s=wait,
            timeout_s=timeout / 1000,
            on_upload=lambda sent, size: status.update(f"uploading the jar: {sent:,} of {size:,} bytes"),
        )
    if output is Format.json:
        print_json({"topologyId": topology_id, "name": submission.name, "reporting": submission.reporting})
    else:
        typer.echo(f"submitted {submission.name} as {topology_id}")
        if instrument:
            typer.echo(f"load reporting: {', '.join(submission.reporting) or 'no Python component, nothing reports'}")
        if routable or standby:
            typer.echo(f"tuples follow routes: {', '.join(submission.routable) or 'to no bolt, none has such inputs'}")


def _show(submission: Submission, output: Format) -> None:
    components = [
        [
            component_id,
            kind,
            component.common.parallelism_hint,
            f"{shell.execution_command} {shell.script}" if shell is not None else "(Java)",
            component_id in submission.reporting,
            component_id in submission.routable,
        ]
        for kind, attribute, group in (
            ("spout", "spout_object", submission.topology.spouts),
            ("bolt", "bolt_object", submission.topology.bolts),
        )
        for component_id, component in sorted(group.items())
        for shell in [getattr(component, attribute).shell]
    ]
    columns = ["component", "kind", "parallelism", "command", "reports load", "routable"]
    jar = str(submission.jar or submission.remote_jar or submission.sources)
    if output is Format.json:
        print_json(
            {
                "name": submission.name,
                "nimbus": str(submission.nimbus),
                "conf": submission.conf,
                "components": [dict(zip(columns, row, strict=True)) for row in components],
                "jar": jar,
                "jarEntries": submission.jar_entries(),
            }
        )
        return
    typer.echo(f"would submit {submission.name} to Nimbus at {submission.nimbus}")
    print_table(columns, components)
    print_table(["option", "value"], [[k, str(v)] for k, v in sorted(submission.conf.items())])
    typer.echo(f"jar: {jar}")
    for entry in submission.jar_entries():
        typer.echo(f"  resources/{entry}")


def _say_hooks_are_not_run(project: Path) -> None:
    for file in (project / "tasks.py", project / "fabfile.py"):
        if file.is_file() and re.search(r"^def (pre|post)_submit\b", file.read_text("utf-8"), flags=re.MULTILINE):
            console_err.print(f"note: the hooks in {file} (pre_submit, post_submit) are not run", soft_wrap=True)
