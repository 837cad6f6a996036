"""`partition`: executors to nodes by graph partitioning (Mt-KaHyPar), then local search on the true objective.

Blocks are nodes, as heavy as their CPU limits; where distances between racks count, executors are first divided among
racks and then among each rack's nodes. Where nodes differ, topologies also choose nodes in turn, the one with most
traffic first, and are divided among what each of them took. A partition knows no slots, workers, memory or sites: what
breaks one of these is repaired before the local search, which keeps them all. `online`'s plan is a start too.

Source: Gottesbueren, Heuer, Maas, Sanders, Schlag, *Scalable high-quality hypergraph partitioning* (Mt-KaHyPar).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Compiled, Floats, Ints, adjacency, unordered
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.label_propagation import clustered, clusters
from stormpilot.planner.methods import online
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout, present_layout, relabel
from stormpilot.planner.placement.objective import ObjectiveName, checked, objective_of, weights
from stormpilot.planner.placement.problem import (
    LeftS,
    Limits,
    Objective,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.placement.slots import keep_nodes
from stormpilot.planner.repair import as_new, completed, repaired, wrong
from stormpilot.planner.search.annealing import (
    Annealer,
    Found,
)
from stormpilot.planner.search.parallel import at_once, cores

UNITS = 10_000_000  # integer weights: of all traffic, and of all CPU
THREADS = 2  # no difference to Mt-KaHyPar's deterministic presets; the others answer differently from call to call
UNLIKE = 1.5  # the largest node is so many times the smallest: topologies choose nodes in turn, too
ROOMY = 1.03  # times its CPU: what a topology takes in turn, as executors fit no node exactly
WIDEST = 16  # blocks of one call: time grows with blocks x edges, so more are divided in several steps
GOOD_BELOW = 3000  # executors
GOOD_PAIRS = 20_000  # beyond, a good partition takes seconds and is less than 1% better once it was searched on from
LARGE_FROM = 10_000
COARSE, COARSER = 0.5, 1.0  # of a node: the largest cluster of what is divided fast, and of that in large models
DIVISION_S = 6e-5  # seconds per executor that the first division takes, at most
SEARCH_S = 3e-5  # seconds per executor that are kept for repair and local search
FIRST_TEMPERATURE = 0.1  # of an executor's mean traffic: keeps what the partition found, frees what it got wrong


@dataclass(frozen=True)
class Params:
    """`quality`: `good`, or `fast`, which searches less; none = by the size of the model.

    `iterations`: moves of the local search; none = by the size of the model. `restart_tps`: lambda, what the restart of
    one worker may cost in the objective's unit. `min_gain`: part of the present cost that must be won, else the present
    placement stays.
    """

    quality: Literal["fast", "good"] | None = None
    objective: ObjectiveName = "inter_node"
    restart_tps: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    iterations: Annotated[int | None, msgspec.Meta(ge=0)] = None
    exact_workers: bool = False
    min_gain: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.min_gain < 1:
            raise UsageError(f"min_gain is {self.min_gain}, expected a part from 0 to 1")
        if self.quality not in ("fast", "good", None):
            raise UsageError(f"quality is {self.quality!r}, expected fast or good")
        checked(self.objective)
        if not 0 <= self.restart_tps < math.inf:
            raise UsageError(f"restart_tps is {self.restart_tps}, expected tuples/s >= 0")
        if self.iterations is not None and self.iterations < 0:
            raise UsageError(f"iterations is {self.iterations}, expected a number >= 0")


def default_iterations(executors: int) -> int:
    """Moves of the local search that keep a cluster of 20,000 executors within seconds."""
    return min(max(2000 * executors, 100_000), 1_000_000 if executors >= LARGE_FROM else 2_000_000)


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Partition, repair, search, and of nodes that are alike choose those from which least moves.

    Where restarts cost nothing the search does not look at what runs: from its own result it finds just that again.
    """
    limits = no_limits(frame.compiled, exact_workers=params.exact_workers)
    objective = objective_of(frame.compiled, params.objective, params.restart_tps)
    present = present_layout(frame, limits.exact_workers)
    if present is not None and wrong(frame, present).any():
        present = None
    if params.restart_tps:
        found = _searched(frame, objective, limits, present, params, rng, left_s)
    else:
        found = _searched(as_new(frame), objective, limits, None, params, rng, left_s)
    if isinstance(found, Infeasible):
        return found
    cost = Annealer(frame, objective, limits).cost
    across = not by_rack(frame.compiled, objective)
    same = [found.layout, relabel(frame, keep_nodes(frame, relabel(frame, found.layout), across_racks=across))]
    best = min(same, key=cost)
    if present is not None and cost(present) * (1 - params.min_gain) <= cost(best):
        best = present
    return Result(best, ("the clock cut the local search short",) if found.cut else ())


