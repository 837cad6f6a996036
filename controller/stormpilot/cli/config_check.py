"""`stormpilot config check`: a configuration read as the controller reads it, with what differs from the default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.errors import UsageError
from stormpilot.zookeeper.hosts import check_hosts

if TYPE_CHECKING:
    from stormpilot.config import Config, PlannerSection
    from stormpilot.config.reload import Loaded


def check(
    file: Annotated[Path, typer.Argument(help="The file to check.")],
    everything: Annotated[bool, typer.Option("--all", help="Show all settings.")] = False,
    format: FormatOption = Format.table,
) -> None:
    """Check a configuration file and show the settings that differ from their default.

    Files that it names (login, tokens, certificate, headers) are read too. Of what may hold a secret, as the address of
    a webhook, it shows only that it is set.
    """
    from stormpilot.config import Config
    from stormpilot.config.example import yaml_text
    from stormpilot.config.reload import changed_keys
    from stormpilot.config.secrets import described_openly

    found = checked(file)
    chosen = {"planner.name": found.planner, "planner.first_plan": found.first_planner}
    values, defaults = described_openly(found.config), described_openly(Config())
    changed = changed_keys(Config(), found.config)
    if format is Format.json:
        print_json({"settings": values | chosen, "changed": changed})
        return
    shown = [key for key in values if everything or key in changed]
    rows = [
        [key, yaml_text(chosen.get(key, values[key])) or "none", yaml_text(defaults[key]) or "none"]
        for key in sorted(shown, key=lambda k: k not in changed)
    ]
    differ = f"{len(changed)} of {len(values)} settings differ from the default"
    say(f"{file}: valid, {differ if changed else f'all {len(values)} settings have their defaults'}")
    if rows:
        print_table(["setting", "value", "default"], rows)
    if len(shown) < len(values):
        say("--all shows the others")


def checked(file: Path) -> Loaded:
    """Read a configuration, and the files that it names; `UsageError` lists all that is missing or wrong."""
    found, problems = _read(file)
    _check_files(found.config, file, problems)
    return _unless(problems, found)


def needed(file: Path) -> Loaded:
    """The same, but for the files of the API and the webhook: a controller starts without them, and its log says so."""
    found, problems = _read(file)
    return _unless(problems, found)


def _unless(problems: list[str], found: Loaded) -> Loaded:
    if problems:
        raise UsageError("\n".join(problems))
    return found


def _read(file: Path) -> tuple[Loaded, list[str]]:
    """A configuration, and all that is wrong with what a controller needs of it."""
    from stormpilot.config import plan_key, read, zookeeper_login
    from stormpilot.config.reload import Loaded

    settings, problems = read(file)
    with _noted(problems):
        check_hosts(settings.zookeeper.hosts, f"{file}: zookeeper.hosts")
    with _noted(problems):
        zookeeper_login(settings.zookeeper)
    with _noted(problems):
        plan_key(settings.publish)
    if settings.traffic_log.dir is not None:
        from stormpilot.trafficlog.place import check_scheme

        with _noted(problems, f"{file}: "):
            check_scheme(settings.traffic_log.dir)
    return Loaded(settings, *_planners(settings.planner, f"{file}: planner.", problems)), problems


@contextmanager
def _noted(problems: list[str], where: str = "") -> Iterator[None]:
    """Adds what is wrong to the problems, with the file or the setting in front."""
    try:
        yield
    except UsageError as e:
        problems.append(f"{where}{e}")


def _check_files(settings: Config, file: Path, problems: list[str]) -> None:
    """Read what the api and notify sections name; adds what is missing or wrong to the problems."""
    from stormpilot.api.server import check_certificate
    from stormpilot.api.tokens import read_tokens
    from stormpilot.notify.webhook import read_headers

    with _noted(problems):
        check_certificate(settings.api)
    if settings.api.tokens_file is not None:
        with _noted(problems):
            read_tokens(Path(settings.api.tokens_file))
    with _noted(problems):
        read_headers(settings.notify)
    if settings.notify.url is not None:
        with _noted(problems, f"{file}: notify.url: "):
            _check_url(settings.notify.url)


def _check_url(url: str) -> None:
    """Whether an address has a host; it is not told, for it may be a secret."""
    try:
        host = urlsplit(url).hostname
    except ValueError as e:
        raise UsageError(f"expected a host, as in https://chat.example.org/hook: {e}") from e
    if not host:
        raise UsageError("expected a host, as in https://chat.example.org/hook")


def _planners(section: PlannerSection, where: str, problems: list[str]) -> tuple[str, str]:
    """The planners to use: those named, else the best that there are; adds one that does not exist to the problems."""
    from stormpilot.planner import PLANNERS, planner_named
    from stormpilot.planner.registry import params_of

    best = next(p for p in ("best", "online") if p in PLANNERS)
    offline = next(p for p in ("offline", "default") if p in PLANNERS)
    planner, first = section.name or best, section.first_plan or offline
    with _noted(problems, f"{where}name: "):
        found = planner_named(planner)
        with _noted(problems, f"{where}params: "):
            params_of(found, section.params)
    with _noted(problems, f"{where}first_plan: "):
        planner_named(first)
    return planner, first
