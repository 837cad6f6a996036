"""Rate that a placement supports, and the CPU and memory that follow, from performance models [S17 8.5].

A slot with q threads of a component sustains I(q); the slot that is full first sets the rate of the whole. Storm 2's
shuffle prefers threads in the sender's worker, else on its supervisor, as long as they keep up: a few threads beside a
sender get all that it sends. Where shuffles know no places every thread gets equally many tuples, so that a slot gets
q/tau of them. The paper left this skew out of its predictions and names it as their main error.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

import msgspec
import networkx as nx

from stormpilot.errors import UsageError
from stormpilot.model.flow.places_cpu import gives_up_mhz
from stormpilot.model.values import Model, Plan
from stormpilot.sizing.performance import Line, Performance
from stormpilot.sizing.problem import Grouping, Problem, Shuffle
from stormpilot.sizing.rates import input_gains

SlotName = tuple[str, int]
Threads = Mapping[SlotName, Mapping[str, int]]
"""(supervisor, port) -> component -> threads there."""


class PartLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The threads of one component on one slot: what they are sent at the predicted rate, and what they sustain."""

    component: str
    threads: int
    rate_tps: float
    peak_tps: float | None
    cpu_share: float
    memory_share: float
    supports_tps: float | None


class SlotLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One slot at the predicted rate. `supports_tps`: the source rate at which its first part, `limiting`, is full."""

    supervisor: str
    port: int
    cpu_share: float
    memory_share: float
    supports_tps: float | None
    limiting: str | None
    parts: list[PartLoad]


class VmLoad(msgspec.Struct, frozen=True, kw_only=True):
    """All slots of a VM together, in slots (2.5 = two and a half cores). `cores`: what others leave of it."""

    supervisor: str
    cores: float
    cpu_share: float
    memory_share: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Rate that a placement supports; rates are those of a source.

    `supported_tps`: with tuples sent as the topology's shuffles do. `unskewed_tps`: if every slot got as much as it can
    take. `at_tps`: the rate that the loads are for. `resources_tps`: where a VM's cores or a slot's memory would be
    used up, if that is below `supported_tps`; `resources` says which. None = nothing limits.
    """

    supported_tps: float | None
    unskewed_tps: float | None
    at_tps: float
    bottleneck: SlotLoad | None
    resources_tps: float | None
    resources: str | None
    slots: list[SlotLoad]
    vms: list[VmLoad]
    notes: list[str]


def threads_of(problem: Problem, model: Model, plan: Plan) -> dict[SlotName, dict[str, int]]:
    """Threads per slot of a plan; executors on standby do nothing and do not count.

    `UsageError` where plan, model and problem are not of the same topology.
    """
    topology = next((t for t in model.topologies if t.id == problem.name or t.name == problem.name), None)
    if topology is None:
        raise UsageError(
            f"the model has no topology {problem.name}; it has: {', '.join(t.id for t in model.topologies)}"
        )
    planned = next((p for p in plan.topologies if p.id == topology.id), None)
    if planned is None:
        raise UsageError(f"the plan has no topology {topology.id}; it has: {', '.join(p.id for p in plan.topologies)}")
    executors = {(e.start, e.end): e.component for e in topology.executors}
    times = Counter(tuple(e) for w in planned.workers for e in w.executors)
    wrong = [e for e in {*executors, *times} if times[e] != 1 or e not in executors]
    if wrong:
        raise UsageError(
            f"plan and model differ in {len(wrong)} executors of {topology.id}, first {list(min(wrong))}; "
            f"expected each of the model's {len(executors)} executors once"
        )
    lacking = sorted({w.supervisor for w in planned.workers} - {s.id for s in model.supervisors})
    if lacking:
        raise UsageError(f"the model has no supervisor {', '.join(lacking)}, which the plan uses")
    sized = {c.id for c in problem.components}
    auxiliary, standby = {c.id for c in topology.components if c.auxiliary}, {*topology.standby}
    found: dict[SlotName, dict[str, int]] = {}
    for w in planned.workers:
        count = Counter(executors[start, end] for start, end in w.executors)
        unknown = sorted(set(count) - sized - auxiliary)
        if unknown:
            raise UsageError(f"component {unknown[0]} of the model is not in the file that sizes {problem.name}")
        awake = Counter(executors[start, end] for start, end in w.executors if start not in standby)
        found[w.supervisor, w.port] = {c: n for c, n in awake.items() if c in sized}
    return found


def cores_of(problem: Problem, model: Model, topology: str | None = None) -> dict[str, float]:
    """Supervisor id -> its CPU in cores of a slot, without what others are measured to use there.

    Others are all executors that have no size: of other topologies, ackers, collectors. Of their looking for tuples
    that part does not count which gives way on a full node (`gives_up_mhz`). `topology`: id or name of the one that is
    sized (None: `name` of the problem).
    """
    sized = {c.id for c in problem.components}
    used_mhz: defaultdict[str, float] = defaultdict(float)
    for t in model.topologies:
        own = (topology or problem.name) in (t.id, t.name)
        others = {e.start: e for e in t.executors if e.measured and not (own and e.component in sized)}
        for a in t.assignment:
            if (e := others.get(a.start)) is not None:
                used_mhz[a.supervisor] += e.cpu_mhz - gives_up_mhz(e)
    return {s.id: max(s.cpu_mhz - used_mhz[s.id], 0.0) / problem.slot.cpu_mhz for s in model.supervisors}


