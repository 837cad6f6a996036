"""The command `stormpilot submit`: a streamparse project to Nimbus, with the options of `sparse submit`.

Different are the topology, which is an argument too, and `-O`: `-o` names what a command writes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.nimbus_login import NimbusJaasOption, nimbus_login
from stormpilot.cli.output import Format, FormatOption, console_err, note, print_json, print_table, say
from stormpilot.errors import UsageError
from stormpilot.user_files import read_bytes

if TYPE_CHECKING:
    from stormpilot.submit import Submission

SHORT_MS = 1_000
"""A shorter time-out may be meant as seconds."""


def submit(
    topology: Annotated[
        str | None, typer.Argument(help="Topology file of the project without .py; needed where there are several.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="TOPOLOGY, as `sparse submit` has it.")] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="Entry of envs in config.json; needed if several.")
    ] = None,
    project: Annotated[Path, typer.Option("--project", help="Directory of the streamparse project.")] = Path(),
    config: Annotated[Path | None, typer.Option("--config", help="Another file than its config.json.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="KEY=VALUE", help="Topology option (YAML value); repeatable."),
    ] = None,
    option_file: Annotated[
        Path | None, typer.Option("--option-file", help="YAML or JSON mapping of topology options; -O wins over it.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="topology.workers")] = None,
    ackers: Annotated[int | None, typer.Option("--ackers", "-a", min=0, help="topology.acker.executors")] = None,
    debug: Annotated[bool, typer.Option("--debug", "-d", help="topology.debug")] = False,
    override_name: Annotated[
        str | None, typer.Option("--override-name", "--override_name", "-N", help="Run under this name instead.")
    ] = None,
    nimbus: Annotated[
        str | None,
        typer.Option("--nimbus", metavar="HOST[:PORT]", help="Wins over config.json and STREAMPARSE_NIMBUS."),
    ] = None,
    nimbus_jaas: NimbusJaasOption = None,
    instrument: Annotated[
        bool, typer.Option("--instrument/--no-instrument", help="Whether components report their load.")
    ] = True,
    routable: Annotated[
        bool, typer.Option("--routable", help="Let tuples follow routes: traffic can move without a restart.")
    ] = False,
    standby: Annotated[
        list[str] | None,
        typer.Option("--standby", help="component=n: n standby executors, which wait for a route; repeatable."),
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
    timeout: Annotated[
        int,
        typer.Option("--timeout", metavar="MS", min=1, help="Milliseconds (as of `sparse submit`) to wait for Nimbus."),
    ] = 60_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent; send nothing.")] = False,
    format: FormatOption = Format.table,
) -> None:
    """Submit a topology of a streamparse project, with load reporting added to its Python components."""
    if topology is not None and name is not None:
        raise UsageError(f"the topology is given twice: {topology}, and --name {name}")
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
    if timeout < SHORT_MS:
        note(
            f"note: --timeout is in milliseconds, as that of `sparse submit`: Nimbus has {timeout / 1000:g} s to answer"
        )
    submission = prepare(
        project,
        topology or name,
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
        nimbus_login=nimbus_login(nimbus_jaas),
    )
    _say_hooks_are_not_run(project)
    _say_groupings_are_in_no_jar(submission)
    if runner is None:
        _say_virtualenv_is_not_used(submission)
    if dry_run:
        _show(submission, format)
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
    if format is Format.json:
        print_json({"topologyId": topology_id, "name": submission.name, "reporting": submission.reporting})
    else:
        say(f"submitted {submission.name} as {topology_id}")
        if instrument:
            say(f"load reporting: {', '.join(submission.reporting) or 'no Python component, nothing reports'}")
        if routable or standby:
            say(f"tuples follow routes: {', '.join(submission.routable) or 'to no bolt, none has such inputs'}")


def _show(submission: Submission, format: Format) -> None:
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
    names = ["component", "kind", "parallelism", "command", "reportsLoad", "routable"]
    jar = str(submission.remote_jar or submission.jar or submission.sources)  # as it is sent
    if format is Format.json:
        print_json(
            {
                "name": submission.name,
                "nimbus": str(submission.nimbus),
                "conf": submission.conf,
                "components": [dict(zip(names, row, strict=True)) for row in components],
                "jar": jar,
                "jarEntries": submission.jar_entries(),
            }
        )
        return
    say(f"would submit {submission.name} to Nimbus at {submission.nimbus}")
    print_table(columns, components)
    print_table(["option", "value"], [[k, str(v)] for k, v in sorted(submission.conf.items())])
    say(f"jar: {jar}")
    for entry in submission.jar_entries():
        say(f"  resources/{entry}")


def _say_hooks_are_not_run(project: Path) -> None:
    for file in (f for name in ("tasks", "fabfile") for f in (project / f"{name}.py", project / name / "__init__.py")):
        text = _text(file) if file.is_file() else ""
        if re.search(r"^(?!\s*#).*\b(pre|post)_submit\b", text, flags=re.MULTILINE):  # defined, imported or assigned
            note(f"note: the hooks in {file} (pre_submit, post_submit) are not run")


def _say_groupings_are_in_no_jar(submission: Submission) -> None:
    """`sparse submit` sends the project's own Java classes in the jar that it builds; ours has none."""
    groupings = [g for bolt in submission.topology.bolts.values() for g in bolt.common.inputs.values()]
    names = {g.custom_object.full_class_name for g in groupings if g.custom_object is not None}
    missing = sorted(n for n in names if not n.startswith(("org.apache.storm.", "io.stormpilot.")))
    if missing and not submission.jar and not submission.remote_jar:
        note(
            f"note: the jar has no Java classes: workers start only if {', '.join(missing)} (grouping) is in extlib/ "
            "of every supervisor; else give a jar that holds it and your src/ (--jar)"
        )


def _text(file: Path) -> str:
    try:
        return read_bytes(file).decode("utf-8", errors="replace")
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}") from e


def _say_virtualenv_is_not_used(submission: Submission) -> None:
    """A Nimbus on loopback may be the end of a tunnel, and the workers elsewhere."""
    conf = submission.conf
    if submission.nimbus.on_loopback and "use_virtualenv" not in conf and "topology.python.path" in conf:
        note(
            f"note: Nimbus is on this machine, so components run by {submission.runner}, not from virtualenv_root: if "
            "it is a tunnel, set use_virtualenv to true, or give --runner"
        )
