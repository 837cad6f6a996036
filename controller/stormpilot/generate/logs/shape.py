"""The planted topology: events -> parse -> split -> count -> store, and parse -> enrich -> store, with ackers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stormpilot.model.values import Component, Input

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ACKER = "__acker"
COMPONENTS = ("events", "parse", "split", "count", "enrich", "store", ACKER)
# from, stream, to, grouping, range of the selectivity
STREAMS = (
    ("events", "default", "parse", "SHUFFLE", (1.0, 1.0)),
    ("parse", "default", "split", "SHUFFLE", (0.8, 1.0)),
    ("parse", "rare", "enrich", "SHUFFLE", (0.2, 0.4)),
    ("split", "default", "count", "FIELDS", (2.5, 4.0)),
    ("count", "default", "store", "SHUFFLE", (0.08, 0.15)),
    ("enrich", "default", "store", "SHUFFLE", (0.9, 1.1)),
)
CORE_MHZ = 2500.0


@dataclass(frozen=True)
class Shape:
    """A topology: arrays over executors (in the order of their tasks, from 1) and over edges.

    `selectivity` is by entry of `STREAMS`; `edge_part` is the mean rate of an edge per tuple/s of all spouts; CPU
    laws are by component.
    """

    component: Ints
    start: Ints
    selectivity: Floats
    intercept_mhz: Floats
    mhz_per_tps: Floats
    edge_from: Ints
    edge_to: Ints
    edge_stream: Ints
    edge_part: Floats

    @property
    def executors(self) -> int:
        """Number of executors."""
        return len(self.component)

    @property
    def data_edges(self) -> npt.NDArray[np.bool_]:
        """Edges that are not to or from an acker."""
        mask: npt.NDArray[np.bool_] = self.edge_stream < len(STREAMS)
        return mask


STREAM_NAMES = (*(s[1] for s in STREAMS), "__ack_init", "__ack_ack")
ACK_INIT, ACK_ACK = len(STREAMS), len(STREAMS) + 1


def parallelisms(parallelism: int, nodes: int) -> list[int]:
    """Executors by component."""
    narrow = max(1, parallelism // 4)
    return [narrow, parallelism, parallelism, parallelism, parallelism, narrow, nodes]


def edges_of(parallelism: int, nodes: int) -> int:
    """Number of edges (rows per window) of such a topology."""
    count = dict(zip(COMPONENTS, parallelisms(parallelism, nodes), strict=True))
    data = sum(count[a] * count[b] for a, _, b, _, _ in STREAMS)
    return data + nodes * (sum(count.values()) - nodes) + nodes * count["events"]


def make_shape(parallelism: int, nodes: int, rng: np.random.Generator) -> Shape:
    """Draw a topology."""
    counts = parallelisms(parallelism, nodes)
    component = np.repeat(np.arange(len(COMPONENTS)), counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    selectivity = np.array([rng.uniform(*r) for *_, r in STREAMS])
    taken = np.zeros(len(COMPONENTS))
    taken[0] = 1.0
    parts: list[tuple[Ints, Ints, int, Floats]] = []
    for i, (a, _, b, grouping, _) in enumerate(STREAMS):
        at, to = COMPONENTS.index(a), COMPONENTS.index(b)
        rate = taken[at] * selectivity[i]
        taken[to] += rate
        weights = (
            rng.dirichlet(np.full(counts[to], 20.0)) if grouping == "FIELDS" else np.full(counts[to], 1 / counts[to])
        )
        senders, receivers = np.meshgrid(np.arange(counts[at]), np.arange(counts[to]), indexing="ij")
        part = np.broadcast_to(rate / counts[at] * weights, senders.shape)
        parts.append((first[at] + senders.ravel(), first[to] + receivers.ravel(), i, part.ravel()))
    acker = len(COMPONENTS) - 1
    for c in range(acker):  # one ack per tuple taken in, spread evenly over the ackers; one init per tuple of a spout
        senders, receivers = np.meshgrid(np.arange(counts[c]), np.arange(nodes), indexing="ij")
        part = np.full(senders.size, taken[c] / senders.size)
        parts.append(
            (first[c] + senders.ravel(), first[acker] + receivers.ravel(), ACK_INIT if c == 0 else ACK_ACK, part)
        )
    senders, receivers = np.meshgrid(np.arange(nodes), np.arange(counts[0]), indexing="ij")
    parts.append((first[acker] + senders.ravel(), receivers.ravel(), ACK_ACK, np.full(senders.size, 1 / senders.size)))
    stream = np.concatenate([np.full(len(a), i) for a, _, i, _ in parts])
    return Shape(
        component=component,
        start=np.arange(1, len(component) + 1),
        selectivity=selectivity,
        intercept_mhz=np.append(rng.uniform(20, 60, acker), 25.0),
        mhz_per_tps=np.append(rng.uniform(0.25, 1.5, acker), 0.015),
        edge_from=np.concatenate([a for a, _, _, _ in parts]),
        edge_to=np.concatenate([b for _, b, _, _ in parts]),
        edge_stream=stream,
        edge_part=np.concatenate([p for *_, p in parts]),
    )


def components() -> list[Component]:
    """The components as the model knows them."""
    inputs: dict[str, list[Input]] = {c: [] for c in COMPONENTS}
    for a, stream, b, grouping, _ in STREAMS:
        inputs[b].append(Input(component=a, stream=stream, grouping=grouping))
    kinds = {"events": "spout", ACKER: "system"}
    return [Component(id=c, kind=kinds.get(c, "bolt"), inputs=inputs[c]) for c in COMPONENTS]  # type: ignore[arg-type]
