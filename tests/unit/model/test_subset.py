"""A part of a model: what stays keeps its slots, CPU and memory."""

from __future__ import annotations

import msgspec

from doubles.models import PAIRED, SPREAD, model, plan, topology
from stormpilot.decide.predict import predict
from stormpilot.model.load import node_load_mhz, planned_load_mhz
from stormpilot.model.subset import (
    Parts,
    isolated_by_id,
    plan_of,
    subset,
    with_cpu,
    with_headroom,
    with_plans,
    with_survivors_fixed,
)
from stormpilot.model.values import SharedMemory


def test_slots_cpu_and_memory_of_the_others_are_taken_out() -> None:
    whole = model(topology(SPREAD), topology({("a", 2): (1, 2, 3, 4)}, "wordcount"))
    rest = subset(whole, ["flights-1"])
    a, b, c = rest.supervisors
    assert (a.slots, b.slots, c.slots) == ([1], [1, 2], [1, 2])
    assert (a.limit_mhz, b.limit_mhz, c.limit_mhz) == (200.0, 1000.0, 1000.0)
    assert (a.memory_mb, b.memory_mb) == (4096.0 - 400.0, 4096.0)
    assert [t.id for t in rest.topologies] == ["flights-1"]
    assert {e.topology for e in rest.traffic} == {"flights-1"}


def test_what_others_hold_of_resources_is_taken_out_too() -> None:
    """Two executors of the other one take 1.5 each of the 4 and 2 that a and b have; b has too few as it is."""
    other = topology({("a", 2): (1, 2), ("b", 2): (3, 4)}, "wordcount")
    needy = [msgspec.structs.replace(c, resources={"gpu": 1.5}) for c in other.components]
    whole = model(topology(SPREAD), msgspec.structs.replace(other, components=needy))
    has = {"a": {"gpu": 4.0, "disk": 1.0}, "b": {"gpu": 2.0}}
    nodes = [msgspec.structs.replace(s, resources=has.get(s.id, {})) for s in whole.supervisors]
    rest = subset(msgspec.structs.replace(whole, supervisors=nodes), ["flights-1"])
    assert [s.resources for s in rest.supervisors] == [{"gpu": 1.0, "disk": 1.0}, {"gpu": 0.0}, {}]


def test_part_of_everything_is_the_model() -> None:
    whole = model(topology(SPREAD))
    assert subset(whole, ["flights-1"]) == whole


def test_overloaded_node_has_no_cpu_left_but_not_less_than_none() -> None:
    whole = model(topology(SPREAD), topology({("a", 2): (1, 2, 3, 4)}, "wordcount", cpu_mhz=900.0))
    assert subset(whole, ["flights-1"]).supervisors[0].limit_mhz == 0.0


def test_supervisor_without_a_memory_limit_keeps_none() -> None:
    import msgspec

    whole = model(topology(SPREAD), topology({("a", 2): (1, 2)}, "wordcount"))
    free = msgspec.structs.replace(
        whole, supervisors=[msgspec.structs.replace(s, memory_mb=0.0) for s in whole.supervisors]
    )
    assert {s.memory_mb for s in subset(free, ["flights-1"]).supervisors} == {0.0}


def test_model_after_a_plan_has_its_assignment() -> None:
    after = with_plans(model(topology(SPREAD)), {"flights-1": plan(PAIRED).topologies[0]})
    assert [(a.start, a.supervisor) for a in after.topologies[0].assignment] == [(1, "a"), (2, "b"), (3, "a"), (4, "b")]


def test_workers_that_run_are_fixed_in_a_topology_that_lost_others_and_free_in_one_that_lost_none() -> None:
    whole, torn = topology(SPREAD, name="whole"), topology(SPREAD, name="torn")
    torn = msgspec.structs.replace(torn, assignment=torn.assignment[1:], workers=3)
    before = model(whole, torn)
    fixed = {t.name: t.fixed_workers for t in with_survivors_fixed(before).topologies}
    assert fixed == {"whole": [], "torn": sorted({(a.supervisor, a.port) for a in torn.assignment})}
    narrow = msgspec.structs.replace(
        before,
        supervisors=[msgspec.structs.replace(s, cpu_limit_mhz=300.0, memory_mb=150.0) for s in before.supervisors],
    )
    room = {s.id: (s.limit_mhz, s.memory_mb) for s in with_survivors_fixed(narrow).supervisors}
    assert room == {"a": (300.0, 150.0), "b": (400.0, 200.0), "c": (300.0, 150.0)}, "of torn alone, not of whole"
    lost_all = model(msgspec.structs.replace(torn, assignment=[]))
    assert with_survivors_fixed(lost_all) is lost_all


def test_worker_on_a_port_that_its_supervisor_no_longer_has_is_not_fixed() -> None:
    torn = topology({("a", 1): (1,), ("b", 9): (2, 3)}, name="torn")
    (fixed,) = with_survivors_fixed(model(torn)).topologies
    assert fixed.fixed_workers == [("a", 1)]


