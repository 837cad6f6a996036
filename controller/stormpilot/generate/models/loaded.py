"""Loaded clusters: several topologies of real shapes on nodes that are filled to a given part, and can hold them.

`loaded` makes medium and large instances, `small` those that an exact solver can still prove the optimum of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.generate.models.shapes import SHAPES, Shape
from stormpilot.generate.models.traffic import ACKER, Spread, flows
from stormpilot.model.compiled import Ints
from stormpilot.model.values import Component, Edge, Executor, Input, Model, Supervisor, Topology

ATTEMPTS = 50
SMALL_MHZ = 2000.0


@dataclass(frozen=True)
class Loaded:
    """Parameters of `loaded`.

    `load`: CPU demand as a part of what the nodes have; `slow_share`: part of the nodes with three quarters of the
    clock; `executors_per_worker`: mean, gives the workers of a topology; `ackers`: part of the topologies with ackers;
    `nodes`: how many, as large as the load asks for (None: as many as the load asks for, `cores` each); `shapes`: names
    of `SHAPES` to draw from (none: all).
    """

    executors: int = 500
    topologies: int = 4
    load: float = 0.7
    cores: float = 8.0
    mhz: float = 2600.0
    slow_share: float = 0.25
    slots: int = 6
    nodes_per_rack: int = 8
    executors_per_worker: float = 8.0
    ackers: float = 0.5
    fan_out: int | None = 24
    nodes: int | None = None
    shapes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes is not None and self.nodes < 1:
            raise UsageError(f"--nodes is {self.nodes}, expected at least 1")
        for name in self.shapes:
            if name not in SHAPES:
                raise UsageError(f"--shape {name}: there is no such shape; there are: {', '.join(SHAPES)}")
        if self.topologies < 1 or self.executors < 6 * self.topologies:
            raise UsageError(
                f"--executors is {self.executors}, expected at least 6 for each of {self.topologies} topologies"
            )
        check_load(self.load)


@dataclass(frozen=True)
class Small:
    """Parameters of `small`: at most so many executors and nodes; the load is drawn from `load_low` to `load_high`."""

    executors: int = 14
    nodes: int = 4
    load_low: float = 0.5
    load_high: float = 0.85

    def __post_init__(self) -> None:
        if self.executors < 6 or self.nodes < 2:
            raise UsageError(f"--executors is {self.executors} and --nodes {self.nodes}, expected at least 6 and 2")
        check_load(self.load_low)
        check_load(self.load_high)


def loaded(params: Loaded, rng: np.random.Generator) -> Model:
    """A cluster loaded to `params.load`; what it has to hold fits by construction (see `fits`)."""
    load = params.load
    for _ in range(ATTEMPTS):
        sizes = _sizes(params.executors, params.topologies, rng)
        made = [
            topology_of(
                i, size, params.executors_per_worker, params.ackers, params.mhz, params.fan_out, rng, params.shapes
            )
            for i, size in enumerate(sizes)
        ]
        topologies = [t for t, _ in made]
        demand = sum(e.cpu_mhz for t in topologies for e in t.executors)
        supervisors = _nodes_for(demand / load, params, rng)
        model = Model(supervisors=supervisors, topologies=topologies, traffic=[e for _, es in made for e in es])
        if fits(model):
            return model
        load *= 0.98
    raise UsageError(
        f"no cluster loaded to {params.load} was found in {ATTEMPTS} attempts: ask for less load or more slots"
    )


def small(params: Small, rng: np.random.Generator) -> Model:
    """A few executors of one or two topologies on a few nodes, with CPU limits and slots that bind."""
    for _ in range(ATTEMPTS):
        executors = int(rng.integers(6, params.executors + 1))
        nodes = int(rng.integers(2, params.nodes + 1))
        parts = 2 if executors >= 10 and rng.random() < 0.5 else 1
        sizes = _sizes(executors, parts, rng)
        made = [
            topology_of(i, size, float(rng.uniform(1.5, 4.0)), 0.0, SMALL_MHZ, None, rng)
            for i, size in enumerate(sizes)
        ]
        topologies = [t for t, _ in made]
        demand = sum(e.cpu_mhz for t in topologies for e in t.executors)
        weight = rng.choice([1.0, 1.0, 1.5, 2.0], size=nodes)
        capacity = demand / rng.uniform(params.load_low, params.load_high) * weight / weight.sum()
        supervisors = [
            Supervisor(
                id=f"n{n}",
                host=f"h{n}",
                rack=f"/r{n % 2}",
                slots=[6700 + p for p in range(int(rng.integers(2, 5)))],
                cores=round(float(capacity[n]) / SMALL_MHZ, 3),
                mhz=SMALL_MHZ,
                memory_mb=0.0,
            )
            for n in range(nodes)
        ]
        model = Model(supervisors=supervisors, topologies=topologies, traffic=[e for _, es in made for e in es])
        if fits(model):
            return model
    raise UsageError(
        f"no small instance that fits was found in {ATTEMPTS} attempts: ask for less load, or for more executors"
    )


def fits(model: Model) -> bool:
    """Whether a simple packing holds CPU, memory, slots and at most min(W, E) workers: a witness, not a decision.

    Topologies from the one with the fewest workers per MHz; each takes a worker on every node in the order of free
    CPU, and its executors, largest first, go to its worker with the most room.
    """
    cpu = np.array([s.limit_mhz for s in model.supervisors])
    memory = np.array([s.memory_mb or np.inf for s in model.supervisors])
    slots = np.array([len(s.slots) for s in model.supervisors])
    for t in sorted(model.topologies, key=_tightness):
        workers = min(t.workers, len(t.executors))
        nodes = _worker_nodes(cpu, slots, workers)
        for e in sorted(t.executors, key=lambda e: -e.cpu_mhz):
            room = np.where(memory[nodes] >= e.memory_mb, cpu[nodes], -1.0)
            best = nodes[int(room.argmax())] if len(nodes) else -1
            if best < 0 or room.max() < e.cpu_mhz:
                return False
            cpu[best] -= e.cpu_mhz
            memory[best] -= e.memory_mb
        slots[nodes] -= 1
    return True


def _tightness(t: Topology) -> float:
    return min(t.workers, len(t.executors)) / max(sum(e.cpu_mhz for e in t.executors), 1e-9)


def _worker_nodes(cpu: np.ndarray, slots: np.ndarray, workers: int) -> Ints:
    """The nodes with the most free CPU that have a free slot, one worker each."""
    free = np.flatnonzero(slots > 0)
    return free[np.argsort(-cpu[free], kind="stable")[:workers]]


def check_load(load: float, name: str = "--load", of: str = "CPU") -> None:
    """`UsageError` for what is no load."""
    if not 0.0 < load < 0.95:
        raise UsageError(f"{name} is {load}, expected a part of the {of} above 0 and below 0.95")


def _sizes(executors: int, topologies: int, rng: np.random.Generator) -> list[int]:
    """Executors per topology: unequal, none below a third of the mean, nor below 4 (the smallest shape)."""
    least = min(max(4, executors // (3 * topologies)), executors // topologies)
    extra = rng.multinomial(executors - least * topologies, rng.dirichlet(np.full(topologies, 2.0)))
    return [least + int(x) for x in extra]


def topology_of(
    number: int,
    executors: int,
    executors_per_worker: float,
    acker_chance: float,
    mhz: float,
    fan_out: int | None,
    rng: np.random.Generator,
    shapes: Sequence[str] = (),
) -> tuple[Topology, list[Edge]]:
    """A topology of a shape that so many executors can have, and its traffic."""
    workers = max(1, round(executors / executors_per_worker))
    possible = [s for s in SHAPES.values() if len(s.share) <= executors and (not shapes or s.name in shapes)]
    if not possible:
        raise UsageError(
            f"{executors} executors of a topology are too few for {', '.join(shapes)}: expected more executors"
        )
    shape = possible[int(rng.integers(len(possible)))]
    ackers = rng.random() < acker_chance and executors - workers >= len(shape.share)
    counts = _parallelism(shape, executors - (workers if ackers else 0), rng)
    components = [
        Component(
            id=c,
            kind="spout" if c in shape.spouts else "bolt",
            inputs=[
                Input(component=s.source, stream=s.name, grouping=s.grouping) for s in shape.streams if s.target == c
            ],
        )
        for c in counts
    ]
    if ackers:
        counts = {**counts, ACKER: workers}
        components = _with_acker(components)
    ids = [c for c, n in counts.items() for _ in range(n)]
    bare = [Executor(start=i, end=i, component=c) for i, c in enumerate(ids, start=1)]
    topology = Topology(
        id=f"{shape.name}-{number}",
        name=f"{shape.name}-{number}",
        workers=workers,
        components=components,
        executors=bare,
    )
    selectivity = {(s.source, s.name): s.selectivity * float(rng.lognormal(0.0, 0.3)) for s in shape.streams}
    spouts = {c: float(rng.lognormal(6.0, 0.5)) * counts[c] for c in shape.spouts}
    moved = flows(topology, spouts, selectivity, Spread(fan_out, key_skew=float(rng.uniform(0.3, 0.9))), rng)
    sized = _with_cpu(bare, moved.received_tps, moved.emitted_tps, mhz, rng)
    return (
        Topology(id=topology.id, name=topology.name, workers=workers, components=components, executors=sized),
        moved.edges,
    )


def _with_acker(components: Sequence[Component]) -> list[Component]:
    back = Input(component=ACKER, stream="__ack_ack", grouping="DIRECT")
    users = [
        Component(id=c.id, kind=c.kind, inputs=[*c.inputs, back] if c.kind == "spout" else c.inputs) for c in components
    ]
    inputs = [
        Input(component=c.id, stream="__ack_init" if c.kind == "spout" else "__ack_ack", grouping="FIELDS")
        for c in components
    ]
    return [*users, Component(id=ACKER, kind="system", inputs=inputs)]


def _parallelism(shape: Shape, executors: int, rng: np.random.Generator) -> dict[str, int]:
    """Executors of each component: at least one, one for GLOBAL, the rest by the shape's shares with some chance."""
    many = [c for c in shape.share if c not in shape.single]
    rest = executors - len(shape.share)
    weight = np.array([shape.share[c] for c in many]) * rng.lognormal(0.0, 0.3, len(many))
    extra = dict(zip(many, rng.multinomial(rest, weight / weight.sum()), strict=True))
    return {c: 1 + int(extra.get(c, 0)) for c in shape.share}


