"""Commands that run the controller and look at it: `run`, `status`, `config check|explain`; `verbs.py` steers it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli import config_explain, live_explain, records, token, verbs, what_if
from stormpilot.cli.output import Format, FormatOption, print_json, print_table
from stormpilot.cli.status import status

if TYPE_CHECKING:
    from stormpilot.config import Config, PlannerSection
    from stormpilot.config.reload import Loaded

config_app = typer.Typer(no_args_is_help=True, help="The configuration of the controller.")


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command()(run)
    app.command()(status)
    verbs.register(app)
    records.register(app)
    live_explain.register(app)
    what_if.register(app)
    config_app.command("explain")(config_explain.explain)
    app.add_typer(config_app, name="config")
    app.add_typer(token.app, name="token")


def run(
    config: Annotated[Path, typer.Argument(help="The controller's configuration, e.g. controller.yaml.")],
    once: Annotated[bool, typer.Option("--once", help="Measure for one window, run one cycle, and end.")] = False,
) -> None:
    """Run the controller: observe, plan, decide, publish, until SIGTERM or Ctrl-C; SIGHUP reads the file anew."""
    from stormpilot import logs
    from stormpilot.config import load
    from stormpilot.control import signals
    from stormpilot.control.daemon import Daemon
    from stormpilot.planner import compute as on_pairs
    from stormpilot.planner import compute_on_flows
    from stormpilot.planner_process import PlannerProcess

    settings = load(config)
    planner, first = _planners(settings.planner)
    logs.configure(settings.log.level, settings.log.format)
    compute = PlannerProcess(compute_on_flows if settings.planner.traffic == "flow" else on_pairs)
    try:
        signals.run(Daemon(settings, compute, planner, first, lambda: _checked(config)), once=once)
    finally:
        compute.close()


@config_app.command("check")
def config_check(
    file: Annotated[Path, typer.Argument(help="The file to check.")], output: FormatOption = Format.table
) -> None:
    """Check a configuration and print every setting with its value."""
    from stormpilot.config import describe

    settings, planner, first = _checked(file)
    values = dict(describe(settings)) | {"planner.name": planner, "planner.first_plan": first}
    if output is Format.json:
        print_json(values)
    else:
        print_table(["setting", "value"], [[k, str(v)] for k, v in values.items()], title=f"{file}: valid")


def _checked(file: Path) -> Loaded:
    """Read a configuration, and the files that it names; `UsageError` for what is missing or wrong."""
    from stormpilot.config import load, plan_key, zookeeper_auth
    from stormpilot.config.reload import Loaded

    settings = load(file)
    zookeeper_auth(settings.zookeeper)
    plan_key(settings.publish)
    _check_files(settings)
    return Loaded(settings, *_planners(settings.planner))


def _check_files(settings: Config) -> None:
    """Read what the api and notify sections name; `UsageError` for what is missing or wrong."""
    from stormpilot.api.server import check_certificate
    from stormpilot.api.tokens import read_tokens
    from stormpilot.notify.webhook import read_headers

    check_certificate(settings.api)
    if settings.api.tokens_file is not None:
        read_tokens(Path(settings.api.tokens_file))
    read_headers(settings.notify)


def _planners(section: PlannerSection) -> tuple[str, str]:
    """The planners to use: those named, else the best that there are; `UsageError` for one that does not exist."""
    from stormpilot.planner import PLANNERS, planner_named
    from stormpilot.planner.registry import params_of

    best = next(p for p in ("best", "online") if p in PLANNERS)
    offline = next(p for p in ("offline", "default") if p in PLANNERS)
    planner = planner_named(section.name or best)
    params_of(planner, section.params)
    return planner.name, planner_named(section.first_plan or offline).name