def predict(
    problem: Problem, threads: Threads, cores: Mapping[str, float], rate_tps: float | None = None
) -> Prediction:
    """The rate that threads in slots support, and loads at that rate (or at `rate_tps`).

    `cores`: of each supervisor, in cores of a slot. CPU and memory of q threads grow linearly with their rate, up to
    C(q) and M(q). Where a model knows its base, that counts once in a slot at any rate, CPU grows from there (through
    its light trials, if it has any), and all memory is kept: processes give none back.
    """
    parts = _parts(problem, threads)
    supported = min((p.supports_tps for held in parts.values() for p in held), default=math.inf)
    at = rate_tps if rate_tps is not None else supported if math.isfinite(supported) else problem.rate_tps
    slots = [_slot_load(slot, parts[slot], at) for slot in sorted(parts)]
    limited = [s for s in slots if s.supports_tps is not None]
    resources_tps, resources = _resources(parts, cores)
    if resources_tps >= supported * (1 - 1e-9):
        resources_tps, resources = math.inf, None
    return Prediction(
        supported_tps=_finite(supported),
        unskewed_tps=_finite(_unskewed(parts)),
        at_tps=at,
        bottleneck=min(limited, key=lambda s: s.supports_tps or 0.0, default=None),
        resources_tps=_finite(resources_tps),
        resources=resources,
        slots=slots,
        vms=_vm_loads(slots, cores),
        notes=_notes(problem, threads),
    )


@dataclass(frozen=True)
class _Part:
    """q threads of a component on a slot: `share` of the source rate comes in.

    `lines`: CPU and memory by the rate that comes in. `worker`: those of the slot's worker itself, of which each part
    knows.
    """

    component: str
    threads: int
    gain: float
    share: float
    peak_tps: float
    lines: tuple[Line, Line]
    worker: tuple[float, float] = (0.0, 0.0)

    @property
    def supports_tps(self) -> float:
        """The source rate at which they take in as much as they sustain."""
        return self.peak_tps / self.share if self.share > 0 else math.inf

    def needs(self, source_tps: float) -> tuple[float, float]:
        """CPU and memory, shares of a slot."""
        cpu, memory = self.lines
        return cpu.at(source_tps * self.share), memory.at(source_tps * self.share)


def _received(problem: Problem, threads: Threads) -> dict[str, dict[SlotName, float]]:
    """Component -> slot -> tuples that its threads there take in for each tuple/s of the asked rate."""
    gain, components = input_gains(problem), {c.id: c for c in problem.components}
    received: dict[str, dict[SlotName, float]] = {}
    for name in nx.topological_sort(problem.graph()):
        here = {slot: held[name] for slot, held in threads.items() if held.get(name)}
        if not here:
            raise UsageError(f"component {name} has no thread in the plan")
        if not components[name].inputs:
            received[name] = {slot: gain[name] * part for slot, part in _evenly(here).items()}
            continue
        received[name] = dict.fromkeys(here, 0.0)
        for s in components[name].inputs:
            for sender, sent in received[s.component].items():
                for slot, part in _targets(sender, here, s.grouping, problem.shuffle).items():
                    received[name][slot] += sent * s.selectivity * part
    return received


def _targets(
    sender: SlotName, here: Mapping[SlotName, int], grouping: Grouping, shuffle: Shuffle
) -> dict[SlotName, float]:
    """Parts of what a sender emits, by slot of the receiver, whose threads are `here`; local ones keep up."""
    in_worker = grouping == "LOCAL_OR_SHUFFLE" or (grouping == "SHUFFLE" and shuffle == "local")
    if in_worker and sender in here:
        return {sender: 1.0}
    on_supervisor = {slot: q for slot, q in here.items() if slot[0] == sender[0]}
    if grouping != "FIELDS" and shuffle == "local" and on_supervisor:
        return _evenly(on_supervisor)
    return _evenly(here)


def _evenly(here: Mapping[SlotName, int]) -> dict[SlotName, float]:
    total = sum(here.values())
    return {slot: q / total for slot, q in here.items()}


def _parts(problem: Problem, threads: Threads) -> dict[SlotName, list[_Part]]:
    gain, received = input_gains(problem), _received(problem, threads)
    components = {c.id: c for c in problem.components}
    parts: dict[SlotName, list[_Part]] = {}
    for slot, held in threads.items():
        parts[slot] = []
        for name, q in sorted((name, q) for name, q in held.items() if q):
            share = received[name][slot]
            static = components[name].static
            if static is not None:
                lines = Line(((0.0, static.cpu_share * q),)), Line(((0.0, static.memory_share * q),))
                part = _Part(name, q, gain[name], share, math.inf, lines)
            else:
                part = _modelled(problem.performance(components[name]), name, q, gain[name], share)
            parts[slot].append(part)
    return parts


