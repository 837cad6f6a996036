"""The loops of the flow model, compiled: what every executor receives under a placement, and how far it comes.

The arrays are in `arrays.py`, shuffles in `scope.py` (docs/decisions/0007-flow.md).
"""

from __future__ import annotations

from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.flow.arrays import (
    ALL,
    EVEN,
    FOLLOWS,
    HOSTS,
    KEYED,
    LOCAL_EVEN,
    LOCAL_SCOPED,
    NOTHING,
    OWN,
    POOLED,
    RACKS,
    SCOPED,
    WORKERS,
    Flows,
    Scratch,
    emit,
    sent_into,
)
from stormpilot.model.flow.scope import by_scope, want
from stormpilot.model.jit import jit

PASSES = 100  # over the components of a topology in which streams go in circles
SETTLED = 1e-9  # of the traffic: change at which such a topology counts as settled


@jit
def follow(
    f: Flows, t: int, place: Ints, node_of: Ints, received: Floats, cpu: Floats, totals: Floats, s: Scratch
) -> None:
    """Traffic and CPU of topology `t` under a placement (E places, node of every place).

    Sets what each of its executors receives (tuples/s) and uses (MHz), and `totals` (TOTALS).
    """
    lo, hi = f.first_component[t], f.first_component[t + 1]
    for i in range(lo, hi):
        c = f.order[i]
        s.parts[c] = 1.0
        for m in range(f.first_member[c], f.first_member[c + 1]):
            e = f.members[m]
            received[e] = f.received_tps[e]
    for _ in range(PASSES):
        totals[:] = 0.0
        change = 0.0
        if s.emitted[0] > 0:
            s.emitted[0] = 0
            if len(s.sums) > 0:
                for i in range(lo, hi):
                    for m in range(f.first_member[f.order[i]], f.first_member[f.order[i] + 1]):
                        s.sums[f.members[m], :] = 0.0
        for i in range(lo, hi):
            change += _receive(f, t, f.order[i], place, node_of, received, totals, s)
        if not f.cyclic[t] or change <= SETTLED * (totals[ALL] + NOTHING):
            break
    for i in range(lo, hi):
        c = f.order[i]
        for m in range(f.first_member[c], f.first_member[c + 1]):
            e = f.members[m]
            cpu[e] = cpu_of(f, c, e, received[e])


@jit
def cpu_of(f: Flows, c: int, e: int, tps: float) -> float:
    """MHz that executor e of component c uses when it receives so much."""
    if f.cpu_rule[c] == FOLLOWS:
        return float(f.base_mhz[c] + f.cost_mhz[c] * tps)
    if f.cpu_rule[c] == OWN:
        return float(max(f.cpu_mhz[e] + f.cost_mhz[c] * (tps - f.received_tps[e]), 0.0))
    return float(f.cpu_mhz[e])


@jit
def _receive(
    f: Flows, t: int, c: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch
) -> float:
    """Work out what the executors of component c of topology t receive; returns by how much that changed (tuples/s).

    Where streams go in circles all of them together receive as much as measured: who sends more tuples than others for
    each that he gets would else multiply them round by round.
    """
    everything, workers, hosts, racks = totals[ALL], totals[WORKERS], totals[HOSTS], totals[RACKS]
    edges = s.emitted[0]
    s.scale[0] = s.parts[c] if f.cyclic[t] else 1.0
    for g in range(f.first_group[c], f.first_group[c + 1]):
        if f.group_rule[g] == KEYED:
            by_keys(f, g, place, node_of, received, totals, s)
    split(f, c, place, node_of, received, totals, s)
    part = 1.0
    if f.cyclic[t]:
        part = _part_of_measured(f, c, s)
        totals[ALL] = everything + part * (totals[ALL] - everything)
        totals[WORKERS] = workers + part * (totals[WORKERS] - workers)
        totals[HOSTS] = hosts + part * (totals[HOSTS] - hosts)
        totals[RACKS] = racks + part * (totals[RACKS] - racks)
        for i in range(edges, min(s.emitted[0], len(s.out_tps))):
            s.out_tps[i] *= part
    change = 0.0
    if len(s.sums) > 0:  # those of this pass were counted with the part of the pass before
        change += abs(part - s.parts[c]) * totals[ALL]
        s.parts[c] = part
    for m in range(f.first_member[c], f.first_member[c + 1]):
        e = f.members[m]
        s.new_tps[e] *= part
        change += abs(s.new_tps[e] - received[e])
        received[e] = s.new_tps[e]
        s.new_tps[e] = 0.0
    return change


@jit
def _part_of_measured(f: Flows, c: int, s: Scratch) -> float:
    """Measured tuples/s that the executors of component c receive, as a part of those predicted; 1 where none do."""
    measured, now = 0.0, 0.0
    for m in range(f.first_member[c], f.first_member[c + 1]):
        measured += f.received_tps[f.members[m]]
        now += s.new_tps[f.members[m]]
    return measured / now if measured > 0.0 and now > 0.0 else 1.0


