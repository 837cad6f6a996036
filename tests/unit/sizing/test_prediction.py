"""The rate, CPU and memory that threads in slots support, by where shuffles send tuples."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import supervisor, topology
from sizing_problems import linear_topology, model, performance, problem
from stormpilot.errors import UsageError
from stormpilot.model.values import Assigned, Executor, Input, Model, Plan, TopologyPlan, Worker
from stormpilot.model.values import Component as Running
from stormpilot.sizing.allocation import allocate
from stormpilot.sizing.deployment import model_of
from stormpilot.sizing.performance import Base, Light, Performance
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.prediction import Prediction, cores_of, predict, threads_of
from stormpilot.sizing.problem import Component, Grouping, Problem, Static, Stream

CORES = {"a": 4.0, "b": 4.0}


def one(p: Performance, selectivity: float = 1.0) -> Problem:
    """A source that needs nothing, and one component."""
    return problem([p], [("s", p.name, selectivity)])


def spread(name: str, *threads: int) -> dict[tuple[str, int], dict[str, int]]:
    """Threads of a component on slots a:0, a:1, ...; the source is with the first."""
    held = {("a", i): {name: q} for i, q in enumerate(threads)}
    held["a", 0]["s"] = 1
    return held


def test_skew_of_the_paper_s_table_threads() -> None:
    """60 + 60 + 40 threads sustain 40 + 40 + 20 = 100/s, but the last slot gets a quarter of all tuples: 80/s."""
    p = predict(one(performance("azure-table")), spread("azure-table", 60, 60, 40), CORES)
    assert p.unskewed_tps == pytest.approx(100)
    assert p.supported_tps == pytest.approx(80)
    assert p.bottleneck is not None
    assert (p.bottleneck.port, p.bottleneck.limiting) == (2, "azure-table")


def test_shares_of_the_paper_s_table_threads_at_the_planned_rate() -> None:
    """At 100/s full slots get 37/s and the partial one about 26/s (25 to be exact)."""
    p = predict(one(performance("azure-table")), spread("azure-table", 60, 60, 40), CORES, 100.0)
    assert [x.rate_tps for s in p.slots for x in s.parts if x.component != "s"] == pytest.approx([37.5, 37.5, 25.0])


def test_a_worker_counts_once_and_processes_keep_their_memory() -> None:
    """Base 10% CPU and 15% memory: two components beside each other share it, and threads without tuples have it."""
    base = Base(cpu_share=0.1, memory_share=0.15)
    x = msgspec.structs.replace(model("x", (1, 10.0, 0.5, 0.2), (2, 20.0, 0.9, 0.25)), base=base)
    y = msgspec.structs.replace(model("y", (1, 40.0, 0.3, 0.25)), base=base)
    lines = msgspec.structs.replace(problem([x, y], [("s", "x", 1.0), ("x", "y", 1.0)]), shuffle="local")
    threads = {("a", 0): {"s": 1, "x": 2, "y": 1}, ("a", 1): {"x": 2}}
    here, idle = predict(lines, threads, CORES, 10.0).slots
    assert here.cpu_share == pytest.approx(0.1 + (0.9 - 0.1) / 2 + (0.3 - 0.1) / 4)
    assert here.memory_share == pytest.approx(0.15 + 0.10 + 0.10)
    assert (idle.cpu_share, idle.memory_share) == pytest.approx((0.1, 0.25))
    many = predict(lines, {("a", 0): {"s": 1, "x": 2, "y": 9}}, {"a": 0.5}, 10.0)
    assert many.resources == "CPU of a"
    assert many.resources_tps == pytest.approx((0.5 - 0.1) / (0.8 / 20 + 0.2 / 40))


def test_a_worker_takes_the_mean_of_what_its_components_measured_of_one() -> None:
    """10% and 20% for the same JVM: beside each other 15%, and each alone what it was measured to take."""
    x = msgspec.structs.replace(model("x", (1, 10.0, 0.5, 0.2)), base=Base(cpu_share=0.1, memory_share=0.15))
    y = msgspec.structs.replace(model("y", (1, 10.0, 0.4, 0.2)), base=Base(cpu_share=0.2, memory_share=0.17))
    lines = problem([x, y], [("s", "x", 1.0), ("x", "y", 1.0)])
    both = predict(lines, {("a", 0): {"s": 1, "x": 1, "y": 1}}, CORES, 10.0).slots[0]
    assert both.cpu_share == pytest.approx(0.15 + (0.5 - 0.1) + (0.4 - 0.2))
    assert both.memory_share == pytest.approx(0.16 + (0.2 - 0.15) + (0.2 - 0.17))
    apart = predict(lines, {("a", 0): {"s": 1, "x": 1}, ("b", 0): {"y": 1}}, CORES | {"b": 1.0}, 10.0).slots
    assert [s.cpu_share for s in apart] == pytest.approx([0.5, 0.4])


def test_few_tuples_take_more_cpu_each_and_a_slot_is_full_of_them_earlier() -> None:
    """9 threads at 1/s each take what the light trial says, 9 x 8%: half a core is full at 5.5/s, not at 55/s."""
    base = Base(cpu_share=0.06, memory_share=0.1)
    x = model("x", (1, 100.0, 0.86, 0.2), (9, 110.0, 0.95, 0.3))
    x = msgspec.structs.replace(x, base=base, light=[Light(rate_tps=1.0, cpu_share=0.14)])
    threads = {("a", 0): {"s": 1, "x": 9}}
    assert predict(one(x), threads, CORES, 9.0).slots[0].cpu_share == pytest.approx(0.06 + 9 * 0.08)
    found = predict(one(x), threads, {"a": 0.5})
    assert found.resources == "CPU of a"
    assert found.resources_tps == pytest.approx((0.5 - 0.06) / 0.08)


def test_linear_threads_on_shared_slots() -> None:
    """Two threads on each of four slots, nine on one: 4 x 5 + 10 = 30/s in the paper's prediction, for 50/s planned.

    With the skew the nine get 9/17 of the tuples and sustain 10/s of them.
    """
    p = predict(one(performance("azure-table")), spread("azure-table", 2, 2, 2, 2, 9), CORES)
    assert p.unskewed_tps == pytest.approx(30)
    assert p.supported_tps == pytest.approx(10 * 17 / 9)


def test_cpu_and_memory_follow_the_rate_of_each_slot() -> None:
    """Hand-checked: 3 threads on 2 slots sustain 20 and 10; slot 1 gets 1/3 and is full at 30/s; slot 0 gets 20."""
    m = model("x", (1, 10.0, 0.5, 0.2), (2, 25.0, 0.8, 0.3))
    p = predict(one(m), spread("x", 2, 1), CORES)
    assert p.supported_tps == pytest.approx(30)
    assert [s.cpu_share for s in p.slots] == pytest.approx([0.8 * 20 / 25, 0.5])
    assert [s.memory_share for s in p.slots] == pytest.approx([0.3 * 20 / 25, 0.2])
    assert [v.cpu_share for v in p.vms] == pytest.approx([0.64 + 0.5])
    assert [s.supports_tps for s in p.slots] == pytest.approx([37.5, 30.0])


def test_selectivity_makes_a_component_the_bottleneck() -> None:
    m = model("x", (1, 10.0, 0.5, 0.2))
    assert predict(one(m, 4.0), spread("x", 1), CORES).supported_tps == pytest.approx(2.5)
    assert predict(one(m, 0.0), spread("x", 1), CORES).supported_tps is None


def test_loads_at_another_rate_than_the_supported_one() -> None:
    m = model("x", (1, 10.0, 0.5, 0.2))
    p = predict(one(m), spread("x", 1), CORES, 5.0)
    assert p.at_tps == 5.0
    assert p.slots[0].cpu_share == pytest.approx(0.25)
    assert p.supported_tps == pytest.approx(10)


def test_memory_of_a_slot_shared_by_two_components_is_named_when_it_is_used_up_first() -> None:
    """Each needs 80% of the slot's memory at 10/s, so together they have it used up at 6.25/s."""
    x, y = model("x", (1, 10.0, 0.1, 0.8)), model("y", (1, 10.0, 0.1, 0.8))
    both = problem([x, y], [("s", "x", 1.0), ("x", "y", 1.0)])
    p = predict(both, {("a", 0): {"s": 1, "x": 1, "y": 1}}, CORES)
    assert p.supported_tps == pytest.approx(10)
    assert p.resources_tps == pytest.approx(6.25)
    assert p.resources == "memory of a:0"
    apart = predict(both, {("a", 0): {"s": 1, "x": 1}, ("a", 1): {"y": 1}}, CORES)
    assert apart.resources is None