def _with_cpu(
    executors: Sequence[Executor],
    received: dict[int, float],
    emitted: dict[int, float],
    mhz: float,
    rng: np.random.Generator,
) -> list[Executor]:
    """CPU = polling + cost per tuple x tuples/s; the busiest executor of a component takes 5% to 60% of a core."""
    of: dict[str, list[Executor]] = {}
    for e in executors:
        of.setdefault(e.component, []).append(e)
    sized: list[Executor] = []
    for members in of.values():
        polling = float(rng.uniform(0.005, 0.02)) * mhz
        tps = np.array([received[e.start] + (0.3 * emitted[e.start]) for e in members])
        busiest = float(rng.uniform(0.05, 0.6)) * mhz
        per_tuple = busiest / float(tps.max()) if tps.max() > 0 else 0.0
        memory = float(rng.choice([64.0, 128.0, 256.0]))
        sized.extend(
            Executor(
                start=e.start,
                end=e.end,
                component=e.component,
                cpu_mhz=round(polling + per_tuple * float(t), 3),
                memory_mb=memory,
            )
            for e, t in zip(members, tps, strict=True)
        )
    return sorted(sized, key=lambda e: e.start)


def _nodes_for(capacity_mhz: float, params: Loaded, rng: np.random.Generator) -> list[Supervisor]:
    """As many nodes as give that much CPU; the last may be smaller, so that the load is met."""
    supervisors: list[Supervisor] = []
    if params.nodes is not None:
        mhz_of = [params.mhz * (0.75 if rng.random() < params.slow_share else 1.0) for _ in range(params.nodes)]
        cores = capacity_mhz / sum(mhz_of)
        return [_node(n, cores, mhz, params) for n, mhz in enumerate(mhz_of)]
    left = capacity_mhz
    while left > 0:
        mhz = params.mhz * (0.75 if rng.random() < params.slow_share else 1.0)
        cores = min(params.cores, max(1.0, left / mhz))
        left -= cores * mhz
        supervisors.append(_node(len(supervisors), cores, mhz, params))
    return supervisors


def _node(n: int, cores: float, mhz: float, params: Loaded) -> Supervisor:
    return Supervisor(
        id=f"n{n:03d}",
        host=f"h{n:03d}",
        rack=f"/r{n // params.nodes_per_rack}",
        slots=[6700 + p for p in range(params.slots)],
        cores=round(cores, 3),
        mhz=mhz,
        memory_mb=4096.0 * cores,
    )
