"""Shuffles in the flow model: what the sources of a place want goes to the nearest targets, and on where they are full.

The rule is that of Storm's LoadAwareShuffleGrouping (docs/decisions/0007-flow.md).
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.flow.arrays import (
    ALL,
    FULL,
    HOSTS,
    LOCAL_SCOPED,
    NOTHING,
    RACKS,
    SCOPED,
    WORKERS,
    Flows,
    Scratch,
    emit,
    sent_into,
)
from stormpilot.model.jit import jit

WORKER, NODE, RACK, EVERYTHING = 0, 1, 2, 3
FILLS = 16  # rounds of filling a scope whose targets differ in what they still can take


@jit
def want(f: Flows, g: int, c: int, place: Ints, received: Floats, s: Scratch, places: int, without_local: bool) -> int:
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
        tps = sent_into(f, g, i, e, received)
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
def by_scope(
    f: Flows, c: int, places: int, place: Ints, node_of: Ints, received: Floats, totals: Floats, s: Scratch
) -> None:
    """Split what the places want evenly over the tasks in the narrowest scope that has any, and on where they are full.

    A target is full when it would use more than a core for each of its threads or processes (`lanes`); what finds no
    room anywhere is spread over all.
    """
    first, end = f.first_member[c], f.first_member[c + 1]
    for m in range(first, end):
        e = f.members[m]
        if f.cost_mhz[c] > 0.0:
            most = (f.lanes[e] * f.node_mhz[node_of[place[e]]] - f.base_mhz[c]) / f.cost_mhz[c]
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
            targets = _wanted(f, c, level, place, node_of, s)
            now = _fill(f, c, level, targets, place, node_of, s)
            totals[FULL] += f.cost_mhz[c] * max(now - refused, 0.0)  # what was refused before is not counted again
            refused = now
            if targets:
                _account(f, c, level, targets, places, place, node_of, received, totals, s)
        for i in range(places):
            s.demand[_scope(f, level, s.seen[i], node_of)] = 0.0
        if left <= NOTHING:
            break
    for i in range(places):
        s.wanted_tps[s.seen[i]] = 0.0
        s.left_tps[s.seen[i]] = 0.0


@jit
def _wanted(f: Flows, c: int, level: int, place: Ints, node_of: Ints, s: Scratch) -> int:
    """List the targets in scopes with demand (`some`); how many."""
    found = 0
    for m in range(f.first_member[c], f.first_member[c + 1]):
        e = f.members[m]
        if s.demand[_scope(f, level, place[e], node_of)] > 0.0:
            s.some[found] = e
            found += 1
    return found


@jit
def _fill(f: Flows, c: int, level: int, targets: int, place: Ints, node_of: Ints, s: Scratch) -> float:
    """Give the demand of every scope to its targets (`added_tps`), evenly by task, up to their room.

    Returns the tuples/s that the targets of their scope had no room for.
    """
    for _ in range(FILLS):
        full = False
        for i in range(targets):
            e = s.some[i]
            if s.room_tps[e] > NOTHING:
                s.part[_scope(f, level, place[e], node_of)] += f.tasks[e]
        for i in range(targets):
            e = s.some[i]
            k = _scope(f, level, place[e], node_of)
            if s.room_tps[e] > NOTHING and s.demand[k] > 0.0:
                share = s.demand[k] * f.tasks[e] / s.part[k]
                if share > s.room_tps[e]:
                    share = s.room_tps[e]
                    full = True
                s.added_tps[e] += share
                s.room_tps[e] -= share
                s.filled[k] += share
        for i in range(targets):
            k = _scope(f, level, place[s.some[i]], node_of)
            s.demand[k] = max(s.demand[k] - s.filled[k], 0.0) if s.filled[k] > 0.0 else s.demand[k]
            s.filled[k] = 0.0
            s.part[k] = 0.0
        if not full:
            break
    refused = 0.0
    for i in range(targets):
        k = _scope(f, level, place[s.some[i]], node_of)
        if s.demand[k] > NOTHING and s.part[k] == 0.0:
            s.part[k] = 1.0
            refused += s.demand[k]
    for i in range(targets):
        s.part[_scope(f, level, place[s.some[i]], node_of)] = 0.0
    if level == EVERYTHING and s.demand[0] > NOTHING:
        tasks = 0.0
        for i in range(targets):
            tasks += f.tasks[s.some[i]]
        for i in range(targets):
            s.added_tps[s.some[i]] += s.demand[0] * f.tasks[s.some[i]] / tasks
        s.demand[0] = 0.0
    return refused


@jit
def _account(
    f: Flows,
    c: int,
    level: int,
    targets: int,
    places: int,
    place: Ints,
    node_of: Ints,
    received: Floats,
    totals: Floats,
    s: Scratch,
) -> None:
    """Senders of a scope to added targets, and their reach."""
    for i in range(targets):
        e = s.some[i]
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
    for i in range(targets):
        e = s.some[i]
        p = place[e]
        n = node_of[p]
        s.new_tps[e] += s.added_tps[e]
        s.near[p] = 0.0
        s.near_host[f.node_host[n]] = 0.0
        s.near_rack[f.node_rack[n]] = 0.0
        s.part[_scope(f, level, p, node_of)] = 0.0
    for i in range(targets):
        s.added_tps[s.some[i]] = 0.0


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
            tps = sent_into(f, g, i, e, received)
            for m in range(first, end):
                b = f.members[m]
                if s.added_tps[b] > 0.0 and _scope(f, level, place[b], node_of) == k:
                    emit(s, e, b, tps * part * s.added_tps[b])


@jit
def _holds(f: Flows, c: int, p: int, place: Ints) -> bool:
    for m in range(f.first_member[c], f.first_member[c + 1]):  # noqa: SIM110 (numba knows no any())
        if place[f.members[m]] == p:
            return True
    return False


@jit
def _scope(f: Flows, level: int, p: int, node_of: Ints) -> int:
    if level == WORKER:
        return p
    if level == NODE:
        return int(node_of[p])
    if level == RACK:
        return int(f.storm_rack[node_of[p]])
    return 0
