"""Heaps with a fixed -Xmx: what executors hold, and what a plan may put into one worker."""

from __future__ import annotations

import msgspec
import pytest

from doubles.snapshots import T0_MS, cluster, everywhere, task_load, topology
from stormpilot.config import LoadSection
from stormpilot.messages.core import SharedMemoryPart, ShimPart, TopologySnapshot
from stormpilot.messages.load import JvmPart, LoadReport
from stormpilot.model.values import Topology
from stormpilot.observe.build import build
from stormpilot.observe.heap import HeapLearner, HeapNeeds

A, B = ("a", 6700), ("b", 6700)
APART = {A: (1, 2, 5), B: (3, 4, 6)}
MINUTE_MS = 60_000


def report(slot: tuple[str, int], tasks: tuple[int, ...], live_mb: float | None, most_mb: float = 1024.0) -> LoadReport:
    """The newest report of a worker."""
    return LoadReport(
        topology_id=topology().id,
        reporter=f"{slot[0]}-{slot[1]}",
        seq=1,
        written_at_ms=T0_MS,
        worker=JvmPart(port=slot[1], heap_mb=live_mb, heap_max_mb=most_mb),
        tasks=[task_load(t, 10.0) for t in tasks],
    )


def take(learner: HeapLearner, placed: TopologySnapshot, reports: list[LoadReport], minute: int = 0) -> None:
    """Two looks, between which all of them wrote."""
    for at_s in (0, 5):
        now = [msgspec.structs.replace(r, written_at_ms=T0_MS + 60_000 * minute + 1000 * at_s) for r in reports]
        learner.take({placed.id: placed}, now, T0_MS + minute * MINUTE_MS)


def learn(
    learner: HeapLearner, live_mb: dict[tuple[str, int], float], minute: int = 0, most_mb: float = 1024.0
) -> None:
    placed = topology(everywhere(APART))
    reports = [report(slot, APART[slot], mb, most_mb) for slot, mb in live_mb.items()]
    take(learner, placed, reports, minute)


def needs(live_mb: dict[tuple[str, int], float], most_mb: float = 1024.0) -> HeapNeeds | None:
    learner = HeapLearner()
    learn(learner, live_mb, most_mb=most_mb)
    return learner.needs(topology(everywhere(APART)))


def built(needs_: HeapNeeds | None, fallback: str = "", **load: float) -> Topology:
    placed = topology(everywhere(APART))
    now = cluster("a", "b")
    if fallback:
        shim = ShimPart(version="0.1.0", storm_version="2.8.3", nimbus="nimbus-1", fallback=fallback)
        now = msgspec.structs.replace(now, shim=shim)
    model = build(now, {placed.id: placed}, {}, LoadSection(**load), 0.8, T0_MS, heaps=lambda _: needs_).model
    return model.topologies[0]


def whole_mb(t: Topology) -> float:
    heap = {c.id: c.heap_mb for c in t.components}
    return sum(heap[e.component] for e in t.executors)


def test_workers_that_do_not_fit_into_one_heap_together_are_limited() -> None:
    t = built(needs({A: 400.0, B: 400.0}))
    assert t.worker_heap_mb == pytest.approx(0.6 * 1024)
    assert whole_mb(t) == pytest.approx(800.0, rel=0.03)


def test_what_fits_into_one_heap_has_no_limit() -> None:
    t = built(needs({A: 300.0, B: 300.0}))
    assert (t.worker_heap_mb, whole_mb(t)) == (None, 0.0)


def test_no_worker_holds_too_much_already() -> None:
    t = built(needs({A: 900.0, B: 100.0}))
    assert t.worker_heap_mb is not None
    assert 0.8 * 900 < t.worker_heap_mb <= 1.05 * 900


def test_ratio_of_nothing_looks_at_no_heap() -> None:
    assert built(needs({A: 900.0, B: 900.0}), heap_ratio=0.0).worker_heap_mb is None


def test_other_placements_tell_components_apart() -> None:
    """`parse` holds 200 MB: with both of them 400 live in a worker, with one and `sink` 200."""
    learner = HeapLearner()
    for slots, live in (({A: (2, 3), B: (1, 4, 5, 6)}, (400.0, 4.0)), ({A: (2, 4), B: (1, 3, 5, 6)}, (200.0, 203.0))):
        placed = topology(everywhere(slots))
        reports = [report(slot, slots[slot], mb) for slot, mb in zip((A, B), live, strict=True)]
        take(learner, placed, reports)
    found = learner.needs(topology(everywhere(APART)))
    assert found is not None
    assert found.by_component["parse"] == pytest.approx(200.0, rel=0.1)
    assert found.by_component["sink"] < 25


