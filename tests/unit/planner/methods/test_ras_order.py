"""Storm 2.x's order of nodes and executors; check numbers of the Storm documentation [RAS]."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from builders import located, supervisor, topology
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Component, Guarantee, Input, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.methods.ras_order import by_connections, ranked

RACKS = np.array(  # CPU, MB, slots of r0 to r4
    [[4000, 2000, 0, 100, 6100], [80_000, 40_000, 80_000, 200_000, 10_000], [40, 40, 40, 40, 40]], dtype=np.float64
)
NOBODY = np.zeros(5, dtype=np.int64)


def test_racks_of_the_storm_page_sort_by_effective_share():
    """CPU 12,200, memory 410,000 MB, 200 slots in all; r4 has most CPU, but of memory only 1/41."""
    rank = ranked(RACKS, NOBODY)
    assert rank.effective == pytest.approx([0.195, 0.098, 0.0, 0.0082, 0.0244], abs=5e-4)
    assert rank.order().tolist() == [0, 1, 4, 3, 2]


def test_where_more_of_the_topology_runs_comes_first():
    assert ranked(RACKS, np.array([0, 0, 3, 1, 0])).order().tolist() == [2, 3, 0, 1, 4]


def test_mean_share_decides_between_equal_effective_shares_then_the_lower_number():
    """Each has 1 of 4 of what it is poorest in; the second has more of the other."""
    available = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 6.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    rank = ranked(available, np.zeros(4, dtype=np.int64))
    assert rank.order().tolist() == [1, 0, 2, 3]


def test_a_resource_without_a_limit_does_not_count():
    available = np.array([[3.0, 1.0], [np.inf, np.inf], [2.0, 2.0]])
    assert ranked(available, np.zeros(2, dtype=np.int64)).effective == pytest.approx([0.5, 0.25])


def test_component_with_most_connections_leads_and_takes_turns_with_its_neighbours():
    """a 2, b 3, c 1: connections a 2*3 = 6, b 3*(2+1) = 9, c 3. b first; neighbours by size: c, a. Acker last."""
    t = topology("t", {"a": 2, "b": 3, "c": 1, "__acker": 1}, streams=[("a", "b"), ("b", "c")])
    t = msgspec.structs.replace(
        t,
        components=[
            *(c for c in t.components if c.id != "__acker"),
            Component(id="__acker", kind="system", inputs=[Input(component=x) for x in "abc"]),
        ],
    )
    c = compile_model(Model(supervisors=[supervisor("n")], topologies=[t]))
    assert c.start[by_connections(c, 0)].tolist() == [3, 6, 1, 4, 2, 5, 7]


def test_a_topology_stays_together_until_its_node_is_full():
    """Racks r0 (n0, n1) and r1 (n2): the richer rack first, n1 in it; four of 100 MHz fill it, the fifth stays near."""
    nodes = [
        supervisor("n0", mhz=300.0, rack="r0"),
        supervisor("n1", mhz=400.0, rack="r0"),
        supervisor("n2", mhz=500.0, rack="r1"),
    ]
    t = topology("t", {"a": 5}, workers=3, cpu_mhz=100.0)
    answer = compute(Model(supervisors=nodes, topologies=[t]), "ras-order")
    assert isinstance(answer, Plan)
    assert [located(answer)[task][0] for task in range(1, 6)] == ["n1", "n1", "n1", "n1", "n0"]


@pytest.mark.parametrize(("storms", "first"), [(None, "n1"), ("/default-rack", "n2")], ids=["unknown", "one for all"])
def test_racks_are_those_of_storm_where_the_model_tells_them(storms: str | None, first: str):
    """By tags r0 (n0, n1) has most; to a Storm without a topography plug-in all are of one rack, and n2 has most."""
    nodes = [
        supervisor("n0", mhz=300.0, rack="r0"),
        supervisor("n1", mhz=400.0, rack="r0"),
        supervisor("n2", mhz=500.0, rack="r1"),
    ]
    known = [msgspec.structs.replace(n, storm_rack=storms) for n in nodes]
    t = topology("t", {"a": 1}, workers=1, cpu_mhz=100.0)
    answer = compute(Model(supervisors=known, topologies=[t]), "ras-order")
    assert isinstance(answer, Plan)
    assert located(answer)[1][0] == first


def test_the_user_below_its_guarantee_gets_the_better_node():
    """One slot per node; n1 is richer. Without guarantees u's topology comes first, with v's guarantee v's."""
    own = [
        msgspec.structs.replace(topology(f"of-{user}", {"a": 1}, workers=1, cpu_mhz=100.0), owner=user)
        for user in ("u", "v")
    ]
    model = Model(supervisors=[supervisor("n0", 1, mhz=200.0), supervisor("n1", 1, mhz=400.0)], topologies=own)
    for guarantees, first in (([], "of-u"), ([Guarantee(user="v", cpu_mhz=100.0, memory_mb=0.0)], "of-v")):
        answer = compute(msgspec.structs.replace(model, guarantees=guarantees), "ras-order")
        assert isinstance(answer, Plan)
        assert located(answer, first)[1][0] == "n1"
