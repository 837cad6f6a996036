"""Where executors may run: drain and undrain, pin and unpin, exclude and include."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from shlex import quote

from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import ClusterSnapshot, SupervisorPart, TopologySnapshot
from stormpilot.messages.settings import DrainSetting, ExcludeSetting, PinSetting
from stormpilot.observe.reader import NO_SNAPSHOT
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.parameters import (
    AnyComponent,
    AnyTask,
    AnyTopology,
    ComponentName,
    EvenIfGone,
    HostName,
    HostOrSupervisor,
    SupervisorName,
    TopologyName,
)
from stormpilot.printable import first_few, listed


def drain(operator: Operator, host: HostName, *, force: EvenIfGone = False) -> Change:
    """Move all executors off a host, one topology at a time, and keep it empty until `undrain`.

    `force` drains a host that has no supervisor now: it stays empty when it comes back.
    """
    supervisors = [s for s in _supervisors(operator) if s.host == host]
    if not supervisors and not force:
        raise RefusedError(f"there is no supervisor on {host!r} ({known_hosts(operator)})")
    there = _executors_on(operator, {s.id for s in supervisors})
    danger = _restarting(there)
    unread = unread_names(operator.snapshots())
    empty = f", and not known to be empty: {unread}" if unread else ", and empty"
    if not supervisors:  # it is down, or has another name: NODE-1, node-1.example.org
        empty = f", and no supervisor is on a host of that name now ({known_hosts(operator)})"
    text = f"{host}: is drained{_to_be_moved(operator, there) or empty}"
    setting = DrainSetting(host=host_name(host), since_ms=operator.now_ms, by=operator.who, why=operator.why)
    same = f"{host}: was drained already"
    return operator.set("drain", host, operator.paths.drain(host), setting, text, danger=danger, same=same)


def undrain(operator: Operator, host: HostName) -> Change:
    """Make a host schedulable again; triggers no move."""
    text, same = f"{host}: may be used again", f"{host}: was not drained"
    return operator.set("undrain", host, operator.paths.drain(host_name(host)), None, text, same=same)


def pin(
    operator: Operator,
    topology: TopologyName,
    component: ComponentName,
    supervisor: SupervisorName,
    *,
    task: AnyTask = None,
) -> Change:
    """Bind a component, or the executor of one task, to a supervisor; it moves there if it runs elsewhere."""
    topology = _topology_name(operator, topology)
    target = supervisor_named(operator, supervisor)
    _check_component(operator, topology, component, task)
    setting = PinSetting(
        topology=topology,
        component=component,
        task=task,
        supervisor=target.id,
        since_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
    )
    what = _what(topology, component, task)
    elsewhere = {s.id for s in _supervisors(operator)} - {target.id}
    there = _executors_on(operator, elsewhere, topology, component, task)
    moved = _to_be_moved(operator, there) or operator.unknown(topology)
    text = f"{what}: pinned to {target.id} on {target.host}{moved}"
    same = f"{what}: was pinned to {target.id} already"
    danger = _restarting(there)
    return operator.set("pin", what, operator.paths.pin(setting.key), setting, text, danger=danger, same=same)


def unpin(operator: Operator, topology: TopologyName, component: ComponentName, *, task: AnyTask = None) -> Change:
    """Remove a pin; triggers no move."""
    topology = _topology_name(operator, topology)
    setting = PinSetting(topology=topology, component=component, task=task, supervisor="")
    what = _what(topology, component, task)
    path = operator.paths.pin(setting.key)
    return operator.set("unpin", what, path, None, f"{what}: no longer pinned", same=f"{what}: was not pinned")


def exclude(
    operator: Operator, where: HostOrSupervisor, topology: AnyTopology = None, component: AnyComponent = None
) -> Change:
    """Keep a component, a topology, or everything off a host or supervisor; what runs there moves away."""
    if component is not None and topology is None:
        raise UsageError("a component is excluded together with its topology: name both")
    if topology is not None:
        topology = _topology_name(operator, topology)
        if component is not None:
            _check_component(operator, topology, component, None)
    live = _supervisors(operator)
    on_host, named = [s for s in live if s.host == where], [s for s in live if s.id == where]
    if not on_host and not named:
        raise RefusedError(f"{where!r} is neither a host nor a supervisor ({known_hosts(operator)})")
    setting = ExcludeSetting(
        host=where if on_host else None,
        supervisor=None if on_host else where,
        topology=topology,
        component=component,
        since_ms=operator.now_ms,
        by=operator.who,
        why=operator.why,
    )
    there = _executors_on(operator, {s.id for s in on_host or named}, topology, component)
    danger = _restarting(there)
    what = _what(topology, component, None)
    moved = _to_be_moved(operator, there) or operator.unknown(topology)
    text = f"{what}: excluded from {where}{moved}"
    same = f"{what}: was excluded from {where} already"
    return operator.set(
        "exclude", where, operator.paths.exclusion(setting.key), setting, text, danger=danger, same=same
    )


def include(
    operator: Operator, where: HostOrSupervisor, topology: AnyTopology = None, component: AnyComponent = None
) -> Change:
    """Remove an exclusion, given as it was made; triggers no move."""
    if component == "":
        raise UsageError("the component is empty, expected its name or nothing")
    topology = operator.topology_name(topology)
    by_host = ExcludeSetting(host=where, topology=topology, component=component)
    by_id = ExcludeSetting(supervisor=where, topology=topology, component=component)
    paths = [operator.paths.exclusion(s.key) for s in (by_host, by_id)]
    path = next((p for p, n in zip(paths, operator.zookeeper.read(paths), strict=True) if n is not None), paths[0])
    what = _what(topology, component, None)
    text, same = f"{what}: may run on {where} again", f"{what}: was not excluded from {where}"
    return operator.set("include", where, path, None, text, same=same)


def unread_names(snapshots: Mapping[str, TopologySnapshot | None]) -> str:
    """A clause on topologies that cannot be read, and may run anywhere; empty where there are none."""
    ids = sorted(i for i, s in snapshots.items() if s is None)
    return f"{listed(ids)} cannot be read" if ids else ""


def supervisor_named(operator: Operator, name: str) -> SupervisorPart:
    """A live supervisor by id, or by host where that is one only; `RefusedError` tells those there are."""
    live = _supervisors(operator)
    found = [s for s in live if s.id == name] or [s for s in live if s.host == name]
    if len(found) > 1:
        raise RefusedError(f"{name} has several supervisors, name one: {', '.join(s.id for s in found)}")
    if not found:
        raise RefusedError(f"{name!r} is no supervisor ({known_hosts(operator)})")
    return found[0]


def _supervisors(operator: Operator) -> list[SupervisorPart]:
    cluster, _ = operator.read(operator.paths.cluster, ClusterSnapshot)
    if cluster is None:
        raise RefusedError(NO_SNAPSHOT)
    return cluster.supervisors


def known_hosts(operator: Operator) -> str:
    """The hosts there are, each with its supervisor, for the end of a refusal."""
    names = sorted(f"{s.host} (supervisor {s.id})" for s in _supervisors(operator))
    if not names:
        return "there is none at all"
    return f"there are: {first_few(names, 10)}"


def _executors_on(
    operator: Operator,
    supervisors: Collection[str],
    topology: str | None = None,
    component: str | None = None,
    task: int | None = None,
) -> Counter[str]:
    """Executors there by topology name, of one topology, component or task only where that is given."""
    counts: Counter[str] = Counter()
    for snapshot in operator.topologies().values():
        if topology in (None, snapshot.name):
            counts[snapshot.name] += sum(
                e.supervisor in supervisors
                and component in (None, e.component)
                and (task is None or e.start <= task <= e.end)
                for e in snapshot.executors
            )
    return +counts


def _restarting(there: Counter[str]) -> str:
    return f"executors restart elsewhere: {_counts(there)}" if there else ""


def _to_be_moved(operator: Operator, there: Counter[str]) -> str:
    """The end of a sentence on executors that have to leave, with who moves them not; empty where none has to."""
    if not there:
        return ""
    if not operator.zookeeper.children([operator.paths.leader])[0]:
        return f"; {_counts(there)} to be moved, once a controller leads: none does now"
    state, _ = operator.read(operator.paths.controller, ControllerState)
    modes = {} if state is None else {v.name: v.mode for v in state.topologies}
    waits = [
        f"{name} waits for `stormpilot approve {quote(name)}`" for name in sorted(there) if modes.get(name) == "advise"
    ]
    waits += [f"{name} stays, its mode is off" for name in sorted(there) if modes.get(name) == "off"]
    return f"; {_counts(there)} to be moved" + (f" ({', '.join(waits[:5])})" if waits else "")


def _counts(there: Counter[str]) -> str:
    parts = [f"{n} of {name}" for name, n in sorted(there.items())]
    total = sum(there.values())
    return (
        f"{total} executor{'' if total == 1 else 's'} ({', '.join(parts[:5])}{' and others' if len(parts) > 5 else ''})"
    )


def _check_component(operator: Operator, topology: str, component: str, task: int | None) -> None:
    """A topology that does not run now may still come; of one that runs, component and task must exist."""
    if not component:
        raise UsageError("the component has no name")
    running = [s for s in operator.topologies().values() if s.name == topology]
    if not running:
        return
    newest = max(running, key=lambda s: (s.launched_at_ms, s.id))
    ranges = [(e.start, e.end) for e in newest.executors if e.component == component]
    if not ranges:
        known = ", ".join(sorted({e.component for e in newest.executors}))
        raise RefusedError(f"{topology} has no component {component!r} (it has: {known})")
    if task is not None and not any(start <= task <= end for start, end in ranges):
        known = ", ".join(str(s) if s == e else f"{s}-{e}" for s, e in sorted(ranges))
        raise RefusedError(f"{topology}/{component} has no task {task} (it has: {known})")


def _what(topology: str | None, component: str | None, task: int | None) -> str:
    if topology is None:
        return "everything"
    return "/".join(str(x) for x in (topology, component, task) if x is not None)


def _topology_name(operator: Operator, topology: str) -> str:
    name = operator.topology_name(topology)
    assert name is not None
    return name


def host_name(host: str) -> str:
    """A name that a znode may have; `UsageError` for another."""
    if not host or host in (".", ".."):
        raise UsageError(f"host is {host!r}, expected the name of a host")
    return host
