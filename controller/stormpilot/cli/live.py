"""Commands that read a running system: the options that all have, and what the body of such a command gets."""

from __future__ import annotations

import functools
import inspect
import os
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from stormpilot.cli.output import Format, FormatOption, note, print_json
from stormpilot.errors import UnreachableError, UsageError
from stormpilot.zookeeper.hosts import check_hosts
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import DEFAULT_ROOT, Paths

if TYPE_CHECKING:
    from stormpilot.config import Config
    from stormpilot.observe.reader import Reader, StoreSnapshot
    from stormpilot.operate import Operator
    from stormpilot.zookeeper.client import ZooKeeper

Own = ParamSpec("Own")
T = TypeVar("T")

DEFAULT_HOSTS = "127.0.0.1:2181"
HOSTS_VARIABLE = "STORMPILOT_ZOOKEEPER"
UNNAMED = "Nothing names its address: give --config controller.yaml, --zookeeper HOSTS or STORMPILOT_ZOOKEEPER"
ZooKeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOSTS",
        help="ZooKeeper servers, host:port,host:port. "
        f"[default: those of --config, else {HOSTS_VARIABLE}, else {DEFAULT_HOSTS}]",
    ),
]
RootOption = Annotated[
    str | None, typer.Option(metavar="PATH", help=f"Root of stormpilot's znodes. [default: {DEFAULT_ROOT}]")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A controller.yaml: servers, root and login of ZooKeeper, and the other settings that the command uses.",
    ),
]


@dataclass(frozen=True)
class Place:
    """Where our znodes are, and as whom to ask.

    `source`: a sentence on what names the servers, empty for the command line.
    """

    hosts: str
    paths: Paths
    login: Login
    source: str = ""


@dataclass(frozen=True)
class Live:
    """A running system, as the options of a command name it, and the format of the answer."""

    where: Place
    format: Format
    config: Path | None

    @functools.cached_property
    def settings(self) -> Config | None:
        """The configuration that `--config` names; None without it."""
        if self.config is None:
            return None
        from stormpilot.config import load

        return load(self.config)

    @functools.cached_property
    def judging_settings(self) -> Config:
        """The settings to judge by; without `--config` the defaults, and a note on stderr says so."""
        from stormpilot.config import Config

        if self.settings is None:
            note("judged by default settings: --config controller.yaml judges by those of the controller")
        return self.settings or Config()

    @property
    def as_table(self) -> bool:
        """Whether a person reads the answer."""
        return self.format is Format.table

    @contextmanager
    def operator(self) -> Iterator[Operator]:
        """Somebody who only looks."""
        from stormpilot.operate import Operator

        with connected(self.where) as connection:
            yield Operator(connection, self.where.paths, user())

    @contextmanager
    def reading(self) -> Iterator[tuple[Reader, StoreSnapshot]]:
        """One reading of everything but load reports."""
        from stormpilot.observe.reader import Reader

        with connected(self.where) as zookeeper:
            reader = Reader(zookeeper, self.where.paths)
            yield reader, reader.read()

    def answer(self, value: Any, table: Callable[[], None]) -> None:
        """Print the answer: as JSON, or with `table`."""
        if self.as_table:
            table()
        else:
            print_json(value)


def _live(
    format: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> Live:
    return Live(place(zookeeper, root, config), format, config)


def live_command(body: Callable[Concatenate[Live, Own], None]) -> Callable[..., None]:
    """Make a command of a function: its own parameters, then those of `_live`, which it gets as a `Live`."""
    own = list(parameters_of(body).values())[1:]
    return joined(body.__name__, inspect.getdoc(body) or "", own, _live, body)


def joined(
    name: str,
    doc: str,
    own: list[inspect.Parameter],
    common: Callable[..., T],
    body: Callable[..., None],
    fixed: Mapping[str, Any] = {},
) -> Callable[..., None]:
    """A command with parameters of its own and those of `common`, whose result the body gets first.

    `fixed`: parameters of `common` that are no options, with their values.
    """
    shared = {n: p for n, p in parameters_of(common).items() if n not in fixed}

    def command(**given: Any) -> None:
        options = {n: given.pop(n) for n in shared}
        body(common(**options, **fixed), **given)

    return with_parameters(name, doc, [*own, *shared.values()], command)


def with_parameters(
    name: str, doc: str, parameters: list[inspect.Parameter], body: Callable[..., None]
) -> Callable[..., None]:
    """A command with these parameters, which `body` gets by name."""

    def command(**given: Any) -> None:
        body(**given)

    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__name__, command.__doc__ = name, doc
    return command


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function with their annotations as objects."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {n: p.replace(annotation=hints[n]) for n, p in inspect.signature(function).parameters.items()}


def place(zookeeper: str | None, root: str | None, config: Path | None) -> Place:
    """Typed options win over the configuration file, which wins over the environment, which wins over the defaults."""
    if root is not None and (not root.startswith("/") or root == "/"):
        raise UsageError(f"--root is {root!r}, expected a path such as {DEFAULT_ROOT}")
    hosts, login, own_root = os.environ.get(HOSTS_VARIABLE), Login(), DEFAULT_ROOT
    where, source = HOSTS_VARIABLE, f"Its address is in {HOSTS_VARIABLE}"
    if not hosts:
        hosts, source = DEFAULT_HOSTS, UNNAMED
    if config is not None:
        from stormpilot.config import load, zookeeper_login

        section = load(config).zookeeper
        hosts, login, own_root = section.hosts, zookeeper_login(section), section.root
        where, source = f"{config}: zookeeper.hosts", f"Its address is zookeeper.hosts of {config}"
    if zookeeper is not None:
        hosts, where, source = zookeeper, "--zookeeper", ""
    check_hosts(hosts, where)
    return Place(hosts, Paths(root or own_root), login, source)


def signing_key(config: Path | None) -> bytes | None:
    """The key by which a controller with that file signs plans, for commands that publish one; None: unsigned."""
    if config is None:
        return None
    from stormpilot.config import load, plan_key

    return plan_key(load(config).publish)


@contextmanager
def connected(where: Place) -> Iterator[ZooKeeper]:
    """A session for one command; `UnreachableError` when ZooKeeper does not answer."""
    from stormpilot.zookeeper.client import connect

    try:
        zookeeper = connect(where.hosts, login=where.login)
    except UnreachableError as e:
        if not where.source:
            raise
        raise UnreachableError(f"{e} {where.source}") from e
    try:
        yield zookeeper
    finally:
        zookeeper.stop()


def user() -> str:
    """The user name for the audit."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
