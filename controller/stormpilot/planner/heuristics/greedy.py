"""Greedy placement over pairs in order of falling traffic: the step that both phases of `online` share [A13 3.2.3].

Items go into bins: executors into workers, then workers into nodes. Compiled with numba; incremental, so that a pair
costs its neighbourhoods and one pass over the bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.jit import jit


class Items(NamedTuple):
    """Item to place, with its traffic to other items as adjacency lists."""

    xadj: Ints
    adj: Ints
    adj_tps: Floats
    cpu: Floats
    memory: Floats
    klass: Ints  # row of Bins.allowed
    movable: Bools


class Bins(NamedTuple):
    """Where it goes. `room` is the number of items that a bin takes.

    A bin with a node (`node[b] >= 0`) takes what that node's limits and `allowed` let in; a bin without one takes what
    some node could hold together with what the bin has already.
    """

    room: Ints
    node: Ints
    allowed: Bools  # K x N
    node_limit: Floats
    node_memory: Floats
    held: Ints  # items in the bin
    cpu: Floats
    memory: Floats
    classes: Ints  # B x K: items of each class in the bin


@jit
def fits(items: Items, bins: Bins, i: int, b: int) -> bool:
    """Whether bin b can take item i too."""
    if bins.held[b] >= bins.room[b]:
        return False
    cpu = bins.cpu[b] + items.cpu[i]
    memory = bins.memory[b] + items.memory[i]
    n = bins.node[b]
    k = items.klass[i]
    if n >= 0:
        return (
            bins.allowed[k, n]
            and cpu <= bins.node_limit[n] * (1.0 + 1e-9)
            and memory <= bins.node_memory[n] * (1.0 + 1e-9)
        )
    for n in range(len(bins.node_limit)):
        if (
            cpu > bins.node_limit[n] * (1.0 + 1e-9)
            or memory > bins.node_memory[n] * (1.0 + 1e-9)
            or not bins.allowed[k, n]
        ):
            continue
        for c in range(bins.allowed.shape[0]):
            if bins.classes[b, c] > 0 and not bins.allowed[c, n]:
                break
        else:
            return True
    return False


@jit
def put(items: Items, bins: Bins, bin_of: Ints, i: int, b: int) -> None:
    """Place item i in bin b."""
    bin_of[i] = b
    bins.held[b] += 1
    bins.cpu[b] += items.cpu[i]
    bins.memory[b] += items.memory[i]
    bins.classes[b, items.klass[i]] += 1


@jit
def take(items: Items, bins: Bins, bin_of: Ints, i: int) -> int:
    """Take item i out of its bin, if it is in one; which."""
    b = bin_of[i]
    if b != NOWHERE:
        bin_of[i] = NOWHERE
        bins.held[b] -= 1
        bins.cpu[b] -= items.cpu[i]
        bins.memory[b] -= items.memory[i]
        bins.classes[b, items.klass[i]] -= 1
    return b


@jit
def least_loaded(items: Items, bins: Bins, i: int) -> int:
    """The bin with the least CPU load that can take item i (ties: lower number); -1 if none can."""
    best = NOWHERE
    for b in range(len(bins.room)):
        if (best == NOWHERE or bins.cpu[b] < bins.cpu[best]) and fits(items, bins, i, b):
            best = b
    return best


@jit
def _affinity(items: Items, bin_of: Ints, i: int, b: int) -> float:
    """Traffic of item i with the items of bin b."""
    tps = 0.0
    for j in range(items.xadj[i], items.xadj[i + 1]):
        if bin_of[items.adj[j]] == b:
            tps += items.adj_tps[j]
    return tps


@jit
def _affinities(items: Items, bin_of: Ints, i: int, candidates: Ints, count: int, by_bin: Floats, tps: Floats) -> None:
    """Traffic of item i with the items of each of the first `count` candidates; `by_bin` is zero, and is so again.

    One walk over its neighbours for all of them: dense topologies have thousands. Its last place is for those nowhere.
    """
    for j in range(items.xadj[i], items.xadj[i + 1]):
        by_bin[bin_of[items.adj[j]]] += items.adj_tps[j]
    for c in range(count):
        tps[c] = by_bin[candidates[c]]
    if len(by_bin) < items.xadj[i + 1] - items.xadj[i]:
        by_bin[:] = 0.0
        return
    for j in range(items.xadj[i], items.xadj[i + 1]):
        by_bin[bin_of[items.adj[j]]] = 0.0


def place_pairs(items: Items, bins: Bins, bin_of: Ints, first: Ints, second: Ints, tps: Floats) -> None:
    """Go over the pairs (first[p], second[p]), which come by falling traffic, and place them as A13 does.

    Neither placed: both go to the least loaded bin that can take them. Else: both are taken out, and every ordered pair
    of {bin of one, bin of the other, least loaded bin} is tried; the feasible one that leaves the least traffic between
    bins is kept, the first found on a tie. What fits nowhere stays in `bin_of` as -1.
    """
    candidates, by_bin = np.zeros(3, dtype=np.int64), np.zeros(len(bins.room) + 1)
    _place_pairs(items, bins, bin_of, first, second, tps, candidates, by_bin, np.zeros(3), np.zeros(3))


@jit
def _place_pairs(
    items: Items,
    bins: Bins,
    bin_of: Ints,
    first: Ints,
    second: Ints,
    tps: Floats,
    candidates: Ints,
    by_bin: Floats,
    to_first: Floats,
    to_second: Floats,
) -> None:
    for p in range(len(first)):
        i, j = first[p], second[p]
        if not (items.movable[i] or items.movable[j]):
            continue
        if bin_of[i] == NOWHERE and bin_of[j] == NOWHERE:
            b = least_loaded(items, bins, i)
            if b == NOWHERE:
                continue
            put(items, bins, bin_of, i, b)
            if not fits(items, bins, j, b):
                b = least_loaded(items, bins, j)
            if b != NOWHERE:
                put(items, bins, bin_of, j, b)
            continue
        star = least_loaded(items, bins, i if items.movable[i] else j)
        old_i, old_j = bin_of[i], bin_of[j]
        count = 0
        for b in (old_i, old_j, star):
            known = b == NOWHERE
            for c in range(count):
                known = known or candidates[c] == b
            if not known:
                candidates[count] = b
                count += 1
        if items.movable[i]:
            take(items, bins, bin_of, i)
        if items.movable[j]:
            take(items, bins, bin_of, j)
        _affinities(items, bin_of, i, candidates, count, by_bin, to_first)
        _affinities(items, bin_of, j, candidates, count, by_bin, to_second)
        best_i, best_j, best = NOWHERE, NOWHERE, -1.0
        for c in range(count):
            b = candidates[c]
            if items.movable[i]:
                if not fits(items, bins, i, b):
                    continue
                put(items, bins, bin_of, i, b)
            elif b != old_i:
                continue
            for d in range(count):
                a = candidates[d]
                if (fits(items, bins, j, a)) if items.movable[j] else a == old_j:
                    # what stays counts in the traffic of the other one with its bin
                    inside = tps[p] if a == b and items.movable[i] and items.movable[j] else 0.0
                    inside += _gain(items.movable[i], to_first[c]) + _gain(items.movable[j], to_second[d])
                    if inside > best:
                        best, best_i, best_j = inside, b, a
            if items.movable[i]:
                take(items, bins, bin_of, i)
        if best_i == NOWHERE:  # one of them has no room anywhere: what was placed stays
            best_i, best_j = old_i, old_j
        if items.movable[i] and best_i != NOWHERE:
            put(items, bins, bin_of, i, best_i)
        if items.movable[j] and best_j != NOWHERE:
            put(items, bins, bin_of, j, best_j)


@jit
def _gain(movable: bool, tps: float) -> float:
    return tps if movable else 0.0


@jit
def place_rest(items: Items, bins: Bins, bin_of: Ints) -> None:
    """Place what has no traffic (or found no room before) in the least loaded bin that takes it."""
    for i in range(len(bin_of)):
        if bin_of[i] == NOWHERE and items.movable[i]:
            b = least_loaded(items, bins, i)
            if b != NOWHERE:
                put(items, bins, bin_of, i, b)


@jit
def deal(items: Items, bins: Bins, bin_of: Ints, dealt: Ints, primary: Ints, secondary: Ints) -> None:
    """Deal items round robin over the primary bins that take them, and over the secondary ones when none of these does.

    What no bin takes stays in `bin_of` as -1.
    """
    at_primary, at_secondary = 0, 0
    for i in dealt:
        for k in range(len(primary)):
            b = primary[(at_primary + k) % len(primary)]
            if fits(items, bins, i, b):
                put(items, bins, bin_of, i, b)
                at_primary = (at_primary + k + 1) % len(primary)
                break
        else:
            for k in range(len(secondary)):
                b = secondary[(at_secondary + k) % len(secondary)]
                if fits(items, bins, i, b):
                    put(items, bins, bin_of, i, b)
                    at_secondary = (at_secondary + k + 1) % len(secondary)
                    break


def fill_empty(items: Items, bins: Bins, bin_of: Ints) -> None:
    """Give each empty bin the one item, of a bin with more than one, whose move costs least (ties: lower number)."""
    _fill_empty(items, bins, bin_of, np.zeros(len(bin_of)))


@jit
def _fill_empty(items: Items, bins: Bins, bin_of: Ints, inside: Floats) -> None:
    for i in range(len(bin_of)):
        if bin_of[i] != NOWHERE:
            inside[i] = _affinity(items, bin_of, i, bin_of[i])
    for b in range(len(bins.room)):
        if bins.held[b] > 0:
            continue
        best = NOWHERE
        for i in range(len(bin_of)):
            if (
                items.movable[i]
                and bin_of[i] != NOWHERE
                and bins.held[bin_of[i]] > 1
                and (best == NOWHERE or inside[i] < inside[best])
            ):
                best = i
        if best == NOWHERE:
            return
        a = take(items, bins, bin_of, best)
        put(items, bins, bin_of, best, b)
        inside[best] = 0.0
        for j in range(items.xadj[best], items.xadj[best + 1]):
            if bin_of[items.adj[j]] == a:
                inside[items.adj[j]] -= items.adj_tps[j]
