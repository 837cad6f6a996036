"""Small models for tests: builders with few arguments, and named tiny instances whose answers are known by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Executor,
    Input,
    Model,
    Plan,
    Supervisor,
    Topology,
)


def supervisor(
    name: str,
    slots: int = 4,
    *,
    mhz: float = 10_000.0,
    memory_mb: float = 0.0,
    rack: str = "/default-rack",
    site: str | None = None,
    host: str | None = None,
) -> Supervisor:
    """A node of one core with `mhz`; ports from 6700."""
    return Supervisor(
        id=name,
        host=host or f"host-{name}",
        rack=rack,
        site=site,
        slots=[6700 + i for i in range(slots)],
        cores=1.0,
        mhz=mhz,
        memory_mb=memory_mb,
    )


def topology(
    name: str,
    parallelism: Mapping[str, int],
    *,
    workers: int = 2,
    streams: Sequence[tuple[str, str]] = (),
    cpu_mhz: Mapping[str, float] | float = 100.0,
    memory_mb: float = 0.0,
    sites: Mapping[str, str] | None = None,
) -> Topology:
    """Components in the given order, one task per executor, tasks from 1; `streams` are (from, to) components."""
    executors = []
    start = 1
    for component, count in parallelism.items():
        cpu = cpu_mhz if isinstance(cpu_mhz, float) else cpu_mhz[component]
        for _ in range(count):
            executors.append(Executor(start=start, end=start, component=component, cpu_mhz=cpu, memory_mb=memory_mb))
            start += 1
    targets = {b for _, b in streams}
    components = [
        Component(
            id=c,
            kind="bolt" if c in targets else "spout",
            site=(sites or {}).get(c),
            inputs=[Input(component=a) for a, b in streams if b == c],
        )
        for c in parallelism
    ]
    return Topology(id=name, name=name, workers=workers, components=components, executors=executors)


def traffic(name: str, rates: Mapping[tuple[int, int], float]) -> list[Edge]:
    """Edges of a topology: (from task, to task) -> tuples/s."""
    return [Edge(topology=name, from_=a, to=b, rate=rate) for (a, b), rate in rates.items()]


def assigned(plan: Plan, model: Model) -> Model:
    """The model with the plan as its present assignment."""
    import msgspec

    placed = {tp.id: tp for tp in plan.topologies}
    return msgspec.structs.replace(
        model,
        topologies=[
            msgspec.structs.replace(
                t,
                assignment=[
                    Assigned(start=start, supervisor=w.supervisor, port=w.port)
                    for w in placed[t.id].workers
                    for start, _ in w.executors
                ],
            )
            for t in model.topologies
        ],
    )


def located(plan: Plan, topology_id: str | None = None) -> dict[int, tuple[str, int]]:
    """Start task -> (supervisor, port), of one topology (the only one by default)."""
    plans = [tp for tp in plan.topologies if topology_id in (None, tp.id)]
    assert len(plans) == 1
    return {start: (w.supervisor, w.port) for w in plans[0].workers for start, _ in w.executors}


def together(plan: Plan, *, on: str = "worker") -> set[frozenset[int]]:
    """The sets of start tasks that share a worker or (`on="node"`) a supervisor, of the only topology."""
    groups: dict[object, set[int]] = {}
    for start, (node, port) in located(plan).items():
        groups.setdefault(node if on == "node" else (node, port), set()).add(start)
    return {frozenset(g) for g in groups.values()}


def two_chains() -> Model:
    """Two chains a -> b -> c with 100 tuples/s along each and 1 across; two nodes hold three executors each.

    The optimum puts one chain on each node: 2 tuples/s between nodes.
    """
    t = topology("chains", {"a": 2, "b": 2, "c": 2}, streams=[("a", "b"), ("b", "c")])
    rates = {(1, 3): 100.0, (3, 5): 100.0, (2, 4): 100.0, (4, 6): 100.0, (1, 4): 1.0, (4, 5): 1.0}
    nodes = [supervisor("n1", mhz=300.0), supervisor("n2", mhz=300.0)]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("chains", rates))


def triangle_too_heavy() -> Model:
    """Three executors that talk to each other, nodes that hold two: one of them must be alone.

    Rates 5 (1-2), 4 (2-3), 3 (1-3): the optimum separates 3 and costs 7.
    """
    t = topology("triangle", {"x": 3}, workers=2)
    nodes = [supervisor("n1", mhz=200.0), supervisor("n2", mhz=200.0)]
    return Model(
        supervisors=nodes, topologies=[t], traffic=traffic("triangle", {(1, 2): 5.0, (2, 3): 4.0, (1, 3): 3.0})
    )


def two_sites() -> Model:
    """A pipeline whose ends are tied to sites `east` and `west`; one node at each site, one without a tag."""
    t = topology(
        "sited",
        {"source": 2, "work": 2, "sink": 2},
        workers=3,
        streams=[("source", "work"), ("work", "sink")],
        sites={"source": "east", "sink": "west"},
    )
    rates = dict.fromkeys([(1, 3), (2, 4), (3, 5), (4, 6)], 10.0)
    nodes = [supervisor("e", site="east"), supervisor("w", site="west"), supervisor("x")]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("sited", rates))
