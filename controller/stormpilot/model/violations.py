"""Violations of hard constraints by a plan, found from model and plan alone; shares no code with a planner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.values import Component, Exclusion, Executor, Model, Plan, Supervisor, Topology, TopologyPlan

TOLERANCE = 1e-6  # relative, of a sum of floats against a limit


Constraint = Literal[
    "topology",
    "executor-once",
    "slot-exists",
    "slot-one-topology",
    "workers",
    "cpu",
    "memory",
    "site",
    "drain",
    "exclusion",
    "pin",
    "fixed-worker",
    "worker-heap",
    "worker-executors",
    "apart",
    "most-per-node",
    "resource",
    "checksum",
]
"""The hard constraints; `checksum` is one of published plans alone."""
AMOUNTS: frozenset[Constraint] = frozenset({"cpu", "memory", "workers"})
"""Constraints on amounts. A placement that ran once may break them: it did when it ran."""
PLACES: frozenset[Constraint] = frozenset({"site", "drain", "exclusion", "pin"})
"""Constraints on the supervisor of an executor: an executor that breaks one has to leave."""


@dataclass(frozen=True)
class Violation:
    """A constraint that a plan breaks; `executors` are (topology id, start task)."""

    constraint: Constraint
    text: str
    executors: list[tuple[str, int]]

    def __str__(self) -> str:
        """The constraint and the sentence."""
        return f"{self.constraint}: {self.text}"


def violations(
    model: Model, plan: Plan, *, exact_workers: bool = False, left_out: Collection[str] = ()
) -> list[Violation]:
    """Everything that is wrong with a plan; an empty list means that every hard constraint holds.

    Constraints: `topology` (each planned once), `executor-once`, `slot-exists`, `slot-one-topology`, `workers` (at most
    min(W, E); with `exact_workers` exactly), `cpu`, `memory`, `site`, `drain`, `exclusion`, `pin`, `fixed-worker`,
    `worker-heap`, `worker-executors`, `apart`, `most-per-node`, `resource`.
    CPU of a node that is too much as measured still fits where what was learned of it says that so much less of it is
    needed in the places of the plan (`proved_mhz`).
    Fixed workers stay where they are whatever sites, drains, exclusions and pins say. `left_out`: topologies (ids) that
    a partial plan may leave without a place; only such as do not run now.
    """
    found: list[Violation] = []
    supervisors = {s.id: s for s in model.supervisors}
    topologies = {t.id: t for t in model.topologies}
    planned = Counter(tp.id for tp in plan.topologies)
    for t, wanted_topology in topologies.items():
        times_wanted = 0 if t in left_out else 1
        if planned[t] != times_wanted:
            wanted_text = "once" if times_wanted else "none, as it is left out"
            found.append(Violation("topology", f"{t} is planned {planned[t]} times, expected {wanted_text}", []))
        if t in left_out and wanted_topology.assignment:
            found.append(Violation("topology", f"{t} runs and is left out", []))
    found.extend(Violation("topology", f"{t} is not in the model", []) for t in planned if t not in topologies)

    slot_owner: dict[tuple[str, int], str] = {}
    cpu: defaultdict[str, float] = defaultdict(float)
    memory: defaultdict[str, float] = defaultdict(float)
    on_node: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    excluded: defaultdict[str, list[Exclusion]] = defaultdict(list)
    for x in model.exclusions:
        excluded[x.supervisor].append(x)
    for tp in plan.topologies:
        topology = topologies.get(tp.id)
        if topology is None:
            continue
        executors = {e.start: e for e in topology.executors}
        fixed = _fixed(topology)
        times: Counter[int] = Counter()
        slots: dict[tuple[str, int], set[int]] = {}
        for w in tp.workers:
            slot = (w.supervisor, w.port)
            names = [(tp.id, start) for start, _ in w.executors]
            supervisor = supervisors.get(w.supervisor)
            if supervisor is None or w.port not in supervisor.slots:
                found.append(
                    Violation("slot-exists", f"{w.supervisor}:{w.port} is no slot of a live supervisor", names)
                )
            if slot in slot_owner:
                found.append(Violation("slot-one-topology", f"{w.supervisor}:{w.port} is given out twice", names))
            slot_owner[slot] = tp.id
            if not w.executors:
                found.append(Violation("workers", f"{w.supervisor}:{w.port} is a worker without executors", []))
            slots[slot] = {start for start, _ in w.executors}
            for start, end in w.executors:
                e = executors.get(start)
                if e is None or e.end != end:
                    found.append(
                        Violation("executor-once", f"{tp.id} has no executor [{start},{end}]", [(tp.id, start)])
                    )
                    continue
                times[start] += 1
                cpu[w.supervisor] += e.cpu_mhz
                memory[w.supervisor] += e.memory_mb
                on_node[w.supervisor].append((tp.id, start))
                if supervisor is not None and slot not in fixed:
                    found.extend(_where(excluded[supervisor.id], topology, e, supervisor))
        wrong = [start for start in executors if times[start] != 1]
        if wrong:
            found.append(
                Violation("executor-once", f"{tp.id}: not placed exactly once: {wrong}", [(tp.id, s) for s in wrong])
            )
        wanted = min(topology.workers, len(executors))
        if len(tp.workers) > wanted or (exact_workers and len(tp.workers) != wanted):
            found.append(Violation("workers", f"{tp.id}: {len(tp.workers)} workers, expected {wanted}", []))
        found.extend(_shared_workers(topology, tp, fixed))
        for node, amount_mb in _shared_memory_mb(topology, tp):
            memory[node] += amount_mb
        for slot, members in fixed.items():
            if slots.get(slot) != members:
                found.append(
                    Violation(
                        "fixed-worker", f"{tp.id}: {slot[0]}:{slot[1]} must stay", [(tp.id, s) for s in sorted(members)]
                    )
                )
    over = [n for n, s in supervisors.items() if cpu[n] > s.limit_mhz * (1 + TOLERANCE) + TOLERANCE]
    proved = _proved_mhz(model, plan, bool(found)) if over else {}
    for node, s in supervisors.items():
        if node in over and (mhz := proved.get(node, cpu[node])) > s.limit_mhz * (1 + TOLERANCE) + TOLERANCE:
            found.append(Violation("cpu", f"{node}: {mhz:.0f} MHz of {s.limit_mhz:.0f} MHz", on_node[node]))
        if s.memory_mb > 0 and memory[node] > s.memory_mb * (1 + TOLERANCE):
            found.append(Violation("memory", f"{node}: {memory[node]:.0f} MB of {s.memory_mb:.0f} MB", on_node[node]))
    found.extend(_shared_nodes(model, plan))
    return found


def _proved_mhz(model: Model, plan: Plan, broken: bool) -> dict[str, float]:
    """CPU of supervisors by `proved_mhz`; empty where that tells nothing, or the plan is not whole."""
    from stormpilot.model.flow.places_cpu import learned, proved_mhz  # compiled code: most commands do without

    if broken or not learned(model):
        return {}
    compiled = compile_model(model)
    placement = compiled.slots_of(plan)
    if (placement == NOWHERE).any():
        return {}
    node = compiled.slot_node[placement]
    loads = np.bincount(node, weights=proved_mhz(compiled, placement), minlength=compiled.nodes)
    return dict(zip(compiled.node_ids, loads.tolist(), strict=True))


def _shared_workers(topology: Topology, plan: TopologyPlan, fixed: Collection[tuple[str, int]]) -> Iterator[Violation]:
    """Violations of the topology's rules on workers by the workers of a plan, but for those that must stay."""
    component_of = {e.start: e.component for e in topology.executors}
    heap_mb = {c.id: c.heap_mb for c in topology.components}
    for w in plan.workers:
        if (w.supervisor, w.port) in fixed:
            continue
        at, names = f"{w.supervisor}:{w.port}", [(topology.id, start) for start, _ in w.executors]
        inside = [component_of[start] for start, _ in w.executors if start in component_of]
        most = topology.worker_executors
        if most is not None and len(inside) > most:
            yield Violation("worker-executors", f"{topology.id}: {at} has {len(inside)} executors of {most}", names)
        heap, limit = sum(heap_mb[c] for c in inside), topology.worker_heap_mb
        heap += sum(m.heap_mb for m in topology.shared_memory if not set(inside).isdisjoint(m.components))
        if limit is not None and heap > limit * (1 + TOLERANCE):
            yield Violation("worker-heap", f"{topology.id}: {at} has {heap:.0f} MB of heap of {limit:.0f} MB", names)
        if topology.all_apart and len(set(inside)) > 1:
            yield Violation("apart", f"{topology.id}: {', '.join(sorted(set(inside)))} share {at}", names)
        for a, b in topology.apart:
            if a in inside and b in inside:
                yield Violation("apart", f"{topology.id}: {a} and {b} share {at}", names)


