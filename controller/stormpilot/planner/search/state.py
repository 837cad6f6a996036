"""The books of the local search: a layout with loads, rings and totals, and the changes that keep them right.

A `Space` is arrays of records, grouped in a named tuple (few arguments compile fast). What a layout costs stands in
`search.py`. Slots, the number of workers, the executors that a worker may hold and fixed workers are never broken by
what is here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.jit import jit

EXECUTOR = np.dtype(
    [
        ("worker", "i8"),
        ("mark", "i8"),  # stamp of the last piece that the executor was in
        ("cpu", "f8"),  # MHz
        ("memory", "f8"),  # MB
        ("topology", "i8"),
        ("klass", "i8"),
        ("home", "i8"),  # the worker that it is in now, or -1
        ("after", "i8"),  # ring of the executors of a worker
        ("before", "i8"),
    ]
)
WORKER = np.dtype(
    [
        ("node", "i8"),  # -1 while empty
        ("size", "i8"),
        ("head", "i8"),  # an executor of the worker, -1 while empty
        ("away", "i8"),  # executors in the worker but not at home there, plus those at home there but not in it
        ("topology", "i8"),
        ("home_node", "i8"),
        ("place", "i8"),  # index in on_node
        ("fixed", "i8"),
        ("seen", "i8"),  # stamp of the last executor that looked at the worker
        ("near", "f8"),  # what that executor exchanges with the worker
    ]
)
NODE = np.dtype(
    [
        ("load", "f8"),  # MHz
        ("limit", "f8"),
        ("memory", "f8"),  # MB
        ("memory_limit", "f8"),
        ("host", "i8"),
        ("rack", "i8"),
        ("slots", "i8"),
        ("used", "i8"),  # slots in use
    ]
)
TOPOLOGY = np.dtype(
    [
        ("first", "i8"),  # its workers are first:end
        ("end", "i8"),
        ("used_workers", "i8"),
        ("max_executors", "i8"),  # of a worker
        ("keep_all_workers", "i8"),  # none may become empty
    ]
)
BOX = np.dtype(
    [
        ("random", "u8"),
        ("stamp", "i8"),
        ("traffic", "f8"),  # x distance
        ("violation", "f8"),  # MHz
        ("restarted", "f8"),  # workers
        ("restart_cost", "f8"),
        ("mhz_per_mb", "f8"),  # what a MB above a memory limit counts in the violation
        ("mhz_per_forbidden", "f8"),  # what an executor on a forbidden node counts in the violation
    ]
)


class Space(NamedTuple):
    """A layout with all that moves need to know; see the record types above. `box` holds what there is one of."""

    executors: Any
    workers: Any
    nodes: Any
    topologies: Any
    box: Any
    xadj: Ints
    adj: Ints
    tps: Floats
    allowed: Bools  # classes x nodes
    distance: Floats  # [same node, same rack, other rack]
    movable: Ints  # executors that may move
    on_node: Ints  # nodes x slots: workers
    piece: Ints  # executors of the piece at hand


@jit
def chance(g: Space) -> float:
    """A number from 0 to 1 (xorshift64*)."""
    x = g.box[0].random
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    g.box[0].random = x
    return float(((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0))


@jit
def chance_below(g: Space, n: int) -> int:
    """A number from 0 to n - 1."""
    return min(int(chance(g) * n), n - 1)


@jit
def node_distance(g: Space, m: int, n: int) -> float:
    """Distance between workers on nodes m and n."""
    if g.nodes[m].host == g.nodes[n].host:
        return float(g.distance[0])
    if g.nodes[m].rack == g.nodes[n].rack:
        return float(g.distance[1])
    return float(g.distance[2])


@jit
def _distance(g: Space, a: int, b: int) -> float:
    """Distance between workers."""
    if a == b:
        return 0.0
    return node_distance(g, g.workers[a].node, g.workers[b].node)


@jit
def violation_at(g: Space, n: int, load: float, memory: float) -> float:
    """Violation of node n at this load."""
    v = 0.0
    limit = g.nodes[n].limit
    if load > limit * (1.0 + 1e-9):
        v += load - limit
    limit = g.nodes[n].memory_limit
    if memory > limit * (1.0 + 1e-9):
        v += (memory - limit) * g.box[0].mhz_per_mb
    return v


@jit
def _violation_now(g: Space, n: int) -> float:
    return violation_at(g, n, g.nodes[n].load, g.nodes[n].memory)


@jit
def is_restarted(g: Space, w: int) -> bool:
    """Whether w is in use and not as it is now."""
    return bool(g.workers[w].size > 0 and (g.workers[w].away > 0 or g.workers[w].node != g.workers[w].home_node))


@jit
def seat_worker(g: Space, w: int, n: int) -> None:
    """Put the empty worker w on node n."""
    g.workers[w].node = n
    g.workers[w].place = g.nodes[n].used
    g.on_node[n, g.nodes[n].used] = w
    g.nodes[n].used += 1


@jit
def unseat_worker(g: Space, w: int) -> None:
    """Take worker w from its node."""
    n = g.workers[w].node
    g.nodes[n].used -= 1
    last = g.on_node[n, g.nodes[n].used]
    g.on_node[n, g.workers[w].place] = last
    g.workers[last].place = g.workers[w].place
    g.workers[w].node = NOWHERE


@jit
def move_executor(g: Space, e: int, b: int) -> None:
    """Move executor e to worker b (which has a node); loads and rings, no cost. A worker left empty loses its node."""
    a = g.executors[e].worker
    h = g.executors[e].home
    m, n = g.workers[a].node, g.workers[b].node
    g.executors[e].worker = b
    g.nodes[m].load -= g.executors[e].cpu
    g.nodes[m].memory -= g.executors[e].memory
    g.nodes[n].load += g.executors[e].cpu
    g.nodes[n].memory += g.executors[e].memory
    g.workers[a].away += 1 if h == a else -1
    g.workers[b].away += -1 if h == b else 1
    if g.executors[e].after == e:
        g.workers[a].head = NOWHERE
    else:
        g.executors[g.executors[e].before].after = g.executors[e].after
        g.executors[g.executors[e].after].before = g.executors[e].before
        if g.workers[a].head == e:
            g.workers[a].head = g.executors[e].after
    if g.workers[b].head == NOWHERE:
        g.workers[b].head = e
        g.executors[e].after = e
        g.executors[e].before = e
    else:
        first = g.workers[b].head
        last = g.executors[first].before
        g.executors[last].after = e
        g.executors[e].before = last
        g.executors[e].after = first
        g.executors[first].before = e
    g.workers[a].size -= 1
    g.workers[b].size += 1


@jit
def shift_piece(g: Space, k: int, b: int, price: float) -> float:
    """Move the first k of the piece (all of one worker, marked) to worker b; change of cost. The totals follow."""
    a = g.executors[g.piece[0]].worker
    m, n = g.workers[a].node, g.workers[b].node
    stamp = g.box[0].stamp
    traffic = 0.0
    forbidden = 0
    for i in range(k):
        e = g.piece[i]
        for j in range(g.xadj[e], g.xadj[e + 1]):
            f = g.adj[j]
            if g.executors[f].mark != stamp:
                w = g.executors[f].worker
                if w == a:
                    traffic += g.tps[j] * _distance(g, b, a)
                elif w == b:
                    traffic -= g.tps[j] * _distance(g, a, b)
                elif m != n:
                    traffic += g.tps[j] * (_distance(g, b, w) - _distance(g, a, w))
        if m != n:
            forbidden += int(g.allowed[g.executors[e].klass, m]) - int(g.allowed[g.executors[e].klass, n])
    restarted = -int(is_restarted(g, a)) - int(is_restarted(g, b))
    over = 0.0
    if m != n:
        over -= violation_at(g, m, g.nodes[m].load, g.nodes[m].memory) + violation_at(
            g, n, g.nodes[n].load, g.nodes[n].memory
        )
    for i in range(k):
        move_executor(g, g.piece[i], b)
    if m != n:
        over += violation_at(g, m, g.nodes[m].load, g.nodes[m].memory) + violation_at(
            g, n, g.nodes[n].load, g.nodes[n].memory
        )
        over += forbidden * g.box[0].mhz_per_forbidden
    restarted += int(is_restarted(g, a)) + int(is_restarted(g, b))
    g.box[0].traffic += traffic
    g.box[0].violation += over
    g.box[0].restarted += restarted
    return float(traffic + price * over + g.box[0].restart_cost * restarted)


@jit
def close_if_empty(g: Space, w: int) -> None:
    """Give up the slot of a worker that a move left empty."""
    if g.workers[w].size == 0 and g.workers[w].node != NOWHERE:
        unseat_worker(g, w)
        g.topologies[g.workers[w].topology].used_workers -= 1


@jit
def _open_worker(g: Space, t: int, n: int) -> int:
    """An empty worker of topology t, now on node n; -1 where t has none left or n no slot."""
    if (
        g.nodes[n].used >= g.nodes[n].slots
        or g.topologies[t].used_workers >= g.topologies[t].end - g.topologies[t].first
    ):
        return NOWHERE
    for w in range(g.topologies[t].first, g.topologies[t].end):
        if g.workers[w].node == NOWHERE and g.workers[w].home_node == n:
            break
    else:
        for w in range(g.topologies[t].first, g.topologies[t].end):
            if g.workers[w].node == NOWHERE:
                break
    seat_worker(g, w, n)
    g.topologies[t].used_workers += 1
    return w


@jit
def worker_at(g: Space, t: int, n: int, room: int, avoid: int) -> int:
    """A worker of topology t on node n that can take `room` more executors, opened if need be; -1 if there is none."""
    for i in range(g.nodes[n].used):
        w = g.on_node[n, i]
        if (
            g.workers[w].topology == t
            and w != avoid
            and not g.workers[w].fixed
            and g.workers[w].size + room <= g.topologies[t].max_executors
        ):
            return int(w)
    return _open_worker(g, t, n)


@jit
def measure(g: Space) -> None:
    """Compute the totals anew."""
    traffic = 0.0
    violation = 0.0
    restarted = 0
    for n in range(len(g.nodes)):
        g.nodes[n].load = 0.0
        g.nodes[n].memory = 0.0
    for e in range(len(g.executors)):
        a = g.executors[e].worker
        n = g.workers[a].node
        g.nodes[n].load += g.executors[e].cpu
        g.nodes[n].memory += g.executors[e].memory
        if not g.workers[a].fixed and not g.allowed[g.executors[e].klass, n]:
            violation += g.box[0].mhz_per_forbidden
        for j in range(g.xadj[e], g.xadj[e + 1]):
            if g.adj[j] > e:
                traffic += g.tps[j] * _distance(g, a, g.executors[g.adj[j]].worker)
    for n in range(len(g.nodes)):
        violation += _violation_now(g, n)
    for w in range(len(g.workers)):
        restarted += int(is_restarted(g, w))
    g.box[0].traffic, g.box[0].violation, g.box[0].restarted = traffic, violation, restarted


def space(template: Space, worker: Ints, node: Ints, seed: int) -> Space:
    """A search space for a complete layout whose workers all fit in their nodes' slots; `template` is not changed."""
    g = template._replace(
        executors=template.executors.copy(),
        workers=template.workers.copy(),
        nodes=template.nodes.copy(),
        topologies=template.topologies.copy(),
        box=template.box.copy(),
        on_node=np.full_like(template.on_node, NOWHERE),
        piece=np.zeros_like(template.piece),
    )
    workers = len(node)
    size = np.bincount(worker, minlength=workers)
    order = np.argsort(worker, kind="stable")
    starts = np.concatenate([[0], np.cumsum(size)])
    after, before = np.roll(order, -1), np.roll(order, 1)
    used = np.flatnonzero(size)
    after[starts[used + 1] - 1] = order[starts[used]]
    before[starts[used]] = order[starts[used + 1] - 1]
    g.executors["worker"] = worker
    g.executors["after"][order] = after
    g.executors["before"][order] = before
    home = g.executors["home"]
    at_home = np.bincount(worker[home == worker], minlength=workers)
    g.workers["size"] = size
    g.workers["head"] = NOWHERE
    g.workers["head"][used] = order[starts[used]]
    g.workers["node"] = np.where(size > 0, node, NOWHERE)
    g.workers["away"] = size + np.bincount(home[home != NOWHERE], minlength=workers) - 2 * at_home
    for w in used.tolist():
        n = int(node[w])
        place = int(g.nodes["used"][n])
        g.on_node[n, place] = w
        g.workers["place"][w] = place
        g.nodes["used"][n] = place + 1
    g.topologies["used_workers"] = np.bincount(g.workers["topology"][used], minlength=len(g.topologies))
    g.box["random"] = seed
    g.box["stamp"] = 1
    measure(g)
    return g


def layout_of(g: Space) -> tuple[Ints, Ints]:
    """Copies of worker per executor and node per worker."""
    return g.executors["worker"].copy(), g.workers["node"].copy()
