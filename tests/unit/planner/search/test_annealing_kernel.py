"""The local search keeps its books: totals, loads, rings and tables of connections are those of a fresh count."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import supervisor, topology, traffic, two_chains
from random_models import models
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Assigned, Infeasible, Model
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Layout, empty_layout, frame_of, running_layout
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import (
    Limits,
    Objective,
    no_limits,
)
from stormpilot.planner.repair import completed
from stormpilot.planner.search import annealing_kernel
from stormpilot.planner.search.annealing import LATE_TRIES, Annealer
from stormpilot.planner.search.sharing import mends
from stormpilot.planner.search.start import space
from stormpilot.planner.search.state import Space, layout_of


def ring(g: Space, w: int) -> list[int]:
    found = [int(g.workers["head"][w])]
    while int(g.executors["after"][found[-1]]) != found[0]:
        found.append(int(g.executors["after"][found[-1]]))
        assert int(g.executors["before"][found[-1]]) == found[-2]
    return found


def assert_books_are_right(g: Space, template: Space) -> None:
    kept = {name: float(g.box[name][0]) for name in ("traffic", "violation", "restarted", "overloaded", "forbidden")}
    fresh = space(template, *layout_of(g), 1)
    for name, value in kept.items():
        assert value == pytest.approx(float(fresh.box[name][0]), abs=1e-6), name
    assert g.nodes["load"] == pytest.approx(fresh.nodes["load"], abs=1e-6)
    assert g.nodes["over"] == pytest.approx(fresh.nodes["over"], abs=1e-6)
    assert g.workers["cpu"] == pytest.approx(fresh.workers["cpu"], abs=1e-6)
    assert g.table == pytest.approx(fresh.table, abs=1e-6)
    assert g.rack_table == pytest.approx(fresh.rack_table, abs=1e-6)
    for name in ("size", "away", "node"):
        assert (g.workers[name] == fresh.workers[name]).all(), name
    assert (g.nodes["used"] == fresh.nodes["used"]).all()
    assert (g.topologies["used_workers"] == fresh.topologies["used_workers"]).all()
    for w in np.flatnonzero(g.workers["size"]).tolist():
        assert sorted(ring(g, w)) == np.flatnonzero(g.executors["worker"] == w).tolist()
        assert g.on_node[g.workers["node"][w], g.workers["place"][w]] == w
        assert g.topology_on_node[g.workers["node"][w], g.workers["place"][w]] == g.workers["topology"][w]


@settings(max_examples=60, deadline=None)
@given(
    model=models(most_executors=12),
    seed=st.integers(1, 2**31),
    exact_workers=st.booleans(),
    inside_nodes=st.booleans(),
    room=st.integers(0, 3),
    temperature=st.sampled_from([0.0, 5.0, 100.0]),
    distance=st.sampled_from([(1.0, 2.0, 3.0), (0.5, 1.0, 1.0)]),
    tables=st.booleans(),
)
def test_books_and_hard_limits_hold_after_any_number_of_moves(
    model, seed, exact_workers, inside_nodes, room, temperature, distance, tables
):
    """Also by other distances, and where tables are too large to be kept."""
    frame = frame_of(compile_model(model))
    c = frame.compiled
    sizes = np.diff(c.first_executor)
    limits = no_limits(c, exact_workers=exact_workers)
    if room and not c.fixed.any():
        limits = Limits(-(-sizes // np.maximum(c.workers, 1)) + room - 1, limits.exact_workers)
    start = completed(frame, empty_layout(frame), limits)
    if isinstance(start, Infeasible) or refuted(frame, exact_workers=exact_workers):
        return
    workers_before = (np.bincount(start.worker, minlength=frame.workers) > 0).sum()
    annealer = Annealer(frame, Objective(distance, restart_tps=4.0), limits, largest_table=10**6 if tables else 30)
    g = space(annealer.template, start.worker, start.node, seed)
    assert (len(g.table) == (sizes * c.workers).sum()) or not tables
    worker, node = layout_of(g)
    best = np.array([np.inf])
    for _ in range(10):
        if inside_nodes:
            annealing_kernel.run_inside(g, 30, temperature, worker, node, best)
        else:
            annealing_kernel.run(g, 60, temperature, 0.5, 2.0, worker, node, best)
        assert_books_are_right(g, annealer.template)
        assert (g.nodes["used"] <= c.slots_per_node()).all()
        assert (g.topologies["used_workers"] <= c.workers).all()
        assert (g.workers["size"] <= limits.max_executors[frame.topology]).all()
        assert (g.executors["worker"][c.fixed] == frame.home[c.fixed]).all()
        if exact_workers:
            assert (g.workers["size"] > 0).sum() == workers_before
        if inside_nodes:
            assert (Layout(*layout_of(g)).node_of_executors() == start.node_of_executors()).all()
        if np.isfinite(best[0]):
            assert annealer.cost(Layout(worker, node)) == pytest.approx(best[0])
            assert annealer.violation(Layout(worker, node)) <= 0


@settings(max_examples=30, deadline=None)
@given(model=models(), seed=st.integers(0, 1000))
def test_search_never_returns_something_worse_than_its_start(model, seed):
    frame = frame_of(compile_model(model))
    limits = no_limits(frame.compiled)
    start = completed(frame, empty_layout(frame), limits)
    if isinstance(start, Infeasible):
        return
    annealer = Annealer(frame, Objective((1e-3, 1.0, 1.0)), limits)
    before = annealer.violation(start), annealer.cost(start)
    found = annealer.search(start, np.random.default_rng(seed), 500, lambda: 1.0)
    after = annealer.violation(found.layout), annealer.cost(found.layout)
    assert after[0] <= before[0] + 1e-6
    if before[0] <= 1e-6:
        assert after[1] <= before[1] + 1e-9
    if found.violation <= 0:
        assert found.cost == pytest.approx(after[1])


def test_where_nobody_may_move_nothing_is_tried():
    """Who moves is drawn from a list; of an empty one, memory beyond it was read."""
    frame = frame_of(compile_model(two_chains()))
    start = completed(frame, empty_layout(frame), no_limits(frame.compiled))
    assert isinstance(start, Layout)
    annealer = Annealer(frame, Objective((1.0, 2.0, 3.0)), no_limits(frame.compiled))
    g = space(annealer.template, start.worker, start.node, 1)
    g = g._replace(movable=g.movable[:0])
    worker, node = layout_of(g)
    assert annealing_kernel.run_inside(g, 30, 100.0, worker, node, np.array([np.inf])) == 0
    assert annealing_kernel.run(g, 30, 100.0, 0.5, 2.0, worker, node, np.array([np.inf])) == 0
    assert (layout_of(g)[0] == start.worker).all() and (layout_of(g)[1] == start.node).all()


def test_clock_that_is_over_cuts_the_search_and_is_reported():
    frame = frame_of(compile_model(two_chains()))
    limits = no_limits(frame.compiled)
    start = completed(frame, empty_layout(frame), limits)
    annealer = Annealer(frame, Objective((1e-3, 1.0, 1.0)), limits)
    assert annealer.search(start, np.random.default_rng(1), 10_000, lambda: 0.0).cut
    assert not annealer.search(start, np.random.default_rng(1), 10_000, lambda: 1.0).cut


def test_inside_a_node_each_of_its_workers_can_be_filled():
    """4 belongs to 6, which is alone in the third worker; the others keep together."""
    t = topology("t", {"x": 7}, workers=3)
    rates = dict.fromkeys([(1, 2), (2, 3), (1, 3), (5, 7)], 1000.0) | {(4, 6): 100.0}
    model = Model(supervisors=[supervisor("n1", 3)], topologies=[t], traffic=traffic("t", rates))
    frame = frame_of(compile_model(model))
    start = Layout(np.array([0, 0, 0, 0, 1, 2, 1]), np.array([0, 0, 0]))
    annealer = Annealer(frame, Objective((1.0, 2.0, 3.0)), no_limits(frame.compiled, exact_workers=True))
    assert annealer.cost(start) == 100.0
    rng = np.random.default_rng(1)
    found = annealer.search(start, rng, 2000, lambda: 1.0, first_temperature=0.0, inside_nodes=True)
    assert found.cost == 0.0


@pytest.mark.parametrize("rule", [{"apart": [("a", "b")]}, {"worker_heap_mb": 200.0}], ids=["apart", "heap"])
def test_on_a_node_an_executor_joins_the_worker_that_may_have_it(rule):
    """3 belongs on n1, whose slots are in use: it may not join 1's worker, but 2's."""
    t = topology("t", {"a": 1, "b": 2, "c": 2}, workers=3)
    heap_mb = {"a": 150.0, "b": 100.0, "c": 50.0}
    components = [msgspec.structs.replace(c, heap_mb=heap_mb[c.id]) for c in t.components]
    model = Model(
        supervisors=[supervisor("n1", 2), supervisor("n2", 1)],
        topologies=[msgspec.structs.replace(t, components=components, **rule)],
        traffic=traffic("t", {(1, 2): 10.0, (1, 3): 10.0, (4, 5): 1000.0}),
    )
    frame = frame_of(compile_model(model))
    annealer = Annealer(frame, Objective((0.0, 1.0, 1.0)), no_limits(frame.compiled))
    start = Layout(np.array([0, 1, 2, 2, 2]), np.array([0, 0, 1]))
    assert annealer.cost(start) == 10.0
    assert annealer.search(start, np.random.default_rng(1), 5000, lambda: 1.0, first_temperature=0.0).cost == 0.0


@pytest.mark.parametrize("rule", [{"worker_executors": 3}, {"worker_heap_mb": 300.0}], ids=["executors", "heap"])
def test_full_workers_exchange_pieces_whichever_stands_first_on_its_node(rule):
    """1 and 2, of n1's second worker, change places with 3 and 4, of n2's second: alone none of the four would go."""
    t = topology("t", {"x": 12}, workers=4)
    t = msgspec.structs.replace(t, components=[msgspec.structs.replace(t.components[0], heap_mb=100.0)], **rule)
    near = {(1, 2): 100.0, (3, 4): 100.0, (5, 7): 50.0, (6, 8): 50.0, (7, 9): 50.0, (7, 10): 50.0, (8, 11): 50.0}
    rates = traffic("t", near | {(8, 12): 50.0, (1, 8): 10.0, (3, 7): 10.0})
    nodes = [supervisor("n1", 2, mhz=600.0), supervisor("n2", 2, mhz=600.0)]
    frame = frame_of(compile_model(Model(supervisors=nodes, topologies=[t], traffic=rates)))
    annealer = Annealer(frame, Objective((1.0, 2.0, 2.0)), no_limits(frame.compiled))
    start = Layout(np.array([1, 1, 3, 3, 1, 3, 0, 2, 0, 0, 2, 2]), np.array([0, 0, 1, 1]))
    assert annealer.cost(start) == 140.0
    assert annealer.search(start, np.random.default_rng(1), 20_000, lambda: 1.0, first_temperature=0.0).cost == 120.0


def test_a_search_that_never_fits_ends_soon_after_its_time() -> None:
    """21 executors of more than half of one of 20 nodes, and 1,979 others: a pass of settling is 20,000 tries."""
    t = topology("t", {"large": 21, "small": 1979}, workers=20, cpu_mhz=1.0)
    mb = {"large": 550.0, "small": 0.1}
    sized = [msgspec.structs.replace(e, memory_mb=mb[e.component]) for e in t.executors]
    model = Model(
        supervisors=[supervisor(f"n{i}", memory_mb=1000.0) for i in range(20)],
        topologies=[msgspec.structs.replace(t, executors=sized)],
        traffic=traffic("t", {(e, e + 1): 1.0 for e in range(1, 2000)}),
    )
    c = compile_model(model)
    frame = frame_of(c)
    search = Annealer(frame, objective_of(c, "inter_node"), no_limits(c))
    start = Layout(np.arange(2000, dtype=np.int64) % 20, np.arange(20, dtype=np.int64))
    found = search.search(start, np.random.default_rng(1), 10**9, lambda: -1.0, timed=True)
    assert found.violation > 0
    assert found.tries <= 1000 + LATE_TRIES


def test_who_stays_on_a_node_mends_nothing_of_what_the_node_lacks() -> None:
    """Four executors of one GPU each on a node that has three: one that leaves mends that, others do not."""
    t = topology("t", {"a": 4}, workers=4)
    t = msgspec.structs.replace(
        t, components=[msgspec.structs.replace(x, resources={"gpu": 1.0}) for x in t.components]
    )
    nodes = [msgspec.structs.replace(supervisor(n), resources={"gpu": 3.0}) for n in ("n0", "n1")]
    placed = [Assigned(start=i, supervisor="n0", port=6700 + i % 2) for i in (1, 2, 3, 4)]
    model = Model(supervisors=nodes, topologies=[msgspec.structs.replace(t, assignment=placed)])
    frame = frame_of(compile_model(model))
    annealer = Annealer(frame, objective_of(frame.compiled, "inter_node"), no_limits(frame.compiled))
    runs = running_layout(frame)
    g = space(annealer.template, runs.worker, runs.node, 1)
    assert [mends(g, 0, to) for to in (0, 1)] == [0, 1]