def _shared_memory_mb(topology: Topology, plan: TopologyPlan) -> Iterator[tuple[str, float]]:
    """Memory that components share, with the supervisor where it counts: once in a worker, or once on a node."""
    component_of = {e.start: e.component for e in topology.executors}
    there: set[tuple[str, str]] = set()
    for w in plan.workers:
        inside = {component_of.get(start) for start, _ in w.executors}
        for m in topology.shared_memory:
            if inside.isdisjoint(m.components):
                continue
            yield w.supervisor, m.heap_mb + m.worker_mb
            if (m.name, w.supervisor) not in there:
                there.add((m.name, w.supervisor))
                yield w.supervisor, m.node_mb


def _shared_nodes(model: Model, plan: Plan) -> Iterator[Violation]:
    """Excess over the rules on supervisors; what fixed workers take is there in any case."""
    topologies = {t.id: t for t in model.topologies}
    taken: defaultdict[tuple[str, str], float] = defaultdict(float)
    stays: defaultdict[tuple[str, str], float] = defaultdict(float)
    most: dict[str, float] = {}
    names: defaultdict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for tp in plan.topologies:
        topology = topologies.get(tp.id)
        if topology is None:
            continue
        components = {c.id: c for c in topology.components}
        component_of = {e.start: components[e.component] for e in topology.executors}
        fixed = set(topology.fixed_workers)
        for w in tp.workers:
            for start, _ in w.executors:
                c = component_of.get(start)
                if c is None:
                    continue
                takes = dict(c.resources)
                if c.most_per_node is not None:
                    most[f"{tp.id}/{c.id}"] = c.most_per_node
                    takes[f"{tp.id}/{c.id}"] = 1.0
                for what, amount in takes.items():
                    taken[w.supervisor, what] += amount
                    stays[w.supervisor, what] += amount if (w.supervisor, w.port) in fixed else 0.0
                    names[w.supervisor, what].append((tp.id, start))
    has = {s.id: s.resources for s in model.supervisors}
    for (node, what), amount in taken.items():
        room = most.get(what, has.get(node, {}).get(what, 0.0))
        if amount > max(room, stays[node, what]) * (1 + TOLERANCE):
            kind: Constraint = "most-per-node" if what in most else "resource"
            yield Violation(kind, f"{node}: {amount:g} of {room:g} {what}", names[node, what])


