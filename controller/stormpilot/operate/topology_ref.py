"""References to a topology: its name or its id, resolved by one rule for every command and the HTTP API."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import TopologySnapshot
from stormpilot.printable import listed

NO_TOPOLOGIES = "(the scheduler plug-in tells of none; where topologies run, stormpilot doctor tells what is wrong)"


class UnknownTopologyError(RefusedError):
    """No topology has that name or id."""


class AmbiguousTopologyError(RefusedError):
    """One topology has that id, and another one that name."""


def check_reference(name_or_id: str | None) -> None:
    """`UsageError` for what is neither the name nor the id of any topology; None stands for all topologies."""
    if name_or_id is not None and (not name_or_id or "/" in name_or_id or name_or_id in (".", "..")):
        raise UsageError(f"{name_or_id!r} is not the name of a topology")


def topology_ref(
    topologies: Mapping[str, TopologySnapshot], name_or_id: str, unread: Collection[str] = ()
) -> TopologySnapshot:
    """The topology with that id, else the newest with that name.

    Nimbus keeps the snapshot of a killed topology for a while: of several with one name the last launched counts.

    Parameters
    ----------
    topologies
        Snapshots by topology id.
    name_or_id
        A full id or a full name.
    unread
        Ids of the topologies whose snapshot cannot be read: the name may be that of one of them.

    Raises
    ------
    UnknownTopologyError
        There is none; the message lists the names.
    AmbiguousTopologyError
        It is the id of one topology and the name of another one; the message gives a reference to each.
    """
    by_id = topologies.get(name_or_id)
    named = [s for s in topologies.values() if s.name == name_or_id]
    if by_id is None and not named:
        names = ", ".join(sorted({s.name for s in topologies.values()}))
        told = [f"there are: {names}"] if names else []
        told += [f"{listed(sorted(unread))} cannot be read"] if unread else []
        there = f"({'; '.join(told)})" if told else NO_TOPOLOGIES
        raise UnknownTopologyError(f"no topology is named {name_or_id!r} {there}")
    by_name = max(named, key=lambda s: (s.launched_at_ms, s.id), default=None)
    if by_id is not None and by_name is not None and by_id.name != name_or_id:
        raise AmbiguousTopologyError(
            f"{name_or_id!r} is the id of topology {by_id.name!r} and the name of topology {by_name.id!r}: "
            f"use {by_id.name} for the first, {by_name.id} for the second"
        )
    found = by_id or by_name
    assert found is not None
    return found
