"""The search's space at its start: a layout with all that moves need to know, worked out from nothing."""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.model.jit import jit
from stormpilot.planner.search.connections import connect, distance_of
from stormpilot.planner.search.sharing import measure_sharing
from stormpilot.planner.search.state import Space, is_restarted, violation_at


def space(template: Space, worker: Ints, node: Ints, seed: int) -> Space:
    """A search space for a complete layout whose workers all fit in their nodes' slots; `template` is not changed."""
    g = template._replace(
        executors=template.executors.copy(),
        workers=template.workers.copy(),
        nodes=template.nodes.copy(),
        topologies=template.topologies.copy(),
        box=template.box.copy(),
        table=np.empty_like(template.table),
        rack_table=np.empty_like(template.rack_table),
        on_node=np.full_like(template.on_node, NOWHERE),
        topology_on_node=np.full_like(template.topology_on_node, NOWHERE),
        piece=np.zeros_like(template.piece),
        other_piece=np.zeros_like(template.other_piece),
        changed=np.zeros_like(template.changed),
        worker_heap=np.zeros_like(template.worker_heap),
        of_kind=np.zeros_like(template.of_kind),
        taken=np.zeros_like(template.taken),
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
        g.topology_on_node[n, place] = g.workers["topology"][w]
        g.workers["place"][w] = place
        g.nodes["used"][n] = place + 1
    g.topologies["used_workers"] = np.bincount(g.workers["topology"][used], minlength=len(g.topologies))
    g.box["random"] = seed
    g.box["stamp"] = 1
    measure(g)
    connect(g)
    return g


@jit
def measure(g: Space) -> None:
    """Work out loads and totals anew."""
    traffic = 0.0
    g.box[0].violation = 0.0
    g.box[0].overloaded = 0
    g.box[0].forbidden = 0
    g.box[0].restarted = 0.0
    for n in range(len(g.nodes)):
        g.nodes[n].load = 0.0
        g.nodes[n].memory = 0.0
    for w in range(len(g.workers)):
        g.workers[w].cpu = 0.0
        g.workers[w].memory = 0.0
    for e in range(len(g.executors)):
        a = g.executors[e].worker
        n = g.workers[a].node
        g.workers[a].cpu += g.executors[e].cpu
        g.workers[a].memory += g.executors[e].memory
        g.nodes[n].load += g.executors[e].cpu
        g.nodes[n].memory += g.executors[e].memory
        if not g.workers[a].fixed and not g.allowed[g.executors[e].klass, n]:
            g.box[0].forbidden += 1
        for j in range(g.xadj[e], g.xadj[e + 1]):
            f = g.edges[j].to
            if f > e:
                traffic += g.edges[j].tps * distance_of(g, a, g.executors[f].worker)
    for n in range(len(g.nodes)):
        over = violation_at(g, n, g.nodes[n].load, g.nodes[n].memory)
        g.nodes[n].over = over
        g.box[0].violation += over
        g.box[0].overloaded += int(over > 0.0)
    for w in range(len(g.workers)):
        g.box[0].restarted += int(is_restarted(g, w))
    if g.box[0].sharing:
        measure_sharing(g)
    g.box[0].traffic = traffic
