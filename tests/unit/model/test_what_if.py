"""Changed models: what is asked for is different, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import PAIRED, Slots, model, topology
from stormpilot.errors import RefusedError, UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.latency import latency_ms
from stormpilot.model.values import DEFAULT_RACK, RESERVED_CPU, CpuLaw, Exclusion, Model
from stormpilot.model.what_if import Changes, NewNode, changed

BESIDE: Slots = {("a", 2): (1, 2), ("b", 2): (3, 4)}
"""In other workers of the nodes on which the double's topology is spread."""


def test_no_change_is_the_same_model() -> None:
    assert changed(model(), Changes()) == model()


def test_added_nodes_have_slots_cpu_and_the_usual_limit() -> None:
    m = changed(model(), Changes(add_nodes=(NewNode(cores=4, mhz=2500, slots=2, count=2, rack="/r2"),)))
    assert m.supervisors[:3] == model().supervisors
    one, two = m.supervisors[3:]
    assert (one.id, two.id, one.host, two.host) == ("new-1", "new-2", "new-1", "new-2")
    assert (one.slots, one.cpu_mhz, one.rack, one.memory_mb) == ([6700, 6701], 10_000.0, "/r2", 0.0)
    assert one.limit_mhz == 5000.0  # the others may be filled to a half
    again = changed(m, Changes(add_nodes=(NewNode(cores=1, mhz=1000),)))
    assert again.supervisors[-1].id == "new-3"


def test_added_nodes_offer_cpu_in_points_where_it_is_reserved() -> None:
    """Under the ResourceAwareScheduler: without them nothing could run there, which would be proved."""
    before = model()
    offering = [msgspec.structs.replace(s, resources={RESERVED_CPU: 400.0}) for s in before.supervisors]
    m = changed(msgspec.structs.replace(before, supervisors=offering), Changes(add_nodes=(NewNode(cores=2, mhz=1000),)))
    assert m.supervisors[-1].resources == {RESERVED_CPU: 200.0}
    assert changed(before, Changes(add_nodes=(NewNode(cores=2, mhz=1000),))).supervisors[-1].resources == {}


@pytest.mark.parametrize("storms", [DEFAULT_RACK, None, "/r1"])
def test_added_nodes_are_in_the_one_rack_of_a_storm_without_a_topography_plug_in(storms: str | None) -> None:
    before = model()
    known = [msgspec.structs.replace(s, storm_rack=storms) for s in before.supervisors]
    added = Changes(add_nodes=(NewNode(cores=1, mhz=1000, rack="/r2"),))
    m = changed(msgspec.structs.replace(before, supervisors=known), added)
    assert m.supervisors[-1].storm_rack == (DEFAULT_RACK if storms == DEFAULT_RACK else None)


@pytest.mark.parametrize("name", ["a", "host-a"])
def test_removed_node_leaves_its_executors_without_a_place(name: str) -> None:
    pinned = topology(PAIRED)
    pinned = msgspec.structs.replace(
        pinned,
        fixed_workers=[("a", 1)],
        executors=[msgspec.structs.replace(e, pin="a") for e in pinned.executors],
    )
    before = msgspec.structs.replace(model(pinned), exclusions=[Exclusion(supervisor="a"), Exclusion(supervisor="b")])
    m = changed(before, Changes(remove_nodes=(name,)))
    assert [s.id for s in m.supervisors] == ["b", "c"]
    (t,) = m.topologies
    assert [a.start for a in t.assignment] == [2, 4]
    assert t.fixed_workers == []
    assert {e.pin for e in t.executors} == {None}
    assert m.exclusions == [Exclusion(supervisor="b")]


def test_scaled_rate_scales_traffic_and_cpu_of_that_topology_only() -> None:
    before = model(topology(), topology(name="words"))
    m = changed(before, Changes(scale_rates=(("flights", 1.5),)))
    assert [e.rate for e in m.traffic] == [1200.0, 300.0, 800.0, 200.0]
    assert {e.cpu_mhz for e in m.topologies[0].executors} == {300.0}
    assert m.topologies[1] == before.topologies[1]


def _scaled_mhz(factor: float, law: CpuLaw | None = None, **executor: float) -> list[float]:
    """CPU of the double's executors at so many times the rate."""
    t = topology()
    t = msgspec.structs.replace(t, cpu_law=law, executors=[msgspec.structs.replace(e, **executor) for e in t.executors])
    (found,) = changed(model(t), Changes(scale_rates=(("flights", factor),))).topologies
    return [e.cpu_mhz for e in found.executors]


def test_scaled_rate_leaves_the_cpu_of_looking_for_tuples() -> None:
    """180 of 200 MHz are of looking; tuples take 20."""
    assert _scaled_mhz(2.0, polling_mhz=180.0) == pytest.approx([220.0] * 4)
    assert _scaled_mhz(0.0, polling_mhz=180.0) == pytest.approx([180.0] * 4)
    assert _scaled_mhz(2.0, polling_mhz=300.0) == pytest.approx([200.0] * 4), "no more than all is of looking"


def test_scaled_rate_leaves_the_cpu_of_idle_workers_and_of_threads_asleep() -> None:
    """Of 200 MHz a half worker takes 20, the thread asleep 10."""
    law = CpuLaw(worker_mhz=40.0, asleep_mhz=10.0)
    assert _scaled_mhz(2.0, law) == pytest.approx([370.0] * 4)
    assert _scaled_mhz(2.0, law, polling_mhz=30.0) == pytest.approx([350.0] * 4), "asleep it looks for tuples too"
    assert _scaled_mhz(0.0, law) == pytest.approx([30.0] * 4)
    assert _scaled_mhz(0.0, CpuLaw(worker_mhz=1000.0)) == pytest.approx([200.0] * 4)


