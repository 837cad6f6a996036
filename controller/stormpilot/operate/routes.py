"""Routes: which tasks get tuples; shift traffic from task to task without a restart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from shlex import quote

import msgspec

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import ComponentPart, TopologySnapshot, decode, encode
from stormpilot.messages.load import LoadReport, TaskLoad, silent_tasks
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routable import route_in_force, tasks_of, why_not_routable
from stormpilot.messages.routes import (
    ComponentRoute,
    Routes,
    drained_at,
    handed_on,
    rest,
    rest_all,
    settled,
    switch,
    take_up,
    take_up_all,
)
from stormpilot.observe.reader import read_keyed
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.parameters import ComponentName, DrainTimeout, RunningTopology, TaskId
from stormpilot.printable import counted
from stormpilot.rollout.idle import Reading
from stormpilot.zookeeper.client import ConflictError
from stormpilot.zookeeper.transaction import Put


def shift_route(
    operator: Operator,
    topology: RunningTopology,
    component: ComponentName,
    from_: TaskId,
    to: TaskId,
    *,
    drain_timeout_s: DrainTimeout = None,
) -> Change:
    """Shift the tuples of one task to another, standby or active, without a restart.

    `RefusedError` where a stream to the component does not follow routes, or where `to` is not up.
    """
    snapshot = operator.topology(topology)
    tasks = _routable(snapshot, component)
    _up(operator, snapshot, component, to)
    table = _table(operator, snapshot)
    after = switch(route_in_force(snapshot, component, table.routes), tasks, from_, to, operator.now_ms)
    return _write(
        operator,
        "routes shift",
        table,
        table.routes.with_route(_limited(after, from_, operator, drain_timeout_s)),
        f"{component}: what task {from_} got goes to task {to}",
    )


def deactivate_task(
    operator: Operator,
    topology: RunningTopology,
    component: ComponentName,
    task: TaskId,
    *,
    drain_timeout_s: DrainTimeout = None,
) -> Change:
    """Send a task no more tuples; the other tasks take its share and its keys."""
    snapshot = operator.topology(topology)
    _routable(snapshot, component)
    table = _table(operator, snapshot)
    after = rest(route_in_force(snapshot, component, table.routes), task, operator.now_ms)
    return _write(
        operator,
        "routes deactivate",
        table,
        table.routes.with_route(_limited(after, task, operator, drain_timeout_s)),
        f"{component}: task {task} gets no more tuples",
    )


def activate_task(operator: Operator, topology: RunningTopology, component: ComponentName, task: TaskId) -> Change:
    """Send a task tuples again; it takes its share, and the state of its keys, from the other tasks."""
    snapshot = operator.topology(topology)
    tasks = _routable(snapshot, component)
    _up(operator, snapshot, component, task)
    table = _table(operator, snapshot)
    after = take_up(route_in_force(snapshot, component, table.routes), tasks, task, operator.now_ms)
    return _write(
        operator, "routes activate", table, table.routes.with_route(after), f"{component}: task {task} gets tuples"
    )


def set_active(operator: Operator, topology: str, active: Mapping[str, Collection[int]], verb: str) -> Change:
    """Send the tuples of each component in `active` to these of its tasks and to no other, all in one table."""
    snapshot = operator.topology(topology)
    table = _table(operator, snapshot)
    after, said = table.routes, []
    for component, wanted in active.items():
        tasks = _routable(snapshot, component)
        route = route_in_force(snapshot, component, table.routes)
        begin, end = sorted({*wanted} - {*route.active}), sorted({*route.active} - {*wanted})
        for task in begin:
            _up(operator, snapshot, component, task)
        if begin:
            route = take_up_all(route, tasks, begin, operator.now_ms)
        if end:
            route = rest_all(route, end, operator.now_ms)
        if begin or end:
            after = after.with_route(route)
            said.append(f"{component}: {_listed(begin)} begin to get tuples, {_listed(end)} get no more")
    return _write(operator, verb, table, after, "; ".join(said) or "the same tasks get tuples")


def settle(operator: Operator, topology: str, idle: Collection[int], drain_timeout_ms: int) -> Change:
    """Take note of what tasks did: drained (idle, or had their time), saved state, or loaded it.

    To be called until `unfinished` finds nothing. `drain_timeout_ms` is for tasks without a limit. Where a rollout
    runs, the leading controller takes note of these, and of keyed state: it waits for them by its own settings.
    """
    snapshot = operator.topology(topology)
    table = _table(operator, snapshot)
    leader_drives = _rollout_runs(operator, snapshot)
    at_most_ms = math.inf if leader_drives else drain_timeout_ms
    handing = [t for c in table.routes.components if c.hands_over for t in tasks_of(snapshot, c.component)]
    tasks = read_keyed(operator.zookeeper, operator.paths, snapshot.id, handing) if handing else {}
    after = table.routes
    said: list[str] = []
    for route in after.components:
        on = settled(route, idle, operator.now_ms, at_most_ms)
        if not leader_drives:
            own = {t: k for t, k in tasks.items() if t in tasks_of(snapshot, route.component)}
            on, troubles = handed_on(on, own, operator.now_ms)
            said += troubles
        after = after.with_route(on)
    done = _draining(table.routes) - _draining(after)
    said += [f"standby: {_listed(done)}"] if done else []
    left = still_open(after)
    said += [f"still open: {'; '.join(left)}"] if left else []
    return _write(operator, "settle", table, after, "; ".join(said) or "nothing drains")


def unfinished(operator: Operator, topology: str) -> list[str]:
    """`still_open` of a topology's table as it is now, without what is left to the controller (see `settle`)."""
    snapshot = operator.topology(topology)
    table = _table(operator, snapshot).routes
    if _rollout_runs(operator, snapshot):
        table = msgspec.structs.replace(table, components=[_without_rollout(c) for c in table.components])
    return still_open(table)


