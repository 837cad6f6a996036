"""CPU that follows from places: a plan is credited for what it saves, and charged for what it costs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.compiled import Ints, compile_model
from stormpilot.model.flow.model import flow_model, predicted
from stormpilot.model.values import Assigned, CpuLaw, Model

LAW = CpuLaw(worker_mhz=60.0, in_worker_mhz=0.1, in_node_mhz=0.5, far_mhz=1.0)
APART = {1: ("n1", 6700), 2: ("n2", 6700), 3: ("n3", 6700)}
ONE_WORKER = dict.fromkeys((1, 2, 3), ("n1", 6700))
ONE_NODE = {1: ("n1", 6700), 2: ("n1", 6701), 3: ("n1", 6702)}


def chain(now: dict[int, tuple[str, int]], law: CpuLaw | None = LAW, cpu_mhz: float = 200.0) -> Model:
    """A spout and two bolts in a row, by key, 100 tuples/s each way, placed so."""
    t = topology(
        "t", {"spout": 1, "mid": 1, "end": 1}, streams=[("spout", "mid"), ("mid", "end")], workers=3, cpu_mhz=cpu_mhz
    )
    components = [
        msgspec.structs.replace(c, inputs=[msgspec.structs.replace(i, grouping="FIELDS") for i in c.inputs])
        for c in t.components
    ]
    t = msgspec.structs.replace(
        t,
        components=components,
        assignment=[Assigned(start=e, supervisor=s, port=p) for e, (s, p) in now.items()],
        cpu_law=law,
    )
    nodes = [supervisor(n) for n in ("n1", "n2", "n3")]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 2): 100.0, (2, 3): 100.0}))


def at(model: Model, places: dict[int, tuple[str, int]]) -> Ints:
    c = compile_model(model)
    slots = c.slot_numbers()
    return np.array([slots[places[int(s)]] for s in c.start], dtype=np.int64)


def loads(model: Model, places: dict[int, tuple[str, int]]) -> list[float]:
    return flow_model(model).predict(at(model, places)).node_load_mhz.tolist()


def test_present_placement_is_predicted_as_it_was_measured() -> None:
    assert loads(chain(APART), APART) == pytest.approx([200, 200, 200])


def test_merged_workers_save_their_jvms_and_the_network() -> None:
    # two workers of 60 go, and 200 tuples/s cost 0.1 instead of 1
    assert loads(chain(APART), ONE_WORKER) == pytest.approx([600 - 2 * 60 - 200 * 0.9, 0, 0])


def test_workers_of_one_node_save_the_network_alone() -> None:
    assert loads(chain(APART), ONE_NODE) == pytest.approx([600 - 200 * 0.5, 0, 0])


def test_spreading_costs_what_merging_saves() -> None:
    model = chain(ONE_WORKER)
    ends = [60 + 50 * 1.0, 60 + 100 * 1.0, 60 + 50 * 1.0]
    work = [200 - 20 - 50 * 0.1, 200 - 20 - 100 * 0.1, 200 - 20 - 50 * 0.1]
    assert loads(model, APART) == pytest.approx([a + b for a, b in zip(ends, work, strict=True)])


def test_thread_that_stays_awake_costs_little_more_for_more_tuples() -> None:
    law = CpuLaw(transfer_mhz=100.0)  # at 100 tuples/s as good as always awake
    assert loads(chain(APART, law), ONE_WORKER) == pytest.approx([600 - 2 * 100, 0, 0], rel=0.01)  # two send no more


def test_workers_that_get_tuples_of_others_pay_for_it() -> None:
    law = CpuLaw(receive_mhz=100.0)
    assert loads(chain(APART, law), ONE_WORKER) == pytest.approx([600 - 2 * 100, 0, 0], rel=0.01)
    assert loads(chain(ONE_WORKER, law), APART) == pytest.approx([200, 300, 300], rel=0.01)


def test_executor_that_gets_no_more_tuples_still_takes_what_it_takes_asleep() -> None:
    """Two alike at 50 tuples/s each tell nothing of it by themselves; in the spout's worker one gets all 100."""
    t = topology("t", {"spout": 1, "mid": 2}, streams=[("spout", "mid")], workers=3, cpu_mhz=100.0)
    now = [Assigned(start=e, supervisor=s, port=p) for e, (s, p) in APART.items()]
    t = msgspec.structs.replace(t, assignment=now, cpu_law=CpuLaw(asleep_mhz=20.0))
    edges = traffic("t", {(1, 2): 50.0, (1, 3): 50.0})
    model = Model(supervisors=[supervisor(n) for n in ("n1", "n2", "n3")], topologies=[t], traffic=edges)
    beside = {**APART, 2: ("n1", 6700)}
    assert loads(model, beside) == pytest.approx([100 + 20 + 2 * 80, 0, 20])
    assert loads(model, APART) == pytest.approx([100, 100, 100])


def test_without_a_law_cpu_goes_with_the_executors() -> None:
    assert loads(chain(APART, None), ONE_WORKER) == pytest.approx([600, 0, 0])


def test_no_executor_is_predicted_below_zero_and_the_node_keeps_its_sum() -> None:
    model = chain(APART, CpuLaw(far_mhz=2.0), cpu_mhz=150.0)  # the middle one has less than its tuples should cost
    p = flow_model(model).predict(at(model, ONE_WORKER))
    assert (p.cpu_mhz >= 0).all()
    assert p.node_load_mhz.sum() == pytest.approx(450 - 400)


def test_predicted_model_has_the_cpu_of_the_places() -> None:
    model = chain(APART)
    c = compile_model(model)
    then = predicted(model, c.plan_of(at(model, ONE_WORKER)))
    assert sum(e.cpu_mhz for e in then.topologies[0].executors) == pytest.approx(300)
