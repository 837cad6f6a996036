"""The moves of more than one executor: connected pieces, whole workers, all that two nodes hold."""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.model.jit import jit
from stormpilot.planner.search.apply import come_to_node, leave_node, move_executor, restarts_if
from stormpilot.planner.search.connections import distance_of, shift_traffic, with_host, with_rack, with_worker
from stormpilot.planner.search.moves import accepts, is_forbidden, lets_go
from stormpilot.planner.search.proposals import NONE, ZERO, fill_around, fill_with_worker, someone_on
from stormpilot.planner.search.sharing import (
    alone,
    heap_of,
    room_for_exchange,
    room_for_piece,
    room_for_worker,
    takes_heap,
)
from stormpilot.planner.search.state import (
    Space,
    chance,
    chance_below,
    charge_of,
    close_if_empty,
    idle_worker,
    may_open,
    node_distance,
    open_worker,
    worker_on,
)


@jit
def _traffic(g: Space, piece: Ints, k: int, a: int, b: int, n: int, inner: float) -> float:
    """Change of traffic x distance if the first k of a piece went from worker a to b (-1: a new one) on node n."""
    traffic = 0.0
    for i in range(k):
        traffic += shift_traffic(g, piece[i], a, b, n)
    return float(traffic - 2.0 * inner * node_distance(g, g.workers[a].node, n))


@jit
def _contents(g: Space, piece: Ints, k: int, m: int, n: int) -> tuple[float, float, int]:
    """CPU and memory of the first k of a piece, and how many fewer are forbidden on n than on m; -1: some more."""
    cpu = 0.0
    memory = 0.0
    forbidden = 0
    for i in range(k):
        e = piece[i]
        cpu += g.executors[e].cpu
        memory += g.executors[e].memory
        if g.box[0].restricted:
            if is_forbidden(g, e, n):
                return cpu, memory, NOWHERE
            forbidden += int(is_forbidden(g, e, m))
    return cpu, memory, forbidden


@jit
def _away(g: Space, piece: Ints, k: int, w: int) -> int:
    """Number of additional executors away from worker w if the first k of a piece come to it."""
    away = 0
    for i in range(k):
        away += -1 if g.executors[piece[i]].home == w else 1
    return away


@jit
def try_piece(
    g: Space, e: int, n: int, most: int, exchange: bool, temperature: float, price: float, charge: float
) -> bool:
    """Move a connected piece around e to node n; with `exchange`, one of about the same CPU comes back.

    Where there are rules on workers, two of one topology exchange their pieces, however full they are.
    """
    a = g.executors[e].worker
    t = g.executors[e].topology
    m = g.workers[a].node
    if alone(g, t):
        return False
    g.box[0].stamp += 1
    k = fill_around(g, g.piece, e, most, 1e300, NONE)
    inner = g.box[0].inner
    heap, heap_back = heap_of(g, g.piece, k), 0.0
    f = someone_on(g, n) if exchange and g.box[0].sharing != 0 else NONE
    beside = f != NOWHERE and g.executors[f].topology == t
    b = int(g.executors[f].worker) if beside else worker_on(g, t, n, k, heap, a)
    if (b == NOWHERE and not may_open(g, t, n)) or not lets_go(g, a, k):
        return False
    cpu, memory, forbidden = _contents(g, g.piece, k, m, n)
    if forbidden < 0:
        return False
    traffic = _traffic(g, g.piece, k, a, b, n, inner)
    back = ZERO
    v, c = NONE, NONE  # the piece that comes back goes from v to c
    if exchange:
        if f == NOWHERE:
            f = someone_on(g, n)
        if f == NOWHERE:
            return False
        v = g.executors[f].worker
        u = g.executors[f].topology
        room = max(g.nodes[n].limit - g.nodes[n].load, 0.0)
        g.box[0].stamp += 1
        back = fill_around(g, g.other_piece, f, g.workers[v].size, cpu - room * chance(g), g.box[0].stamp - 1)
        other_inner, cross = g.box[0].inner, g.box[0].cross
        heap_back = heap_of(g, g.other_piece, back)
        c = a if u == t else worker_on(g, u, m, back, heap_back, NONE)
        if (c == NOWHERE and not may_open(g, u, m)) or (v != b and not lets_go(g, v, back)):
            return False
        if c == a and g.workers[a].size - k + back > g.topologies[t].max_executors:
            return False
        if b == v and g.workers[b].size - back + k > g.topologies[t].max_executors:
            return False
        if alone(g, u) or not takes_heap(g, u, c, heap_back - (heap if c == a else 0.0)):
            return False
        cpu_back, memory_back, forbidden_back = _contents(g, g.other_piece, back, n, m)
        if forbidden_back < 0:
            return False
        cpu -= cpu_back
        memory -= memory_back
        forbidden += forbidden_back
        traffic += _traffic(g, g.other_piece, back, v, c, m, other_inner)
        if cross > 0.0:
            there = 0.0 if b == v else node_distance(g, n, n)
            traffic += cross * (2.0 * node_distance(g, m, n) - there)
    if not takes_heap(g, t, b, heap - (heap_back if v == b and v != NOWHERE else 0.0)):
        return False
    if not room_for_piece(g, k, back, m, n):
        return False
    delta = traffic + charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
    delta -= price * g.box[0].mhz_per_forbidden * forbidden
    if g.box[0].restart_cost > 0.0:
        delta += g.box[0].restart_cost * _piece_restarts(g, k, a, b, n, back, v, c, m)
    if not accepts(g, delta, temperature):
        return False
    if b == NOWHERE:
        b = open_worker(g, t, n)
    if back and c == NOWHERE:
        c = open_worker(g, g.workers[v].topology, m)
    for i in range(k):
        move_executor(g, g.piece[i], b)
    for i in range(back):
        move_executor(g, g.other_piece[i], c)
    close_if_empty(g, a)
    if back:
        close_if_empty(g, v)
    g.box[0].traffic += traffic
    return True