def still_open(table: Routes) -> list[str]:
    """Unfinished parts of a table, in words: tasks that drain, state on its way. Empty when all is."""
    found = [f"task {d.task} of {c.component} drains" for c in table.components for d in c.draining]
    return found + [
        f"state of {counted(len(h.partitions), 'partition')} of {c.component}, task {h.from_} -> {h.to} ({h.phase})"
        for c in table.components
        for h in c.handovers
    ]


def reset_routes(operator: Operator, topology: RunningTopology) -> Change:
    """Remove the routes of a topology: Storm's own groupings hold again."""
    snapshot = operator.topology(topology)
    path = operator.paths.routes(snapshot.id)
    text, same = f"{snapshot.name}: its routes are removed", f"{snapshot.name}: had no routes"
    return operator.set("routes reset", snapshot.name, path, None, text, danger="keys change their tasks", same=same)


class RouteView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A component's tasks: those that get tuples, that drain, that stand by; `why_not` where none can be routed.

    `handovers`: keyed state on its way, as `5 -> 6: 64 partitions (save)`.
    """

    component: str
    active: list[int]
    draining: list[int]
    standby: list[int]
    partitions: dict[int, int]
    handovers: list[str] = []
    why_not: str = ""


def routes(operator: Operator, topology: str) -> list[RouteView]:
    """The routes of all components that are no spouts and not Storm's own, as they are in force."""
    snapshot = operator.topology(topology)
    table = _table(operator, snapshot)
    return [_view(snapshot, c, table.routes) for c in snapshot.components if c.kind == "bolt"]


def loads(operator: Operator, topology: str) -> dict[int, TaskLoad]:
    """The newest report of every task that reports."""
    found: dict[int, TaskLoad] = {}
    for (task, _), load in readings(operator, topology).items():
        if task not in found or found[task].at_ms < load.at_ms:
            found[task] = load
    return found


def readings(operator: Operator, topology: str) -> dict[Reading, TaskLoad]:
    """The newest report of every task that reports, by who measured it."""
    topology_id = operator.topology(topology).id
    folder = operator.paths.load(topology_id)
    paths = [f"{folder}/{name}" for name in operator.zookeeper.children([folder])[0]]
    found: dict[Reading, TaskLoad] = {}
    for path, node in zip(paths, operator.zookeeper.read(paths, keep_denied=True), strict=True):
        try:
            reports = [decode(node.data, LoadReport, path)] if node else []
        except UsageError:
            continue  # its tasks drain for their whole time
        for report in reports:
            for load in report.tasks:
                reading = load.task, report.worker is not None
                if reading not in found or found[reading].at_ms < load.at_ms:
                    found[reading] = load
    return found


def _routable(snapshot: TopologySnapshot, component: str) -> list[int]:
    part = next((c for c in snapshot.components if c.id == component), None)
    if part is None:
        bolts = ", ".join(c.id for c in snapshot.components if c.kind == "bolt")
        raise RefusedError(f"{snapshot.name} has no component {component!r}; its bolts: {bolts or 'none'}")
    if why := why_not_routable(part):
        raise RefusedError(f"{component} cannot be routed: {why}")
    return tasks_of(snapshot, component)