def test_cores_of_a_vm_are_named_when_they_are_used_up_first() -> None:
    x = model("x", (1, 10.0, 1.0, 0.1))
    p = predict(one(x), spread("x", 1, 1, 1), {"a": 2.0})
    assert p.supported_tps == pytest.approx(30)
    assert p.resources_tps == pytest.approx(20)
    assert p.resources == "CPU of a"


TEN_EACH = model("x", (1, 10.0, 0.1, 0.1), (8, 80.0, 0.8, 0.1))


@pytest.mark.parametrize(
    ("places", "supported_tps"),
    [
        ({("a", 0): {"s": 1, "x": 3}, ("b", 0): {"x": 4}}, 30.0),  # in the sender's worker
        ({("a", 0): {"s": 1}, ("a", 1): {"x": 2}, ("b", 0): {"x": 5}}, 20.0),  # on its supervisor
        ({("a", 0): {"s": 1}, ("b", 0): {"x": 3}, ("b", 1): {"x": 4}}, 70.0),  # nowhere near: all of them
        ({("a", 0): {"s": 1, "x": 3}, ("b", 0): {"s": 1, "x": 4}}, 60.0),  # each of two senders has its own
    ],
)
def test_shuffles_that_know_places_send_to_the_threads_next_to_the_sender(
    places: dict[tuple[str, int], dict[str, int]], supported_tps: float
) -> None:
    found = predict(problem([TEN_EACH], [("s", "x", 1.0)], shuffle="local"), places, CORES)
    assert found.supported_tps == pytest.approx(supported_tps)
    assert found.unskewed_tps == pytest.approx(70.0)