def test_headroom_leaves_every_node_what_it_has_but_never_more_than_its_limit() -> None:
    """Of 1000 MHz each, a has 800, b 1200, c nothing."""
    whole = model(
        topology({("a", 1): (1, 2), ("b", 1): (3, 4)}, cpu_mhz=400.0),
        topology({("b", 2): (1, 2, 3, 4)}, "wordcount", cpu_mhz=100.0),
    )
    assert [s.limit_mhz for s in with_headroom(whole, 0.9).supervisors] == [900.0, 1000.0, 900.0]
    assert [s.limit_mhz for s in with_headroom(whole, 0.5).supervisors] == [800.0, 1000.0, 500.0]
    assert with_headroom(whole, 1.0) is whole


def test_plan_of_one_topology() -> None:
    both = plan(SPREAD, PAIRED)
    assert [t.id for t in plan_of(both, "wordcount-1").topologies] == ["wordcount-1"]


def test_load_of_nodes_now_and_as_planned() -> None:
    m = model(topology(SPREAD))
    assert dict(node_load_mhz(m)) == {"a": 400.0, "b": 400.0}
    planned = planned_load_mhz(m, {"flights-1": plan({("c", 1): (1, 2, 3), ("b", 2): (4,)}).topologies[0]})
    assert dict(planned) == {"c": 600.0, "b": 200.0}


def test_each_topology_alone_has_its_own_traffic_and_all_supervisors() -> None:
    whole = model(topology(SPREAD), topology({("a", 2): (1, 2, 3, 4)}, "wordcount"))
    found = isolated_by_id(whole)
    assert [(t, [x.id for x in m.topologies]) for t, m in found.items()] == [
        (t, [t]) for t in ("flights-1", "wordcount-1")
    ]
    assert [e for m in found.values() for e in m.traffic] == whole.traffic
    assert all(m.supervisors == whole.supervisors for m in found.values())


def test_slot_that_another_topology_claims_too_stays_that_of_whoever_is_planned() -> None:
    whole = model(topology(SPREAD), topology({("a", 2): (1, 2), ("b", 1): (3, 4)}, "forged"))
    rest = subset(whole, ["flights-1"])
    assert [s.slots for s in rest.supervisors] == [[1], [1, 2], [1, 2]]
    assert predict(rest, plan(PAIRED, names=["flights"]), "measured").now_tps is not None


def test_parts_taken_one_by_one_leave_each_what_the_sum_of_the_others_does_not_hold() -> None:
    """Three on one node, with memory that one of them shares; one has nothing on it, one ended."""
    shares = msgspec.structs.replace(
        topology({("a", 2): (1, 2), ("b", 1): (3, 4)}, "shares", cpu_mhz=50.0),
        shared_memory=[SharedMemory(name="cache", components=["x"], worker_mb=64.0, node_mb=32.0)],
    )
    whole = model(topology(SPREAD), shares, topology({("c", 2): (1, 2, 3, 4)}, "elsewhere"))
    parts = Parts(whole)
    left = {t.id: [(s.id, s.slots, s.limit_mhz) for s in parts.alone(t.id).supervisors] for t in whole.topologies}
    assert left["flights-1"][0] == ("a", [1], 1000.0 - 2 * 50.0)
    assert left["shares-1"][0] == ("a", [2], 1000.0 - 2 * 200.0)
    assert left["elsewhere-1"][0] == ("a", [], 1000.0 - 2 * 200.0 - 2 * 50.0)
    assert parts.alone("flights-1").supervisors[0].memory_mb == 4096.0 - 2 * 100.0 - 64.0 - 32.0
    assert all(parts.alone(t.id) == parts.of([t.id]) == subset(whole, [t.id]) for t in whole.topologies)
    gone = parts.alone("ended-1")
    assert (gone.topologies, gone.traffic, gone.supervisors) == ([], [], parts.of([]).supervisors)


def test_a_topology_without_a_worker_for_what_it_lost_keeps_none_and_others_keep_theirs() -> None:
    """Of two workers both run, after a rebalance to fewer; in them is no place for what the third one had."""
    full = topology({("a", 1): (1,), ("b", 1): (2, 3)}, name="full")
    torn = topology({("a", 2): (1,)}, name="torn")
    fixed = {t.name: t.fixed_workers for t in with_survivors_fixed(model(full, torn)).topologies}
    assert fixed == {"full": [], "torn": [("a", 2)]}


def test_a_topology_that_is_to_have_fewer_workers_than_run_keeps_none_of_them() -> None:
    torn = topology({("a", 1): (1,), ("b", 1): (2,), ("c", 1): (3,)}, name="torn")  # of two workers
    before = model(torn)
    assert with_survivors_fixed(before) is before


def test_cpu_is_put_into_a_topology_for_the_executors_that_are_named() -> None:
    assert [e.cpu_mhz for e in with_cpu(topology(), {1: 7.0}).executors[:2]] == [7.0, 200.0]
