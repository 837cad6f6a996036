"""Operators' drains, pins and exclusions as constraints of the model, and who runs where it may not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from stormpilot.messages.settings import ExcludeSetting, PinSetting
from stormpilot.model.subset import all_slots, with_room_for
from stormpilot.model.values import Exclusion, Executor, Model, Topology


def constrained(
    model: Model, drained: Collection[str], pins: Iterable[PinSetting], exclusions: Iterable[ExcludeSetting]
) -> Model:
    """The model under these settings; `drained` are hosts.

    A pin to a supervisor that is not there binds nobody: where it was lost, its executors run elsewhere meanwhile.
    """
    live = {s.id for s in model.supervisors}
    names = {t.name for t in model.topologies}
    found = list(model.exclusions)
    found += [Exclusion(supervisor=s.id, drained=True) for s in model.supervisors if s.host in drained]
    for x in exclusions:
        whose = [None] if x.topology is None else [t.id for t in model.topologies if t.name == x.topology]
        here = [s.id for s in model.supervisors if s.id == x.supervisor or (x.host is not None and s.host == x.host)]
        found += [Exclusion(supervisor=s, topology=t, component=x.component) for t in whose for s in here]
    by_name: dict[str, list[PinSetting]] = {}
    for p in pins:
        if p.topology in names and p.supervisor in live:
            by_name.setdefault(p.topology, []).append(p)
    if len(found) == len(model.exclusions) and not by_name:
        return model
    topologies = [t if t.name not in by_name else _pinned(t, by_name[t.name]) for t in model.topologies]
    return msgspec.structs.replace(model, exclusions=found, topologies=topologies)


def _pinned(topology: Topology, pins: list[PinSetting]) -> Topology:
    """A pin of a task wins over one of its component."""
    whole = {p.component: p.supervisor for p in pins if p.task is None}
    single = {(p.component, p.task): p.supervisor for p in pins if p.task is not None}

    def where(e: Executor) -> str | None:
        tasks = (single.get((e.component, t)) for t in range(e.start, e.end + 1))
        return next((s for s in tasks if s is not None), whole.get(e.component, e.pin))

    executors = [e if (to := where(e)) == e.pin else msgspec.structs.replace(e, pin=to) for e in topology.executors]
    return msgspec.structs.replace(topology, executors=executors)


def misplaced(model: Model) -> dict[str, list[int]]:
    """Executors (start tasks, by topology id) that run where an exclusion, their pin or the site they need forbids it.

    A site of which no supervisor is there binds nobody.
    """
    forbidden = {(x.supervisor, x.topology, x.component) for x in model.exclusions}
    excluded = {s for s, _, _ in forbidden}
    site_of = {s.id: s.site for s in model.supervisors}
    sites = {*site_of.values()} - {None}
    found: dict[str, list[int]] = {}
    for t in model.topologies:
        executors = {e.start: e for e in t.executors}
        needed = {c.id: c.site for c in t.components if c.site_required and c.site in sites}
        fixed = set(t.fixed_workers)
        for a in t.assignment:
            e = executors.get(a.start)
            if e is None or (a.supervisor, a.port) in fixed:
                continue
            site = needed.get(e.component, site_of.get(a.supervisor))
            wrong = site != site_of.get(a.supervisor) or (e.pin is not None and e.pin != a.supervisor)
            if not wrong and a.supervisor in excluded:
                scopes = ((None, None), (t.id, None), (t.id, e.component), (None, e.component))
                wrong = any((a.supervisor, *scope) in forbidden for scope in scopes)
            if wrong:
                found.setdefault(t.id, []).append(a.start)
    return {t: sorted(starts) for t, starts in found.items()}


def rest_stands_still(model: Model, leaving: Mapping[str, Collection[int]]) -> Model:
    """The model in which only the workers that hold one of `leaving` (start tasks, by topology id) may change.

    A node that is over its limits has room for what stays there, and for nobody else. What runs on a port that its
    supervisor no longer has cannot stand still.
    """
    topologies, stays = [], {}
    slots = all_slots(model)
    for t in model.topologies:
        go = set(leaving.get(t.id, ()))
        moving = {(a.supervisor, a.port) for a in t.assignment if a.start in go}
        rest = {(a.supervisor, a.port) for a in t.assignment} & slots - moving
        stays[t.id] = {a.start for a in t.assignment if (a.supervisor, a.port) in rest}
        topologies.append(msgspec.structs.replace(t, fixed_workers=sorted(rest)))
    return msgspec.structs.replace(with_room_for(model, stays), topologies=topologies)


def rest_keeps_its_nodes(model: Model, leaving: Mapping[str, Collection[int]]) -> Model:
    """The model in which nobody but `leaving` (start tasks, by topology id) may change the supervisor.

    For when `rest_stands_still` leaves too little room: who leaves may come to workers that run, which restarts these.
    """
    topologies, stays = [], {}
    for t in model.topologies:
        nodes = {a.start: a.supervisor for a in t.assignment if a.start not in leaving.get(t.id, ())}
        executors = [msgspec.structs.replace(e, pin=nodes.get(e.start, e.pin)) for e in t.executors]
        topologies.append(msgspec.structs.replace(t, executors=executors))
        stays[t.id] = nodes.keys()
    return msgspec.structs.replace(with_room_for(model, stays), topologies=topologies)
