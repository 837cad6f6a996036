"""The moves of single executors: each is judged by the tables, and carried out if the temperature accepts it."""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.planner.search.apply import move_executor, restarts_if
from stormpilot.planner.search.connections import between, shift_traffic
from stormpilot.planner.search.proposals import NONE, ONE, ZERO, someone_on
from stormpilot.planner.search.sharing import breaks, may_join, mends
from stormpilot.planner.search.state import (
    Space,
    chance,
    charge_of,
    close_if_empty,
    idle_worker,
    may_open,
    node_distance,
    open_worker,
)


@jit
def accepts(g: Space, delta: float, temperature: float) -> bool:
    """Whether a change of cost is accepted at this temperature."""
    return delta <= 0.0 or (temperature > 0.0 and chance(g) < np.exp(-delta / temperature))


@jit
def is_forbidden(g: Space, e: int, n: int) -> bool:
    """Whether executor e must not run on node n."""
    return g.box[0].restricted != 0 and not g.allowed[g.executors[e].klass, n]


@jit
def lets_go(g: Space, w: int, k: int) -> bool:
    """Whether worker w may lose k executors: not all, where all workers must be used."""
    return g.workers[w].size > k or not g.topologies[g.workers[w].topology].keep_all_workers


@jit
def worker_for(g: Space, e: int, n: int, f: int) -> int:
    """Another worker of e's topology, on node n, that e may join if f leaves n (-1: nobody does); -1: there is none."""
    a = g.executors[e].worker
    t, m = g.executors[e].topology, g.workers[a].node
    for i in range(g.nodes[n].used):
        if g.topology_on_node[n, i] == t:
            w = g.on_node[n, i]
            room = w != a and not g.workers[w].fixed and g.workers[w].size < g.topologies[t].max_executors
            if room and may_join(g, e, w, n, m, f):
                return int(w)
    return NOWHERE


@jit
def try_shift(g: Space, e: int, n: int, temperature: float, price: float, charge: float) -> bool:
    """Move executor e to node n, into the worker of its topology there or a new one."""
    a = g.executors[e].worker
    b = worker_for(g, e, n, NONE)
    if (b == NOWHERE and not may_open(g, g.executors[e].topology, n)) or not lets_go(g, a, ONE):
        return False
    return shift_to(g, e, b, n, temperature, price, charge)


@jit
def shift_to(g: Space, e: int, b: int, n: int, temperature: float, price: float, charge: float) -> bool:
    """Move executor e to worker b on node n, which can take it; -1: a new one."""
    a = g.executors[e].worker
    m = g.workers[a].node
    if is_forbidden(g, e, n) or not may_join(g, e, b, n, m, NONE):
        return False
    traffic = shift_traffic(g, e, a, b, n)
    delta = traffic
    if m != n:
        cpu, memory = g.executors[e].cpu, g.executors[e].memory
        delta += charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
        if is_forbidden(g, e, m):
            delta -= price * g.box[0].mhz_per_forbidden
    if g.box[0].sharing:
        delta -= price * g.box[0].mhz_per_forbidden * mends(g, e, n)
    if g.box[0].restart_cost > 0.0:
        home = g.executors[e].home
        c = idle_worker(g, g.executors[e].topology, n) if b == NOWHERE else b
        restarts = restarts_if(g, a, m, -ONE, ONE if home == a else -ONE) + restarts_if(
            g, c, n, ONE, -ONE if home == c else ONE
        )
        delta += g.box[0].restart_cost * restarts
    if not accepts(g, delta, temperature):
        return False
    if b == NOWHERE:
        b = open_worker(g, g.executors[e].topology, n)
    move_executor(g, e, b)
    close_if_empty(g, a)
    g.box[0].traffic += traffic
    return True


