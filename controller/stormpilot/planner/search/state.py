"""The state of the local search: a layout with loads, rings and totals, and the changes that keep them right.

A `Space` is arrays of records, grouped in a named tuple (few arguments compile fast). What a layout costs stands in
`annealing_kernel.py`; what executors exchange with workers in `connections.py`. Slots, the number of workers, the
executors that a worker may hold and fixed workers are never broken by what is here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.jit import jit
from stormpilot.model.sharing import SLACK

EXECUTOR = np.dtype(
    [
        ("worker", "i8"),
        ("mark", "i8"),  # stamp of the last piece that the executor was in
        ("cpu", "f8"),  # MHz
        ("memory", "f8"),  # MB
        ("tps", "f8"),  # with all others
        ("topology", "i8"),
        ("klass", "i8"),
        ("home", "i8"),  # the worker that it is in now, or -1
        ("after", "i8"),  # ring of the executors of a worker
        ("before", "i8"),
        ("changed", "i8"),  # 1: its worker is not the one in the best layout
    ]
)
EDGE = np.dtype([("to", "i4"), ("tps", "f4")])  # neighbours of an executor, in rising order
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
        ("cpu", "f8"),  # MHz
        ("memory", "f8"),  # MB
    ]
)
NODE = np.dtype(
    [
        ("load", "f8"),  # MHz
        ("limit", "f8"),
        ("memory", "f8"),  # MB
        ("memory_limit", "f8"),
        ("over", "f8"),  # MHz: violation of its limits
        ("host", "i8"),
        ("rack", "i8"),
        ("slots", "i8"),
        ("used", "i8"),  # slots in use
        ("first_of_host", "i8"),  # the nodes of its host are first_of_host:end_of_host
        ("end_of_host", "i8"),
    ]
)
TOPOLOGY = np.dtype(
    [
        ("first", "i8"),  # its workers are first:end
        ("end", "i8"),
        ("first_executor", "i8"),
        ("end_executor", "i8"),
        ("table", "i8"),  # where its table of connections begins, -1: it has none
        ("used_workers", "i8"),
        ("max_executors", "i8"),  # of a worker
        ("keep_all_workers", "i8"),  # none may become empty
        ("max_heap", "f8"),  # MB, of a worker; may be infinite
        ("first_kind", "i8"),  # kinds of its executors are first_kind:end_kind
        ("end_kind", "i8"),
        ("apart", "i8"),  # 1: some components of it are kept apart; then executors move alone or by two
    ]
)
BOX = np.dtype(
    [
        ("random", "u8"),
        ("stamp", "i8"),
        ("traffic", "f8"),  # x distance
        ("violation", "f8"),  # MHz, over all nodes
        ("overloaded", "i8"),  # nodes over a limit
        ("forbidden", "i8"),  # executors on nodes that are forbidden to them, and what rules on sharing count
        ("restarted", "f8"),  # workers
        ("restart_cost", "f8"),
        ("mhz_per_mb", "f8"),  # what a MB above a memory limit counts in the violation
        ("mhz_per_forbidden", "f8"),  # what an executor on a forbidden node counts in the violation
        ("restricted", "i8"),  # 1: some executors may not run everywhere
        ("sharing", "i8"),  # 1: there are rules on who shares a worker or a node
        ("changed", "i8"),  # how many executors stand in `changed`
        ("seated", "i8"),  # 1: whole workers move only where that gains
        ("reseated", "i8"),  # 1: some worker's node is not that in the best layout
        ("inner", "f8"),  # tuples/s inside the piece that was filled last
        ("cross", "f8"),  # tuples/s between it and the piece filled before
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
    edges: Any
    table: Floats  # what executors exchange with workers, see `connections.py`
    rack_table: Floats  # executors x racks, or empty
    allowed: Bools  # classes x nodes
    distance: Floats  # [same node, same rack, other rack]
    movable: Ints  # executors that may move
    on_node: Ints  # nodes x slots: workers
    topology_on_node: Ints  # nodes x slots: their topologies
    piece: Ints  # executors of the piece at hand
    other_piece: Ints  # executors of the piece that comes back for it
    changed: Ints  # executors whose worker is not the one in the best layout
    heap: Floats  # MB; from here on `sharing.py`: rules, executors to kinds of components that they name
    kind: Ints  # of an executor, or -1
    apart: Bools  # kinds x kinds of their topology
    demand: Floats  # kinds x amounts
    unit: Floats  # of an amount: the least demand
    room: Floats  # amounts x nodes
    worker_heap: Floats  # MB
    of_kind: Ints  # workers x kinds of their topology: executors
    taken: Floats  # amounts x nodes


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
def charge_of(g: Space, n: int, cpu: float, memory: float, price: float, charge: float) -> float:
    """Cost of adding so much to node n: a price per MHz of violation and a charge per overloaded node."""
    before = g.nodes[n].over
    over = violation_at(g, n, g.nodes[n].load + cpu, g.nodes[n].memory + memory)
    if over == before:
        return 0.0
    cost = price * (over - before)
    if before == 0.0:
        cost += charge
    elif over == 0.0:
        cost -= charge
    return float(cost)


@jit
def add_load(g: Space, n: int, cpu: float, memory: float) -> None:
    """Put so much more on node n."""
    g.nodes[n].load += cpu
    g.nodes[n].memory += memory
    before = g.nodes[n].over
    over = violation_at(g, n, g.nodes[n].load, g.nodes[n].memory)
    if over != before:
        g.nodes[n].over = over
        g.box[0].violation += over - before
        g.box[0].overloaded += int(over > 0.0) - int(before > 0.0)


@jit
def is_restarted(g: Space, w: int) -> bool:
    """Whether w is in use and not as it is now."""
    return bool(g.workers[w].size > 0 and (g.workers[w].away > 0 or g.workers[w].node != g.workers[w].home_node))


@jit
def seat_worker(g: Space, w: int, n: int) -> None:
    """Put worker w, which has no node, on node n."""
    place = g.nodes[n].used
    g.box[0].reseated = 1
    g.workers[w].node = n
    g.workers[w].place = place
    g.on_node[n, place] = w
    g.topology_on_node[n, place] = g.workers[w].topology
    g.nodes[n].used = place + 1


@jit
def unseat_worker(g: Space, w: int) -> None:
    """Take worker w from its node."""
    n = g.workers[w].node
    g.box[0].reseated = 1
    g.nodes[n].used -= 1
    last = g.on_node[n, g.nodes[n].used]
    place = g.workers[w].place
    g.on_node[n, place] = last
    g.topology_on_node[n, place] = g.workers[last].topology
    g.workers[last].place = place
    g.workers[w].node = NOWHERE


@jit
def link(g: Space, e: int, b: int) -> None:
    """Executor e leaves the ring of its worker for that of worker b."""
    a = g.executors[e].worker
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
    g.executors[e].worker = b
    g.workers[a].size -= 1
    g.workers[b].size += 1


@jit
def close_if_empty(g: Space, w: int) -> None:
    """Give up the slot of a worker that a move left empty."""
    if g.workers[w].size == 0 and g.workers[w].node != NOWHERE:
        unseat_worker(g, w)
        g.topologies[g.workers[w].topology].used_workers -= 1


@jit
def may_open(g: Space, t: int, n: int) -> bool:
    """Whether topology t can have a new worker on node n."""
    return bool(
        g.nodes[n].used < g.nodes[n].slots
        and g.topologies[t].used_workers < g.topologies[t].end - g.topologies[t].first
    )


@jit
def idle_worker(g: Space, t: int, n: int) -> int:
    """A worker of topology t that is not in use, one whose home is node n if there is one; `may_open` holds."""
    idle = NOWHERE
    for w in range(g.topologies[t].first, g.topologies[t].end):
        if g.workers[w].node == NOWHERE:
            if g.workers[w].home_node == n:
                return int(w)
            if idle == NOWHERE:
                idle = w
    return int(idle)


@jit
def open_worker(g: Space, t: int, n: int) -> int:
    """A new worker of topology t on node n, which may have one."""
    w = idle_worker(g, t, n)
    seat_worker(g, w, n)
    g.topologies[t].used_workers += 1
    return w


@jit
def worker_on(g: Space, t: int, n: int, room: int, heap_mb: float, avoid: int) -> int:
    """A worker of topology t on node n that can take `room` more executors and so much more heap; -1: there is none."""
    for i in range(g.nodes[n].used):
        if g.topology_on_node[n, i] == t:
            w = g.on_node[n, i]
            if (
                w != avoid
                and not g.workers[w].fixed
                and g.workers[w].size + room <= g.topologies[t].max_executors
                and g.worker_heap[w] + heap_mb <= g.topologies[t].max_heap * SLACK
            ):
                return int(w)
    return NOWHERE


def layout_of(g: Space) -> tuple[Ints, Ints]:
    """Copies of worker per executor and node per worker."""
    return g.executors["worker"].copy(), g.workers["node"].copy()