def _fixed(topology: Topology) -> dict[tuple[str, int], set[int]]:
    members: dict[tuple[str, int], set[int]] = {slot: set() for slot in topology.fixed_workers}
    existing = {e.start for e in topology.executors}
    for a in topology.assignment:
        if (a.supervisor, a.port) in members and a.start in existing:
            members[(a.supervisor, a.port)].add(a.start)
    return members


def _where(
    excluded: list[Exclusion], topology: Topology, executor: Executor, supervisor: Supervisor
) -> list[Violation]:
    """Violations by the place of an executor; `excluded` are the exclusions from the supervisor."""
    name = [(topology.id, executor.start)]
    found = []
    component = next((c for c in topology.components if c.id == executor.component), Component(id=executor.component))
    if component.site is not None and component.site_required and supervisor.site != component.site:
        found.append(
            Violation(
                "site", f"{component.id} asks for site {component.site}, {supervisor.id} has {supervisor.site}", name
            )
        )
    if executor.pin is not None and executor.pin != supervisor.id:
        found.append(Violation("pin", f"executor {executor.start} is pinned to {executor.pin}", name))
    for x in excluded:
        if x.topology not in (None, topology.id):
            continue
        if x.drained:
            found.append(Violation("drain", f"host {supervisor.host} ({supervisor.id}) is drained", name))
        elif x.kept_for is not None:
            found.append(Violation("exclusion", f"{supervisor.id} is kept for {x.kept_for}", name))
        elif x.component in (None, executor.component):
            text = f"{topology.id}/{executor.component} is excluded from {x.supervisor}"
            found.append(Violation("exclusion", text, name))
    return found