def _searched(
    frame: Frame,
    objective: Objective,
    limits: Limits,
    present: Layout | None,
    params: Params,
    rng: np.random.Generator,
    left_s: LeftS,
) -> Found | Infeasible:
    """The best of the partitions (and of what runs), improved by local search."""
    c = frame.compiled
    annealer = Annealer(frame, objective, limits)
    cheap = [
        online.greedy(frame, 0.0),
        seated(frame, clustered(frame, weights(c, objective), rng)),
    ]
    seed = int(rng.integers(2**31))
    large = c.executors >= LARGE_FROM and not params.restart_tps
    layouts: list[Layout] = []
    divisions: list[Layout] = []
    refused: Infeasible | None = None
    of_cheap = [(start, False) for start in cheap]
    of_graph = ((start, True) for start in _divisions(frame, objective, seed, params.quality, left_s))
    for start, is_division in itertools.chain(of_cheap, of_graph):
        whole = completed(frame, start, limits)
        dear = isinstance(whole, Infeasible) or any(annealer.traffic(whole) > annealer.traffic(x) for x in layouts)
        if layouts and dear and not (large and is_division):
            continue  # repairing makes nothing cheaper
        sound = repaired(frame, start, limits, rng, left_s, objective)
        if isinstance(sound, Infeasible):
            if sound.proved:
                return sound
            refused = sound
            continue
        layouts.append(sound)
        divisions += [sound] if is_division else []
        if params.restart_tps:
            layouts.append(relabel(frame, keep_nodes(frame, sound, across_racks=not by_rack(c, objective))))
    if refused is not None and not layouts:
        return refused
    if present is not None:
        layouts.append(present)
    start = min(layouts, key=annealer.cost)
    tries = default_iterations(c.executors) if params.iterations is None else params.iterations
    # large models have no time to forget what they start from, and what repair costs hides how good a division is
    heads = divisions if large and divisions else [start]
    jobs = [
        lambda head=head, own=own: annealer.search(head, own, tries, left_s, first_temperature=FIRST_TEMPERATURE)
        for head, own in zip(heads, rng.spawn(len(heads)) if len(heads) > 1 else [rng], strict=True)
    ]
    found = min(at_once(jobs, cores()), key=lambda x: (x.violation, x.cost))
    return found if annealer.cost(found.layout) <= annealer.cost(start) else replace(found, layout=start)


def sound_divisions(
    frame: Frame, objective: Objective, limits: Limits, rng: np.random.Generator, left_s: LeftS
) -> Iterator[Layout]:
    """Repaired divisions, as if nothing ran, as many as the clock leaves time for: what a search can start from."""
    frame = as_new(frame)
    for start in _divisions(frame, objective, int(rng.integers(2**31)), None, left_s):
        sound = repaired(frame, start, limits, rng, left_s, objective)
        if not isinstance(sound, Infeasible):
            yield sound


def _divisions(
    frame: Frame, objective: Objective, seed: int, quality: Literal["fast", "good"] | None, left_s: LeftS
) -> Iterator[Layout]:
    """Divisions by graph partitioning, as many as the clock leaves time for, and for a search after them."""
    c = frame.compiled
    unlike = bool(c.nodes and c.node_limit_mhz.max() > UNLIKE * c.node_limit_mhz.min())
    takes_s = DIVISION_S * c.executors
    for in_turn in (True, False) if unlike else (False,):
        before_s = left_s()
        if before_s < takes_s + SEARCH_S * c.executors:
            return
        yield divided(frame, objective, seed, quality=quality, in_turn=in_turn)
        if math.isfinite(before_s):
            takes_s = before_s - left_s()  # with its repair; the next takes about as long


def by_rack(c: Compiled, objective: Objective) -> bool:
    """Whether it matters in which rack a node is."""
    return objective.distance[1] != objective.distance[2] and len(np.unique(c.node_rack)) > 1


def divided(
    frame: Frame,
    objective: Objective,
    seed: int,
    *,
    quality: Literal["fast", "good"] | None = None,
    in_turn: bool = False,
) -> Layout:
    """One worker per topology and node of a partition; of more than min(W, E), the smallest stay unplaced.

    With `in_turn` each topology is divided among the nodes that it took when it was its turn.
    """
    c = frame.compiled
    good = c.executors < GOOD_BELOW and len(c.pair_a) < GOOD_PAIRS
    return seated(frame, _nodes(c, objective, seed, quality or ("good" if good else "fast"), in_turn))