@jit
def split(f: Flows, c: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch) -> None:
    """Add what component c receives other than by key, after that, to `totals` and to `new_tps` of its executors."""
    scoped = 0
    for g in range(f.first_group[c], f.first_group[c + 1]):
        rule = f.group_rule[g]
        if rule in (POOLED, EVEN):
            _by_weight(f, g, c, place, node_of, received, totals, s, False)
        elif rule in (LOCAL_SCOPED, LOCAL_EVEN):
            _local(f, g, c, place, received, totals, s)
            if rule == LOCAL_EVEN:
                _by_weight(f, g, c, place, node_of, received, totals, s, True)
            else:
                scoped = want(f, g, c, place, received, s, scoped, True)
        elif rule == SCOPED:
            scoped = want(f, g, c, place, received, s, scoped, False)
    if scoped > 0:
        by_scope(f, c, scoped, place, node_of, received, totals, s)


@jit
def by_keys(f: Flows, g: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch) -> None:
    """Add what group g (KEYED) sends, edge by edge."""
    c = f.group_source[g]
    for j in range(f.first_edge[g], f.first_edge[g + 1]):
        a, b = f.edge_from[j], f.edge_to[j]
        tps = f.edge_tps[j]
        if f.driven[c] and f.received_tps[a] > 0.0:
            tps *= received[a] / f.received_tps[a]
        s.new_tps[b] += tps
        totals[ALL] += tps
        if place[a] != place[b]:
            totals[WORKERS] += tps
            na, nb = node_of[place[a]], node_of[place[b]]
            if f.node_host[na] != f.node_host[nb]:
                totals[HOSTS] += tps
                if f.node_rack[na] != f.node_rack[nb]:
                    totals[RACKS] += tps
        if s.emitted[0] >= 0:
            emit(s, a, b, tps)


@jit
def _by_weight(
    f: Flows,
    g: int,
    c: int,
    place: Ints,
    node_of: Ints,
    received: Floats,
    totals: Floats,
    s: Scratch,
    without_local: bool,
) -> None:
    """Every source splits alike over all targets, by weight; `without_local`: only sources with no target in reach."""
    first, end = f.first_member[c], f.first_member[c + 1]
    offset = f.group_weight[g]
    total = 0.0
    for m in range(first, end):
        p = place[f.members[m]]
        n = node_of[p]
        w = f.weight[offset + m - first]
        total += w
        s.near[p] += w
        s.near_host[f.node_host[n]] += w
        s.near_rack[f.node_rack[n]] += w
    source = f.group_source[g]
    sent = 0.0
    for i in range(f.first_member[source + 1] - f.first_member[source]):
        e = f.members[f.first_member[source] + i]
        p = place[e]
        if total <= 0.0 or (without_local and s.near[p] > 0.0):
            continue
        tps = sent_into(f, g, i, e, received)
        n = node_of[p]
        sent += tps
        totals[WORKERS] += tps * (1.0 - s.near[p] / total)
        totals[HOSTS] += tps * (1.0 - s.near_host[f.node_host[n]] / total)
        totals[RACKS] += tps * (1.0 - s.near_rack[f.node_rack[n]] / total)
        if s.emitted[0] >= 0 and tps > 0.0:
            for m in range(first, end):
                if f.weight[offset + m - first] > 0.0:
                    emit(s, e, f.members[m], tps * f.weight[offset + m - first] / total)
    totals[ALL] += sent
    for m in range(first, end):
        e = f.members[m]
        p = place[e]
        n = node_of[p]
        if sent > 0.0:
            s.new_tps[e] += sent * f.weight[offset + m - first] / total
        s.near[p] = 0.0
        s.near_host[f.node_host[n]] = 0.0
        s.near_rack[f.node_rack[n]] = 0.0


@jit
def _local(f: Flows, g: int, c: int, place: Ints, received: Floats, totals: Floats, s: Scratch) -> None:
    """Sources with targets in their own worker send there, however loaded those are."""
    first, end = f.first_member[c], f.first_member[c + 1]
    for m in range(first, end):
        e = f.members[m]
        s.near[place[e]] += f.tasks[e]
    source = f.group_source[g]
    for i in range(f.first_member[source + 1] - f.first_member[source]):
        e = f.members[f.first_member[source] + i]
        p = place[e]
        if s.near[p] <= 0.0:
            continue
        tps = sent_into(f, g, i, e, received)
        totals[ALL] += tps
        s.local_tps[p] += tps
        if s.emitted[0] >= 0 and tps > 0.0:
            for m in range(first, end):
                b = f.members[m]
                if place[b] == p:
                    emit(s, e, b, tps * f.tasks[b] / s.near[p])
    for m in range(first, end):
        e = f.members[m]
        s.new_tps[e] += s.local_tps[place[e]] * f.tasks[e] / s.near[place[e]]
    for m in range(first, end):
        s.near[place[f.members[m]]] = 0.0
        s.local_tps[place[f.members[m]]] = 0.0
