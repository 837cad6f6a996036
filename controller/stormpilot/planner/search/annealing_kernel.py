"""Local search over layouts: one stretch of annealing, compiled with numba.

The cost of a layout is

    traffic x distance + restart cost x restarted workers + price x violation + charge x overloaded nodes

where distances are those between workers (same worker 0, same node, same rack, other rack), a worker counts as
restarted when its executors or its node are not those of the present worker of its number, and violation is the CPU
(MHz) above the nodes' limits plus memory and forbidden nodes in the same unit. Slots, the number of workers, the
executors that a worker may hold and fixed workers are never broken by a move. `annealing.py` sets temperature, price
and charge.

Moves: shift an executor, exchange executors of two nodes, where rules say who may share a worker also between workers
of one node (`moves.py`); shift or exchange connected pieces, move or exchange whole workers, merge two workers,
exchange all that two nodes hold (`pieces.py`). The state is in `state.py`, what executors
exchange with workers in `connections.py`, the choice of a move in `proposals.py`.
"""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE, Floats, Ints
from stormpilot.model.jit import jit
from stormpilot.planner.search.moves import try_inside, try_shift, try_swap
from stormpilot.planner.search.pieces import try_exchange_nodes, try_merge, try_piece, try_relocate
from stormpilot.planner.search.proposals import someone_on, target_node
from stormpilot.planner.search.state import Space, chance, chance_below

WINDOW, AT_ONE_PLACE = 512, 1024  # so many tries among so many executors, whose part of the tables is then at hand
PIECE = 64  # executors in a connected piece, at most
SHIFTS, SWAPS, PIECES, RELOCATIONS, MERGES = 0.45, 0.85, 0.95, 0.98, 0.99  # parts of all tries, added up


@jit
def run(
    g: Space,
    tries: int,
    temperature: float,
    price: float,
    charge: float,
    best_worker: Ints,
    best_node: Ints,
    best: Floats,
) -> int:
    """Try `tries` moves at one temperature; accepted moves.

    Every layout without violation that is cheaper than `best[0]` (traffic x distance + restart cost) is noted in
    `best_worker`, `best_node`.
    """
    accepted = 0
    if len(g.movable) == 0:
        return 0
    window = min(len(g.movable), WINDOW)
    first = 0
    for i in range(tries):
        if i % AT_ONE_PLACE == 0:
            first = chance_below(g, len(g.movable))
        e = g.movable[(first + chance_below(g, window)) % len(g.movable)]
        kind = chance(g)
        done = False
        if kind < PIECES:
            n = target_node(g, e)
            if n != NOWHERE:
                if kind < SWAPS:
                    swap = kind >= SHIFTS
                    if not swap and g.nodes[n].load + g.executors[e].cpu > g.nodes[n].limit:
                        swap = chance(g) < 0.5
                    if swap:
                        f = someone_on(g, n)
                        done = f != NOWHERE and try_swap(g, e, f, temperature, price, charge)
                    else:
                        done = try_shift(g, e, n, temperature, price, charge)
                else:
                    most = 2
                    while most < PIECE and chance(g) < 0.75:
                        most += 1 + most // 4
                    done = try_piece(g, e, n, most, chance(g) < 0.6, temperature, price, charge)
            elif g.box[0].sharing:
                done = try_inside(g, e, temperature, price, charge)
        else:
            done = _try_worker(g, e, kind, temperature, price, charge)
        if done:
            accepted += 1
            if g.box[0].overloaded == 0 and g.box[0].forbidden == 0:
                _keep(g, best_worker, best_node, best)
    return accepted


@jit
def _try_worker(g: Space, e: int, kind: float, temperature: float, price: float, charge: float) -> bool:
    """A move of the worker that e is in, or of all on its node."""
    a = g.executors[e].worker
    if kind < RELOCATIONS:
        n = chance_below(g, len(g.nodes))
        if n == g.workers[a].node:
            return False
        return try_relocate(g, a, n, chance(g) < 0.5, temperature, price, charge)
    if kind < MERGES:
        t = g.executors[e].topology
        if chance(g) * (8 + g.workers[a].size) >= 16.0:
            return False  # costs its size: tried the less, the larger
        b = g.topologies[t].first + chance_below(g, g.topologies[t].end - g.topologies[t].first)
        if b == a or g.workers[b].node == NOWHERE or g.workers[b].fixed:
            return False
        return try_merge(g, a, b, temperature, price, charge)
    n = chance_below(g, len(g.nodes))
    if n == g.workers[a].node:
        return False
    return try_exchange_nodes(g, g.workers[a].node, n, temperature, price, charge)


@jit
def run_inside(g: Space, tries: int, temperature: float, best_worker: Ints, best_node: Ints, best: Floats) -> int:
    """Try moves between workers of one topology on one node, where several are in use; accepted moves."""
    accepted = 0
    if len(g.movable) == 0:
        return 0
    for _ in range(tries):
        e = g.movable[chance_below(g, len(g.movable))]
        if try_inside(g, e, temperature, 0.0, 0.0):
            accepted += 1
            if g.box[0].overloaded == 0 and g.box[0].forbidden == 0:
                _keep(g, best_worker, best_node, best)
    return accepted


@jit
def _keep(g: Space, best_worker: Ints, best_node: Ints, best: Floats) -> None:
    """Note a layout that is cheaper than the best one: only what changed since then is copied."""
    cost = g.box[0].traffic + g.box[0].restart_cost * g.box[0].restarted
    if cost < best[0] - 1e-9 * (1.0 + abs(best[0])):
        best[0] = cost
        note(g, best_worker, best_node)


@jit
def note(g: Space, best_worker: Ints, best_node: Ints) -> None:
    """Bring a copy of the layout up to date."""
    for i in range(g.box[0].changed):
        e = g.changed[i]
        g.executors[e].changed = 0
        best_worker[e] = g.executors[e].worker
    g.box[0].changed = 0
    if g.box[0].reseated:
        g.box[0].reseated = 0
        for w in range(len(best_node)):
            best_node[w] = g.workers[w].node
