"""The inner loop of `otd`: of all transfers of one executor to another worker, the one with the largest ASC.

Compiled with numba; O(executors that may move x workers of their topology + their traffic) at worst. The workers are
looked through only where the executor's traffic with some host could make it the best so far.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.jit import jit
from stormpilot.model.sharing import NO_KIND, SLACK
from stormpilot.planner.placement.layout import Frame, Layout


class Sources(NamedTuple):
    """Executors: their traffic as adjacency lists, what they use, where they are."""

    xadj: Ints
    adj: Ints
    adj_tps: Floats
    cpu: Floats
    memory: Floats
    queue: Floats
    klass: Ints
    worker: Ints
    may_move: Bools


class Targets(NamedTuple):
    """Workers of a topology are `first[t]:first[t + 1]`; what is left on worker and node before they are too loaded."""

    topology: Ints  # worker -> topology
    first: Ints
    node: Ints
    cpu: Floats  # of the worker itself: less is better
    queue_left: Floats
    open: Bools
    host: Ints  # node -> host
    cpu_left: Floats  # of the node
    memory_left: Floats
    allowed: Bools  # class x node
    lean_cpu: Bools  # node: its load must fall; a transfer that takes no CPU away from it does not count
    lean_queue: Bools  # worker: its queue must fall


class Rules(NamedTuple):
    """Rules on who shares a worker or a node (`model/sharing.py`), and what is there now."""

    hold: bool  # whether there are any
    size: Ints  # worker -> executors
    most: Ints  # topology -> executors of a worker
    heap: Floats  # executor
    worker_heap: Floats
    most_heap: Floats  # topology -> of a worker
    kind: Ints  # executor
    apart: Bools
    of_kind: Ints  # worker x kinds of its topology
    demand: Floats  # kind x amounts
    taken: Floats  # amount x node
    room: Floats


def rules_of(frame: Frame, layout: Layout, *, hold: bool) -> Rules:
    """The rules of a model, which hold or not, and what is in each worker and on each node of a complete layout."""
    c = frame.compiled
    s = c.sharing
    of_kind = np.zeros((frame.workers, s.apart.shape[1]), dtype=np.int64)
    if s.apart.any():
        ruled = np.flatnonzero(s.kind != NO_KIND)
        ruled = ruled[s.keeps_apart()[c.topology[ruled]]]
        np.add.at(of_kind, (layout.worker[ruled], s.kind[ruled] - s.first_kind[c.topology[ruled]]), 1)
    return Rules(
        hold=hold,
        size=layout.sizes(),
        most=s.most_executors,
        heap=s.heap_mb,
        worker_heap=np.bincount(layout.worker, s.heap_mb, frame.workers).astype(np.float64),
        most_heap=s.most_heap_mb,
        kind=s.kind,
        apart=s.apart,
        of_kind=of_kind,
        demand=s.demand,
        taken=s.taken(layout.node_of_executors()),
        room=s.room,
    )


def best_transfer(sources: Sources, targets: Targets, rules: Rules, least: float) -> tuple[int, int, float]:
    """Executor, worker and ASC of the transfer with the largest ASC above `least`; (-1, -1, least) where there is none.

    A transfer that breaks a rule is none. ASC = traffic with executors on the target's host - traffic with others on
    the present one. Ties: more traffic with the target worker itself, then the less loaded worker, then the lower
    executor, then the lower worker.
    """
    found = np.array([NOWHERE, NOWHERE], dtype=np.int64)
    asc = np.array([least])
    with_worker = np.zeros(len(targets.node))
    with_host = np.zeros(int(targets.host.max(initial=0)) + 1)
    _best_transfer(sources, targets, rules, found, asc, with_worker, with_host)
    return int(found[0]), int(found[1]), float(asc[0])


@jit
def _breaks_a_rule(rules: Rules, e: int, t: int, w: int, n: int, moves: bool) -> bool:
    """Whether executor e of topology t may not come to worker w on node n; `moves`: it is on another node now."""
    if rules.size[w] >= rules.most[t] or rules.worker_heap[w] + rules.heap[e] > rules.most_heap[t] * SLACK:
        return True
    k = rules.kind[e]
    if k == NO_KIND:
        return False
    for i in range(rules.apart.shape[1]):
        if rules.apart[k, i] and rules.of_kind[w, i] > 0:
            return True
    if moves:
        for r in range(len(rules.room)):
            if rules.demand[k, r] > 0.0 and rules.taken[r, n] + rules.demand[k, r] > rules.room[r, n] * SLACK:
                return True
    return False


@jit
def _best_transfer(
    sources: Sources, targets: Targets, rules: Rules, found: Ints, asc: Floats, with_worker: Floats, with_host: Floats
) -> None:
    best_near, best_cpu = 0.0, 0.0
    for e in range(len(sources.worker)):
        if not sources.may_move[e]:
            continue
        old = sources.worker[e]
        node = targets.node[old]
        lean = targets.lean_cpu[node] or targets.lean_queue[old]
        for j in range(sources.xadj[e], sources.xadj[e + 1]):
            w = sources.worker[sources.adj[j]]
            with_worker[w] += sources.adj_tps[j]
            with_host[targets.host[targets.node[w]]] += sources.adj_tps[j]
        t = targets.topology[old]
        here = with_host[targets.host[node]]
        most = 0.0  # traffic with any one host: no target can bring more
        for j in range(sources.xadj[e], sources.xadj[e + 1]):
            most = max(most, with_host[targets.host[targets.node[sources.worker[sources.adj[j]]]]])
        for w in range(targets.first[t], targets.first[t + 1] if most - here >= asc[0] else targets.first[t]):
            if not targets.open[w] or w == old or sources.queue[e] > targets.queue_left[w]:
                continue
            n = targets.node[w]
            if n != node and (
                not targets.allowed[sources.klass[e], n]
                or sources.cpu[e] > targets.cpu_left[n]
                or sources.memory[e] > targets.memory_left[n]
            ):
                continue
            if lean and not (
                (targets.lean_cpu[node] and n != node and sources.cpu[e] > 0.0)
                or (targets.lean_queue[old] and sources.queue[e] > 0.0)
            ):
                continue
            gain = with_host[targets.host[n]] - here
            near = with_worker[w]
            if gain < asc[0] or (found[0] == NOWHERE and gain == asc[0]):
                continue
            if gain == asc[0] and (near < best_near or (near == best_near and targets.cpu[w] >= best_cpu)):
                continue
            if rules.hold and _breaks_a_rule(rules, e, t, w, n, n != node):
                continue
            asc[0] = gain
            best_near, best_cpu = near, targets.cpu[w]
            found[0], found[1] = e, w
        for j in range(sources.xadj[e], sources.xadj[e + 1]):
            w = sources.worker[sources.adj[j]]
            with_worker[w] = 0.0
            with_host[targets.host[targets.node[w]]] = 0.0
