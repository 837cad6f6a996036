"""Hypothesis strategies: small models with every kind of hard constraint."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from builders import supervisor
from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Exclusion,
    Executor,
    Input,
    Model,
    SharedMemory,
    Supervisor,
    Topology,
)

CPU_MHZ = st.sampled_from([0.0, 50.0, 100.0, 250.0, 400.0])


@st.composite
def models(draw: st.DrawFn, constrained: bool = True, most_executors: int = 8) -> Model:
    """1 to 2 topologies on 2 to 4 nodes; `constrained`: sites, memory, pins, exclusions and fixed workers occur."""
    nodes = [
        supervisor(
            f"n{i}",
            draw(st.integers(1, 3)),
            mhz=draw(st.sampled_from([400.0, 800.0, 1500.0])),
            memory_mb=draw(st.sampled_from([0.0, 0.0, 1000.0])) if constrained else 0.0,
            rack=f"r{i // 2}",  # those that may share a host are in one rack
            site=draw(st.sampled_from([None, "east", "west"])) if constrained else None,
            host="shared" if constrained and i < 2 and draw(st.booleans()) else None,
        )
        for i in range(draw(st.integers(2, 4)))
    ]
    topologies, traffic = [], []
    for t in range(draw(st.integers(1, 2))):
        made, edges = draw(_topologies(f"t{t}", nodes, constrained, most_executors))
        topologies.append(made)
        traffic += edges
    exclusions = []
    if constrained and draw(st.integers(0, 3)) == 0:
        exclusions.append(Exclusion(supervisor="n0", topology=draw(st.sampled_from([None, "t0"]))))
    model = Model(supervisors=nodes, topologies=topologies, traffic=traffic, exclusions=exclusions)
    return draw(_with_assignment(model)) if constrained else model


@st.composite
def ruled_models(draw: st.DrawFn) -> Model:
    """Such models with rules on who shares a worker or a node; with enough workers that some can be kept."""
    model = draw(models())
    topologies = []
    for t in model.topologies:
        ids = [c.id for c in t.components]
        components = [
            msgspec.structs.replace(
                c,
                heap_mb=draw(st.sampled_from([0.0, 128.0, 200.0])),
                resources=draw(st.sampled_from([{}, {}, {"gpu": 1.0}, {"gpu": 0.5, "disk": 10.0}])),
                most_per_node=draw(st.sampled_from([None, None, 1, 2])),
            )
            for c in t.components
        ]
        apart = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=2))
        topologies.append(
            msgspec.structs.replace(
                t,
                workers=t.workers if t.fixed_workers else t.workers + 2,
                components=components,
                worker_heap_mb=draw(st.sampled_from([None, 256.0, 512.0])),
                worker_executors=draw(st.sampled_from([None, None, 1, 2])),
                apart=[(a, b) for a, b in apart if a != b],
                all_apart=draw(st.integers(0, 4)) == 0,
                shared_memory=draw(_shared_memory(ids)),
            )
        )
    supervisors = [
        msgspec.structs.replace(s, resources=draw(st.sampled_from([{}, {"gpu": 1.0}, {"gpu": 4.0, "disk": 40.0}])))
        for s in model.supervisors
    ]
    return msgspec.structs.replace(model, topologies=topologies, supervisors=supervisors)


@st.composite
def _shared_memory(draw: st.DrawFn, components: list[str]) -> list[SharedMemory]:
    """Memory of all three kinds that some of the components share."""
    amounts = st.sampled_from([0.0, 64.0, 200.0])
    return [
        SharedMemory(
            name=f"m{i}",
            components=draw(st.lists(st.sampled_from(components), min_size=1, unique=True)),
            heap_mb=draw(st.sampled_from([0.0, 64.0])),
            worker_mb=draw(amounts),
            node_mb=draw(amounts),
        )
        for i in range(draw(st.sampled_from([0, 0, 1, 2])))
    ]


@st.composite
def _topologies(
    draw: st.DrawFn, name: str, nodes: list[Supervisor], constrained: bool, most_executors: int
) -> tuple[Topology, list[Edge]]:
    components: list[Component] = []
    executors: list[Executor] = []
    edges: list[Edge] = []
    by_component: list[list[int]] = []
    for c in range(draw(st.integers(1, 3))):
        source = draw(st.integers(0, c - 1)) if c else None
        components.append(
            Component(
                id=f"c{c}",
                kind="bolt" if c else "spout",
                site=draw(st.sampled_from([None, None, None, "east"])) if constrained else None,
                site_required=draw(st.booleans()),
                inputs=[Input(component=f"c{source}")] if source is not None else [],
            )
        )
        own = []
        for _ in range(draw(st.integers(1, max(most_executors // 3, 1)))):
            start = len(executors) + 1
            pin = draw(st.sampled_from([None] * 9 + [nodes[-1].id])) if constrained else None
            memory = draw(st.sampled_from([0.0, 100.0, 300.0])) if constrained else 0.0
            executors.append(
                Executor(start=start, end=start, component=f"c{c}", cpu_mhz=draw(CPU_MHZ), memory_mb=memory, pin=pin)
            )
            own.append(start)
        by_component.append(own)
        if source is not None:
            for a in by_component[source]:
                for b in own:
                    rate = draw(st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0, 37.0]))
                    edges.append(Edge(topology=name, from_=a, to=b, rate=rate))
    made = Topology(id=name, name=name, workers=draw(st.integers(1, 4)), components=components, executors=executors)
    return made, edges


@st.composite
def _with_assignment(draw: st.DrawFn, model: Model) -> Model:
    """Perhaps a present assignment (sound in slots, not in loads), perhaps with a worker that must stay."""
    if draw(st.booleans()):
        return model
    free = [(s.id, p) for s in model.supervisors for p in s.slots]
    topologies = []
    for t in model.topologies:
        count = min(t.workers, len(t.executors), len(free))
        own = [free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(count)]
        if not own:
            topologies.append(t)
            continue
        placed = [
            Assigned(start=e.start, supervisor=s, port=p) for e in t.executors for s, p in [own[e.start % len(own)]]
        ]
        held = {(a.supervisor, a.port) for a in placed}
        fixed = [sorted(held)[0]] if draw(st.integers(0, 4)) == 0 else []
        topologies.append(msgspec.structs.replace(t, assignment=placed, fixed_workers=fixed))
    return msgspec.structs.replace(model, topologies=topologies)
