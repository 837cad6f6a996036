"""The loops of the flow model, compiled: what every executor receives under a placement, and how far it comes.

Source: algorithms.md, section 10 "Traffic follows the placement"; the rule is that of Storm's LoadAwareShuffleGrouping.
Nothing here allocates (`_nrt` off: counting the references of arrays in a named tuple would take most of the time).
A *place* is whatever stands for a worker: a slot number, or a worker number of a layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit

from stormpilot.model.compiled import Bools, Floats, Ints

Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False}

KEYED = 0  # split as measured, each source by itself
POOLED = 1  # split as measured over all sources together, which are alike
EVEN = 2  # evenly over all tasks of the target
SCOPED = 3  # load- and locality-aware: nearest tasks first
LOCAL_SCOPED = 4  # tasks in the own worker or, where there are none, SCOPED
LOCAL_EVEN = 5  # tasks in the own worker or, where there are none, EVEN

KEEPS = 0  # CPU as measured, whatever arrives
FOLLOWS = 1  # base + cost x what arrives: executors of the component are alike
OWN = 2  # as measured + cost x what arrives more or less

WORKER, NODE, RACK, EVERYTHING = 0, 1, 2, 3
ALL, WORKERS, HOSTS, RACKS = 0, 1, 2, 3  # in `totals`: all tuples/s, and those between workers, hosts, racks
FULL = 4  # in `totals`: MHz that shuffles want of near executors beyond their one core
TOTALS = 5
FILLS = 16  # rounds of filling a scope whose targets differ in what they still can take
PASSES = 100  # over the components of a topology in which streams go in circles
SETTLED = 1e-9  # of the traffic: change at which such a topology counts as settled
NOTHING = 1e-12  # tuples/s


def jit(function: Function) -> Function:
    """Compile a function that allocates nothing."""
    return cast(Function, njit(**OPTIONS)(function))


class Flows(NamedTuple):
    """What does not depend on the placement. Groups are flows (source component, target component, rule).

    Sizes: E executors, C components, T topologies, G groups, N nodes. `out_tps[group_out[g] + i]` is what the i-th
    executor of the source sends into group g, `weight[group_weight[g] + i]` the part that goes to the i-th executor
    of the target (EVEN, POOLED); the edges of KEYED groups stand one by one.
    """

    members: Ints  # E: executors by component
    first_member: Ints  # C + 1
    tasks: Floats  # E
    received_tps: Floats  # E, measured
    cpu_mhz: Floats  # E, measured
    driven: Bools  # C: what it sends follows from what it receives
    alike: Bools  # C: its executors are interchangeable
    cpu_rule: Ints  # C
    base_mhz: Floats  # C
    cost_mhz: Floats  # C, per tuple/s received
    order: Ints  # C: components in the order of the streams, topology by topology
    first_component: Ints  # T + 1, into `order`
    cyclic: Bools  # T
    first_group: Ints  # C + 1: groups by target
    group_source: Ints
    group_rule: Ints
    group_out: Ints
    group_ratio: Floats  # G: tuples sent into it per tuple that the source component receives
    group_weight: Ints
    first_edge: Ints  # G + 1: edges of KEYED groups
    out_tps: Floats
    weight: Floats
    edge_from: Ints
    edge_to: Ints
    edge_tps: Floats
    node_mhz: Floats  # N: one core
    node_host: Ints
    node_rack: Ints


class Scratch(NamedTuple):
    """Room to work in; all zero between two calls. `out_*` take the edges, as many as there is room for."""

    new_tps: Floats  # E
    room_tps: Floats  # E
    added_tps: Floats  # E
    seen: Ints  # places in use
    wanted_tps: Floats  # by place: all that leaves its executors for the component at hand
    left_tps: Floats  # by place: what of it has no target yet
    local_tps: Floats  # by place
    near: Floats  # by place: weight of the targets there
    near_host: Floats
    near_rack: Floats
    demand: Floats  # by scope
    filled: Floats
    part: Floats
    emitted: Ints  # (1,) edges so far, -1: none are wanted
    out_from: Ints
    out_to: Ints
    out_tps: Floats


def scratch(flows: Flows, places: int, edges: int | None = None) -> Scratch:
    """Room for `places` places; `edges`: for so many edges (None: none are wanted)."""
    e, n = len(flows.members), len(flows.node_host)
    scopes = max(places, n, 1)
    return Scratch(
        new_tps=np.zeros(e),
        room_tps=np.zeros(e),
        added_tps=np.zeros(e),
        seen=np.zeros(places, dtype=np.int64),
        wanted_tps=np.zeros(places),
        left_tps=np.zeros(places),
        local_tps=np.zeros(places),
        near=np.zeros(places),
        near_host=np.zeros(n),
        near_rack=np.zeros(n),
        demand=np.zeros(scopes),
        filled=np.zeros(scopes),
        part=np.zeros(scopes),
        emitted=np.full(1, -1 if edges is None else 0, dtype=np.int64),
        out_from=np.zeros(edges or 0, dtype=np.int64),
        out_to=np.zeros(edges or 0, dtype=np.int64),
        out_tps=np.zeros(edges or 0),
    )


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
        for m in range(f.first_member[c], f.first_member[c + 1]):
            e = f.members[m]
            received[e] = f.received_tps[e]
    for _ in range(PASSES):
        totals[:] = 0.0
        change = 0.0
        if s.emitted[0] > 0:
            s.emitted[0] = 0
        for i in range(lo, hi):
            change += _receive(f, f.order[i], place, node_of, received, totals, s)
        if not f.cyclic[t] or change <= SETTLED * (totals[ALL] + NOTHING):
            break
    for i in range(lo, hi):
        c = f.order[i]
        for m in range(f.first_member[c], f.first_member[c + 1]):
            e = f.members[m]
            if f.cpu_rule[c] == FOLLOWS:
                cpu[e] = f.base_mhz[c] + f.cost_mhz[c] * received[e]
            elif f.cpu_rule[c] == OWN:
                cpu[e] = max(f.cpu_mhz[e] + f.cost_mhz[c] * (received[e] - f.received_tps[e]), 0.0)
            else:
                cpu[e] = f.cpu_mhz[e]


@jit
def _sent(f: Flows, g: int, i: int, e: int, received: Floats) -> float:
    """Tuples/s that e, the i-th executor of the source, sends into group g."""
    c = f.group_source[g]
    if not f.driven[c]:
        return float(f.out_tps[f.group_out[g] + i])
    if f.alike[c]:
        return float(f.group_ratio[g] * received[e])
    if f.received_tps[e] <= 0.0:  # it sends of its own accord
        return float(f.out_tps[f.group_out[g] + i] + f.group_ratio[g] * received[e])
    return float(f.out_tps[f.group_out[g] + i] * (received[e] / f.received_tps[e]))


@jit
def _receive(f: Flows, c: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch) -> float:
    """Work out what the executors of component c receive; returns by how much that changed (tuples/s)."""
    scoped = 0
    for g in range(f.first_group[c], f.first_group[c + 1]):
        rule = f.group_rule[g]
        if rule == KEYED:
            _keyed(f, g, place, node_of, received, totals, s)
        elif rule in (POOLED, EVEN):
            _by_weight(f, g, c, place, node_of, received, totals, s, False)
        elif rule in (LOCAL_SCOPED, LOCAL_EVEN):
            _local(f, g, c, place, received, totals, s)
            if rule == LOCAL_EVEN:
                _by_weight(f, g, c, place, node_of, received, totals, s, True)
            else:
                scoped = _want(f, g, c, place, received, s, scoped, True)
        else:
            scoped = _want(f, g, c, place, received, s, scoped, False)
    if scoped > 0:
        _by_scope(f, c, scoped, place, node_of, received, totals, s)
    change = 0.0
    for m in range(f.first_member[c], f.first_member[c + 1]):
        e = f.members[m]
        change += abs(s.new_tps[e] - received[e])
        received[e] = s.new_tps[e]
        s.new_tps[e] = 0.0
    return change


@jit
def _emit(s: Scratch, a: int, b: int, tps: float) -> None:
    n = s.emitted[0]
    if n < len(s.out_tps):
        s.out_from[n] = a
        s.out_to[n] = b
        s.out_tps[n] = tps
    s.emitted[0] = n + 1


@jit
def _keyed(f: Flows, g: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch) -> None:
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
            _emit(s, a, b, tps)


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
        tps = _sent(f, g, i, e, received)
        n = node_of[p]
        sent += tps
        totals[WORKERS] += tps * (1.0 - s.near[p] / total)
        totals[HOSTS] += tps * (1.0 - s.near_host[f.node_host[n]] / total)
        totals[RACKS] += tps * (1.0 - s.near_rack[f.node_rack[n]] / total)
        if s.emitted[0] >= 0 and tps > 0.0:
            for m in range(first, end):
                if f.weight[offset + m - first] > 0.0:
                    _emit(s, e, f.members[m], tps * f.weight[offset + m - first] / total)
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
        tps = _sent(f, g, i, e, received)
        totals[ALL] += tps
        s.local_tps[p] += tps
        if s.emitted[0] >= 0 and tps > 0.0:
            for m in range(first, end):
                b = f.members[m]
                if place[b] == p:
                    _emit(s, e, b, tps * f.tasks[b] / s.near[p])
    for m in range(first, end):
        e = f.members[m]
        s.new_tps[e] += s.local_tps[place[e]] * f.tasks[e] / s.near[place[e]]
    for m in range(first, end):
        s.near[place[f.members[m]]] = 0.0
        s.local_tps[place[f.members[m]]] = 0.0


@jit
def _want(f: Flows, g: int, c: int, place: Ints, received: Floats, s: Scratch, places: int, without_local: bool) -> int:
    """Add what a group sends to the demand of its sources' places; returns how many places have some by now."""
    first, end = f.first_member[c], f.first_member[c + 1]
    if without_local:
        for m in range(first, end):
            s.near[place[f.members[m]]] = 1.0
    source = f.group_source[g]
    for i in range(f.first_member[source + 1] - f.first_member[source]):
        e = f.members[f.first_member[source] + i]
        p = place[e]
        if s.near[p] > 0.0:
            continue
        tps = _sent(f, g, i, e, received)
        if tps <= 0.0:
            continue
        if s.wanted_tps[p] <= 0.0:
            s.seen[places] = p
            places += 1
        s.wanted_tps[p] += tps
        s.left_tps[p] += tps
    if without_local:
        for m in range(first, end):
            s.near[place[f.members[m]]] = 0.0
    return places