def test_what_shuffles_do_not_reach_gets_nothing_and_is_passed_on_by_nobody() -> None:
    """All of x is near s; what x sends goes to y beside it, and y elsewhere waits."""
    chain = problem([TEN_EACH, model("y", (1, 15.0, 0.1, 0.1))], [("s", "x", 1.0), ("x", "y", 2.0)], shuffle="local")
    found = predict(chain, {("a", 0): {"s": 1, "x": 2, "y": 1}, ("b", 0): {"x": 1, "y": 1}}, CORES)
    assert found.supported_tps == pytest.approx(7.5)
    assert found.bottleneck is not None
    assert (found.bottleneck.supervisor, found.bottleneck.limiting) == ("a", "y")
    assert [p.rate_tps for s in found.slots for p in s.parts if p.component == "y"] == pytest.approx([15.0, 0.0])


@pytest.mark.parametrize(("grouping", "supported_tps"), [("FIELDS", 70.0), ("LOCAL_OR_SHUFFLE", 20.0)])
def test_keys_know_no_places_and_local_or_shuffle_does_even_where_shuffles_do_not(
    grouping: Grouping, supported_tps: float
) -> None:
    base = problem([TEN_EACH], [("s", "x", 1.0)])
    source, x = base.components
    grouped = msgspec.structs.replace(x, inputs=[Stream(component="s", grouping=grouping)])
    of = msgspec.structs.replace(base, components=[source, grouped])
    found = predict(of, {("a", 0): {"s": 1, "x": 2}, ("a", 1): {"x": 2}, ("b", 0): {"x": 3}}, CORES)
    assert found.supported_tps == pytest.approx(supported_tps)


def test_static_components_need_the_same_at_any_rate() -> None:
    base = one(model("x", (1, 10.0, 0.5, 0.2)))
    static = Component(id="log", static=Static(cpu_share=0.1, memory_share=0.2), inputs=[Stream(component="x")])
    with_sink = Problem(
        name="t", rate_tps=1.0, components=[*base.components, static], models=base.models, slot=base.slot, vms=base.vms
    )
    threads = {("a", 0): {"s": 1, "x": 1}, ("a", 1): {"log": 1}}
    for rate in (1.0, 9.0):
        assert predict(with_sink, threads, CORES, rate).slots[1].cpu_share == pytest.approx(0.1)


