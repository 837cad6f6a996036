"""References to a topology: its name or its id, resolved by one rule for every command and the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping

from stormpilot.errors import RefusedError
from stormpilot.messages.core import TopologySnapshot


class UnknownTopologyError(RefusedError):
    """No topology has that name or id."""


class AmbiguousTopologyError(RefusedError):
    """One topology has that id, and another one that name."""


def topology_ref(topologies: Mapping[str, TopologySnapshot], name_or_id: str) -> TopologySnapshot:
    """The topology with that id, else the newest with that name.

    Nimbus keeps the snapshot of a killed topology for a while: of several with one name the last launched counts.

    Parameters
    ----------
    topologies
        Snapshots by topology id.
    name_or_id
        A full id or a full name.

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
        names = ", ".join(sorted({s.name for s in topologies.values()})) or "none"
        raise UnknownTopologyError(f"no topology is named {name_or_id!r} (there are: {names})")
    by_name = max(named, key=lambda s: (s.launched_at_ms, s.id), default=None)
    if by_id is not None and by_name is not None and by_id.name != name_or_id:
        raise AmbiguousTopologyError(
            f"{name_or_id!r} is the id of topology {by_id.name!r} and the name of topology {by_name.id!r}: "
            f"use {by_id.name} for the first, {by_name.id} for the second"
        )
    found = by_id or by_name
    assert found is not None
    return found