@jit
def _scope(f: Flows, level: int, p: int, node_of: Ints) -> int:
    if level == WORKER:
        return p
    if level == NODE:
        return int(node_of[p])
    if level == RACK:
        return int(f.node_rack[node_of[p]])
    return 0


@jit
def _by_scope(
    f: Flows, c: int, places: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch
) -> None:
    """Split what the places want evenly over the tasks in the narrowest scope that has any, and on where they are full.

    A target is full when it would use more than one core; what finds no room anywhere is spread over all.
    """
    first, end = f.first_member[c], f.first_member[c + 1]
    for m in range(first, end):
        e = f.members[m]
        if f.cost_mhz[c] > 0.0:
            most = (f.node_mhz[node_of[place[e]]] - f.base_mhz[c]) / f.cost_mhz[c]
            s.room_tps[e] = max(most - s.new_tps[e], 0.0)
        else:
            s.room_tps[e] = np.inf
    for i in range(places):
        totals[ALL] += s.wanted_tps[s.seen[i]]
    refused = 0.0
    for level in range(EVERYTHING + 1):
        left = 0.0
        for i in range(places):
            p = s.seen[i]
            left += s.left_tps[p]
            s.demand[_scope(f, level, p, node_of)] += s.left_tps[p]
        if left > NOTHING:
            now = _fill(f, c, level, place, node_of, s)
            totals[FULL] += f.cost_mhz[c] * max(now - refused, 0.0)  # what was refused before is not counted again
            refused = now
            _account(f, c, level, places, place, node_of, received, totals, s)
        for i in range(places):
            s.demand[_scope(f, level, s.seen[i], node_of)] = 0.0
        if left <= NOTHING:
            break
    for i in range(places):
        s.wanted_tps[s.seen[i]] = 0.0
        s.left_tps[s.seen[i]] = 0.0


