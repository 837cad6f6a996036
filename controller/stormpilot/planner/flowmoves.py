"""The moves of the search on flows, compiled: each is tried, judged by the flow model, and kept or undone."""

from __future__ import annotations

import math
from typing import NamedTuple

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.flow_arrays import FULL, HOSTS, RACKS, WORKERS, Flows, Scratch
from stormpilot.model.flow_kernel import follow
from stormpilot.model.jit import jit
from stormpilot.planner.anneal import NO_VIOLATION

OF_TEN = (5, 8, 9)  # of ten tries: shifts, then swaps, then new workers, the rest whole workers

TRAFFIC, VIOLATION, RESTARTED = 0, 1, 2  # in `State.sums`


class Rules(NamedTuple):
    """What the search may not change. Sizes: E executors, W workers, N nodes, T topologies, K classes."""

    topology: Ints  # E
    klass: Ints  # E
    cpu_mhz: Floats  # E, measured
    memory_mb: Floats  # E
    home: Ints  # E: worker now
    movable: Ints  # executors
    first_executor: Ints  # T + 1
    first_worker: Ints  # T + 1
    fixed: Bools  # W
    home_node: Ints  # W
    allowed: Bools  # K x N
    limit_mhz: Floats  # N
    limit_mb: Floats  # N
    slots: Ints  # N
    distance: Floats  # 3: other worker on the node, other node in the rack, other rack
    restart_tps: Floats  # (1,)
    keep_workers: Bools  # (1,): as many workers in use as there are now
    mhz_per_mb: Floats  # (1,)


class State(NamedTuple):
    """A layout, what it costs, and room for the next try."""

    worker: Ints  # E
    node: Ints  # W
    size: Ints  # W
    used: Ints  # N: slots
    cpu: Floats  # E, predicted
    traffic: Floats  # T
    full_mhz: Floats  # T
    restarted: Ints  # T
    sums: Floats  # 3
    predicted_mhz: Floats  # N
    measured_mhz: Floats
    memory_mb: Floats
    new_cpu: Floats  # E
    received: Floats  # E
    totals: Floats  # flow_arrays.TOTALS
    changed: Ints  # W: 0, and 1 while restarts are counted
    new_predicted_mhz: Floats  # N
    new_measured_mhz: Floats
    new_memory_mb: Floats
    random: Ints  # (1,)


@jit
def measure(f: Flows, r: Rules, s: State, room: Scratch) -> None:
    """Work out everything anew."""
    s.predicted_mhz[:] = 0.0
    s.measured_mhz[:] = 0.0
    s.memory_mb[:] = 0.0
    s.sums[:] = 0.0
    for t in range(len(s.traffic)):
        s.traffic[t], s.restarted[t] = _evaluate(f, r, s, room, t)
        s.full_mhz[t] = s.totals[FULL]
        s.sums[TRAFFIC] += s.traffic[t]
        s.sums[RESTARTED] += s.restarted[t]
        s.sums[VIOLATION] += s.full_mhz[t]
    for e in range(len(s.worker)):
        n = s.node[s.worker[e]]
        s.cpu[e] = s.new_cpu[e]
        s.predicted_mhz[n] += s.cpu[e]
        s.measured_mhz[n] += r.cpu_mhz[e]
        s.memory_mb[n] += r.memory_mb[e]
    for n in range(len(s.predicted_mhz)):
        s.sums[VIOLATION] += _over(r, s.predicted_mhz[n], s.measured_mhz[n], s.memory_mb[n], n)


@jit
def anneal(
    f: Flows,
    r: Rules,
    s: State,
    room: Scratch,
    tries: int,
    temperature: float,
    price: float,
    best: Floats,
    best_worker: Ints,
    best_node: Ints,
) -> None:
    """Try so many moves at one temperature; `best` (violation, cost) and its layout are kept up to date."""
    if len(r.movable) == 0:
        return
    for _ in range(tries):
        e = r.movable[_random(s, len(r.movable))]
        kind = _random(s, 10)
        if kind < OF_TEN[0]:
            _shift(f, r, s, room, e, temperature, price)
        elif kind < OF_TEN[1]:
            _swap(f, r, s, room, e, temperature, price)
        elif kind < OF_TEN[2]:
            _open(f, r, s, room, e, temperature, price)
        else:
            _seat(f, r, s, room, e, temperature, price)
        cost = s.sums[TRAFFIC] + r.restart_tps[0] * s.sums[RESTARTED]
        feasible = s.sums[VIOLATION] <= NO_VIOLATION
        if (feasible and (best[0] > NO_VIOLATION or cost < best[1] - 1e-9 * abs(best[1]))) or (
            not feasible and s.sums[VIOLATION] < best[0]
        ):
            best[0] = s.sums[VIOLATION]
            best[1] = cost
            for i in range(len(best_worker)):
                best_worker[i] = s.worker[i]
            for i in range(len(best_node)):
                best_node[i] = s.node[i]