def seated(frame: Frame, node: Ints) -> Layout:
    """Workers for executors on nodes (-1: none yet): one per topology and node, of too many the smallest left out."""
    c = frame.compiled
    layout = empty_layout(frame)
    for t in range(c.topologies):
        own = np.arange(c.first_executor[t], c.first_executor[t + 1])
        own = own[~c.fixed[own] & (node[own] != NOWHERE)]
        nodes, sizes = np.unique(node[own], return_counts=True)
        workers = np.arange(frame.first_worker[t], frame.first_worker[t + 1])
        workers = workers[~frame.fixed[workers]]
        kept = nodes[np.argsort(-sizes, kind="stable")][: len(workers)]
        number = np.full(c.nodes, NOWHERE, dtype=np.int64)
        number[kept] = workers[: len(kept)]
        layout.worker[own] = number[node[own]]
        layout.node[workers[: len(kept)]] = kept
    return layout


@dataclass(frozen=True)
class _Graph:
    """Vertices to divide: executors, or clusters of them. `tied`: the only node that a vertex may be on, or -1."""

    cpu_mhz: Floats
    pairs: tuple[Ints, Ints, Floats]
    tied: Ints


def _nodes(c: Compiled, objective: Objective, seed: int, quality: str, in_turn: bool) -> Ints:
    """E -> node, or -1. With quality `fast`, clusters of executors are divided; `seed` is theirs."""
    pairs = weights(c, objective)
    tied = _tied(c)
    vertex = np.arange(c.executors)
    if quality == "fast":
        largest = float(np.median(c.node_limit_mhz)) * (COARSE if c.executors < LARGE_FROM else COARSER)
        kind = np.unique(np.where(tied == NOWHERE, NOWHERE - c.klass, tied), return_inverse=True)[1].reshape(-1)
        vertex = clusters(c.cpu_mhz, kind, pairs, largest, np.random.default_rng(seed))
    count = int(vertex.max(initial=-1)) + 1
    cpu = np.bincount(vertex, c.cpu_mhz, count).astype(np.float64)
    own = np.full(count, NOWHERE, dtype=np.int64)
    own[vertex] = tied
    a, b = vertex[pairs[0]], vertex[pairs[1]]
    graph = _Graph(cpu, unordered(count, a[a != b], b[a != b], pairs[2][a != b]), own)
    racks = by_rack(c, objective)
    result = np.full(count, NOWHERE, dtype=np.int64)
    nodes = np.lexsort((np.arange(c.nodes), c.node_rack))
    pending = [(np.arange(count), nodes, c.node_limit_mhz)]
    if in_turn:
        pending = _turns(c, vertex, pairs)
    while pending:
        vertices, nodes, limit = pending.pop()
        if not len(vertices):
            continue
        if len(nodes) == 1:
            result[vertices] = nodes[0]
            continue
        groups = _groups(c, nodes, racks)
        block = _blocks(c, graph, vertices, groups, limit)
        pending.extend((vertices[block == i], group, limit) for i, group in enumerate(groups))
    return result[vertex]


def _turns(c: Compiled, vertex: Ints, pairs: tuple[Ints, Ints, Floats]) -> list[tuple[Ints, Ints, Floats]]:
    """For each topology its vertices, the nodes that it takes, and what it takes of each (MHz).

    The topology with most traffic first, that with least CPU of those with as much. It takes the node with most room
    until the rest fits on one, of which it takes the one with least room: so it is on as few nodes as can be.
    """
    tps = np.bincount(c.topology[pairs[0]], pairs[2], c.topologies)
    cpu = np.bincount(c.topology, c.cpu_mhz, c.topologies)
    room, slots = c.node_limit_mhz.astype(np.float64), c.slots_per_node()
    turns = []
    for t in np.lexsort((cpu, -tps)).tolist():
        own = np.unique(vertex[c.first_executor[t] : c.first_executor[t + 1]])
        need = float(cpu[t]) * ROOMY
        part = np.zeros(c.nodes)
        taken: list[int] = []
        while len(own) and (need > 0 or not taken) and len(taken) < max(int(c.workers[t]), 1):
            free = np.flatnonzero((slots > 0) & (room > 0))
            free = np.setdiff1d(free, taken)
            if not len(free):
                break
            enough = free[room[free] >= need]
            n = int(enough[np.argmin(room[enough])]) if len(enough) else int(free[np.argmax(room[free])])
            taken.append(n)
            share = min(need, float(room[n]))
            part[n] = share
            room[n] -= share / ROOMY
            slots[n] -= 1
            need -= share
        if taken:
            nodes = np.array(sorted(taken), dtype=np.int64)
            turns.append((own, nodes[np.argsort(c.node_rack[nodes], kind="stable")], part))
    return turns


