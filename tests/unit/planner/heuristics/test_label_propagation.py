"""Clusters: groups found, sizes kept, packed onto nodes within every limit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from random_models import models

from stormpilot.generate.models import Planted, planted
from stormpilot.model.compiled import NOWHERE, compile_model, unordered
from stormpilot.planner.heuristics.label_propagation import clustered, clusters
from stormpilot.planner.placement.layout import frame_of
from stormpilot.planner.placement.objective import objective_of, weights


def test_two_groups_with_a_weak_bridge_are_two_clusters():
    a = np.array([0, 0, 1, 3, 3, 4, 2])
    b = np.array([1, 2, 2, 4, 5, 5, 3])
    tps = np.array([9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 1.0])
    label = clusters(np.ones(6), np.zeros(6, dtype=np.int64), unordered(6, a, b, tps), 3.0, np.random.default_rng(1))
    assert len(set(label[:3].tolist())) == len(set(label[3:].tolist())) == 1
    assert label[0] != label[5]


def test_no_cluster_is_larger_than_asked_or_mixes_kinds():
    model, _ = planted(Planted(executors=400, nodes=10), np.random.default_rng(3))
    c = compile_model(model)
    kind = np.arange(c.executors) % 2
    largest = float(c.node_limit_mhz.min()) / 3
    label = clusters(c.cpu_mhz, kind, (c.pair_a, c.pair_b, c.pair_tps), largest, np.random.default_rng(1))
    assert np.bincount(label, c.cpu_mhz).max() <= largest * (1 + 1e-9)
    assert all(len(set(kind[label == k].tolist())) == 1 for k in range(label.max() + 1))


def test_a_planted_placement_is_found_again():
    model, plan = planted(Planted(executors=2000, nodes=50), np.random.default_rng(1))
    frame = frame_of(compile_model(model))
    c = frame.compiled
    node = clustered(frame, (c.pair_a, c.pair_b, c.pair_tps), np.random.default_rng(1))
    hidden = c.slot_node[c.slots_of(plan)]
    apart = node[c.pair_a] != node[c.pair_b]
    assert c.pair_tps[apart].sum() <= 1.03 * c.pair_tps[hidden[c.pair_a] != hidden[c.pair_b]].sum()


@settings(max_examples=40, deadline=None)
@given(models())
def test_what_is_packed_keeps_every_limit(model):
    frame = frame_of(compile_model(model))
    c = frame.compiled
    node = clustered(frame, weights(c, objective_of(c, "inter_node")), np.random.default_rng(1))
    free = (node != NOWHERE) & ~c.fixed
    assert c.allowed[c.klass[free], node[free]].all()
    assert (node[c.fixed] == c.slot_node[c.current[c.fixed]]).all()
    on = node != NOWHERE
    fixed_load = np.bincount(node[c.fixed], c.cpu_mhz[c.fixed], c.nodes)
    load = np.bincount(node[on], c.cpu_mhz[on], c.nodes)
    assert (load <= np.maximum(c.node_limit_mhz * (1 + 1e-9), fixed_load)).all()
    for t in range(c.topologies):
        assert len(set(node[on & ~c.fixed & (c.topology == t)].tolist())) <= c.workers[t]
