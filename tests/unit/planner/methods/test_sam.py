"""`sam`: full bundles in slots of their own, what is left in the slot that it fits best (S17 7.4)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import located, supervisor, topology
from stormpilot.errors import UsageError
from stormpilot.model.values import Exclusion, Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute

SLOT_MHZ = 1000.0


def model(
    parallelism: Mapping[str, int],
    cpu_mhz: Mapping[str, float],
    bundles: Mapping[str, int],
    *,
    nodes: int = 3,
    slots: int = 2,
    workers: int = 6,
) -> Model:
    """Components in a chain; nodes whose slots have `SLOT_MHZ` each and no memory limit."""
    names = list(parallelism)
    t = topology("t", parallelism, workers=workers, streams=list(itertools.pairwise(names)), cpu_mhz=cpu_mhz)
    components = [msgspec.structs.replace(c, bundle=bundles.get(c.id)) for c in t.components]
    return Model(
        supervisors=[supervisor(f"v{i + 1}", slots, mhz=slots * SLOT_MHZ) for i in range(nodes)],
        topologies=[msgspec.structs.replace(t, components=components)],
    )


def figure_4() -> Model:
    """The paper's sample: 5, 4, 3, 5 threads, full bundles of 2, 3, 3, 4, on three VMs of two slots."""
    bundles = {"B": 2, "O": 3, "Y": 3, "G": 4}
    m = model({"B": 5, "O": 4, "Y": 3, "G": 5}, {c: SLOT_MHZ / q for c, q in bundles.items()}, bundles)
    (t,) = m.topologies
    part = {5: 300.0, 9: 200.0, 17: 200.0}  # what is left of B, O and G fits into one slot
    executors = [msgspec.structs.replace(e, cpu_mhz=part.get(e.start, e.cpu_mhz)) for e in t.executors]
    return msgspec.structs.replace(m, topologies=[msgspec.structs.replace(t, executors=executors)])


def planned(m: Model, **params: bool) -> Plan:
    answer = compute(m, "sam", params)
    assert isinstance(answer, Plan)
    assert violations(m, answer) == []
    return answer


def slots(m: Model, plan: Plan) -> dict[tuple[str, int], dict[str, int]]:
    """Slot -> component -> threads."""
    component = {e.start: e.component for e in m.topologies[0].executors}
    held: dict[tuple[str, int], Counter[str]] = {}
    for start, slot in located(plan).items():
        held.setdefault(slot, Counter())[component[start]] += 1
    return {slot: dict(count) for slot, count in sorted(held.items())}


def test_the_sample_of_the_paper() -> None:
    """A bundle of each on the first four slots, the second of B on the fifth, what is left of three on the sixth."""
    assert slots(figure_4(), planned(figure_4())) == {
        ("v1", 6700): {"B": 2},
        ("v1", 6701): {"O": 3},
        ("v2", 6700): {"Y": 3},
        ("v2", 6701): {"G": 4},
        ("v3", 6700): {"B": 2},
        ("v3", 6701): {"O": 1, "G": 1, "B": 1},
    }


def test_what_is_left_goes_to_the_fullest_slot_that_holds_it() -> None:
    """a leaves 40% of a slot, b 20%; c needs 15% and goes to b, d needs 30% and goes to a."""
    m = model(
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a": 600.0, "b": 800.0, "c": 150.0, "d": 300.0},
        {"a": 2, "b": 2, "c": 2, "d": 2},
    )
    assert slots(m, planned(m)) == {("v1", 6700): {"a": 1, "d": 1}, ("v1", 6701): {"b": 1, "c": 1}}


def test_memory_decides_as_well_as_cpu() -> None:
    m = model({"a": 1, "b": 1}, {"a": 100.0, "b": 100.0}, {"a": 2, "b": 2})
    nodes = [msgspec.structs.replace(s, memory_mb=200.0) for s in m.supervisors]
    (t,) = m.topologies
    heavy = [msgspec.structs.replace(e, memory_mb=60.0) for e in t.executors]
    m = msgspec.structs.replace(m, supervisors=nodes, topologies=[msgspec.structs.replace(t, executors=heavy)])
    assert slots(m, planned(m)) == {("v1", 6700): {"a": 1}, ("v1", 6701): {"b": 1}}


def test_threads_that_leave_room_for_more_of_their_kind_share_a_slot() -> None:
    """Of an XML parser one thread is the best of a slot; at 15% of its rate it does not get the slot for itself."""
    m = model({"a": 1, "b": 1}, {"a": 150.0, "b": 150.0}, {"a": 1, "b": 1})
    assert slots(m, planned(m)) == {("v1", 6700): {"a": 1, "b": 1}}


def test_without_bundles_executors_are_placed_best_fit_and_it_is_said() -> None:
    m = model({"a": 2, "b": 2}, {"a": 400.0, "b": 400.0}, {})
    plan = planned(m)
    assert slots(m, plan) == {("v1", 6700): {"a": 1, "b": 1}, ("v1", 6701): {"a": 1, "b": 1}}
    assert "no bundle is known of t/a, t/b" in plan.notes[0]


def test_a_note_names_a_few_components_without_a_bundle_and_counts_the_others() -> None:
    names = [f"c{i}" for i in range(9)]
    plan = planned(model(dict.fromkeys(names, 1), dict.fromkeys(names, 10.0), {}))
    assert plan.notes[0].startswith("no bundle is known of t/c0, t/c1, t/c2, t/c3, t/c4 and 4 more: placed")


def test_a_bundle_that_no_slot_holds_goes_where_there_is_room_or_nowhere() -> None:
    """Two threads of 60% as one partial bundle; on a node of two slots there is room for both apart."""
    m = model({"a": 2}, {"a": 600.0}, {"a": 3}, nodes=1, workers=2)
    plan = planned(m)
    assert len(located(plan)) == 2
    assert "no slot has room for t: a [1,1], a [2,2] as a bundle" in plan.notes[-1]
    strict = compute(m, "sam", {"spill": False})
    assert isinstance(strict, Infeasible)
    assert not strict.proved
    assert strict.constraint == "slots"
    assert strict.executors == [("t", 1), ("t", 2)]


def test_bundles_go_only_where_their_component_may_run() -> None:
    m = model({"a": 2, "b": 2}, {"a": 500.0, "b": 500.0}, {"a": 2, "b": 2})
    m = msgspec.structs.replace(m, exclusions=[Exclusion(supervisor="v1", component="a")])
    assert slots(m, planned(m)) == {("v2", 6700): {"a": 2}, ("v2", 6701): {"b": 2}}


def test_a_bundle_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="bundle is 0"):
        compute(model({"a": 2}, {"a": 500.0}, {"a": 0}), "sam")


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_at_most_one_slot_of_a_component_is_shared(components: list[tuple[int, int, int]]) -> None:
    """With a slot for every bundle, full or not."""
    parallelism, cpu, bundles = {}, {}, {}
    needed = 0
    for i, (bundle, full, rest) in enumerate(components):
        threads = full * bundle + rest % bundle if bundle > 1 else max(full, 1)
        if threads:
            parallelism[f"c{i}"], cpu[f"c{i}"], bundles[f"c{i}"] = threads, SLOT_MHZ / bundle, bundle
            needed += -(-threads // bundle)
    if not parallelism:
        return
    m = model(parallelism, cpu, bundles, nodes=needed, slots=2, workers=needed)
    held = slots(m, planned(m, spill=False))
    for c, bundle in bundles.items():
        own = [count for count in held.values() if c in count]
        assert sum(len(count) > 1 for count in own) <= 1
        assert sum(count == {c: bundle} for count in own) >= parallelism[c] // bundle