def _groups(c: Compiled, nodes: Ints, by_racks: bool) -> list[Ints]:
    """Blocks of these nodes (in the order of their racks) are divided into: racks or single nodes.

    Where that would be more than `WIDEST`, neighbours are put together.
    """
    racks = np.flatnonzero(np.diff(c.node_rack[nodes])) + 1
    groups = np.split(nodes, racks) if by_racks and len(racks) else np.split(nodes, range(1, len(nodes)))
    if len(groups) <= WIDEST:
        return groups
    parts = np.array_split(np.arange(len(groups)), math.ceil(math.sqrt(len(groups))))
    return [np.concatenate([groups[i] for i in part]) for part in parts]


def _tied(c: Compiled) -> Ints:
    """E -> the only node that the executor may be on, or -1."""
    choices = c.allowed.sum(axis=1)
    only = np.where(choices == 1, c.allowed.argmax(axis=1), NOWHERE) if c.nodes else np.zeros(0, dtype=np.int64)
    tied = only[c.klass] if len(only) else np.full(c.executors, NOWHERE, dtype=np.int64)
    return np.where(c.fixed, c.slot_node[c.current], tied) if c.slots else tied


def _blocks(c: Compiled, graph: _Graph, vertices: Ints, groups: list[Ints], node_limit_mhz: Floats) -> Ints:
    """Divide these vertices among the groups of nodes with such limits; the group of each vertex."""
    limit = np.array([node_limit_mhz[group].sum() for group in groups])
    cpu = graph.cpu_mhz[vertices]
    index = np.full(len(graph.cpu_mhz), NOWHERE, dtype=np.int64)
    index[vertices] = np.arange(len(vertices))
    a, b = index[graph.pairs[0]], index[graph.pairs[1]]
    inside = (a != NOWHERE) & (b != NOWHERE)
    a, b, tps = a[inside], b[inside], graph.pairs[2][inside]
    group_of = np.full(c.nodes + 1, NOWHERE, dtype=np.int64)  # the last stands for "tied to none"
    for i, group in enumerate(groups):
        group_of[group] = i
    held = group_of[graph.tied[vertices]]
    if len(vertices) <= len(groups) or not len(a):
        return _dealt(cpu, limit, held, a, b, tps)
    import mtkahypar

    mtk = _library()
    unit = max(float(limit.sum()), float(cpu.sum()), 1e-9) / UNITS
    weight = np.maximum(np.ceil(cpu / unit), 1).astype(np.int64)
    largest = np.maximum(np.floor(limit / unit).astype(np.int64), 1)
    short = int(weight.sum()) - int(largest.sum())
    if short > 0:  # an overfull share of vertices: the surplus is spread, and repaired afterwards
        largest += short // len(largest) + 1
    rate = np.maximum(np.round(tps / max(float(tps.sum()), 1e-9) * UNITS), 1).astype(np.int64)
    context = mtk.context_from_preset(mtkahypar.PresetType.DETERMINISTIC_QUALITY)
    context.set_partitioning_parameters(len(groups), 0.03, mtkahypar.Objective.CUT)
    context.set_individual_target_block_weights(largest.tolist())
    context.logging = False
    edges = list(zip(a.tolist(), b.tolist(), strict=True))
    made = mtk.create_graph(context, len(vertices), len(edges), edges, weight.tolist(), rate.tolist())
    if (held != NOWHERE).any():
        made.add_fixed_vertices(held.tolist(), len(groups))
    blocks = made.partition(context)
    return np.array([blocks.block_id(i) for i in range(len(vertices))], dtype=np.int64)


def _dealt(cpu_mhz: Floats, limit: Floats, held: Ints, a: Ints, b: Ints, tps: Floats) -> Ints:
    """Division without Mt-KaHyPar, which never returns where groups are more than executors, or without traffic.

    Largest executors first, each to the group with room with which it exchanges most, then the one with most room.
    """
    block = held.copy()
    room = limit - np.bincount(held[held != NOWHERE], cpu_mhz[held != NOWHERE], len(limit))
    xadj, adj, weight = adjacency(len(cpu_mhz), a, b, tps)
    for e in np.argsort(-cpu_mhz, kind="stable").tolist():
        if block[e] != NOWHERE:
            continue
        near = slice(xadj[e], xadj[e + 1])
        placed = block[adj[near]] != NOWHERE
        gain = np.bincount(block[adj[near]][placed], weight[near][placed], len(limit))
        block[e] = np.lexsort((-room, -gain, room < cpu_mhz[e]))[0]
        room[block[e]] -= cpu_mhz[e]
    return block


@functools.cache
def _library() -> Any:
    """The library keeps one pool of threads for the process."""
    import mtkahypar

    return mtkahypar.initialize(THREADS, False)
