"""The flow model after a small change: only components that the change reaches are worked out anew.

    begin(f, k, t, place, node_of, now, s)        # topology t from nothing
    note(now, e, place, node_of)                  # e is about to move; then change `place` and `node_of`
    moved(f, k, t, place, node_of, now, s)        # `now.delta`: what that changes in the totals
    keep(now) or undo(f, now)

A component is reached when its executors, or those that send to it, moved, or when what is sent to it changed by more
than rounding does. Streams split by key are followed edge by edge at the executors that moved, every other stream as
`kernel.follow` does. Topologies in which streams go in circles are worked out as a whole. Results are those of
`follow`, up to rounding (docs/decisions/0007-flow.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormpilot.model.compiled import Bools, Floats, Ints
from stormpilot.model.flow.arrays import HOSTS, KEYED, NOTHING, RACKS, TOTALS, WORKERS, Flows, Scratch
from stormpilot.model.flow.kernel import by_keys, follow, split
from stormpilot.model.jit import jit

SAME = 1e-9  # relative change of what an executor receives that counts as none
PLACES, RATES = 1, 2  # why a component is reached; RATES: KEYED groups bring it something else


class Links(NamedTuple):
    """Senders and receivers. Sizes: E executors, C components."""

    component: Ints  # E
    first_target: Ints  # C + 1
    target: Ints  # components that a component sends to
    keyed: Bools  # whether by KEYED groups too
    first_edge: Ints  # E + 1
    edge: Ints  # edges of KEYED groups that an executor is an end of
    by_keys: Bools  # C: receives by KEYED groups
    otherwise: Bools  # C: receives by others


class Rates(NamedTuple):
    """Traffic under a placement, tuples/s. Sizes: E executors, C components (as targets)."""

    received: Floats  # E
    keyed: Floats  # E: what of it comes by KEYED groups
    totals: Floats  # C x TOTALS: KEYED groups
    other_totals: Floats  # C x TOTALS: all others


class Now(NamedTuple):
    """Traffic under the present placement, and what is needed to go back to the one before."""

    rates: Rates
    before: Rates  # of what is reached
    delta: Floats  # TOTALS: what the last change did, tuples/s (FULL: MHz)
    sums: Floats  # TOTALS: room
    cpu: Floats  # E: room, MHz
    why: Ints  # C: PLACES, RATES
    reached: Ints  # components worked out anew
    changed: Ints  # executors that receive something else
    moved: Ints  # executors that moved
    counts: Ints  # (3,): of `reached`, `changed`, `moved`
    is_reached: Bools  # C
    is_moved: Bools  # E
    old_place: Ints  # E, of those that moved
    old_node: Ints  # E


REACHED, CHANGED, MOVED = 0, 1, 2  # in `counts`


def links(f: Flows) -> Links:
    """Senders and receivers, from the flows."""
    components = len(f.first_member) - 1
    component = np.empty(len(f.members), dtype=np.int64)
    component[f.members] = np.repeat(np.arange(components), np.diff(f.first_member))
    into = np.repeat(np.arange(components), np.diff(f.first_group))
    pairs = np.unique(f.group_source * max(components, 1) + into)
    source = pairs // max(components, 1)
    ends = np.concatenate([f.edge_from, f.edge_to])
    order = np.argsort(ends, kind="stable")
    keyed = f.group_rule == KEYED
    by_keys = np.unique(f.group_source[keyed] * max(components, 1) + into[keyed])
    return Links(
        component=component,
        first_target=np.searchsorted(source, np.arange(components + 1)).astype(np.int64),
        target=(pairs % max(components, 1)).astype(np.int64),
        keyed=np.isin(pairs, by_keys),
        first_edge=np.searchsorted(ends[order], np.arange(len(component) + 1)).astype(np.int64),
        edge=(order % max(len(f.edge_from), 1)).astype(np.int64),
        by_keys=np.bincount(into[keyed], minlength=components) > 0,
        otherwise=np.bincount(into[~keyed], minlength=components) > 0,
    )


def now(f: Flows) -> Now:
    """Room for the traffic of all topologies; `begin` fills it."""
    e, c = len(f.members), len(f.first_member) - 1

    def ints(size: int) -> Ints:
        return np.zeros(size, dtype=np.int64)

    def rates() -> Rates:
        return Rates(np.zeros(e), np.zeros(e), np.zeros((c, TOTALS)), np.zeros((c, TOTALS)))

    return Now(
        rates=rates(),
        before=rates(),
        delta=np.zeros(TOTALS),
        sums=np.zeros(TOTALS),
        cpu=np.zeros(e),
        why=ints(c),
        reached=ints(c),
        changed=ints(e),
        moved=ints(e),
        counts=ints(3),
        is_reached=np.zeros(c, dtype=np.bool_),
        is_moved=np.zeros(e, dtype=np.bool_),
        old_place=ints(e),
        old_node=ints(e),
    )


@jit
def begin(f: Flows, k: Links, t: int, place: Ints, node_of: Ints, n: Now, s: Scratch) -> None:
    """Work out topology t; `delta` are its totals."""
    for i in range(f.first_component[t], f.first_component[t + 1]):
        c = f.order[i]
        for j in range(TOTALS):
            n.rates.totals[c, j] = 0.0
            n.rates.other_totals[c, j] = 0.0
        for m in range(f.first_member[c], f.first_member[c + 1]):
            e = f.members[m]
            n.rates.received[e] = 0.0
            n.rates.keyed[e] = 0.0
        n.why[c] = PLACES | RATES
        _reach(f, c, n)
    _follow(f, k, t, place, node_of, n, s)
    keep(n)


@jit
def note(n: Now, e: int, place: Ints, node_of: Ints) -> None:
    """Remember where executor e is before it moves."""
    n.moved[n.counts[MOVED]] = e
    n.counts[MOVED] += 1
    n.is_moved[e] = True
    n.old_place[e] = place[e]
    n.old_node[e] = node_of[place[e]]


@jit
def moved(f: Flows, k: Links, t: int, place: Ints, node_of: Ints, n: Now, s: Scratch) -> None:
    """Follow what the executors noted (of topology t) changed by moving; `delta`, `changed` and `rates` tell it."""
    if f.cyclic[t]:
        for i in range(f.first_component[t], f.first_component[t + 1]):
            n.why[f.order[i]] = PLACES | RATES
            _reach(f, f.order[i], n)
    else:
        for i in range(n.counts[MOVED]):
            c = k.component[n.moved[i]]
            n.why[c] |= PLACES
            _reach(f, c, n)
            for j in range(k.first_target[c], k.first_target[c + 1]):
                n.why[k.target[j]] |= PLACES
                _reach(f, k.target[j], n)
        for i in range(n.counts[MOVED]):
            _edges_moved(f, k, n.moved[i], place, node_of, n)
    _follow(f, k, t, place, node_of, n, s)


@jit
def keep(n: Now) -> None:
    """The change stays."""
    for i in range(n.counts[REACHED]):
        n.is_reached[n.reached[i]] = False
    for i in range(n.counts[MOVED]):
        n.is_moved[n.moved[i]] = False
    n.counts[:] = 0


@jit
def undo(f: Flows, n: Now) -> None:
    """Back to before the change; the caller puts the executors back."""
    for i in range(n.counts[REACHED]):
        _copy(f, n.reached[i], n.before, n.rates)
    keep(n)


@jit
def _reach(f: Flows, c: int, n: Now) -> None:
    """Keep what component c had, once."""
    if n.is_reached[c]:
        return
    n.is_reached[c] = True
    n.reached[n.counts[REACHED]] = c
    n.counts[REACHED] += 1
    _copy(f, c, n.rates, n.before)


@jit
def _copy(f: Flows, c: int, source: Rates, target: Rates) -> None:
    """Executors of component c."""
    for j in range(TOTALS):
        target.totals[c, j] = source.totals[c, j]
        target.other_totals[c, j] = source.other_totals[c, j]
    for m in range(f.first_member[c], f.first_member[c + 1]):
        e = f.members[m]
        target.received[e] = source.received[e]
        target.keyed[e] = source.keyed[e]


@jit
def _edges_moved(f: Flows, k: Links, e: int, place: Ints, node_of: Ints, n: Now) -> None:
    """New and former reach of the edges by key at e."""
    for i in range(k.first_edge[e], k.first_edge[e + 1]):
        j = k.edge[i]
        a, b = f.edge_from[j], f.edge_to[j]
        if b == e and n.is_moved[a]:
            continue  # counted at a
        tps = f.edge_tps[j]
        if f.driven[k.component[a]] and f.received_tps[a] > 0.0:
            tps *= n.rates.received[a] / f.received_tps[a]
        c = k.component[b]
        pa, pb = place[a], place[b]
        _reaches(f, c, pa, pb, node_of[pa], node_of[pb], tps, n)
        qa, ma = (n.old_place[a], n.old_node[a]) if n.is_moved[a] else (pa, node_of[pa])
        qb, mb = (n.old_place[b], n.old_node[b]) if n.is_moved[b] else (pb, node_of[pb])
        _reaches(f, c, qa, qb, ma, mb, -tps, n)


@jit
def _reaches(f: Flows, c: int, pa: int, pb: int, na: int, nb: int, tps: float, n: Now) -> None:
    if pa != pb:
        n.rates.totals[c, WORKERS] += tps
        if f.node_host[na] != f.node_host[nb]:
            n.rates.totals[c, HOSTS] += tps
            if f.node_rack[na] != f.node_rack[nb]:
                n.rates.totals[c, RACKS] += tps


@jit
def _follow(f: Flows, k: Links, t: int, place: Ints, node_of: Ints, n: Now, s: Scratch) -> None:
    lo, hi = f.first_component[t], f.first_component[t + 1]
    if f.cyclic[t]:
        follow(f, t, place, node_of, n.rates.received, n.cpu, n.sums, s)
        for i in range(lo, hi):
            c = f.order[i]
            n.why[c] = 0
            for j in range(TOTALS):
                n.rates.totals[c, j] = n.sums[j] if i == lo else 0.0
            _differences(f, c, n)
    else:
        for i in range(lo, hi):
            c = f.order[i]
            if n.why[c]:
                _receive(f, k, c, n.why[c], place, node_of, n, s)
                n.why[c] = 0
    n.delta[:] = 0.0
    for i in range(n.counts[REACHED]):
        c = n.reached[i]
        for j in range(TOTALS):
            n.delta[j] += (
                n.rates.totals[c, j] - n.before.totals[c, j] + n.rates.other_totals[c, j] - n.before.other_totals[c, j]
            )


@jit
def _receive(f: Flows, k: Links, c: int, why: int, place: Ints, node_of: Ints, n: Now, s: Scratch) -> None:
    """Input of the executors of c; what they send on is followed if that changed."""
    first, end = f.first_member[c], f.first_member[c + 1]
    if k.by_keys[c] and why & RATES:
        n.sums[:] = 0.0
        for g in range(f.first_group[c], f.first_group[c + 1]):
            if f.group_rule[g] == KEYED:
                by_keys(f, g, place, node_of, n.rates.received, n.sums, s)
        for m in range(first, end):
            e = f.members[m]
            n.rates.keyed[e] = s.new_tps[e]
            s.new_tps[e] = 0.0
        for j in range(TOTALS):
            n.rates.totals[c, j] = n.sums[j]
    if k.otherwise[c]:
        n.sums[:] = 0.0
        for m in range(first, end):
            s.new_tps[f.members[m]] = n.rates.keyed[f.members[m]]
        split(f, c, place, node_of, n.rates.received, n.sums, s)
        for m in range(first, end):
            e = f.members[m]
            n.rates.received[e] = s.new_tps[e]
            s.new_tps[e] = 0.0
        for j in range(TOTALS):
            n.rates.other_totals[c, j] = n.sums[j]
    elif why & RATES:
        for m in range(first, end):
            n.rates.received[f.members[m]] = n.rates.keyed[f.members[m]]
    else:
        return
    if _differences(f, c, n) and f.driven[c]:
        for j in range(k.first_target[c], k.first_target[c + 1]):
            n.why[k.target[j]] |= RATES if k.keyed[j] else PLACES
            _reach(f, k.target[j], n)


@jit
def _differences(f: Flows, c: int, n: Now) -> bool:
    """Note the executors of c that receive something else than before; a difference by rounding is none."""
    found = False
    for m in range(f.first_member[c], f.first_member[c + 1]):
        e = f.members[m]
        if abs(n.rates.received[e] - n.before.received[e]) <= SAME * n.before.received[e] + NOTHING:
            n.rates.received[e] = n.before.received[e]
        else:
            n.changed[n.counts[CHANGED]] = e
            n.counts[CHANGED] += 1
            found = True
    return found