@jit
def _piece_restarts(g: Space, k: int, a: int, b: int, n: int, back: int, v: int, c: int, m: int) -> int:
    """Change of the workers that restart if the piece goes from a to b on n and the other one from v to c on m."""
    if b == NOWHERE:
        b = idle_worker(g, g.workers[a].topology, n)
    if back and c == NOWHERE:
        c = idle_worker(g, g.workers[v].topology, m)
    more_a, away_a = -k, -_away(g, g.piece, k, a)
    more_b, away_b = k, _away(g, g.piece, k, b)
    restarts = 0
    if back:
        if c == a:
            more_a += back
            away_a += _away(g, g.other_piece, back, a)
        else:
            restarts += restarts_if(g, c, m, back, _away(g, g.other_piece, back, c))
        if v == b:
            more_b -= back
            away_b -= _away(g, g.other_piece, back, b)
        else:
            restarts += restarts_if(g, v, n, -back, -_away(g, g.other_piece, back, v))
    return restarts + restarts_if(g, a, m, more_a, away_a) + restarts_if(g, b, n, more_b, away_b)


@jit
def try_merge(g: Space, a: int, b: int, temperature: float, price: float, charge: float) -> bool:
    """Move all executors of worker a to worker b of its topology, elsewhere or on the same node."""
    t = g.workers[a].topology
    m, n = g.workers[a].node, g.workers[b].node
    k = g.workers[a].size
    if not lets_go(g, a, k) or g.workers[b].size + k > g.topologies[t].max_executors:
        return False
    if alone(g, t) or not takes_heap(g, t, b, g.worker_heap[a]):
        return False
    if m != n and not room_for_worker(g, a, NONE, m, n):
        return False
    g.box[0].stamp += 1
    fill_with_worker(g, a)
    cpu, memory, forbidden = _contents(g, g.piece, k, m, n)
    if forbidden < 0:
        return False
    inner = g.box[0].inner
    traffic = -2.0 * inner * distance_of(g, a, b)
    for i in range(k):
        traffic += shift_traffic(g, g.piece[i], a, b, n)
    delta = traffic
    if m != n:
        delta += charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
        delta -= price * g.box[0].mhz_per_forbidden * forbidden
    if g.box[0].restart_cost > 0.0:
        delta += g.box[0].restart_cost * _piece_restarts(g, k, a, b, n, ZERO, NONE, NONE, m)
    if not accepts(g, delta, temperature):
        return False
    for i in range(k):
        move_executor(g, g.piece[i], b)
    close_if_empty(g, a)
    g.box[0].traffic += traffic
    return True


@jit
def _relocation(g: Space, w: int, n: int) -> float:
    """Change of traffic x distance if worker w as a whole went to node n."""
    m = g.workers[w].node
    if g.nodes[m].host == g.nodes[n].host:
        return 0.0
    racks = g.nodes[m].rack != g.nodes[n].rack and g.distance[1] != g.distance[2]
    t = g.workers[w].topology
    if not racks and not _has_company(g, t, m, w) and not _has_company(g, t, n, w):
        return 0.0
    traffic = 0.0
    e = g.workers[w].head
    for _ in range(g.workers[w].size):
        own = with_worker(g, e, w)
        traffic += (g.distance[1] - g.distance[0]) * (with_host(g, e, m) - own - with_host(g, e, n))
        if racks:
            rack = with_rack(g, e, g.nodes[m].rack) - own - with_rack(g, e, g.nodes[n].rack)
            traffic += (g.distance[2] - g.distance[1]) * rack
        e = g.executors[e].after
    return float(traffic)


@jit
def _has_company(g: Space, t: int, n: int, w: int) -> bool:
    """Whether the host of node n has a worker of topology t beside w."""
    for m in range(g.nodes[n].first_of_host, g.nodes[n].end_of_host):
        for i in range(g.nodes[m].used):
            if g.topology_on_node[m, i] == t and g.on_node[m, i] != w:
                return True
    return False