def test_a_thread_that_is_awake_all_the_time_is_no_more_so_at_a_higher_rate() -> None:
    """Executors 3 and 4 get 800 and 200 tuples/s, each of which keeps them awake for a second: 100 MHz, of looking."""
    law = CpuLaw(awake_mhz=100.0, awake_s=1.0)
    assert _scaled_mhz(2.0, law) == pytest.approx([400.0, 400.0, 300.0, 300.0])
    assert _scaled_mhz(2.0, law, polling_mhz=100.0)[2:] == pytest.approx([300.0, 300.0])


def _model_ms(m: Model) -> list[float]:
    """Latencies as these topologies run, ms, without what was measured."""
    bare = msgspec.structs.replace(m, topologies=[msgspec.structs.replace(t, latency_ms=None) for t in m.topologies])
    c = compile_model(bare)
    return [float(ms) for ms in latency_ms(c, c.current)]


@pytest.mark.parametrize("beyond_ms", [50.0, 0.0])
def test_measured_latency_becomes_that_of_the_scaled_rate(beyond_ms: float) -> None:
    """Of all on the same nodes: as much longer as the model says, or as many times where that says too much."""
    before = model(topology(), topology(BESIDE, name="words"))
    old = _model_ms(before)
    measured = [ms + beyond_ms if beyond_ms else ms / 2 for ms in old]
    timed = [msgspec.structs.replace(t, latency_ms=ms) for t, ms in zip(before.topologies, measured, strict=True)]
    m = changed(msgspec.structs.replace(before, topologies=timed), Changes(scale_rates=(("flights", 1.9),)))
    new = _model_ms(m)
    assert all(b > a for a, b in zip(old, new, strict=True))
    expected = [ms + beyond_ms if beyond_ms else ms / 2 for ms in new]
    assert [t.latency_ms for t in m.topologies] == pytest.approx(expected)
    c = compile_model(m)
    assert latency_ms(c, c.current).tolist() == pytest.approx(expected)


def test_latency_measured_where_something_runs_nowhere_says_nothing_of_another_rate() -> None:
    flights, words = topology(), msgspec.structs.replace(topology(BESIDE, name="words"), latency_ms=90.0)
    lost = msgspec.structs.replace(flights, assignment=flights.assignment[:1], latency_ms=90.0)
    m = changed(model(lost, words), Changes(scale_rates=(("flights", 1.9), ("words", 1.9))))
    assert m.topologies[0].latency_ms is None
    assert m.topologies[1].latency_ms is not None
    assert m.topologies[1].latency_ms > 90.0
    idle = changed(model(words), Changes(scale_rates=(("words", 0.0),)))
    assert idle.topologies[0].latency_ms is None


def test_tuples_keep_threads_as_much_longer_as_their_node_is_busier() -> None:
    """What is measured of a tuple is long because others use the cores; on node c nothing changes."""
    t = topology(BESIDE, name="words")
    words = msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, service_ms=8.0) for e in t.executors])
    far = topology({("c", 1): (1, 2, 3, 4)}, name="far")
    far = msgspec.structs.replace(far, executors=[msgspec.structs.replace(e, service_ms=8.0) for e in far.executors])
    m = changed(model(topology(), words, far), Changes(scale_rates=(("flights", 3.0),)))
    assert all(e.service_ms is not None and 8.5 < e.service_ms < 24.0 for e in m.topologies[1].executors)
    assert {e.service_ms for e in m.topologies[2].executors} == {8.0}


def test_rate_is_scaled_where_everything_ran_before_a_node_was_removed() -> None:
    """Its executors have lost the worker that took a part of their CPU."""
    t = msgspec.structs.replace(topology(), cpu_law=CpuLaw(worker_mhz=40.0))
    m = changed(model(t), Changes(scale_rates=(("flights", 2.0),), remove_nodes=("a",)))
    assert [e.cpu_mhz for e in m.topologies[0].executors] == pytest.approx([380.0] * 4)


def test_new_topology_is_to_be_placed_and_brings_its_traffic() -> None:
    m = changed(model(), Changes(new_topologies=model(topology(name="words"))))
    assert [t.name for t in m.topologies] == ["flights", "words"]
    assert m.topologies[1].assignment == []
    assert len(m.traffic) == 4
    assert m.supervisors == model().supervisors


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (Changes(remove_nodes=("host-b2",)), UsageError, "there is no node 'host-b2'; did you mean host-b?"),
        (Changes(scale_rates=(("x", 2.0),)), UsageError, "there is no topology 'x'; there are: flights"),
        (Changes(scale_rates=(("flights", -1.0),)), UsageError, "scaled by -1, expected 0 or more"),
        (Changes(new_topologies=model()), RefusedError, "flights-1 is in the model already"),
    ],
)
def test_what_cannot_be_is_refused(changes: Changes, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace("?", r"\?")):
        changed(model(), changes)


def test_a_list_that_is_cut_says_so() -> None:
    """Of six hosts two were missing, as if they were not there."""
    many = changed(model(), Changes(add_nodes=(NewNode(cores=1, mhz=1000, slots=1, count=20),)))
    with pytest.raises(UsageError, match=r"there is no node 'x'; there are: .*, \.\.\.$"):
        changed(many, Changes(remove_nodes=("x",)))


def test_node_without_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="cores is 0, expected more than 0"):
        NewNode(cores=0, mhz=1000)


@pytest.mark.parametrize("many", [{"count": 100_000_000}, {"slots": 100_000_000}])
def test_nodes_without_end_are_refused(many: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is 100000000, expected at most 1"):
        NewNode(cores=1, mhz=1000, **many)
