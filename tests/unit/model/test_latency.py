"""The latency of a placement."""

from __future__ import annotations

import msgspec
import pytest

from stormpilot.model.compiled import compile_model
from stormpilot.model.latency import IDLE_CORES, Calibration, Hops, calibrations_of, latency_ms, mean_latency_ms
from stormpilot.model.values import Assigned, Component, Edge, Executor, Input, Model, Supervisor, Topology

HOPS = Hops(same_worker=0.0, same_node=1.0, same_rack=10.0, other_rack=100.0)
NODES = [
    Supervisor(id="a", host="a", rack="r1", slots=[1, 2], cores=64, mhz=1000, memory_mb=0),
    Supervisor(id="b", host="b", rack="r1", slots=[1, 2], cores=64, mhz=1000, memory_mb=0),
    Supervisor(id="c", host="c", rack="r2", slots=[1, 2], cores=64, mhz=1000, memory_mb=0),
]


def chain(sink: tuple[str, int] = ("a", 1), *, tps: float = 10.0, cores: float = 0.0, **more: object) -> Model:
    """source [1] at a:1 -> sink [2], which uses so many cores beside what an idle executor uses."""
    topology = Topology(
        id="t-1",
        name="t",
        workers=2,
        components=[Component(id="source", kind="spout"), Component(id="sink", inputs=[Input(component="source")])],
        executors=[
            Executor(start=1, end=1, component="source"),
            Executor(start=2, end=2, component="sink", cpu_mhz=1000 * (cores + IDLE_CORES)),
        ],
        assignment=[Assigned(start=1, supervisor="a", port=1), Assigned(start=2, supervisor=sink[0], port=sink[1])],
    )
    return Model(
        supervisors=NODES,
        topologies=[msgspec.structs.replace(topology, **more)],
        traffic=[Edge(topology="t-1", from_=1, to=2, rate=tps)],
    )


def of(model: Model) -> float:
    """Its latency as it runs, ms."""
    c = compile_model(model)
    return float(latency_ms(c, c.current, hops=HOPS)[0])


@pytest.mark.parametrize(("sink", "hop_ms"), [(("a", 1), 0.0), (("a", 2), 1.0), (("b", 1), 10.0), (("c", 1), 100.0)])
def test_a_tuple_takes_longer_the_further_it_goes(sink: tuple[str, int], hop_ms: float) -> None:
    assert of(chain(sink)) == pytest.approx(hop_ms)


def test_an_executor_is_a_queue() -> None:
    """10 tuples/s of 50 ms CPU fill half of the thread: M/M/1 takes twice the service, 100 ms."""
    assert of(chain(cores=0.5)) == pytest.approx(100.0, rel=0.01)


def test_a_node_that_is_busy_with_others_makes_service_longer() -> None:
    """The same work on a node of one core, three quarters of which are used."""
    small = [msgspec.structs.replace(NODES[0], cores=1.0)]
    alone = msgspec.structs.replace(chain(cores=0.25), supervisors=small)
    t = alone.topologies[0]
    busy = msgspec.structs.replace(
        alone,
        topologies=[
            msgspec.structs.replace(t, executors=[msgspec.structs.replace(t.executors[0], cpu_mhz=500), t.executors[1]])
        ],
    )
    assert of(busy) > 2 * of(alone)


def test_only_the_part_of_the_tuples_that_goes_on_takes_the_way() -> None:
    """Half of them go on to another node."""
    one = chain(("a", 2), tps=9.0)
    far = Executor(start=3, end=3, component="far")
    t = msgspec.structs.replace(
        one.topologies[0],
        components=[*one.topologies[0].components, Component(id="far", inputs=[Input(component="sink")])],
        executors=[*one.topologies[0].executors, far],
        assignment=[*one.topologies[0].assignment, Assigned(start=3, supervisor="b", port=1)],
    )
    part = msgspec.structs.replace(
        one, topologies=[t], traffic=[*one.traffic, Edge(topology="t-1", from_=2, to=3, rate=4.5)]
    )
    assert of(part) == pytest.approx(1.0 + 0.5 * 10.0)