@jit
def _fill(f: Flows, c: int, level: int, place: Ints, node_of: Ints, s: Scratch) -> float:
    """Give the demand of every scope to its targets (`added_tps`), evenly by task, up to their room.

    Returns the tuples/s that the targets of their scope had no room for.
    """
    first, end = f.first_member[c], f.first_member[c + 1]
    for _ in range(FILLS):
        full = False
        for m in range(first, end):
            e = f.members[m]
            if s.room_tps[e] > NOTHING:
                s.part[_scope(f, level, place[e], node_of)] += f.tasks[e]
        for m in range(first, end):
            e = f.members[m]
            k = _scope(f, level, place[e], node_of)
            if s.room_tps[e] > NOTHING and s.demand[k] > 0.0:
                share = s.demand[k] * f.tasks[e] / s.part[k]
                if share > s.room_tps[e]:
                    share = s.room_tps[e]
                    full = True
                s.added_tps[e] += share
                s.room_tps[e] -= share
                s.filled[k] += share
        for m in range(first, end):
            k = _scope(f, level, place[f.members[m]], node_of)
            s.demand[k] = max(s.demand[k] - s.filled[k], 0.0) if s.filled[k] > 0.0 else s.demand[k]
            s.filled[k] = 0.0
            s.part[k] = 0.0
        if not full:
            break
    refused = 0.0
    for m in range(first, end):
        k = _scope(f, level, place[f.members[m]], node_of)
        if s.demand[k] > NOTHING and s.part[k] == 0.0:
            s.part[k] = 1.0
            refused += s.demand[k]
    for m in range(first, end):
        s.part[_scope(f, level, place[f.members[m]], node_of)] = 0.0
    if level == EVERYTHING and s.demand[0] > NOTHING:
        tasks = 0.0
        for m in range(first, end):
            tasks += f.tasks[f.members[m]]
        for m in range(first, end):
            s.added_tps[f.members[m]] += s.demand[0] * f.tasks[f.members[m]] / tasks
        s.demand[0] = 0.0
    return refused


