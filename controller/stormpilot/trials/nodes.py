"""Which node gets the component alone on a slot, and which one source, sink and acker."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import SupervisorPart, TopologySnapshot, Worker
from stormpilot.observe.reader import StoreSnapshot


@dataclass(frozen=True)
class Nodes:
    """The nodes of a trial; each uses its first port."""

    component: SupervisorPart
    others: SupervisorPart

    def workers(self, snapshot: TopologySnapshot, component: str) -> list[Worker]:
        """The placement: the component in one slot, everything else in one on the other node."""
        alone = [(e.start, e.end) for e in snapshot.executors if e.component == component]
        rest = [(e.start, e.end) for e in snapshot.executors if e.component != component]
        return [
            Worker(supervisor=self.component.id, port=min(self.component.ports), executors=sorted(alone)),
            Worker(supervisor=self.others.id, port=min(self.others.ports), executors=sorted(rest)),
        ]


def choose(seen: StoreSnapshot, component_on: str | None, others_on: str | None, own: Collection[str] = ()) -> Nodes:
    """The nodes that were asked for (by supervisor id or host), else the first that run nothing.

    Parameters
    ----------
    seen
        A reading of the cluster.
    component_on, others_on
        Names of supervisors; None: any that is free.
    own
        Ids of topologies that do not count: those of earlier trials.

    Raises
    ------
    RefusedError
        There are no two free nodes, or one that was named runs something.
    UsageError
        A name is unknown.
    """
    supervisors = [] if seen.cluster is None else [s for s in seen.cluster.supervisors if s.ports and not s.blacklisted]
    running = {
        e.supervisor: t.name for i, t in seen.topologies.items() if i not in own for e in t.executors if e.supervisor
    }
    hosts = {
        s.host: running[s.id] for s in ([] if seen.cluster is None else seen.cluster.supervisors) if s.id in running
    }
    busy = {s.id: hosts[s.host] for s in supervisors if s.host in hosts}

    def named(name: str, option: str) -> SupervisorPart:
        found = next((s for s in supervisors if name in (s.id, s.host)), None)
        if found is None:
            raise UsageError(f"{option}: no supervisor is {name!r} (there are: {', '.join(s.id for s in supervisors)})")
        if found.id in busy:
            raise RefusedError(f"{option}: {busy[found.id]} runs on {found.host}, and a trial needs a node of its own")
        return found

    component = named(component_on, "--on") if component_on else None
    others = named(others_on, "--source-on") if others_on else None
    free = [s for s in sorted(supervisors, key=lambda s: s.id) if s.id not in busy and s not in (component, others)]
    if component is None and free:
        component = free.pop(0)
    if others is None and free:
        others = next((s for s in free if component is None or s.host != component.host), free[0])
    if component is None or others is None:
        raise RefusedError(
            f"a trial needs two supervisors that run nothing; of {len(supervisors)} these are busy: "
            f"{', '.join(sorted(i for i in busy if i)) or 'none'}"
        )
    if component.id == others.id:
        raise UsageError("--on and --source-on name the same supervisor, expected two")
    return Nodes(component, others)