@jit
def _exchanged(g: Space, w: int, v: int) -> float:
    """Traffic between workers w and v of one topology, tuples/s."""
    tps = 0.0
    e = g.workers[w].head
    for _ in range(g.workers[w].size):
        tps += with_worker(g, e, v)
        e = g.executors[e].after
    return tps


@jit
def _bars(g: Space, w: int, m: int, n: int) -> int:
    """Decrease of the forbidden executors of worker w from node m to node n; -1: an increase."""
    forbidden = 0
    if g.box[0].restricted:
        e = g.workers[w].head
        for _ in range(g.workers[w].size):
            if is_forbidden(g, e, n):
                return NOWHERE
            forbidden += int(is_forbidden(g, e, m))
            e = g.executors[e].after
    return forbidden


@jit
def _worth_it(g: Space, delta: float) -> bool:
    """Whether whole workers may move at this change of cost."""
    return bool(not g.box[0].seated or delta < -1e-9 * g.box[0].traffic)


@jit
def try_relocate(g: Space, w: int, n: int, exchange: bool, temperature: float, price: float, charge: float) -> bool:
    """Move worker w to node n; with `exchange`, or where n has no free slot, a worker of n comes back."""
    m = g.workers[w].node
    v = NONE
    if exchange or g.nodes[n].used >= g.nodes[n].slots:
        if g.nodes[n].used == 0:
            return False
        v = g.on_node[n, chance_below(g, g.nodes[n].used)]
        if g.workers[v].fixed:
            return False
    if not room_for_worker(g, w, v, m, n):
        return False
    forbidden = _bars(g, w, m, n)
    if forbidden < 0:
        return False
    cpu, memory = g.workers[w].cpu, g.workers[w].memory
    traffic = _relocation(g, w, n)
    if v != NOWHERE:
        back = _bars(g, v, n, m)
        if back < 0:
            return False
        forbidden += back
        cpu -= g.workers[v].cpu
        memory -= g.workers[v].memory
        traffic += _relocation(g, v, m)
        if g.workers[v].topology == g.workers[w].topology:
            traffic += 2.0 * _exchanged(g, w, v) * (node_distance(g, m, n) - g.distance[0])
    delta = traffic + charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
    delta -= price * g.box[0].mhz_per_forbidden * forbidden
    if g.box[0].restart_cost > 0.0:
        restarts = restarts_if(g, w, n, ZERO, ZERO)
        if v != NOWHERE:
            restarts += restarts_if(g, v, m, ZERO, ZERO)
        delta += g.box[0].restart_cost * restarts
    if not _worth_it(g, delta) or not accepts(g, delta, temperature):
        return False
    leave_node(g, w)
    if v != NOWHERE:
        leave_node(g, v)
        come_to_node(g, v, n, m)
    come_to_node(g, w, m, n)
    g.box[0].traffic += traffic
    return True


@jit
def try_exchange_nodes(g: Space, m: int, n: int, temperature: float, price: float, charge: float) -> bool:
    """Exchange all that nodes m and n hold, where that changes no traffic: alone on their hosts, in one rack."""
    if g.nodes[m].used > g.nodes[n].slots or g.nodes[n].used > g.nodes[m].slots:
        return False
    if g.nodes[m].rack != g.nodes[n].rack and g.distance[1] != g.distance[2]:
        return False
    if g.nodes[m].end_of_host - g.nodes[m].first_of_host > 1 or g.nodes[n].end_of_host - g.nodes[n].first_of_host > 1:
        return False
    if not room_for_exchange(g, m, n):
        return False
    forbidden = 0
    restarts = 0
    for side in range(2):
        here, there = (m, n) if side == 0 else (n, m)
        for i in range(g.nodes[here].used):
            w = g.on_node[here, i]
            bars = NOWHERE if g.workers[w].fixed else _bars(g, w, here, there)
            if bars < 0:
                return False
            forbidden += bars
            restarts += restarts_if(g, w, there, ZERO, ZERO)
    cpu, memory = g.nodes[m].load - g.nodes[n].load, g.nodes[m].memory - g.nodes[n].memory
    delta = charge_of(g, n, cpu, memory, price, charge) + charge_of(g, m, -cpu, -memory, price, charge)
    delta += g.box[0].restart_cost * restarts - price * g.box[0].mhz_per_forbidden * forbidden
    if not _worth_it(g, delta) or not accepts(g, delta, temperature):
        return False
    k = 0
    first = 0
    for here in (m, n):
        while g.nodes[here].used:
            g.piece[k] = g.on_node[here, 0]
            leave_node(g, g.piece[k])
            k += 1
        if here == m:
            first = k
    for i in range(k):
        if i < first:
            come_to_node(g, g.piece[i], m, n)
        else:
            come_to_node(g, g.piece[i], n, m)
    return True
