"""How commands reach a running system: options that say where ZooKeeper is, and one reading of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.errors import UsageError
from stormpilot.zookeeper.paths import DEFAULT_ROOT, Paths

if TYPE_CHECKING:
    from stormpilot.observe.reader import Reader, StoreSnapshot
    from stormpilot.operate.plans import PublishedPlan
    from stormpilot.zookeeper.client import ZooKeeper

DEFAULT_HOSTS = "127.0.0.1:2181"
ZooKeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        envvar="STORMPILOT_ZOOKEEPER",
        help=f"host:port,host:port of ZooKeeper. [default: {DEFAULT_HOSTS}]",
    ),
]
RootOption = Annotated[str | None, typer.Option(help=f"Our root in ZooKeeper. [default: {DEFAULT_ROOT}]")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A controller.yaml: its zookeeper section says where and as whom.")
]


@dataclass(frozen=True)
class Place:
    """Where our znodes are, and as whom to ask."""

    hosts: str
    paths: Paths
    auth: str | None


def place(zookeeper: str | None, root: str | None, config: Path | None) -> Place:
    """Options win over the configuration file, which wins over the defaults."""
    from stormpilot.config import load, zookeeper_auth

    if root is not None and (not root.startswith("/") or root == "/"):
        raise UsageError(f"--root is {root!r}, expected a path such as {DEFAULT_ROOT}")
    if config is None:
        return Place(zookeeper or DEFAULT_HOSTS, Paths(root or DEFAULT_ROOT), None)
    section = load(config).zookeeper
    return Place(zookeeper or section.hosts, Paths(root or section.root), zookeeper_auth(section))


@contextmanager
def connected(where: Place) -> Iterator[ZooKeeper]:
    """A session for one command; `UnreachableError` when ZooKeeper does not answer."""
    from stormpilot.zookeeper.client import connect

    zookeeper = connect(where.hosts, auth=where.auth)
    try:
        yield zookeeper
    finally:
        zookeeper.stop()


@contextmanager
def reading(where: Place) -> Iterator[tuple[Reader, StoreSnapshot]]:
    """One reading of everything but load reports."""
    from stormpilot.observe.reader import Reader

    with connected(where) as zookeeper:
        reader = Reader(zookeeper, where.paths)
        yield reader, reader.read()


def published_plan(where: Place, topology: str) -> PublishedPlan:
    """The newest plan of a topology (published, or else proposed) with the model of what runs."""
    from stormpilot.operate import plans

    with connected(where) as zookeeper:
        return plans.published_plan(zookeeper, where.paths, topology)