@jit
def _shift(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Move e to the worker of another executor of its topology."""
    t = r.topology[e]
    a = s.worker[e]
    b = s.worker[r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])]
    if a == b or r.fixed[b] or not r.allowed[r.klass[e], s.node[b]] or (s.size[a] == 1 and r.keep_workers[0]):
        return
    old_node = s.node[a]
    _without(r, s, t)
    _move(s, e, b)
    if not _kept(f, r, s, room, t, temperature, price):
        _move_back(s, e, a, old_node)


@jit
def _swap(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Exchange e with another executor of its topology."""
    t = r.topology[e]
    o = r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])
    a, b = s.worker[e], s.worker[o]
    if a == b or r.fixed[a] or r.fixed[b]:
        return
    if not r.allowed[r.klass[e], s.node[b]] or not r.allowed[r.klass[o], s.node[a]]:
        return
    _without(r, s, t)
    s.worker[e], s.worker[o] = b, a
    if not _kept(f, r, s, room, t, temperature, price):
        s.worker[e], s.worker[o] = a, b


@jit
def _open(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Move e to a worker that is not in use, on a node with a free slot."""
    t = r.topology[e]
    a = s.worker[e]
    b = r.first_worker[t] + _random(s, r.first_worker[t + 1] - r.first_worker[t])
    n = _random(s, len(s.used))
    if s.size[b] > 0 or s.size[a] == 1 or s.used[n] >= r.slots[n] or not r.allowed[r.klass[e], n]:
        return
    _without(r, s, t)
    s.node[b] = n
    s.used[n] += 1
    _move(s, e, b)
    if not _kept(f, r, s, room, t, temperature, price):
        _move_back(s, e, a, s.node[a])


@jit
def _seat(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Put the whole worker of e on another node, in exchange for a worker of its topology or into a free slot."""
    t = r.topology[e]
    a = s.worker[e]
    b = s.worker[r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])]
    old = s.node[a]
    if _random(s, 2) == 0 and a != b and not r.fixed[b]:
        n = s.node[b]
        if n == old or not _may(r, s, t, a, n) or not _may(r, s, t, b, old):
            return
        _without(r, s, t)
        s.node[a], s.node[b] = n, old
        if not _kept(f, r, s, room, t, temperature, price):
            s.node[a], s.node[b] = old, n
        return
    n = _random(s, len(s.used))
    if n == old or s.used[n] >= r.slots[n] or not _may(r, s, t, a, n):
        return
    _without(r, s, t)
    s.node[a] = n
    s.used[n] += 1
    s.used[old] -= 1
    if not _kept(f, r, s, room, t, temperature, price):
        s.node[a] = old
        s.used[n] -= 1
        s.used[old] += 1


