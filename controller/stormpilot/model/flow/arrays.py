"""Arrays of the flow model's loops: flows, working memory, and shares of senders.

A *place* is whatever stands for a worker: a slot number, or a worker number of a layout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormpilot.model.compiled import Bools, Floats, Ints
from stormpilot.model.jit import jit

KEYED = 0  # split as measured, each source by itself
POOLED = 1  # split as measured over all sources together, which are alike
EVEN = 2  # evenly over all tasks of the target
SCOPED = 3  # load- and locality-aware: nearest tasks first
LOCAL_SCOPED = 4  # tasks in the own worker or, where there are none, SCOPED
LOCAL_EVEN = 5  # tasks in the own worker or, where there are none, EVEN

KEEPS = 0  # CPU as measured, whatever arrives
FOLLOWS = 1  # base + cost x what arrives: executors of the component are alike
OWN = 2  # as measured + cost x what arrives more or less

ALL, WORKERS, HOSTS, RACKS = 0, 1, 2, 3  # in `totals`: all tuples/s, and those between workers, hosts, racks
FULL = 4  # in `totals`: MHz that shuffles want of near executors beyond the cores that they can use
TOTALS = 5
NOTHING = 1e-12  # tuples/s


class Flows(NamedTuple):
    """Constants of the flow model under any placement. Groups are flows (source component, target component, rule).

    Sizes: E executors, C components, T topologies, G groups, N nodes. `out_tps[group_out[g] + i]` is what the i-th
    executor of the source sends into group g, `weight[group_weight[g] + i]` the part that goes to the i-th executor
    of the target (EVEN, POOLED); the edges of KEYED groups stand one by one.
    """

    members: Ints  # E: executors by component
    first_member: Ints  # C + 1
    tasks: Floats  # E
    lanes: Floats  # E: cores that it can use at a time
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
    node_rack: Ints  # by which network cost goes
    storm_rack: Ints  # N: by which shuffles go


class Scratch(NamedTuple):
    """Room to work in; all rates are zero between two calls. `out_*` take the edges, as many as there is room for."""

    new_tps: Floats  # E
    room_tps: Floats  # E
    added_tps: Floats  # E
    some: Ints  # E: targets in scopes with demand
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
    sums: Floats  # E x ENDS: tuples/s by how far the other end is, or nothing where they are not wanted
    at: Ints  # E: place, for `sums`
    at_host: Ints  # E
    parts: Floats  # by component: measured input, as a part of that predicted, where streams go in circles
    scale: Floats  # (1,) of the component that receives, for `sums`


IN_WORKER, NODE_SENT, NODE_RECEIVED, FAR_SENT, FAR_RECEIVED = 0, 1, 2, 3, 4  # in `Scratch.sums`
ENDS = 5


def scratch(flows: Flows, places: int, edges: int | None = None) -> Scratch:
    """Room for `places` places; `edges`: for so many edges (None: none are wanted)."""
    e, n = len(flows.members), len(flows.node_host)
    scopes = max(places, n, 1)
    return Scratch(
        new_tps=np.zeros(e),
        room_tps=np.zeros(e),
        added_tps=np.zeros(e),
        some=np.zeros(e, dtype=np.int64),
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
        sums=np.zeros((0, ENDS)),
        at=np.zeros(0, dtype=np.int64),
        at_host=np.zeros(0, dtype=np.int64),
        parts=np.ones(max(len(flows.first_member) - 1, 0)),
        scale=np.ones(1),
    )


def summing(flows: Flows, places: int, place: Ints, node_of: Ints) -> Scratch:
    """Room in which edges are not kept, but summed up at both ends by how far the other end is."""
    return scratch(flows, places, 0)._replace(
        sums=np.zeros((len(place), ENDS)), at=place, at_host=flows.node_host[node_of[place]].astype(np.int64)
    )


@jit
def sent_into(f: Flows, g: int, i: int, e: int, received: Floats) -> float:
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
def emit(s: Scratch, a: int, b: int, tps: float) -> None:
    """Note an edge from a to b, where there is room for it, or add it to the sums of its ends."""
    if len(s.sums) > 0:
        s.emitted[0] = 1
        tps *= s.scale[0]
        if s.at[a] == s.at[b]:
            s.sums[a, IN_WORKER] += tps
            s.sums[b, IN_WORKER] += tps
        elif s.at_host[a] == s.at_host[b]:
            s.sums[a, NODE_SENT] += tps
            s.sums[b, NODE_RECEIVED] += tps
        else:
            s.sums[a, FAR_SENT] += tps
            s.sums[b, FAR_RECEIVED] += tps
        return
    n = s.emitted[0]
    if n < len(s.out_tps):
        s.out_from[n] = a
        s.out_to[n] = b
        s.out_tps[n] = tps
    s.emitted[0] = n + 1
