"""Operator: the person, the cluster, and how a change is written: with its audit record, in one transaction."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from stormpilot import clock
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.messages.core import Message, TopologySnapshot, decode, encode
from stormpilot.messages.failures import FAILURES
from stormpilot.messages.limits import PLAN, text_within
from stormpilot.messages.settings import AuditRecord
from stormpilot.operate.change import Change
from stormpilot.operate.topology_ref import NO_TOPOLOGIES, UnknownTopologyError, check_reference, topology_ref
from stormpilot.printable import listed
from stormpilot.zookeeper.client import ConflictError, Node, ZooKeeper
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Append, Delete, Put, Step

M = TypeVar("M", bound=Message)
TRIES = 5


class UncertainError(UnreachableError):
    """ZooKeeper did not answer when it was asked to write: whether a change was made is not known."""


@dataclass(frozen=True)
class Operator:
    """A person or a program that acts on a running system; `who` and `why` go into the audit."""

    zookeeper: ZooKeeper
    paths: Paths
    who: str
    why: str = ""
    dry_run: bool = False
    now_ms: int = field(default_factory=clock.now_ms)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, path: str, kind: type[M]) -> tuple[M | None, Node | None]:
        """A message and its znode; the message is None where there is none or it cannot be read."""
        (node,) = self.zookeeper.read([path])
        if node is None:
            return None, None
        try:
            return decode(node.data, kind, path), node
        except UsageError:
            return None, node

    def topologies(self) -> dict[str, TopologySnapshot]:
        """Running topologies, by id; what cannot be read is left out."""
        return {i: s for i, s in self.snapshots().items() if s is not None}

    def snapshots(self) -> dict[str, TopologySnapshot | None]:
        """Running topologies, by id; None: what cannot be read."""
        ids = self.zookeeper.children([self.paths.topology()])[0]
        paths = [self.paths.topology(i) for i in ids]
        found: dict[str, TopologySnapshot | None] = {}
        for i, path, node in zip(ids, paths, self.zookeeper.read(paths, keep_denied=True), strict=True):
            if node is not None:
                found[i] = None
                with contextlib.suppress(UsageError):
                    found[i] = decode(node.data, TopologySnapshot, path)
        return found

    def topology(self, name_or_id: str) -> TopologySnapshot:
        """The running topology of that name or id: see `topology_ref`."""
        found = self.snapshots()
        unread = [i for i, s in found.items() if s is None]
        return topology_ref({i: s for i, s in found.items() if s is not None}, name_or_id, unread)

    def topology_name(self, name_or_id: str | None) -> str | None:
        """The name that a setting goes by; None (all topologies) stays None.

        Settings outlive topologies: a name that no topology has now is taken as it is.
        """
        check_reference(name_or_id)
        if name_or_id is None:
            return None
        with contextlib.suppress(UnknownTopologyError):
            return self.topology(name_or_id).name
        return name_or_id

    def unknown(self, name: str | None) -> str:
        """The end of a sentence on a setting for a name that no topology has now, which may be a slip; else empty."""
        if name is None:
            return ""
        snapshots = self.snapshots()
        names = {s.name for s in snapshots.values() if s is not None}
        if name in names:
            return ""
        if not snapshots:
            return f"; no topology of that name is known {NO_TOPOLOGIES}"
        if unread := [i for i, s in snapshots.items() if s is None]:
            return f"; no topology of that name is known ({listed(unread)} cannot be read)"
        return f"; no topology of that name runs now (there are: {listed(names)})"

    # --- writing ------------------------------------------------------------------------------------------------------

    def set(
        self, verb: str, target: str, path: str, after: Message | None, text: str, *, danger: str = "", same: str = ""
    ) -> Change:
        """Write a setting (None: remove it) with its audit record; `same` is said when it is so already."""
        kind = type(after) if after is not None else Message
        for _ in range(TRIES):
            (node,) = self.zookeeper.read([path])
            before = None if node is None else shown(node)
            change = Change(
                verb=verb,
                target=target,
                before=before,
                after=None if after is None else msgspec.to_builtins(after),
                text=text,
                danger=danger,
                dry_run=self.dry_run,
            )
            if _says_the_same(node, after, kind, path):
                return msgspec.structs.replace(change, after=before, changed=False, text=same or text, danger="")
            if self.dry_run:
                return change
            step: Step
            if after is not None:
                step = Put(path, encode(after), None if node is None else node.version)
            else:
                assert node is not None
                step = Delete(path, node.version)
            self.zookeeper.ensure([path.rpartition("/")[0]])
            try:
                self.write([step], change)
            except ConflictError:
                continue  # somebody else was faster: what is before now?
            return change
        raise RefusedError(f"{target}: concurrent updates; gave up after {TRIES} attempts")

    def write(self, steps: Sequence[Step], change: Change) -> None:
        """Do the steps and record the change, all or nothing.

        `UncertainError` where ZooKeeper was asked and did not answer: it may do them all the same.
        """
        record = AuditRecord(
            id=new_id("a"),
            at_ms=self.now_ms,
            who=self.who,
            why=self.why,
            verb=change.verb,
            target=change.target,
            before=change.before,
            after=change.after,
            result="asked for" if change.request_id else "done",
            request_id=change.request_id,
        )
        self.zookeeper.ensure([self.paths.audit()])
        try:
            self.zookeeper.commit([*steps, Append(self.paths.audit("e-"), encode(record))])
        except UnreachableError as e:
            raise UncertainError(
                f"{change.target}: {change.verb} was sent, and may have been done: {e}; `stormpilot audit` shows it if "
                "so"
            ) from e


def shown(node: Node) -> object:
    """Content of a znode, as a JSON value."""
    try:
        return msgspec.json.decode(text_within(node.data, PLAN))
    except FAILURES:
        return "unreadable"


def new_id(prefix: str) -> str:
    """A unique name."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


_INCIDENTAL = {"sinceMs", "by", "why", "schema"}


def _says_the_same(node: Node | None, after: Message | None, kind: type[Message], path: str) -> bool:
    """Whether the znode already sets this, whoever set it and when."""
    if node is None or after is None:
        return node is None and after is None
    try:
        before = msgspec.to_builtins(decode(node.data, kind, path))
    except UsageError:
        return False
    wanted = msgspec.to_builtins(after)
    return all(before.get(k) == v for k, v in wanted.items() if k not in _INCIDENTAL)