def test_heap_that_grows_with_its_executors_is_not_limited() -> None:
    """Storm's own -Xmx%HEAP-MEM%m: 128 MB for each of three executors, less what the collector leaves out."""
    assert needs({A: 300.0, B: 300.0}, most_mb=370.0) is None
    assert needs({A: 300.0, B: 300.0}, most_mb=512.0) is not None


def test_heaps_of_several_sizes_are_not_known() -> None:
    learner = HeapLearner()
    placed = topology(everywhere(APART))
    reports = [report(A, APART[A], 100.0, 512.0), report(B, APART[B], 100.0, 1024.0)]
    take(learner, placed, reports)
    assert learner.needs(placed) is None


def test_worker_that_started_again_holds_what_it_held_until_that_is_an_hour_ago() -> None:
    learner, held = HeapLearner(), {}
    for minute, live_mb in ((0, 400.0), (1, 5.0), (31, 5.0), (61, 5.0)):
        learn(learner, {A: live_mb, B: live_mb}, minute)
        found = learner.needs(topology(everywhere(APART)))
        assert found is not None
        held[minute] = round(sum(found.by_component[c] for c in ("source", "parse", "__acker")), -1)
    assert held[0] == held[1] == held[31] > 350
    assert held[61] < 20


@pytest.mark.parametrize(
    "told",
    [
        report(A, (1, 2, 3), 400.0),
        report(("a", 6701), APART[A], 400.0),
        report(A, (*APART[A], 99), 400.0),
        report(A, APART[A], None),
        report(A, APART[A], 2000.0),
        report(A, APART[A], -1.0),
        msgspec.structs.replace(report(A, APART[A], 400.0), worker=None),
    ],
    ids=["other-tasks", "other-port", "unknown-task", "before-the-first-collection", "too-much", "negative", "no-jvm"],
)
def test_report_that_does_not_tell_is_left_out(told: LoadReport) -> None:
    learner, placed = HeapLearner(), topology(everywhere(APART))
    take(learner, placed, [told])
    assert learner.needs(placed) is None


def test_resource_aware_scheduler_has_its_own_limit() -> None:
    found = needs({A: 900.0, B: 900.0})
    ras = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
    assert built(found, ras).worker_heap_mb == 768.0


def test_topology_that_is_gone_is_forgotten() -> None:
    learner = HeapLearner()
    learn(learner, {A: 400.0, B: 400.0})
    learner.take({}, [], T0_MS)
    assert learner.needs(topology(everywhere(APART))) is None


def snapshot_with_large_heaps(mb: float) -> TopologySnapshot:
    return topology(everywhere(APART), config={"topology.component.resources.onheap.memory.mb": mb})


def test_declared_heaps_are_those_of_the_topology() -> None:
    learner = HeapLearner()
    learn(learner, {A: 100.0, B: 100.0})
    assert learner.needs(snapshot_with_large_heaps(1024 / 3)) is None
    assert learner.needs(snapshot_with_large_heaps(512)) is not None


def test_report_that_a_worker_left_behind_tells_nothing() -> None:
    """Two workers became one, of six executors with 128 MB of heap each; what the other said last is still there."""
    learner = HeapLearner()
    left = report(B, APART[B], 200.0, 384.0)
    take(learner, topology(everywhere(APART)), [report(A, APART[A], 200.0, 384.0), left])
    together = topology(everywhere({A: (1, 2, 3, 4, 5, 6)}))
    for minute in (1, 2, 60, 120):
        at_ms = T0_MS + minute * MINUTE_MS
        whole = msgspec.structs.replace(report(A, (1, 2, 3, 4, 5, 6), 400.0, 768.0), written_at_ms=at_ms)
        learner.take({together.id: together}, [whole, left], at_ms)
        assert learner.needs(together) is None, "it grows with its executors"


def test_heap_that_components_share_is_declared_too() -> None:
    shared = SharedMemoryPart(name="cache", components=["parse"], on_heap_mb=640.0)
    placed = topology(everywhere(APART), shared_memories=[shared])
    learner = HeapLearner()
    learn(learner, {A: 100.0, B: 100.0})
    assert learner.needs(placed) is None, "3 x 128 MB, and 640 MB in each"
    assert learner.needs(topology(everywhere(APART))) is not None


def test_executors_that_lost_their_place_get_one() -> None:
    """What theirs held is not known: a limit might leave no place at all."""
    placed = topology(everywhere({A: APART[A]}))
    found = needs({A: 900.0, B: 900.0})
    model = build(cluster("a", "b"), {placed.id: placed}, {}, LoadSection(), 0.8, T0_MS, heaps=lambda _: found).model
    assert model.topologies[0].worker_heap_mb is None
