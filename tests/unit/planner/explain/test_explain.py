"""Why executors are where they are: hand-checked instances, and every answer against moving the executor for real."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from builders import assigned, supervisor, topology, traffic, triangle_too_heavy, two_chains, two_sites
from random_models import models, ruled_models
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.cost import inter_node_tps, inter_worker_tps
from stormpilot.model.values import Assigned, Exclusion, Model, Plan, SharedMemory, Supervisor
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.explain.explain import Choice, Explanation, Obstacle, explain
from stormpilot.planner.registry import without_broken


def explained(model: Model, slots: Mapping[tuple[str, int], tuple[int, ...]], start: int) -> Explanation:
    """The executor that starts at this task, with executors (by start task) in these slots (supervisor, port)."""
    c = compile_model(model)
    numbers = c.slot_numbers()
    placement = np.full(c.executors, -1, dtype=np.int64)
    for slot, starts in slots.items():
        placement[np.isin(c.start, starts)] = numbers[slot]
    assert (placement >= 0).all()
    c = without_broken(c, placement)
    (found,) = explain(c, placement, np.flatnonzero(c.start == start).tolist())
    return found


def with_nodes(model: Model, *nodes: Supervisor) -> Model:
    return msgspec.structs.replace(model, supervisors=list(nodes))


CHAINS = {("n1", 6700): (1, 3, 5), ("n2", 6700): (2, 4, 6)}
PAIR_AND_ONE = {("n1", 6700): (1, 2), ("n2", 6700): (3,)}


def test_says_what_stays_local_and_with_whom() -> None:
    e = explained(two_chains(), CHAINS, 4)
    assert (e.in_worker_tps, e.in_node_tps, e.leaving_tps, e.traffic_tps) == (200.0, 0.0, 2.0, 202.0)
    assert [(n.component, n.start, n.near, n.rate_tps) for n in e.neighbours] == [
        ("a", 2, "worker", 100.0),
        ("c", 6, "worker", 100.0),
        ("a", 1, "network", 1.0),
    ]
    assert e.neighbour_count == 4
    assert (e.component, e.supervisor, e.host, e.port) == ("b", "n2", "host-n2", 6700)


def test_the_second_choice_has_its_price() -> None:
    """Moved to the other chain, a2 puts its 100 tuples/s on the network; it has none with that chain."""
    roomy = with_nodes(two_chains(), supervisor("n1", mhz=400.0), supervisor("n2", mhz=400.0))
    e = explained(roomy, CHAINS, 2)
    assert e.verdict == "least"
    assert e.better is None
    assert e.second == Choice(
        supervisor="n1",
        host="host-n1",
        inter_node_delta_tps=100.0,
        inter_worker_delta_tps=100.0,
        new_worker=False,
        obstacles=[],
    )
    assert explained(roomy, CHAINS, 1).second.inter_node_delta_tps == 99.0  # type: ignore[union-attr]


def test_without_room_elsewhere_there_is_no_second_choice() -> None:
    e = explained(two_chains(), CHAINS, 2)
    assert e.second is None
    assert e.verdict == "least"


def test_cpu_that_forbids_better_is_named_with_its_numbers() -> None:
    e = explained(triangle_too_heavy(), PAIR_AND_ONE, 3)
    assert e.verdict == "blocked"
    assert e.better is not None
    assert (e.better.supervisor, e.better.inter_node_delta_tps) == ("n1", -7.0)
    assert e.better.obstacles == [Obstacle(constraint="cpu", text="n1 has 0 MHz left of 200, it needs 100")]


def test_a_better_place_that_is_allowed_is_said() -> None:
    roomy = with_nodes(triangle_too_heavy(), supervisor("n1", mhz=300.0), supervisor("n2", mhz=300.0))
    e = explained(roomy, PAIR_AND_ONE, 3)
    assert e.verdict == "improvable"
    assert e.better == e.second
    assert e.better is not None
    assert e.better.obstacles == []


def test_memory_forbids_like_cpu() -> None:
    t = topology("triangle", {"x": 3}, workers=2, memory_mb=60.0)
    nodes = [supervisor("n1", memory_mb=128.0), supervisor("n2", memory_mb=128.0)]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("triangle", {(1, 3): 3.0}))
    e = explained(model, PAIR_AND_ONE, 3)
    assert e.better is not None
    assert [o.text for o in e.better.obstacles] == ["n1 has 8 MB left of 128, it needs 60"]


def test_workers_and_slots_forbid_where_the_topology_has_no_worker() -> None:
    """n1 is full; n3 is on its host, so the traffic would be as local there: but both workers are in use."""
    full = supervisor("n1", mhz=200.0)
    model = with_nodes(triangle_too_heavy(), full, supervisor("n2"), supervisor("n3", host="host-n1"))
    crowded = {("n1", 6700): (1,), ("n2", 6700): (2, 3)}
    e = explained(model, crowded, 2)
    assert e.better is not None
    assert (e.better.supervisor, e.better.inter_node_delta_tps) == ("n1", -1.0)  # it gains 5 and loses 4
    alone = explained(model, PAIR_AND_ONE, 3)
    assert alone.better is not None
    assert (alone.better.supervisor, alone.better.new_worker, alone.better.obstacles) == ("n3", True, [])
    no_slots = with_nodes(model, full, supervisor("n2"), supervisor("n3", slots=0, host="host-n1"))
    shut = explained(no_slots, PAIR_AND_ONE, 3)
    assert shut.verdict == "blocked"


def test_all_workers_in_use_is_said() -> None:
    t = topology("pair", {"x": 4}, workers=2)
    nodes = [supervisor("n1", mhz=200.0), supervisor("n2"), supervisor("n3", host="host-n1")]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("pair", {(1, 3): 5.0, (1, 4): 1.0, (2, 4): 1.0}))
    e = explained(model, {("n1", 6700): (1, 2), ("n2", 6700): (3, 4)}, 3)
    assert e.verdict == "blocked"
    assert e.better is not None
    assert e.better.supervisor == "n1"
    assert [o.constraint for o in e.better.obstacles] == ["cpu"]
    without_n1 = msgspec.structs.replace(model, exclusions=[Exclusion(supervisor="n1", topology="pair", component="x")])
    moved = explained(without_n1, {("n1", 6700): (1, 2), ("n2", 6700): (3, 4)}, 3)
    assert moved.better is not None
    assert [o.text for o in moved.better.obstacles] == [
        "x is excluded from n1",
        "n1 has 0 MHz left of 200, it needs 100",
    ]


def test_site_pin_and_exclusion_are_named() -> None:
    """work 4 talks to source 2 on e and sink 6 on w; source may only be on e."""
    model = two_sites()
    slots = {("e", 6700): (1, 2), ("x", 6700): (3, 4), ("w", 6700): (5, 6)}
    source = explained(model, slots, 1)
    assert source.better is not None
    assert source.better.supervisor == "x"
    assert [o.text for o in source.better.obstacles] == ["source asks for site east, x has no site"]
    pinned = msgspec.structs.replace(
        model,
        topologies=[
            msgspec.structs.replace(
                t, executors=[msgspec.structs.replace(e, pin="x" if e.start == 3 else None) for e in t.executors]
            )
            for t in model.topologies
        ],
    )
    work = explained(pinned, slots, 3)
    assert work.better is not None
    assert [o.constraint for o in work.better.obstacles] == ["pin"]
    assert work.second is None


def test_a_wish_for_a_site_is_called_a_wish() -> None:
    model = two_sites()
    (t,) = model.topologies
    wishes = [msgspec.structs.replace(x, site_required=False) for x in t.components]
    soft = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, components=wishes)])
    e = explained(soft, {("e", 6700): (1, 2), ("x", 6700): (3, 4), ("w", 6700): (5, 6)}, 1)
    assert e.better is not None
    assert [o.text for o in e.better.obstacles] == ["source wishes for site east, x has no site"]


def test_a_wish_that_the_placement_gives_up_forbids_nothing() -> None:
    """source 1 is on e as wished, source 2 is not: the planner gave the wish up for all of them."""
    model = two_sites()
    (t,) = model.topologies
    wishes = [msgspec.structs.replace(x, site_required=False) for x in t.components]
    soft = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, components=wishes)])
    slots = {("e", 6700): (1,), ("x", 6700): (2, 3, 4), ("w", 6700): (5, 6)}
    found = explained(soft, slots, 1)
    assert (found.verdict, found.better and found.better.supervisor) == ("improvable", "x")
    closed = explained(
        msgspec.structs.replace(soft, exclusions=[Exclusion(supervisor="x", component="source")]), slots, 1
    )
    assert closed.better is not None
    assert [o.constraint for o in closed.better.obstacles] == ["exclusion"]
    sunk = explained(soft, slots, 5)
    assert sunk.better is not None
    assert [o.text for o in sunk.better.obstacles] == ["sink wishes for site west, x has no site"]


def test_a_fixed_worker_is_not_judged() -> None:
    model = triangle_too_heavy()
    (t,) = model.topologies
    placed = assigned(compute(model, "online", seed=1), model)  # type: ignore[arg-type]
    a = placed.topologies[0].assignment[0]
    fixed = msgspec.structs.replace(placed.topologies[0], fixed_workers=[(a.supervisor, a.port)])
    c = compile_model(msgspec.structs.replace(placed, topologies=[fixed]))
    (e,) = explain(c, c.current, [int(np.flatnonzero(c.start == a.start)[0])])
    assert (e.verdict, e.better, e.second) == ("fixed", None, None)
    assert t.executors


def test_a_fixed_worker_is_not_joined() -> None:
    t = topology("pair", {"x": 2}, workers=2, streams=[])
    model = Model(supervisors=[supervisor("n1", 1), supervisor("n2", 1)], topologies=[t])
    slots = {("n1", 6700): (1,), ("n2", 6700): (2,)}
    assert explained(model, slots, 1).second is not None
    placed = [Assigned(start=s, supervisor=n, port=port) for (n, port), (s,) in slots.items()]
    fixed = msgspec.structs.replace(t, assignment=placed, fixed_workers=[("n2", 6700)])
    assert explained(msgspec.structs.replace(model, topologies=[fixed]), slots, 1).second is None


def test_equal_places_are_a_tie() -> None:
    t = topology("pair", {"x": 2}, workers=2)
    model = Model(supervisors=[supervisor("n1"), supervisor("n2")], topologies=[t])
    e = explained(model, {("n1", 6700): (1,), ("n2", 6700): (2,)}, 1)
    assert e.verdict == "tie"
    assert e.neighbours == []


def test_supervisors_without_slots_and_no_executors_are_no_trouble() -> None:
    model = with_nodes(triangle_too_heavy(), supervisor("n0", slots=0), *triangle_too_heavy().supervisors)
    assert explained(model, PAIR_AND_ONE, 3).better is not None
    c = compile_model(Model(supervisors=[], topologies=[]))
    assert explain(c, c.current) == []


RULES: list[tuple[dict[str, object], dict[str, object], str, str]] = [
    ({"worker_executors": 2}, {}, "worker-executors", "n1:6700 holds 2 of at most 2 executors"),
    ({"worker_heap_mb": 50.0}, {}, "worker-heap", "n1:6700 has 10 MB of heap left of 50, it needs 20"),
    ({"apart": [("a", "b")]}, {}, "apart", "b is kept apart from a, which is in n1:6700"),
    ({}, {"most_per_node": 1}, "most-per-node", "n1 holds 1 of at most 1 executors of b"),
    ({}, {"resources": {"gpu": 0.5}}, "resource", "n1 has 0 gpu left of 0.5, it needs 0.5"),
]


@pytest.mark.parametrize(("of_topology", "of_component", "constraint", "text"), RULES)
def test_a_rule_on_who_shares_a_worker_or_a_node_is_named(
    of_topology: dict[str, object], of_component: dict[str, object], constraint: str, text: str
) -> None:
    """b 3 talks to a 1; a 1 and b 2 are in the only worker on n1, and all workers are in use."""
    t = topology("t", {"a": 1, "b": 3}, workers=2, streams=[("a", "b")])
    a, b = (msgspec.structs.replace(c, heap_mb=20.0) for c in t.components)
    t = msgspec.structs.replace(t, components=[a, msgspec.structs.replace(b, **of_component)], **of_topology)
    nodes = [msgspec.structs.replace(supervisor(n), resources={"gpu": g}) for n, g in (("n1", 0.5), ("n2", 9.0))]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 3): 5.0}))
    slots = {("n1", 6700): (1, 2), ("n2", 6700): (3, 4)}
    e = explained(model, slots, 3)
    assert (e.verdict, e.second) == ("blocked", None)
    assert e.better is not None
    assert e.better.supervisor == "n1"
    assert Obstacle(constraint=constraint, text=text) in e.better.obstacles  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shared", "constraint", "text"),
    [
        (
            SharedMemory(name="m", components=["a", "b"], node_mb=50.0, worker_mb=30.0),
            "memory",
            "n1 has 20 MB left of 140, it needs 40",
        ),
        (
            SharedMemory(name="m", components=["b"], worker_mb=20.0, heap_mb=10.0, node_mb=50.0),
            "memory",
            "n1 has 100 MB left of 140, it needs 120, 80 of it for memory that its component shares",
        ),
        (
            SharedMemory(name="m", components=["b"], heap_mb=30.0),
            "worker-heap",
            "n1:6700 has 44 MB of heap left of 64, it needs 50, 30 of it for memory that its component shares",
        ),
    ],
)
def test_memory_that_components_share_counts_as_in_plans(shared: SharedMemory, constraint: str, text: str) -> None:
    """b 2 talks to a 1, which is alone in its worker on n1; a worker more may not be opened."""
    t = topology("t", {"a": 1, "b": 2}, workers=2, streams=[("a", "b")], memory_mb=40.0)
    a, b = t.components
    components = [msgspec.structs.replace(a, heap_mb=20.0), msgspec.structs.replace(b, heap_mb=20.0)]
    t = msgspec.structs.replace(t, components=components, shared_memory=[shared], worker_heap_mb=64.0)
    nodes = [supervisor("n1", memory_mb=140.0), supervisor("n2", memory_mb=900.0)]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 2): 5.0}))
    e = explained(model, {("n1", 6700): (1,), ("n2", 6700): (2, 3)}, 2)
    assert (e.verdict, e.second) == ("blocked", None)
    assert e.better is not None
    assert Obstacle(constraint=constraint, text=text) in e.better.obstacles  # type: ignore[arg-type]


def test_a_worker_of_its_own_is_opened_where_a_rule_keeps_it_out_of_the_present_one() -> None:
    t = msgspec.structs.replace(topology("pair", {"x": 3}, workers=3), worker_executors=1)
    model = Model(
        supervisors=[supervisor("n1"), supervisor("n2")], topologies=[t], traffic=traffic("pair", {(1, 2): 5.0})
    )
    e = explained(model, {("n1", 6700): (1,), ("n2", 6700): (2,), ("n2", 6701): (3,)}, 2)
    assert (e.verdict, e.better) == ("improvable", e.second)
    assert e.better is not None
    assert (e.better.supervisor, e.better.new_worker) == ("n1", True)


@settings(max_examples=60, deadline=None)
@given(models() | ruled_models())
def test_what_a_move_costs_is_what_it_costs_when_it_is_made(model: Model) -> None:
    """Second and better choice against all supervisors, each tried with the independent checker and the metrics."""
    plan = compute(model, "default")
    if not isinstance(plan, Plan):
        return
    # The checker does not hold a plan to wishes either.
    c = compile_model(model, given_up=[(t.id, x.id) for t in model.topologies for x in t.components])
    placement = c.slots_of(plan)
    if violations(model, plan):
        return
    for e, found in enumerate(explain(c, placement)):
        tried = {n: moved(c, placement, e, n) for n in range(c.nodes) if n != c.slot_node[placement[e]]}
        allowed = {n: delta for n, (delta, ok) in tried.items() if ok}
        if found.second is None:
            assert not allowed, (found, allowed)
        else:
            n = c.node_ids.index(found.second.supervisor)
            assert found.second.obstacles == []
            assert allowed[n] == pytest.approx(
                (found.second.inter_node_delta_tps, found.second.inter_worker_delta_tps), abs=1e-6
            )
            assert allowed[n][0] <= min(d for d, _ in allowed.values()) + 1e-4
        if found.better is not None:
            n = c.node_ids.index(found.better.supervisor)
            assert (n in allowed) == (found.better.obstacles == [])
            assert found.better.inter_node_delta_tps <= 1e-6


def moved(c: Compiled, placement: np.ndarray, e: int, n: int) -> tuple[tuple[float, float], bool]:
    """(inter-node, inter-worker) change of moving e to node n, where it costs least there; and whether it may."""
    slots = range(int(c.first_slot[n]), int(c.first_slot[n + 1]))
    options = []
    for slot in slots:
        there = c.topology[placement == slot]
        if len(there) and (there != c.topology[e]).any():
            continue
        after = placement.copy()
        after[e] = slot
        delta = (
            inter_node_tps(c, after) - inter_node_tps(c, placement),
            inter_worker_tps(c, after) - inter_worker_tps(c, placement),
        )
        if not violations(c.model, c.plan_of(after)):
            joins = len(there) > 0
            options.append((not joins, delta))
    if not options:
        return (0.0, 0.0), False
    return min(options)[1], True