def test_threads_beyond_what_was_measured_are_said() -> None:
    (note,) = predict(one(performance("azure-blob")), spread("azure-blob", 80), CORES).notes
    assert "80 threads" in note
    assert "up to 50" in note


def test_twenty_slots_of_blob_and_table_at_280() -> None:
    """MBA and SAM on five VMs of four slots support the planned 280/s but for the skew, as the paper predicts."""
    sizing = linear_topology()
    placed = place(sizing, allocate(sizing, 280, "mba"), "sam")
    assert isinstance(placed, Placed)
    p = predict(sizing, threads_of(sizing, placed.model, placed.plan), cores_of(sizing, placed.model))
    assert (placed.slots, len(placed.model.supervisors)) == (20, 5)
    assert p.unskewed_tps == pytest.approx(280)
    assert 200 < (p.supported_tps or 0) <= 280


def test_a_component_without_threads_is_an_error() -> None:
    with pytest.raises(UsageError, match="component azure-blob has no thread"):
        predict(one(performance("azure-blob")), {("a", 0): {"s": 1}}, CORES)


def test_plan_and_model_must_be_of_the_same_executors() -> None:
    sizing = one(model("x", (1, 10.0, 0.5, 0.2)))
    of = model_of(sizing, allocate(sizing, 25.0, "lsa"), 2)
    whole = [Worker(supervisor="vm0001-vm2", port=6700, executors=[(i, i) for i in range(1, 5)])]
    assert threads_of(sizing, of, Plan(topologies=[TopologyPlan(id="t", workers=whole)])) == {
        ("vm0001-vm2", 6700): {"s": 1, "x": 3}
    }
    for executors in ([(1, 1)], [(i, i) for i in (1, 2, 3, 4, 4)], [(i, i) for i in range(1, 6)]):
        plan = Plan(topologies=[TopologyPlan(id="t", workers=[Worker(supervisor="v", port=1, executors=executors)])])
        with pytest.raises(UsageError, match="differ in"):
            threads_of(sizing, of, plan)
    with pytest.raises(UsageError, match="no topology t"):
        threads_of(sizing, of, Plan(topologies=[TopologyPlan(id="other", workers=whole)]))


def test_executors_on_standby_are_no_threads_of_a_plan() -> None:
    """They counted as threads: more was promised than what gets tuples sustains."""
    sizing = one(model("x", (1, 100.0, 0.5, 0.2), (2, 150.0, 0.9, 0.2)))
    of = model_of(sizing, allocate(sizing, 250.0, "lsa"), 2)
    (t,) = of.topologies
    of = msgspec.structs.replace(of, topologies=[msgspec.structs.replace(t, standby=[4])])
    worker = Worker(supervisor="vm0001-vm2", port=6700, executors=[(i, i) for i in range(1, 5)])
    assert threads_of(sizing, of, Plan(topologies=[TopologyPlan(id="t", workers=[worker])])) == {
        ("vm0001-vm2", 6700): {"s": 1, "x": 2}
    }
    without = msgspec.structs.replace(worker, executors=[(1, 1), (2, 2), (3, 3)])
    with pytest.raises(UsageError, match="differ in 1 executors of t, first"):
        threads_of(sizing, of, Plan(topologies=[TopologyPlan(id="t", workers=[without])]))


def test_cpu_that_others_use_of_a_node_is_not_there_for_a_size() -> None:
    """Never less than none; threads of the size itself, whatever the file calls the topology, do not count."""
    sizing = one(model("x", (1, 100.0, 0.5, 0.2)))
    own = topology("running", {"s": 1, "x": 2, "__acker": 1}, cpu_mhz={"s": 50.0, "x": 400.0, "__acker": 100.0})
    other = topology("o", {"a": 2}, cpu_mhz={"a": 700.0})
    on_a = [Assigned(start=e.start, supervisor="a", port=6700) for e in own.executors]
    split = [Assigned(start=1, supervisor="a", port=6701), Assigned(start=2, supervisor="b", port=6700)]
    topologies = [
        msgspec.structs.replace(own, assignment=on_a),
        msgspec.structs.replace(other, assignment=split),
    ]
    of = Model(supervisors=[supervisor("a", mhz=4000.0), supervisor("b", mhz=500.0)], topologies=topologies)
    assert cores_of(sizing, of, "running") == pytest.approx({"a": 3.2, "b": 0.0})
    assert cores_of(sizing, of) == pytest.approx({"a": 2.35, "b": 0.0}), "of a topology t, which is not there"


