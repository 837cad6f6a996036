"""Local search over layouts: one stretch of annealing, compiled with numba.

The cost of a layout is

    traffic x distance + restart cost x restarted workers + price x violation

where distances are those between workers (same worker 0, same node, same rack, other rack), a worker counts as
restarted when its executors or its node are not those of the present worker of its number, and violation is the CPU
(MHz) above the nodes' limits plus memory and forbidden nodes in the same unit. Slots, the number of workers, the
executors that a worker may hold and fixed workers are never broken by a move. `anneal.py` sets temperature and price.

Moves: shift an executor, exchange executors of two nodes, shift a connected piece of a worker, move a whole worker to
another node, exchange the nodes of two workers, merge a worker into another (algorithms.md, section 10). The books
are in `search_space.py`, the choice of a move in `search_choice.py`, the moves in `search_moves.py`.
"""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE, Floats, Ints
from stormpilot.model.jit import jit
from stormpilot.planner.search.moves import try_piece, try_relocate, try_swap
from stormpilot.planner.search.proposals import ONE, attractive_worker, fill_around, fill_with_worker, target_worker
from stormpilot.planner.search.state import Space, chance, chance_below, close_if_empty

PIECE = 64  # executors in a connected piece, at most
HEAT_BATH = 0.3  # of all tries: an executor to the worker that it would be cheapest in


@jit
def run(
    g: Space,
    tries: int,
    temperature: float,
    price: float,
    inside_nodes: bool,
    best_worker: Ints,
    best_node: Ints,
    best: Floats,
) -> int:
    """Try `tries` moves at one temperature; accepted moves.

    With `inside_nodes`, executors only change workers on their own node. Every layout without violation that is cheaper
    than `best[0]` (traffic x distance + restart cost) is copied to `best_worker`, `best_node`, if these are not empty.
    """
    accepted = 0
    if len(g.movable) == 0:
        return 0
    for _ in range(tries):
        e = g.movable[chance_below(g, len(g.movable))]
        a = g.executors[e].worker
        t = g.executors[e].topology
        kind = chance(g)
        if kind < HEAT_BATH and not inside_nodes:
            b = attractive_worker(g, e, temperature, price)
            if b != NOWHERE:
                g.piece[0] = e
                g.box[0].stamp += 1
                g.executors[e].mark = g.box[0].stamp
                n = g.workers[b].node
                full = g.nodes[n].load + g.executors[e].cpu > g.nodes[n].limit
                if try_piece(g, ONE, b, full and chance(g) < 0.7, temperature, price):
                    accepted += 1
                    _keep(g, best_worker, best_node, best)
            continue
        kind = chance(g)
        near = chance(g) < 0.85
        if kind >= 0.92 and (inside_nodes or chance(g) * (8 + g.workers[a].size) >= 16.0):
            continue  # moves of whole workers cost their size: tried the less, the larger
        if kind >= 0.96:
            degree = g.xadj[e + 1] - g.xadj[e]
            if near and degree:
                n = g.workers[g.executors[g.adj[g.xadj[e] + chance_below(g, degree)]].worker].node
            else:
                n = chance_below(g, len(g.nodes))
            done = try_relocate(g, a, n, temperature, price)
        else:
            exchange = False
            if kind >= 0.92:
                k = fill_with_worker(g, a)
            else:
                most = ONE
                if kind >= 0.70:
                    most += 1
                    while most < PIECE and chance(g) < 0.75:
                        most += 1 + most // 4
                    exchange = chance(g) < 0.3
                elif kind >= 0.45:
                    exchange = True
                k = fill_around(g, e, min(most, PIECE))
            if inside_nodes:
                n = g.workers[a].node
                b = g.on_node[n, chance_below(g, g.nodes[n].used)]
                if b == a or g.workers[b].topology != t or g.workers[b].fixed:
                    b = NOWHERE
            else:
                b = target_worker(g, g.piece[chance_below(g, k)], k if not exchange else k - 1, near)
            done = False
            if b != NOWHERE:
                if g.workers[b].size + k <= g.topologies[t].max_executors:
                    done = try_piece(g, k, b, exchange, temperature, price)
                elif k == 1:
                    done = try_swap(g, e, b, temperature, price)
                else:
                    close_if_empty(g, b)
        if done:
            accepted += 1
            _keep(g, best_worker, best_node, best)
    return accepted


@jit
def _keep(g: Space, best_worker: Ints, best_node: Ints, best: Floats) -> None:
    """Copy a layout without violation that is cheaper than the best one, if these arrays are not empty."""
    if len(best_worker) and g.box[0].violation <= 1e-6:
        cost = g.box[0].traffic + g.box[0].restart_cost * g.box[0].restarted
        if cost < best[0] - 1e-9 * (1.0 + abs(best[0])):
            best[0] = cost
            for i in range(len(best_worker)):
                best_worker[i] = g.executors[i].worker
            for i in range(len(best_node)):
                best_node[i] = g.workers[i].node