def _up(operator: Operator, snapshot: TopologySnapshot, component: str, task: int) -> None:
    executor = next((e for e in snapshot.executors if e.component == component and e.start <= task <= e.end), None)
    if executor is not None and executor.supervisor is None:
        raise RefusedError(f"task {task} of {component} is placed nowhere now")
    known = loads(operator, snapshot.id)
    if executor is not None and known and task not in known and any(t in known for t in tasks_of(snapshot, component)):
        raise RefusedError(f"task {task} of {component} has not reported yet: it may still be starting")
    now_ms = min(operator.now_ms, max((load.at_ms for load in known.values()), default=0))  # clocks differ
    for_s = silent_tasks(snapshot, {t: (now_ms - load.at_ms) / 1000 for t, load in known.items()}).get(task)
    if for_s is not None:
        raise RefusedError(f"task {task} of {component} may be down: its worker has not reported for {for_s:.0f} s")


def _limited(route: ComponentRoute, task: int, operator: Operator, drain_timeout_s: float | None) -> ComponentRoute:
    """The route with the time that `task` has to drain, where one is given."""
    if drain_timeout_s is None:
        return route
    return drained_at(route, task, operator.now_ms + int(drain_timeout_s * 1000))


class Table(msgspec.Struct, frozen=True):
    """A topology's table as it was read; `node_version` is None where there is none."""

    name: str
    path: str
    routes: Routes
    node_version: int | None


def _table(operator: Operator, snapshot: TopologySnapshot) -> Table:
    path = operator.paths.routes(snapshot.id)
    routes, node = operator.read(path, Routes)
    if node is not None and routes is None:
        raise RefusedError(f"{path} cannot be read: remove it with `stormpilot routes reset {quote(snapshot.name)}`")
    return Table(snapshot.name, path, routes or Routes(topology_id=snapshot.id), None if node is None else node.version)


def _view(snapshot: TopologySnapshot, part: ComponentPart, table: Routes) -> RouteView:
    tasks = tasks_of(snapshot, part.id)
    if why := why_not_routable(part):
        return RouteView(component=part.id, active=tasks, draining=[], standby=[], partitions={}, why_not=why)
    route = route_in_force(snapshot, part.id, table)
    draining = [d.task for d in route.draining]
    return RouteView(
        component=part.id,
        active=route.active,
        draining=draining,
        standby=[t for t in tasks if t not in route.active and t not in draining],
        partitions={t: route.partitions.count(t) for t in route.active} if route.partitions else {},
        handovers=[
            f"{h.from_} -> {h.to}: {counted(len(h.partitions), 'partition')} ({h.phase})" for h in route.handovers
        ],
    )


def _rollout_runs(operator: Operator, snapshot: TopologySnapshot) -> bool:
    kept, _ = operator.read(operator.paths.rollout(snapshot.id), Rollout)
    return kept is not None and kept.running


def _without_rollout(route: ComponentRoute) -> ComponentRoute:
    """The route without keyed state on its way, and with those draining tasks alone whose limit a command set."""
    ours = [d for d in route.draining if d.until_ms is not None]
    return msgspec.structs.replace(route, draining=ours, handovers=[])


def _draining(table: Routes) -> set[int]:
    return {d.task for c in table.components for d in c.draining}


def _write(operator: Operator, verb: str, table: Table, after: Routes, text: str) -> Change:
    """Replace the table that was read; `RefusedError` when somebody else changed it in between."""
    change = Change(
        verb=verb,
        target=table.name,
        before=_shown(table.routes),
        after=_shown(after),
        text=text,
        changed=after.components != table.routes.components,
        dry_run=operator.dry_run,
    )
    if operator.dry_run or not change.changed:
        return change
    after = msgspec.structs.replace(
        after,
        version=table.routes.version + 1,
        written_at_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
    )
    operator.zookeeper.ensure([operator.paths.routes()])
    try:
        operator.write([Put(table.path, encode(after), table.node_version, world_reads=True)], change)
    except ConflictError as e:
        raise RefusedError(f"{table.name}: somebody else changed the routes in the meantime; look again") from e
    return change


def _shown(table: Routes) -> dict[str, object]:
    """A table without the owner of every partition: what an audit should hold of it."""
    return {
        c.component: {"active": c.active, "draining": [d.task for d in c.draining]}
        | ({"partitions": {str(t): n for t, n in sorted(Counter(c.partitions).items())}} if c.partitions else {})
        | ({"handovers": {f"{h.from_}-{h.to}": h.phase for h in c.handovers}} if c.handovers else {})
        for c in table.components
    }


def _listed(tasks: Collection[int]) -> str:
    return ", ".join(map(str, sorted(tasks))) or "none"