@pytest.mark.parametrize(
    ("near_tps", "far_tps", "ms"),
    [
        (5.0, 5.0, 5.5),  # either way
        (5.01, 5.0, 5.5),  # measured, so not exactly either way
        (10.0, 5.0, 5.5),  # half of them go far as well
        (5.0, 10.0, 10.0),
        (10.0, 10.0, 10.0),  # both ways
        (10.0, 30.0, 10.0),
    ],
)
def test_a_tuple_waits_for_the_longest_of_its_ways(near_tps: float, far_tps: float, ms: float) -> None:
    """From the sink, in the worker of the source, on to another worker (1 ms) and to another node (10 ms)."""
    one = chain(("a", 1))
    t = one.topologies[0]
    forks = msgspec.structs.replace(
        t,
        components=[*t.components, *(Component(id=c, inputs=[Input(component="sink")]) for c in ("near", "far"))],
        executors=[*t.executors, *(Executor(start=i, end=i, component=c) for i, c in ((3, "near"), (4, "far")))],
        assignment=[*t.assignment, *(Assigned(start=i, supervisor=s, port=2) for i, s in ((3, "a"), (4, "b")))],
    )
    ways = [Edge(topology="t-1", from_=2, to=i, rate=tps) for i, tps in ((3, near_tps), (4, far_tps))]
    whole = msgspec.structs.replace(one, topologies=[forks], traffic=[*one.traffic, *ways])
    assert of(whole) == pytest.approx(ms)


def _moved_from_the_same_rack(measured_ms: float) -> dict[tuple[str, int], float]:
    """Latency by where the sink goes, ms, where so much is measured and the model says 10."""
    c = compile_model(chain(("b", 1), latency_ms=measured_ms))
    found = {}
    for slot in (("a", 2), ("b", 1), ("c", 1)):
        placement = c.current.copy()
        placement[1] = c.slot_numbers()[slot]
        found[slot] = float(latency_ms(c, placement, hops=HOPS)[0])
    return found


def test_what_was_measured_beyond_the_model_stays() -> None:
    """30 of 40 ms are not of this model: no placement takes them away."""
    assert _moved_from_the_same_rack(40.0) == pytest.approx({("a", 2): 31.0, ("b", 1): 40.0, ("c", 1): 130.0})


def test_model_that_says_more_than_was_measured_is_too_high_everywhere() -> None:
    """Half of what it says was measured: no latency is below 0, and another way is not dearer than it is."""
    assert _moved_from_the_same_rack(5.0) == pytest.approx({("a", 2): 0.5, ("b", 1): 5.0, ("c", 1): 50.0})


def test_topologies_are_calibrated_one_by_one() -> None:
    """One that runs nowhere, for its node is gone, takes nothing from what was measured of the other."""
    one = chain(("b", 1), latency_ms=40.0)
    lost = msgspec.structs.replace(one.topologies[0], id="t-2", name="t2", assignment=[])
    both = msgspec.structs.replace(
        one,
        topologies=[one.topologies[0], lost],
        traffic=[*one.traffic, *(msgspec.structs.replace(e, topology="t-2") for e in one.traffic)],
    )
    c = compile_model(both)
    placement = c.current.copy()
    placement[2:] = c.current[:2]
    assert latency_ms(c, placement, hops=HOPS).tolist() == pytest.approx([40.0, 10.0])
    known = {"t-2": Calibration(1.0, 5.0)}
    assert latency_ms(c, placement, hops=HOPS, calibrations=known).tolist() == pytest.approx([10.0, 15.0])


def test_what_runs_nowhere_makes_no_node_busy_now() -> None:
    """Else the calibration of what runs, by how it runs now, would have less beyond the model than there is."""
    small = [msgspec.structs.replace(s, cores=1.0) for s in NODES]
    one = msgspec.structs.replace(chain(("b", 1), cores=0.3, latency_ms=200.0), supervisors=small)
    (t,) = one.topologies
    busy = [msgspec.structs.replace(e, cpu_mhz=250.0) for e in t.executors]
    more = msgspec.structs.replace(t, id="t-2", name="t2", executors=busy, assignment=[], latency_ms=None)
    c, alone = compile_model(msgspec.structs.replace(one, topologies=[t, more])), compile_model(one)
    assert calibrations_of(c) == calibrations_of(alone)
    placement = c.current.copy()
    placement[2:] = c.slot_numbers()["b", 2]
    assert latency_ms(c, placement)[0] > 210.0, "with it there tuples of the first wait longer"


def test_circles_are_gone_once_round() -> None:
    one = chain(("a", 2))
    back = msgspec.structs.replace(one, traffic=[*one.traffic, Edge(topology="t-1", from_=2, to=1, rate=5.0)])
    assert of(back) == pytest.approx(1.0)


def test_mean_is_weighed_by_what_sources_send() -> None:
    c = compile_model(chain(("b", 1)))
    assert mean_latency_ms(c, latency_ms(c, c.current, hops=HOPS)) == pytest.approx(10.0)