@jit
def _kept(f: Flows, r: Rules, s: State, room: Scratch, t: int, temperature: float, price: float) -> bool:
    """Whether what is in `worker` and `node` now is kept; if so, the sums follow. `_without` came before the move."""
    traffic, restarted = _evaluate(f, r, s, room, t)
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        n = s.node[s.worker[e]]
        s.new_predicted_mhz[n] += s.new_cpu[e]
        s.new_measured_mhz[n] += r.cpu_mhz[e]
        s.new_memory_mb[n] += r.memory_mb[e]
    violation = s.totals[FULL] - s.full_mhz[t]
    for other in range(len(s.full_mhz)):
        violation += s.full_mhz[other]
    for n in range(len(s.used)):
        violation += _over(r, s.new_predicted_mhz[n], s.new_measured_mhz[n], s.new_memory_mb[n], n)
    delta = traffic - s.traffic[t] + r.restart_tps[0] * (restarted - s.restarted[t])
    delta += price * (violation - s.sums[VIOLATION])
    if delta > 0.0:
        if temperature <= 0.0:
            return False
        draw = (_random(s, 1 << 53) + 0.5) / float(1 << 53)
        if draw >= math.exp(-delta / temperature):
            return False
    s.sums[TRAFFIC] += traffic - s.traffic[t]
    s.sums[RESTARTED] += restarted - s.restarted[t]
    s.sums[VIOLATION] = violation
    s.traffic[t] = traffic
    s.full_mhz[t] = s.totals[FULL]
    s.restarted[t] = restarted
    for n in range(len(s.used)):
        s.predicted_mhz[n] = s.new_predicted_mhz[n]
        s.measured_mhz[n] = s.new_measured_mhz[n]
        s.memory_mb[n] = s.new_memory_mb[n]
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        s.cpu[e] = s.new_cpu[e]
    return True


@jit
def _without(r: Rules, s: State, t: int) -> None:
    """Loads of the nodes without topology t, into `new_*`."""
    for n in range(len(s.used)):
        s.new_predicted_mhz[n] = s.predicted_mhz[n]
        s.new_measured_mhz[n] = s.measured_mhz[n]
        s.new_memory_mb[n] = s.memory_mb[n]
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        n = s.node[s.worker[e]]
        s.new_predicted_mhz[n] -= s.cpu[e]
        s.new_measured_mhz[n] -= r.cpu_mhz[e]
        s.new_memory_mb[n] -= r.memory_mb[e]


@jit
def _evaluate(f: Flows, r: Rules, s: State, room: Scratch, t: int) -> tuple[float, int]:
    """Traffic x distance and restarts of topology t as it is in `worker` and `node`; its CPU goes to `new_cpu`."""
    follow(f, t, s.worker, s.node, s.received, s.new_cpu, s.totals, room)
    between = s.totals[WORKERS] - s.totals[HOSTS]
    traffic = r.distance[0] * between + r.distance[1] * (s.totals[HOSTS] - s.totals[RACKS])
    traffic += r.distance[2] * s.totals[RACKS]
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        if s.worker[e] != r.home[e]:
            s.changed[s.worker[e]] = 1
            if r.home[e] >= 0:
                s.changed[r.home[e]] = 1
    restarted = 0
    for w in range(r.first_worker[t], r.first_worker[t + 1]):
        if s.size[w] > 0 and (s.changed[w] == 1 or s.node[w] != r.home_node[w]):
            restarted += 1
        s.changed[w] = 0
    return traffic, restarted


@jit
def _over(r: Rules, predicted: float, measured: float, memory: float, n: int) -> float:
    over = max(predicted - r.limit_mhz[n] * (1.0 + 1e-9), 0.0) + max(measured - r.limit_mhz[n] * (1.0 + 1e-9), 0.0)
    if memory > r.limit_mb[n] * (1.0 + 1e-9):
        over += (memory - r.limit_mb[n]) * r.mhz_per_mb[0]
    return float(over)


@jit
def _may(r: Rules, s: State, t: int, w: int, n: int) -> bool:
    """Whether all executors of worker w may run on node n."""
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        if s.worker[e] == w and not r.allowed[r.klass[e], n]:
            return False
    return True


@jit
def _move(s: State, e: int, b: int) -> None:
    a = s.worker[e]
    s.worker[e] = b
    s.size[a] -= 1
    s.size[b] += 1
    if s.size[a] == 0:
        s.used[s.node[a]] -= 1
        s.node[a] = NOWHERE


@jit
def _move_back(s: State, e: int, a: int, old_node: int) -> None:
    if s.size[a] == 0:
        s.node[a] = old_node
        s.used[old_node] += 1
    _move(s, e, a)


@jit
def _random(s: State, below: int) -> int:
    """A number from 0 to below - 1 (xorshift)."""
    x = s.random[0]
    x ^= x << 13
    x ^= (x >> 7) & 0x1FFFFFFFFFFFFFF
    x ^= x << 17
    s.random[0] = x
    return int((x & 0x7FFFFFFFFFFFFFFF) % below)
