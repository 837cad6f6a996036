"""Traffic of an executor with each worker of its topology, kept while executors move.

One table per topology: a row per executor, a column per worker, tuples/s. It makes a try O(1) (two entries tell what a
move changes) and an accepted move O(degree of the executor). Only traffic within a topology counts, so the tables are
small: executors x workers of their topology. A topology whose table would be too large has none: its entries are
summed over the neighbours each time. Where racks count, a second table holds what executors exchange with each rack.
"""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.planner.search.state import Space, node_distance


@jit
def with_worker(g: Space, e: int, w: int) -> float:
    """Traffic of e with worker w of its topology, tuples/s."""
    t = g.executors[e].topology
    table = g.topologies[t].table
    if table >= 0:
        width = g.topologies[t].end - g.topologies[t].first
        return float(g.table[table + (e - g.topologies[t].first_executor) * width + w - g.topologies[t].first])
    tps = 0.0
    for j in range(g.xadj[e], g.xadj[e + 1]):
        if g.executors[g.edges[j].to].worker == w:
            tps += g.edges[j].tps
    return tps


@jit
def with_host(g: Space, e: int, n: int) -> float:
    """Traffic of e with executors on the host of node n, tuples/s."""
    t = g.executors[e].topology
    tps = 0.0
    for m in range(g.nodes[n].first_of_host, g.nodes[n].end_of_host):
        for i in range(g.nodes[m].used):
            if g.topology_on_node[m, i] == t:
                tps += with_worker(g, e, g.on_node[m, i])
    return tps


@jit
def with_rack(g: Space, e: int, rack: int) -> float:
    """Traffic of e with executors in a rack, tuples/s."""
    if g.rack_table.size:
        return float(g.rack_table[e, rack])
    tps = 0.0
    for j in range(g.xadj[e], g.xadj[e + 1]):
        if g.nodes[g.workers[g.executors[g.edges[j].to].worker].node].rack == rack:
            tps += g.edges[j].tps
    return tps


@jit
def between(g: Space, e: int, f: int) -> float:
    """Traffic between e and f, tuples/s; neighbours stand in rising order."""
    low, high = g.xadj[e], g.xadj[e + 1]
    while low < high:
        middle = (low + high) >> 1
        if g.edges[middle].to < f:
            low = middle + 1
        else:
            high = middle
    if low < g.xadj[e + 1] and g.edges[low].to == f:
        return float(g.edges[low].tps)
    return 0.0


@jit
def shift_traffic(g: Space, e: int, a: int, b: int, n: int) -> float:
    """Change of traffic x distance if e went from worker a to worker b (-1: a new one) on node n."""
    m = g.workers[a].node
    near = g.distance[0]
    traffic = near * with_worker(g, e, a)
    if b != NOWHERE:
        traffic -= near * with_worker(g, e, b)
    if g.nodes[m].host != g.nodes[n].host:
        traffic += (g.distance[1] - near) * (with_host(g, e, m) - with_host(g, e, n))
        p, q = g.nodes[m].rack, g.nodes[n].rack
        if p != q and g.distance[1] != g.distance[2]:
            traffic += (g.distance[2] - g.distance[1]) * (with_rack(g, e, p) - with_rack(g, e, q))
    return float(traffic)


@jit
def reconnect(g: Space, e: int, a: int, b: int) -> None:
    """Executor e goes from worker a to worker b: what its neighbours exchange with these two changes."""
    t = g.executors[e].topology
    table = g.topologies[t].table
    if table >= 0:
        width = g.topologies[t].end - g.topologies[t].first
        table -= g.topologies[t].first_executor * width + g.topologies[t].first
        for j in range(g.xadj[e], g.xadj[e + 1]):
            row = table + g.edges[j].to * width
            tps = g.edges[j].tps
            g.table[row + a] -= tps
            g.table[row + b] += tps
    rerack(g, e, g.nodes[g.workers[a].node].rack, g.nodes[g.workers[b].node].rack)


@jit
def rerack(g: Space, e: int, p: int, q: int) -> None:
    """Executor e goes from rack p to rack q."""
    if g.rack_table.size and p != q:
        for j in range(g.xadj[e], g.xadj[e + 1]):
            g.rack_table[g.edges[j].to, p] -= g.edges[j].tps
            g.rack_table[g.edges[j].to, q] += g.edges[j].tps


@jit
def connect(g: Space) -> None:
    """Work out the tables anew."""
    for i in range(len(g.table)):
        g.table[i] = 0.0
    racks = g.rack_table.size > 0
    if racks:
        g.rack_table[:, :] = 0.0
    elif not len(g.table):
        return
    for e in range(len(g.executors)):
        t = g.executors[e].topology
        table = g.topologies[t].table
        width = g.topologies[t].end - g.topologies[t].first
        row = table + (e - g.topologies[t].first_executor) * width - g.topologies[t].first
        for j in range(g.xadj[e], g.xadj[e + 1]):
            w = g.executors[g.edges[j].to].worker
            if table >= 0:
                g.table[row + w] += g.edges[j].tps
            if racks:
                g.rack_table[e, g.nodes[g.workers[w].node].rack] += g.edges[j].tps


@jit
def distance_of(g: Space, a: int, b: int) -> float:
    """Distance between two workers."""
    return 0.0 if a == b else node_distance(g, g.workers[a].node, g.workers[b].node)