def test_supervisors_of_a_plan_must_be_in_the_model() -> None:
    sizing = one(model("x", (1, 10.0, 0.5, 0.2)))
    of = model_of(sizing, allocate(sizing, 10.0, "lsa"), 1)
    worker = Worker(supervisor="elsewhere", port=6700, executors=[(1, 1), (2, 2)])
    with pytest.raises(UsageError, match="the model has no supervisor elsewhere, which the plan uses"):
        threads_of(sizing, of, Plan(topologies=[TopologyPlan(id="t", workers=[worker])]))


def test_the_collector_of_a_running_topology_has_no_size_and_needs_none() -> None:
    sizing = one(model("x", (1, 10.0, 0.5, 0.2)))
    of = model_of(sizing, allocate(sizing, 10.0, "lsa"), 1)
    (t,) = of.topologies
    collector = Running(
        id="stormpilot-collector", inputs=[Input(component="x", stream="stormpilot_load", grouping="GLOBAL")]
    )
    t = msgspec.structs.replace(
        t,
        components=[*t.components, collector],
        executors=[*t.executors, Executor(start=9, end=9, component=collector.id)],
    )
    worker = Worker(supervisor="vm0001-vm1", port=6700, executors=[(1, 1), (2, 2), (9, 9)])
    plan = Plan(topologies=[TopologyPlan(id="t", workers=[worker])])
    assert threads_of(sizing, msgspec.structs.replace(of, topologies=[t]), plan) == {
        ("vm0001-vm1", 6700): {"s": 1, "x": 1}
    }


@st.composite
def concave(draw: st.DrawFn) -> Performance:
    """Threads share a slot at best as well as they run alone."""
    rate = draw(st.floats(1, 50))
    points = [(1, rate, 0.1, 0.1)]
    for q in sorted(draw(st.sets(st.integers(2, 40), max_size=4))):
        rate += draw(st.floats(0, 1)) * (q - points[-1][0])
        points.append((q, rate, 0.3, 0.3))
    return model("x", *points)


@settings(deadline=None)
@given(concave(), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_skew_never_helps(p: Performance, threads: list[int]) -> None:
    found = predict(one(p), spread("x", *threads), CORES)
    assert found.supported_tps is not None
    assert found.unskewed_tps is not None
    assert found.supported_tps <= found.unskewed_tps * (1 + 1e-9)
    if len(set(threads)) == 1:
        assert found.supported_tps == pytest.approx(found.unskewed_tps)


@settings(deadline=None)
@given(concave(), st.lists(st.integers(1, 40), min_size=1, max_size=6), st.floats(0.1, 5), st.floats(1, 3))
def test_a_higher_selectivity_never_supports_more(
    p: Performance, threads: list[int], selectivity: float, factor: float
) -> None:
    low = predict(one(p, selectivity), spread("x", *threads), CORES).supported_tps
    high = predict(one(p, selectivity * factor), spread("x", *threads), CORES).supported_tps
    assert low is not None
    assert high == pytest.approx(low / factor)


@settings(deadline=None)
@given(concave(), st.lists(st.integers(1, 40), min_size=1, max_size=6), st.floats(0, 1))
def test_cpu_of_slots_is_never_above_the_model_at_rates_that_are_supported(
    p: Performance, threads: list[int], part: float
) -> None:
    supported = predict(one(p), spread("x", *threads), CORES).supported_tps
    assert supported is not None
    found: Prediction = predict(one(p), spread("x", *threads), CORES, max(part * supported, 1e-9))
    for slot, q in zip(found.slots, threads, strict=True):
        assert slot.cpu_share <= p.at(q).cpu_share * (1 + 1e-9)
    received = math.fsum(x.rate_tps for s in found.slots for x in s.parts if x.component == "x")
    assert received == pytest.approx(found.at_tps)