@jit
def _account(
    f: Flows,
    c: int,
    level: int,
    places: int,
    place: Ints,
    node_of: Ints,
    received: Floats,
    totals: Floats,
    s: Scratch,
) -> None:
    """Who of a scope sent what was added to its targets, and how far that goes."""
    first, end = f.first_member[c], f.first_member[c + 1]
    for m in range(first, end):
        e = f.members[m]
        p = place[e]
        n = node_of[p]
        s.near[p] += s.added_tps[e]
        s.near_host[f.node_host[n]] += s.added_tps[e]
        s.near_rack[f.node_rack[n]] += s.added_tps[e]
        s.part[_scope(f, level, p, node_of)] += s.added_tps[e]
    for i in range(places):
        p = s.seen[i]
        n = node_of[p]
        k = _scope(f, level, p, node_of)
        added = s.part[k]
        if added <= 0.0 or s.left_tps[p] <= 0.0:
            continue
        served = s.left_tps[p] * (added / (added + s.demand[k]))
        totals[WORKERS] += served * (1.0 - s.near[p] / added)
        totals[HOSTS] += served * max(1.0 - s.near_host[f.node_host[n]] / added, 0.0)
        totals[RACKS] += served * max(1.0 - s.near_rack[f.node_rack[n]] / added, 0.0)
        if s.emitted[0] >= 0:
            _emit_scope(f, c, level, p, served / s.wanted_tps[p] / added, place, node_of, received, s)
        s.left_tps[p] -= served
    for m in range(first, end):
        e = f.members[m]
        p = place[e]
        n = node_of[p]
        s.new_tps[e] += s.added_tps[e]
        s.near[p] = 0.0
        s.near_host[f.node_host[n]] = 0.0
        s.near_rack[f.node_rack[n]] = 0.0
        s.part[_scope(f, level, p, node_of)] = 0.0
    for m in range(first, end):
        s.added_tps[f.members[m]] = 0.0


@jit
def _emit_scope(
    f: Flows, c: int, level: int, p: int, part: float, place: Ints, node_of: Ints, received: Floats, s: Scratch
) -> None:
    """The edges of what the sources at place p send to the targets of their scope."""
    k = _scope(f, level, p, node_of)
    first, end = f.first_member[c], f.first_member[c + 1]
    for g in range(f.first_group[c], f.first_group[c + 1]):
        if f.group_rule[g] != SCOPED and f.group_rule[g] != LOCAL_SCOPED:
            continue
        if f.group_rule[g] == LOCAL_SCOPED and _holds(f, c, p, place):
            continue
        source = f.group_source[g]
        for i in range(f.first_member[source + 1] - f.first_member[source]):
            e = f.members[f.first_member[source] + i]
            if place[e] != p:
                continue
            tps = _sent(f, g, i, e, received)
            for m in range(first, end):
                b = f.members[m]
                if s.added_tps[b] > 0.0 and _scope(f, level, place[b], node_of) == k:
                    _emit(s, e, b, tps * part * s.added_tps[b])


@jit
def _holds(f: Flows, c: int, p: int, place: Ints) -> bool:
    for m in range(f.first_member[c], f.first_member[c + 1]):  # noqa: SIM110 (numba knows no any())
        if place[f.members[m]] == p:
            return True
    return False