def _modelled(model: Performance, name: str, q: int, gain: float, share: float) -> _Part:
    p, worker, cpu = model.at(q), model.base, model.cpu(q)
    if worker is None:
        return _Part(name, q, gain, share, p.rate_tps, (cpu, Line(((0.0, 0.0), (p.rate_tps, p.memory_share)))))
    kept = Line(((0.0, p.memory_share - worker.memory_share),))
    return _Part(name, q, gain, share, p.rate_tps, (cpu, kept), (worker.cpu_share, worker.memory_share))


def _worker(parts: Iterable[_Part]) -> tuple[float, float]:
    """CPU and memory of the worker of a slot itself, once for all in it: the mean of what its parts measured of one."""
    known = [p.worker for p in parts if any(p.worker)]
    return (fmean(cpu for cpu, _ in known), fmean(memory for _, memory in known)) if known else (0.0, 0.0)


def _slot_load(slot: SlotName, parts: list[_Part], source_tps: float) -> SlotLoad:
    needs, worker = [p.needs(source_tps) for p in parts], _worker(parts)
    first = min(parts, key=lambda p: (p.supports_tps, p.component), default=None)
    limiting = first if first is not None and math.isfinite(first.supports_tps) else None
    return SlotLoad(
        supervisor=slot[0],
        port=slot[1],
        cpu_share=worker[0] + math.fsum(cpu for cpu, _ in needs),
        memory_share=worker[1] + math.fsum(memory for _, memory in needs),
        supports_tps=None if limiting is None else limiting.supports_tps,
        limiting=None if limiting is None else limiting.component,
        parts=[
            PartLoad(
                component=p.component,
                threads=p.threads,
                rate_tps=p.share * source_tps,
                peak_tps=_finite(p.peak_tps),
                cpu_share=cpu,
                memory_share=memory,
                supports_tps=_finite(p.supports_tps),
            )
            for p, (cpu, memory) in zip(parts, needs, strict=True)
        ],
    )


def _unskewed(parts: Mapping[SlotName, list[_Part]]) -> float:
    """The source rate at which a component takes in all that its slots sustain together, the least of any component."""
    capacity: defaultdict[str, float] = defaultdict(float)
    gain = {}
    for held in parts.values():
        for p in held:
            capacity[p.component] += p.peak_tps
            gain[p.component] = p.gain
    return min((capacity[c] / g for c, g in gain.items() if g > 0), default=math.inf)


def _resources(parts: Mapping[SlotName, list[_Part]], cores: Mapping[str, float]) -> tuple[float, str | None]:
    """The source rate at which the cores of a VM or the memory of a slot are used up, and which those are."""
    by_vm: defaultdict[str, list[list[_Part]]] = defaultdict(list)
    for (vm, _), held in parts.items():
        by_vm[vm].append(held)
    found = [(_full(slots, 0, cores[vm]), f"CPU of {vm}") for vm, slots in sorted(by_vm.items())]
    found += [(_full([held], 1, 1), f"memory of {vm}:{port}") for (vm, port), held in sorted(parts.items())]
    return min(found, key=lambda f: f[0], default=(math.inf, None))


def _full(slots: list[list[_Part]], resource: int, available: float) -> float:
    """The source rate at which they use up what is available; infinite where they never do."""
    parts = [p for held in slots for p in held]
    worker = math.fsum(_worker(held)[resource] for held in slots)

    def used(source_tps: float) -> float:
        return worker + math.fsum(p.lines[resource].at(source_tps * p.share) for p in parts)

    at, now = 0.0, used(0.0)
    if now > available * (1 + 1e-9):
        return 0.0
    knots = {x / p.share for p in parts if p.share > 0 for x, _ in p.lines[resource].knots}
    for then in (*sorted(knots - {0.0}), 2 * max(knots, default=0.0) + 1):  # the last: all lines go on straight
        before, (at, now) = (at, now), (then, used(then))
        grows = (now - before[1]) / (at - before[0])
        if now > available and grows > 0:
            return before[0] + max(available - before[1], 0.0) / grows
    return math.inf if grows <= 0 else at + (available - now) / grows


def _vm_loads(slots: list[SlotLoad], cores: Mapping[str, float]) -> list[VmLoad]:
    return [
        VmLoad(
            supervisor=vm,
            cores=cores[vm],
            cpu_share=math.fsum(s.cpu_share for s in slots if s.supervisor == vm),
            memory_share=math.fsum(s.memory_share for s in slots if s.supervisor == vm),
        )
        for vm in sorted({s.supervisor for s in slots})
    ]


def _notes(problem: Problem, threads: Threads) -> list[str]:
    notes = []
    for c in problem.components:
        if c.static is not None:
            continue
        performance = problem.performance(c)
        most = max(held.get(c.id, 0) for held in threads.values())
        if not performance.measured(most):
            notes.append(
                f"{c.id}: {most} threads on a slot, measured up to {performance.points[-1].threads}: "
                "taken to do what the last point does"
            )
    return notes


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
