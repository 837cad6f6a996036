"""Commands that run and steer the controller: `run`, `status`, `config check`, `mode`, `pause`, `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, print_json, print_table
from stormpilot.cli.status import status
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.config import PlannerSection

config_app = typer.Typer(no_args_is_help=True, help="The configuration of the controller.")


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command()(run)
    app.command()(status)
    app.command()(mode)
    app.command()(pause)
    app.command()(resume)
    app.add_typer(config_app, name="config")


def run(
    config: Annotated[Path, typer.Argument(help="The controller's configuration, e.g. controller.yaml.")],
    once: Annotated[bool, typer.Option("--once", help="Measure for one window, run one cycle, and end.")] = False,
) -> None:
    """Run the controller: observe, plan, decide, publish, until SIGTERM or Ctrl-C."""
    from stormpilot import daemon, logs
    from stormpilot.config import load
    from stormpilot.planning import PlannerProcess

    settings = load(config)
    planner, first = _planners(settings.planner)
    logs.configure(settings.log.level, settings.log.format)
    compute = PlannerProcess()
    try:
        daemon.run(daemon.Daemon(settings, compute, planner, first), once=once)
    finally:
        compute.close()


def mode(
    mode: Annotated[str, typer.Argument(help="off, advise or act; `default` goes back to controller.yaml.")],
    topology: Annotated[str, typer.Argument(help="Name of the topology, which need not run now.")],
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Set what the controller may do with a topology."""
    from stormpilot.model.messages import ModeSetting, encode

    if mode not in ("off", "advise", "act", "default"):
        raise UsageError(f"the mode is {mode!r}, expected off, advise, act or default")
    where = place(zookeeper, root, config)
    path = where.paths.mode(_name(topology))
    with connected(where) as connection:
        if mode == "default":
            connection.delete(path)
        else:
            connection.put(path, encode(ModeSetting(mode=mode, since_ms=_now_ms(), by=_user())))  # type: ignore[arg-type]
    typer.echo(f"{topology}: mode {mode}")


def pause(
    topology: Annotated[str | None, typer.Argument(help="Name of a topology. [default: everything]")] = None,
    why: Annotated[str, typer.Option(help="Said in `status`.")] = "",
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Publish and apply nothing new, until `resume`; what runs goes on."""
    from stormpilot.model.messages import PauseSetting, encode

    where = place(zookeeper, root, config)
    path = where.paths.pause(_name(topology or "_all"))
    with connected(where) as connection:
        setting = PauseSetting(since_ms=_now_ms(), by=_user(), why=why)
        connection.put(path, encode(setting))
    typer.echo(f"{topology or 'everything'}: paused")


def resume(
    topology: Annotated[str | None, typer.Argument(help="Name of a topology. [default: everything]")] = None,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """End a pause."""
    where = place(zookeeper, root, config)
    path = where.paths.pause(_name(topology or "_all"))
    with connected(where) as connection:
        was_paused = connection.delete(path)
    typer.echo(f"{topology or 'everything'}: {'resumed' if was_paused else 'was not paused'}")


@config_app.command("check")
def config_check(
    file: Annotated[Path, typer.Argument(help="The file to check.")], output: FormatOption = Format.table
) -> None:
    """Check a configuration and print every setting with its value."""
    from stormpilot.config import describe, load, zookeeper_auth

    settings = load(file)
    zookeeper_auth(settings.zookeeper)
    planner, first = _planners(settings.planner)
    values = dict(describe(settings)) | {"planner.name": planner, "planner.first_plan": first}
    if output is Format.json:
        print_json(values)
    else:
        print_table(["setting", "value"], [[k, str(v)] for k, v in values.items()], title=f"{file}: valid")


def _planners(section: PlannerSection) -> tuple[str, str]:
    """The planners to use: those named, else the best that there are; `UsageError` for one that does not exist."""
    from stormpilot.planner import PLANNERS, planner_named
    from stormpilot.planner.registry import params_of

    best = next(p for p in ("best", "online") if p in PLANNERS)
    offline = next(p for p in ("offline", "default") if p in PLANNERS)
    planner = planner_named(section.name or best)
    params_of(planner, section.params)
    return planner.name, planner_named(section.first_plan or offline).name


def _name(topology: str) -> str:
    if not topology or "/" in topology or topology in (".", ".."):
        raise UsageError(f"{topology!r} is not the name of a topology")
    return topology


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"


def _now_ms() -> int:
    import time

    return int(time.time() * 1000)
