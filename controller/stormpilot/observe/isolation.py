"""Isolated topologies: those to which Storm's own scheduler gives hosts that nobody else may use.

Under the IsolationScheduler those with a name in `isolation.scheduler.machines`, with whole hosts; under the
MultitenantScheduler those of users with a pool (`multitenant.scheduler.user.pools`, `topology.isolate.machines`), with
supervisors. That scheduler alone places them. In the model they stay where they are, and nobody else may run there.
Source: Storm 2.8.3, `IsolationScheduler`, `IsolatedPool`; in the plug-in, `Isolation.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.model.subset import all_slots
from stormpilot.model.values import Exclusion, Model, Topology
from stormpilot.observe.storm_keys import ISOLATION, POOLS, isolates_by_name, isolates_by_user


def isolated(
    config: Mapping[str, Any], fallback: str, topologies: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """The isolated topologies, by id: the key of Storm that says so, and its value in words.

    Parameters
    ----------
    config
        Of Nimbus, or the part of it that is about scheduling.
    fallback
        Class of the scheduler that isolates.
    topologies
        By id: name and owner.
    """
    machines, pools = config.get(ISOLATION), config.get(POOLS)
    found: dict[str, tuple[str, str]] = {}
    for i, (name, owner) in topologies.items():
        if isolates_by_name(fallback) and isinstance(machines, Mapping) and name in machines:
            found[i] = ISOLATION, str(machines[name])
        elif isolates_by_user(fallback) and isinstance(pools, Mapping) and owner in pools:
            found[i] = POOLS, f"{pools[owner]} of {owner}"
    return found


def of_cluster(cluster: ClusterSnapshot, topologies: Mapping[str, TopologySnapshot]) -> dict[str, tuple[str, str]]:
    """The isolated topologies of a cluster where the plug-in is, as `isolated`."""
    known = {i: (t.name, t.owner) for i, t in topologies.items()}
    return isolated(cluster.shim.config, cluster.shim.fallback, known)


def kept_apart(model: Model, isolated_ids: Mapping[str, object], fallback: str) -> Model:
    """The model in which isolated topologies stay where they are, and nobody else may run there.

    Parameters
    ----------
    isolated_ids
        Ids of topologies of the model.
    fallback
        Class of the scheduler that isolates: by hosts, or by supervisors.
    """
    names = {t.id: t.name for t in model.topologies if t.id in isolated_ids}
    if not names:
        return model
    host_of = {s.id: s.host if isolates_by_name(fallback) else s.id for s in model.supervisors}
    kept: dict[str, set[str]] = {}  # host -> topologies (ids)
    for t in model.topologies:
        if t.id in names:
            for host in {host_of[a.supervisor] for a in t.assignment if a.supervisor in host_of}:
                kept.setdefault(host, set()).add(t.id)
    exclusions = [
        Exclusion(supervisor=s.id, topology=t.id, kept_for=names[min(kept[host_of[s.id]])])
        for s in model.supervisors
        if host_of[s.id] in kept
        for t in model.topologies
        if t.id not in kept[host_of[s.id]]
    ]
    slots = all_slots(model)
    topologies = [_fixed(t, slots) if t.id in names else t for t in model.topologies]
    return msgspec.structs.replace(model, topologies=topologies, exclusions=[*model.exclusions, *exclusions])


def _fixed(t: Topology, slots: set[tuple[str, int]]) -> Topology:
    """The topology with every worker fixed that runs in one of the slots: a supervisor may have lost a port."""
    own = sorted({(a.supervisor, a.port) for a in t.assignment} & slots)
    return msgspec.structs.replace(t, fixed_workers=own, workers=max(t.workers, len(own)))
