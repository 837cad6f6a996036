"""Changes of a model: nodes added or gone, other rates, a topology more. The model itself stays as it is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec
import numpy as np

from stormpilot.errors import RefusedError, UsageError
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.flow.places_cpu import awake, measured_sums, places_mhz
from stormpilot.model.latency import with_times_of
from stormpilot.model.subset import with_cpu
from stormpilot.model.values import DEFAULT_RACK, RESERVED_CPU, CpuLaw, Model, Supervisor, Topology, Value
from stormpilot.printable import listed

MOST_NODES, MOST_SLOTS = 10_000, 1000
"""Nodes that one change adds, and slots of each."""


class NewNode(Value, frozen=True, kw_only=True):
    """A supervisor (or `count` of them) to add; `mhz` of one core, `memory_mb` 0 is no limit.

    `cpu_limit_ratio` is B(n) / CPU(n); None: as the median of the nodes that are there. `site` and `rack` as in
    `Supervisor`; `host` None is a host of its own. Where CPU is reserved in points it offers 100 for each core, and no
    other resources.
    """

    cores: float
    mhz: float
    slots: int = 4
    memory_mb: float = 0.0
    count: int = 1
    host: str | None = None
    rack: str = DEFAULT_RACK
    site: str | None = None
    cpu_limit_ratio: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("cores", self.cores), ("mhz", self.mhz), ("slots", self.slots), ("count", self.count)):
            if not 0 < value < 1e9:
                raise ValueError(f"{name} is {value:g}, expected more than 0")
        for name, value, most in (("slots", self.slots, MOST_SLOTS), ("count", self.count, MOST_NODES)):
            if value > most:
                raise ValueError(f"{name} is {value}, expected at most {most}")


class Changes(Value, frozen=True, kw_only=True):
    """Changes to the model; `remove_nodes` are ids or hosts, `scale_rates` are (topology name or id, factor).

    `new_topologies` is a model whose topologies and traffic are added; where its nodes are does not matter.
    """

    add_nodes: tuple[NewNode, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    scale_rates: tuple[tuple[str, float], ...] = ()
    new_topologies: Model | None = None


def changed(model: Model, changes: Changes) -> Model:
    """The model with these changes; `UsageError` names a node or topology that is not there.

    Executors on a removed node run nowhere and are to be placed. A rate that is scaled scales what the topology's
    executors use for tuples too: CPU per tuple stays the same, that of idle workers and of looking for tuples stays.
    """
    before = model
    for name, factor in changes.scale_rates:  # first, while it is known where everything runs
        model = _scaled(model, name, factor)
    if changes.scale_rates:
        model = with_times_of(before, model)
    for name in changes.remove_nodes:
        model = _without(model, name)
    for node in changes.add_nodes:
        model = _with(model, node)
    return model if changes.new_topologies is None else _joined(model, changes.new_topologies)


def knows_one_rack(model: Model) -> bool:
    """Whether Storm has no topography plug-in there, so that all supervisors are in one rack to it."""
    return {s.storm_rack for s in model.supervisors} == {DEFAULT_RACK}


def _without(model: Model, name: str) -> Model:
    gone = {s.id for s in model.supervisors if name in (s.id, s.host)}
    if not gone:
        raise _unknown("node", name, [s.id for s in model.supervisors] + [s.host for s in model.supervisors])
    return msgspec.structs.replace(
        model,
        supervisors=[s for s in model.supervisors if s.id not in gone],
        topologies=[_off(t, gone) for t in model.topologies],
        exclusions=[x for x in model.exclusions if x.supervisor not in gone],
    )


def _off(t: Topology, gone: set[str]) -> Topology:
    """The topology without what runs on, is pinned to, or must stay on these supervisors."""
    return msgspec.structs.replace(
        t,
        assignment=[a for a in t.assignment if a.supervisor not in gone],
        fixed_workers=[(s, p) for s, p in t.fixed_workers if s not in gone],
        executors=[e if e.pin not in gone else msgspec.structs.replace(e, pin=None) for e in t.executors],
    )


def _with(model: Model, node: NewNode) -> Model:
    ratios = sorted(s.limit_mhz / s.cpu_mhz for s in model.supervisors if s.cpu_mhz > 0)
    ratio = node.cpu_limit_ratio if node.cpu_limit_ratio is not None else ratios[len(ratios) // 2] if ratios else 1.0
    taken = {s.id for s in model.supervisors}
    one_rack = knows_one_rack(model)
    reserves = any(RESERVED_CPU in s.resources for s in model.supervisors)
    added: list[Supervisor] = []
    number = 1
    while len(added) < node.count:
        name = f"new-{number}"
        number += 1
        if name in taken:
            continue
        added.append(
            Supervisor(
                id=name,
                host=node.host or name,
                rack=node.rack,
                storm_rack=DEFAULT_RACK if one_rack else None,
                site=node.site,
                slots=[6700 + i for i in range(node.slots)],
                cores=node.cores,
                mhz=node.mhz,
                memory_mb=node.memory_mb,
                cpu_limit_mhz=ratio * node.cores * node.mhz,
                resources={RESERVED_CPU: 100.0 * node.cores} if reserves else {},
            )
        )
    return msgspec.structs.replace(model, supervisors=[*model.supervisors, *added])


def _scaled(model: Model, name: str, factor: float) -> Model:
    if not 0 <= factor < 1e6:
        raise UsageError(f"the rate of {name} is to be scaled by {factor:g}, expected 0 or more")
    ids = {t.id for t in model.topologies if name in (t.id, t.name)}
    if not ids:
        raise _unknown("topology", name, [t.name for t in model.topologies])
    cpu_mhz = _cpu_mhz(compile_model(model), factor)
    return msgspec.structs.replace(
        model,
        topologies=[with_cpu(t, cpu_mhz[t.id]) if t.id in ids else t for t in model.topologies],
        traffic=[
            e if e.topology not in ids else msgspec.structs.replace(e, rate=e.rate * factor) for e in model.traffic
        ],
    )


def _cpu_mhz(c: Compiled, factor: float) -> dict[str, dict[int, float]]:
    """CPU of every executor where it is, by topology id and first task, MHz, with so many times the tuples.

    What follows from its place does so at the new rate; looking for tuples takes what it takes now.
    """
    received = np.bincount(c.sent_to, c.sent_tps, c.executors).astype(np.float64)
    sums = measured_sums(c, c.current)
    places = places_mhz(c, c.current, received, sums)
    then = places_mhz(c, c.current, received * factor, sums * factor)
    found: dict[str, dict[int, float]] = {t.id: {} for t in c.model.topologies}
    k = 0
    for t in c.model.topologies:
        law = CpuLaw() if t.cpu_law is None else t.cpu_law
        for e in sorted(t.executors, key=lambda e: e.start):
            awake_mhz = law.awake_mhz * float(awake(received[k], law.awake_s))  # is in `places`
            looking_mhz = max(e.polling_mhz - awake_mhz, law.asleep_mhz)
            tuples_mhz = max(e.cpu_mhz - float(places[k]) - looking_mhz, 0.0)
            mhz = e.cpu_mhz + float(then[k] - places[k]) + (factor - 1) * tuples_mhz
            found[t.id][e.start] = max(mhz, 0.0)
            k += 1
    return found


def _joined(model: Model, more: Model) -> Model:
    known = {t.id for t in model.topologies}
    for t in more.topologies:
        if t.id in known:
            raise RefusedError(f"topology {t.id} is in the model already")
    fresh = [msgspec.structs.replace(t, assignment=[], fixed_workers=[]) for t in more.topologies]
    return msgspec.structs.replace(
        model, topologies=[*model.topologies, *fresh], traffic=[*model.traffic, *more.traffic]
    )


def _unknown(what: str, name: str, there: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {listed(set(there)) or 'none'}"
    return UsageError(f"there is no {what} {name!r}; {hint}")
