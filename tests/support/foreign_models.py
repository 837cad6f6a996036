"""Models as other people have them: topologies of public examples of Storm, on machines that are unlike each other.

    model = foreign(np.random.default_rng(seed), topologies=3)

Every grouping of Storm, tasks on fewer executors, components without traffic, Storm's own components, no ackers or one
for each worker, names with dots and beyond ASCII; 1 to 96 cores, 2 to 768 GB, 1 to 40 slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stormpilot.model.values import Component, Edge, Executor, Input, Model, Supervisor, Topology

GROUPINGS = (
    "SHUFFLE",
    "LOCAL_OR_SHUFFLE",
    "FIELDS",
    "PARTIAL_KEY",
    "ALL",
    "GLOBAL",
    "NONE",
    "DIRECT",
    "CUSTOM_OBJECT",
    "CUSTOM_SERIALIZED",
)
ACKER = "__acker"
CLOCKS_MHZ = (1000.0, 2200.0, 2600.0, 3400.0)
MACHINES = ((1, 2), (2, 4), (4, 8), (8, 32), (16, 64), (32, 256), (64, 512), (96, 768))
"""Cores and GB of memory."""
FEW_PAIRS = 400
"""Pairs of executors on one stream that have traffic."""


@dataclass(frozen=True)
class Part:
    """A component: executors, tasks of each, and what it hears (component, stream, grouping)."""

    name: str
    executors: int
    tasks: int = 1
    inputs: tuple[tuple[str, str, str], ...] = ()


def _heard(*groupings: str, source: str = "", stream: str = "default") -> tuple[tuple[str, str, str], ...]:
    return tuple((source, stream, g) for g in groupings)


def word_count(n: int) -> list[Part]:
    """Of storm-starter: sentences, words, counts; and a report of the one who has them all."""
    return [
        Part("spout", max(n // 4, 1)),
        Part("split", max(n // 3, 1), inputs=_heard("SHUFFLE", source="spout")),
        Part("count", max(n // 2, 1), inputs=_heard("FIELDS", source="split")),
        Part("report", 1, inputs=_heard("GLOBAL", source="count")),
    ]


def rolling_top_words(n: int) -> list[Part]:
    """Of storm-starter: counters, rankers in between, and one in the end."""
    return [
        Part("wordGenerator", max(n // 4, 1)),
        Part("counter", max(n // 3, 1), inputs=_heard("FIELDS", source="wordGenerator")),
        Part("intermediateRanker", max(n // 3, 1), inputs=_heard("FIELDS", source="counter")),
        Part("finalRanker", 1, inputs=_heard("GLOBAL", source="intermediateRanker")),
    ]


def reach(n: int) -> list[Part]:
    """Of storm-starter, as a DRPC topology: answers go back to who asked, over three streams into one component."""
    return [
        Part("spout0", 1),
        Part("bolt0-prepareRequest", max(n // 4, 1), inputs=_heard("NONE", source="spout0")),
        Part("bolt1", max(n // 4, 1), inputs=_heard("SHUFFLE", source="bolt0-prepareRequest", stream="args")),
        Part(
            "bolt2-unique",
            max(n // 4, 1),
            inputs=(("bolt1", "default", "FIELDS"), ("bolt1", "coord-bolt1", "DIRECT")),
        ),
        Part(
            "join-result",
            max(n // 6, 1),
            inputs=(("bolt2-unique", "default", "FIELDS"), ("bolt0-prepareRequest", "return", "FIELDS")),
        ),
        Part("return-results", 1, inputs=_heard("NONE", source="join-result")),
    ]


def trident(n: int) -> list[Part]:
    """A master that coordinates batches by ALL, and many small bolts in a chain that branches."""
    chain = [
        Part("$mastercoord-bg0", 1),
        Part("$spoutcoord-spout-s1", 1, inputs=_heard("ALL", source="$mastercoord-bg0", stream="$batch")),
        Part("spout-s1", max(n // 6, 1), inputs=_heard("ALL", source="$spoutcoord-spout-s1", stream="$batch")),
    ]
    for i in range(max(n // 2, 2)):
        before = chain[-1].name if i % 5 else chain[2].name
        chain.append(
            Part(f"b-{i}-count.each/aggregate", 1 + i % 2, inputs=_heard("FIELDS", source=before, stream="s1"))
        )
    return chain


def joins(n: int) -> list[Part]:
    """Two sources, and a join that hears each by several groupings, and itself: a cycle."""
    inputs = tuple(
        (source, f"by.{g}", g) for source in ("klicks.été", "поиск") for g in GROUPINGS if g not in ("GLOBAL",)
    )
    return [
        Part("klicks.été", max(n // 4, 1), tasks=3),
        Part("поиск", max(n // 8, 1)),
        Part("join.結合", max(n // 2, 1), tasks=2, inputs=(*inputs, ("join.結合", "again", "PARTIAL_KEY"))),
        Part("sink 'out'", 1, inputs=_heard("GLOBAL", "ALL", source="join.結合")),
    ]


def many_tasks(n: int) -> list[Part]:
    """A spout of 200 tasks on three executors."""
    return [Part("spout", 3, tasks=67), Part("b", max(n - 3, 1), tasks=5, inputs=_heard("PARTIAL_KEY", source="spout"))]


def alone(n: int) -> list[Part]:
    """One component that does everything."""
    return [Part("everything", max(n, 1))]


SHAPES = (word_count, rolling_top_words, reach, trident, joins, many_tasks, alone)


def foreign(
    rng: np.random.Generator,
    topologies: int = 3,
    executors: int = 12,
    nodes: int = 6,
    load: float = 0.5,
    ackers: bool = True,
    sites: bool = False,
) -> Model:
    """A model of such topologies, each of about so many executors; `load`: CPU demand as a part of what there is.

    Only a part of the demand is measured; memory is a fifth of what there is. Nothing runs yet.
    """
    supervisors = [_machine(i, rng, sites) for i in range(nodes)]
    made = [_topology(i, executors, rng, ackers) for i in range(topologies)]
    demand = sum(weight for _, weights, _ in made for weight in weights)
    mhz = load * sum(s.limit_mhz for s in supervisors) / demand
    memory_mb = 0.2 * sum(s.memory_mb for s in supervisors) / sum(len(t.executors) for t, _, _ in made)
    most_mhz = max(s.limit_mhz for s in supervisors) / 2
    sized = []
    for t, weights, _ in made:
        own = [
            Executor(
                start=e.start,
                end=e.end,
                component=e.component,
                cpu_mhz=min(mhz * w, most_mhz),
                memory_mb=round(min(memory_mb, 2000.0), 1),
                measured=bool(rng.random() < 0.9),
            )
            for e, w in zip(t.executors, weights, strict=True)
        ]
        sized.append(
            Topology(id=t.id, name=t.name, workers=t.workers, components=t.components, executors=own, owner=t.owner)
        )
    return Model(supervisors=supervisors, topologies=sized, traffic=[e for _, _, edges in made for e in edges])


def _machine(i: int, rng: np.random.Generator, sites: bool) -> Supervisor:
    cores, gb = MACHINES[int(rng.integers(len(MACHINES)))]
    slots = int(rng.choice([1, 2, 4, 4, 8, 40]))
    mhz = float(rng.choice(CLOCKS_MHZ))
    limit = float(rng.choice([0.5, 0.8, 1.0]))
    return Supervisor(
        id=f"8d5c7a2e-{i:04d}-über",
        host=f"storm-{i // (1 + i % 2)}.example.org",
        rack=f"/dc.{i % 3}/rack",
        storm_rack=None if i % 2 else "/default-rack",
        site=("east", "", "west.1")[i % 3] or None if sites else None,
        slots=[6700 + p for p in range(slots)],
        cores=float(cores),
        mhz=mhz,
        memory_mb=float(rng.choice([0, 1024])) * gb,
        cpu_limit_mhz=None if rng.random() < 0.3 else limit * cores * mhz,
    )


def _topology(i: int, n: int, rng: np.random.Generator, ackers: bool) -> tuple[Topology, list[float], list[Edge]]:
    """A topology, weights of its executors' CPU, and its traffic (none at all now and then)."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    parts = shape(max(int(rng.integers(1, 2 * n)), 1))
    workers = int(rng.choice([1, 1, 2, 3, 5]))
    if ackers and rng.random() < 0.6:
        heard = tuple((p.name, "__ack_ack" if p.inputs else "__ack_init", "FIELDS") for p in parts)
        parts = [*parts, Part(ACKER, workers, inputs=heard)]
    if rng.random() < 0.3:
        parts = [*parts, Part("__metricsorg.apache.storm.metric.LoggingMetricsConsumer", 1)]
    name = f"{shape.__name__}.№{i}"
    executors, members, task = [], {}, 1
    for p in parts:
        members[p.name] = [task + k * p.tasks for k in range(p.executors)]
        for start in members[p.name]:
            executors.append(Executor(start=start, end=start + p.tasks - 1, component=p.name))
        task += p.executors * p.tasks
    weights = [float(w) for w in rng.choice([0.0, 0.01, 0.1, 1.0, 4.0], size=len(executors))]
    if not any(weights):
        weights[0] = 1.0
    t = Topology(
        id=f"{name}-{i}-1700000000",
        name=name,
        workers=workers,
        owner=("alice", None, "bob@EXAMPLE.ORG")[i % 3],
        components=[_component(p) for p in parts],
        executors=executors,
    )
    return t, weights, [] if rng.random() < 0.15 else list(_traffic(t, parts, members, rng))


def _component(p: Part) -> Component:
    system = p.name.startswith("__")
    return Component(
        id=p.name,
        kind="system" if system else "bolt" if p.inputs else "spout",
        inputs=[Input(component=c, stream=s, grouping=g) for c, s, g in p.inputs],
    )


def _traffic(t: Topology, parts: Sequence[Part], members: dict[str, list[int]], rng: np.random.Generator) -> list[Edge]:
    edges = []
    for p in parts:
        for source, stream, grouping in p.inputs:
            targets = members[p.name][:1] if grouping == "GLOBAL" else members[p.name]
            pairs = [(a, b) for a in members[source] for b in targets]
            for k in rng.permutation(len(pairs))[:FEW_PAIRS].tolist():
                rate = float(rng.choice([0.0, 0.001, 1.0, 50.0, 20_000.0]))
                edges.append(Edge(topology=t.id, from_=pairs[k][0], to=pairs[k][1], rate=rate, stream=stream))
    return edges