@jit
def try_swap(g: Space, e: int, f: int, temperature: float, price: float, charge: float) -> bool:
    """Exchange the nodes of executors e and f; of one topology, their workers."""
    a, b = g.executors[e].worker, g.executors[f].worker
    m, n = g.workers[a].node, g.workers[b].node
    t, u = g.executors[e].topology, g.executors[f].topology
    if a == b or is_forbidden(g, e, n) or is_forbidden(g, f, m):
        return False
    to_e, to_f = b, a  # where they go
    if t != u:
        if m == n or not lets_go(g, a, ONE) or not lets_go(g, b, ONE):
            return False
        to_e, to_f = worker_for(g, e, n, f), worker_for(g, f, m, e)
        if (to_e == NOWHERE and not may_open(g, t, n)) or (to_f == NOWHERE and not may_open(g, u, m)):
            return False
    if not may_join(g, e, to_e, n, m, f) or not may_join(g, f, to_f, m, n, e):
        return False
    traffic = shift_traffic(g, e, a, to_e, n) + shift_traffic(g, f, b, to_f, m)
    if t == u:
        traffic += 2.0 * between(g, e, f) * node_distance(g, m, n)
    delta = traffic
    if m != n:
        cpu = g.executors[e].cpu - g.executors[f].cpu
        memory = g.executors[e].memory - g.executors[f].memory
        delta += charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
        if g.box[0].restricted:
            forbidden = int(is_forbidden(g, e, m)) + int(is_forbidden(g, f, n))
            delta -= price * g.box[0].mhz_per_forbidden * forbidden
    if g.box[0].sharing:
        delta -= price * g.box[0].mhz_per_forbidden * (mends(g, e, n) + mends(g, f, m))
    if g.box[0].restart_cost > 0.0:
        delta += g.box[0].restart_cost * _restarts(g, e, f, a, b, to_e, to_f)
    if not accepts(g, delta, temperature):
        return False
    if to_e == NOWHERE:
        to_e = open_worker(g, t, n)
    if to_f == NOWHERE:
        to_f = open_worker(g, u, m)
    move_executor(g, e, to_e)
    move_executor(g, f, to_f)
    close_if_empty(g, a)
    close_if_empty(g, b)
    g.box[0].traffic += traffic
    return True


@jit
def _restarts(g: Space, e: int, f: int, a: int, b: int, to_e: int, to_f: int) -> int:
    """Change of the workers that restart if e went from a to `to_e` and f from b to `to_f`."""
    m, n = g.workers[a].node, g.workers[b].node
    home, other = g.executors[e].home, g.executors[f].home
    left_a = ONE if home == a else -ONE
    left_b = ONE if other == b else -ONE
    if to_e == b and to_f == a:
        left_a += -1 if other == a else 1
        left_b += -1 if home == b else 1
        return restarts_if(g, a, m, ZERO, left_a) + restarts_if(g, b, n, ZERO, left_b)
    if to_e == NOWHERE:
        to_e = idle_worker(g, g.executors[e].topology, n)
    if to_f == NOWHERE:
        to_f = idle_worker(g, g.executors[f].topology, m)
    restarts = restarts_if(g, a, m, -ONE, left_a) + restarts_if(g, b, n, -ONE, left_b)
    restarts += restarts_if(g, to_e, n, ONE, -ONE if home == to_e else ONE)
    return restarts + restarts_if(g, to_f, m, ONE, -ONE if other == to_f else ONE)


@jit
def try_inside(g: Space, e: int, temperature: float, price: float, charge: float) -> bool:
    """Move executor e to another worker of its topology on its node, or exchange it with one in there.

    From a worker in which it breaks a rule it may also go to a new one.
    """
    a = g.executors[e].worker
    t, n = g.executors[e].topology, g.workers[a].node
    f = someone_on(g, n)
    b = NONE
    if f != NOWHERE and g.executors[f].topology == t and g.executors[f].worker != a:
        b = g.executors[f].worker
        if chance(g) < 0.5:
            return try_swap(g, e, f, temperature, price, charge)
        if g.workers[b].size >= g.topologies[t].max_executors or not lets_go(g, a, ONE):
            return False
    elif not breaks(g, e) or not may_open(g, t, n):
        return False
    return shift_to(g, e, b, n, temperature, price, charge)
