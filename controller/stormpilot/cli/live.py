"""How commands reach a running system: options that say where ZooKeeper is, and one reading of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.errors import RefusedError, UsageError
from stormpilot.paths import DEFAULT_ROOT, Paths

if TYPE_CHECKING:
    from stormpilot.model.messages import HistoryEntry, PlanMessage
    from stormpilot.model.values import Model
    from stormpilot.observe.reader import Reader, Seen
    from stormpilot.zookeeper import ZooKeeper

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
    from stormpilot.zookeeper import connect

    zookeeper = connect(where.hosts, auth=where.auth)
    try:
        yield zookeeper
    finally:
        zookeeper.stop()


@contextmanager
def reading(where: Place) -> Iterator[tuple[Reader, Seen]]:
    """One reading of everything but load reports."""
    from stormpilot.observe.reader import Reader

    with connected(where) as zookeeper:
        reader = Reader(zookeeper, where.paths)
        yield reader, reader.read()


def topology_id(seen: Seen, topology: str) -> str:
    """The id of a topology given by name or id; `RefusedError` lists those there are."""
    if topology in seen.topologies:
        return topology
    for i, snapshot in sorted(seen.topologies.items(), reverse=True):
        if snapshot.name == topology:
            return i
    names = ", ".join(sorted(s.name for s in seen.topologies.values())) or "none"
    raise RefusedError(f"no topology is named {topology!r} (there are: {names})")


@dataclass(frozen=True)
class PublishedPlan:
    """What the controller wants for a topology, against the model as it runs now.

    `advice` is True for a plan that nobody applies, because the mode is `advise`.
    """

    model: Model
    plan: PlanMessage
    entry: HistoryEntry | None
    advice: bool


def published_plan(where: Place, topology: str) -> PublishedPlan:
    """The newest plan of a topology (published, or else advised) with the model of what runs; no rates are measured."""
    from stormpilot.config import LoadSection
    from stormpilot.model.messages import HistoryEntry, decode
    from stormpilot.observe.build import build
    from stormpilot.observe.reader import Reader

    with connected(where) as zookeeper:
        seen = Reader(zookeeper, where.paths).read()
        if seen.cluster is None:
            raise RefusedError("the scheduler plug-in has not written the cluster yet: is it in Nimbus?")
        i = topology_id(seen, topology)
        found = seen.plans.get(i)
        if found is not None and found.message is None:
            raise RefusedError(f"the published plan cannot be read: {seen.problems[where.paths.plan(i)]}")
        (advice,) = zookeeper.read([where.paths.advice(i)])
    model = build(seen.cluster, {i: seen.topologies[i]}, {}, LoadSection(), 1.0, 0).model
    entry = None if advice is None else decode(advice.data, HistoryEntry, where.paths.advice(i))
    newest = 0 if found is None or found.message is None else found.message.created_at_ms
    if entry is not None and entry.plan.created_at_ms > newest:
        return PublishedPlan(model, entry.plan, entry, advice=True)
    if found is None or found.message is None:
        raise RefusedError(f"there is no plan for {topology}")
    return PublishedPlan(model, found.message, None, advice=False)
