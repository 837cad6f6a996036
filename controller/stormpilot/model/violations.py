"""Violations of hard constraints by a plan, found from model and plan alone; shares no code with a planner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.values import (
    Component,
    Exclusion,
    Executor,
    Model,
    Plan,
    Supervisor,
    Topology,
    TopologyPlan,
    Worker,
)

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
    topologies = {t.id: t for t in model.topologies}
    found = [*_times_planned(topologies, plan, left_out)]
    check = _Check(model)
    for tp in plan.topologies:
        if (topology := topologies.get(tp.id)) is not None:
            found.extend(check.of_topology(topology, tp, exact_workers=exact_workers))
    found.extend(check.of_nodes(plan, broken=bool(found)))
    found.extend(_shared_nodes(model, plan))
    return found


def _times_planned(topologies: Mapping[str, Topology], plan: Plan, left_out: Collection[str]) -> Iterator[Violation]:
    """Topologies that are not planned once, or are left out and must not be."""
    planned = Counter(tp.id for tp in plan.topologies)
    for t, topology in topologies.items():
        expected, in_words = (0, "none, as it is left out") if t in left_out else (1, "once")
        if planned[t] != expected:
            yield Violation("topology", f"{t} is planned {planned[t]} times, expected {in_words}", [])
        if t in left_out and topology.assignment:
            yield Violation("topology", f"{t} runs and is left out", [])
    for t in planned:
        if t not in topologies:
            yield Violation("topology", f"{t} is not in the model", [])


class _Check:
    """Check of one plan, topology by topology; what these take of supervisors adds up for `of_nodes`."""

    def __init__(self, model: Model):
        self._model = model
        self._supervisors = {s.id: s for s in model.supervisors}
        self._excluded: defaultdict[str, list[Exclusion]] = defaultdict(list)
        for x in model.exclusions:
            self._excluded[x.supervisor].append(x)
        self._given_out: set[tuple[str, int]] = set()
        self._cpu_mhz: defaultdict[str, float] = defaultdict(float)
        self._memory_mb: defaultdict[str, float] = defaultdict(float)
        self._on_node: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)

    def of_topology(self, topology: Topology, plan: TopologyPlan, *, exact_workers: bool) -> Iterator[Violation]:
        """Violations of its slots, executors, workers, and rules on workers."""
        executors = {e.start: e for e in topology.executors}
        fixed = _fixed(topology)
        times: Counter[int] = Counter()
        for w in plan.workers:
            yield from self._of_slot(topology.id, w)
            for start, end in w.executors:
                e = executors.get(start)
                if e is None or e.end != end:
                    text = f"{topology.id} has no executor [{start},{end}]"
                    yield Violation("executor-once", text, [(topology.id, start)])
                    continue
                times[start] += 1
                yield from self._of_executor(topology, e, w, fixed)
        if wrong := [start for start in executors if times[start] != 1]:
            text = f"{topology.id}: not placed exactly once: {wrong}"
            yield Violation("executor-once", text, [(topology.id, s) for s in wrong])
        free = len(executors) - sum(len(members) for members in fixed.values())
        wanted = min(topology.workers, len(fixed) + free)
        if len(plan.workers) > wanted or (exact_workers and len(plan.workers) != wanted):
            yield Violation("workers", f"{topology.id}: {len(plan.workers)} workers, expected {wanted}", [])
        yield from _shared_workers(topology, plan, fixed)
        for node, amount_mb in _shared_memory_mb(topology, plan):
            self._memory_mb[node] += amount_mb
        slots = {(w.supervisor, w.port): {start for start, _ in w.executors} for w in plan.workers}
        for (supervisor, port), members in fixed.items():
            if slots.get((supervisor, port)) != members:
                names = [(topology.id, s) for s in sorted(members)]
                yield Violation("fixed-worker", f"{topology.id}: {supervisor}:{port} must stay", names)

    def _of_slot(self, topology_id: str, w: Worker) -> Iterator[Violation]:
        at, names = f"{w.supervisor}:{w.port}", [(topology_id, start) for start, _ in w.executors]
        supervisor = self._supervisors.get(w.supervisor)
        if supervisor is None or w.port not in supervisor.slots:
            yield Violation("slot-exists", f"{at} is no slot of a live supervisor", names)
        if (w.supervisor, w.port) in self._given_out:
            yield Violation("slot-one-topology", f"{at} is given out twice", names)
        self._given_out.add((w.supervisor, w.port))
        if not w.executors:
            yield Violation("workers", f"{at} is a worker without executors", [])

    def _of_executor(
        self, topology: Topology, e: Executor, w: Worker, fixed: Collection[tuple[str, int]]
    ) -> Iterator[Violation]:
        self._cpu_mhz[w.supervisor] += e.cpu_mhz
        self._memory_mb[w.supervisor] += e.memory_mb
        self._on_node[w.supervisor].append((topology.id, e.start))
        supervisor = self._supervisors.get(w.supervisor)
        if supervisor is not None and (w.supervisor, w.port) not in fixed:
            yield from _where(self._excluded[supervisor.id], topology, e, supervisor)

    def of_nodes(self, plan: Plan, *, broken: bool) -> Iterator[Violation]:
        """Supervisors without CPU or memory for what all topologies take; `broken`: the plan is not whole."""
        over = {n for n, s in self._supervisors.items() if _is_over(self._cpu_mhz[n], s)}
        proved = _proved_mhz(self._model, plan, broken) if over else {}
        for node, s in self._supervisors.items():
            if node in over and _is_over(mhz := proved.get(node, self._cpu_mhz[node]), s):
                yield Violation("cpu", f"{node}: {mhz:.0f} MHz of {s.limit_mhz:.0f} MHz", self._on_node[node])
            if s.memory_mb > 0 and (mb := self._memory_mb[node]) > s.memory_mb * (1 + TOLERANCE):
                yield Violation("memory", f"{node}: {mb:.0f} MB of {s.memory_mb:.0f} MB", self._on_node[node])


def _is_over(mhz: float, supervisor: Supervisor) -> bool:
    return mhz > supervisor.limit_mhz * (1 + TOLERANCE) + TOLERANCE


def _proved_mhz(model: Model, plan: Plan, broken: bool) -> dict[str, float]:
    """CPU of supervisors by `proved_mhz`; empty where that tells nothing, or the plan is not whole."""
    from stormpilot.model.flow.places_cpu import may_need_less, proved_mhz  # compiled code: most commands do without

    if broken or not may_need_less(model):
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
        if x.topology not in (None, topology.id) or x.component not in (None, executor.component):
            continue
        if x.drained:
            found.append(Violation("drain", f"host {supervisor.host} ({supervisor.id}) is drained", name))
        elif x.kept_for is not None:
            found.append(Violation("exclusion", f"{supervisor.id} is kept for {x.kept_for}", name))
        else:
            text = f"{topology.id}/{executor.component} is excluded from {x.supervisor}"
            found.append(Violation("exclusion", text, name))
    return found
