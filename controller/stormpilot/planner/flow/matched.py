"""Traffic as it could be: what planners on pairs are given, so that they see chains that they can keep together."""

from __future__ import annotations

import msgspec
import numpy as np

from stormpilot.model.bounds import MOST
from stormpilot.model.flow import arrays
from stormpilot.model.flow.model import FlowModel
from stormpilot.model.values import Edge, Model

DENSE = 20_000  # pairs of one flow: beyond, each source gets `SOME` targets that stand for all
SOME = 12


def matched(flow: FlowModel) -> Model:
    """The model with traffic as it could be: every source of a shuffle beside a target of its own.

    Targets get even shares, source by source: an executor's shuffled output goes to the one or two targets whose turn
    it is. So a planner on pairs sees chains that it can keep together instead of everybody talking to everybody. What
    follows is spread evenly over the executors of components that count as alike, their CPU too.
    """
    c, f = flow.compiled, flow.flows
    cpu = c.cpu_mhz.copy()
    edges: list[tuple[int, int, float]] = []
    for k in range(len(f.first_member) - 1):
        own = f.members[f.first_member[k] : f.first_member[k + 1]]
        if f.cpu_rule[k] == arrays.FOLLOWS:
            cpu[own] = f.base_mhz[k] + f.cost_mhz[k] * float(f.received_tps[own].mean())
        for g in range(int(f.first_group[k]), int(f.first_group[k + 1])):
            edges += _matched_group(flow, g, k)
    ids = [t.id for t in c.model.topologies]
    traffic = [
        Edge(topology=ids[int(c.topology[a])], from_=int(c.start[a]), to=int(c.start[b]), rate=min(tps, MOST))
        for a, b, tps in edges
    ]
    topologies = []
    for i, t in enumerate(c.model.topologies):
        lo, hi = int(c.first_executor[i]), int(c.first_executor[i + 1])
        mhz = {int(c.start[e]): float(cpu[e]) for e in range(lo, hi)}
        executors = [msgspec.structs.replace(e, cpu_mhz=mhz[e.start]) for e in t.executors]
        topologies.append(msgspec.structs.replace(t, executors=executors))
    return msgspec.structs.replace(c.model, topologies=topologies, traffic=traffic)


def _matched_group(flow: FlowModel, g: int, target: int) -> list[tuple[int, int, float]]:
    f = flow.flows
    if f.group_rule[g] == arrays.KEYED:
        lo, hi = int(f.first_edge[g]), int(f.first_edge[g + 1])
        return list(
            zip(f.edge_from[lo:hi].tolist(), f.edge_to[lo:hi].tolist(), f.edge_tps[lo:hi].tolist(), strict=True)
        )
    source = int(f.group_source[g])
    sources = f.members[f.first_member[source] : f.first_member[source + 1]]
    targets = f.members[f.first_member[target] : f.first_member[target + 1]]
    sent = f.out_tps[f.group_out[g] : f.group_out[g] + len(sources)]
    if f.alike[source]:
        sent = np.full(len(sources), float(sent.sum()) / len(sources))
    if f.group_rule[g] in (arrays.EVEN, arrays.POOLED):
        weight = f.weight[f.group_weight[g] : f.group_weight[g] + len(targets)]
        some = np.flatnonzero(weight > 0)
        edges = []
        for i, (a, tps) in enumerate(zip(sources.tolist(), sent.tolist(), strict=True)):
            of = some
            if len(sources) * len(some) > DENSE:
                of = some[(i + np.arange(SOME) * len(some) // SOME) % len(some)]
            part = tps / float(weight[of].sum())
            edges += [(a, int(targets[j]), float(part * weight[j])) for j in of if tps > 0]
        return edges
    share = float(sent.sum()) / len(targets)
    pieces = []
    at = 0.0
    for a, tps in zip(sources.tolist(), sent.tolist(), strict=True):
        left = tps
        while left > 1e-9 * share:
            j = min(int(at / share + 1e-9), len(targets) - 1)
            part = left if j == len(targets) - 1 else min(left, (j + 1) * share - at)
            pieces.append((a, int(targets[j]), part))
            at += part
            left -= part
    return pieces
