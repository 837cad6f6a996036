"""Generated instances: valid, seeded, loaded as asked, and with the placement that they promise."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stormpilot.errors import UsageError
from stormpilot.generate.models import (
    Loaded,
    Planted,
    Production,
    Small,
    Unlike,
    loaded,
    planted,
    small,
    unlike,
    with_traffic,
)
from stormpilot.generate.models.clusters import with_racks
from stormpilot.generate.models.loaded import fits
from stormpilot.generate.models.shapes import SHAPES
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Component, Exclusion, Executor, Guarantee, Input, Model, Supervisor, Topology
from stormpilot.model.violations import violations


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def demand_ratio(model: Model) -> float:
    demand = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    return demand / sum(s.limit_mhz for s in model.supervisors)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda s: s.name)
def test_shapes_are_connected_graphs_of_known_components(shape):
    reached = set(shape.spouts)
    assert reached
    for _ in shape.share:
        reached |= {s.target for s in shape.streams if s.source in reached}
    assert reached == set(shape.share)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_small_instances_are_small_fit_and_can_be_compiled(seed):
    model = small(Small(), rng(seed))
    executors = sum(len(t.executors) for t in model.topologies)
    assert 6 <= executors <= 14
    assert 2 <= len(model.supervisors) <= 4
    assert fits(model)
    assert compile_model(model).total_tps > 0


@pytest.mark.parametrize(("executors", "topologies"), [(200, 3), (700, 5)])
def test_loaded_clusters_have_the_size_and_the_load_asked_for(executors, topologies):
    model = loaded(Loaded(executors=executors, topologies=topologies, load=0.75), rng(4))
    assert sum(len(t.executors) for t in model.topologies) == executors
    assert len(model.topologies) == topologies
    assert demand_ratio(model) == pytest.approx(0.75, abs=0.03)
    assert fits(model)


def test_ackers_are_executors_with_traffic_where_a_topology_has_them():
    model = loaded(Loaded(executors=300, topologies=2, ackers=1.0), rng(1))
    for t in model.topologies:
        ackers = {e.start for e in t.executors if e.component == "__acker"}
        assert ackers
        assert ackers <= {e.to for e in model.traffic if e.topology == t.id}


def test_the_same_seed_gives_the_same_file_and_another_seed_another():
    def file(seed):
        return msgspec.json.encode(loaded(Loaded(executors=100, topologies=2), rng(seed)))

    assert file(5) == file(5)
    assert file(5) != file(6)


def test_planted_placement_is_valid_and_only_noise_crosses_nodes():
    params = Planted(executors=600, nodes=15, topologies=3, noise=0.25, degree=12)
    model, plan = planted(params, rng(2))
    assert violations(model, plan) == []
    share = evaluate(model, plan)["inter_node_share"]
    assert share == pytest.approx(0.25, abs=0.02)
    assert len({(e.topology, e.from_, e.to) for e in model.traffic}) == len(model.traffic) == 3600


def test_planted_nodes_are_filled_to_the_load_asked_for():
    model, plan = planted(Planted(executors=400, nodes=10, load=0.9, degree=8), rng(3))
    assert evaluate(model, plan)["max_load_ratio"] == pytest.approx(0.9, abs=0.001)


def test_too_many_pairs_for_the_groups_are_refused():
    with pytest.raises(UsageError, match="smaller degree"):
        planted(Planted(executors=200, nodes=20, degree=30), rng())


@pytest.mark.parametrize(("nodes", "topologies"), [(31, 7), (10, 4), (50, None)])
def test_planted_topologies_are_as_many_as_asked_for_on_as_many_nodes_each_or_one_more(nodes, topologies):
    model, plan = planted(Planted(executors=40 * nodes, nodes=nodes, topologies=topologies), rng(4))
    sizes = [len(t.workers) for t in plan.topologies]
    assert len(sizes) == len(model.topologies) == (topologies or nodes // 25)
    assert sum(sizes) == nodes
    assert max(sizes) - min(sizes) <= 1
    assert violations(model, plan) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: Loaded(executors=10, topologies=4),
        lambda: Loaded(load=1.2),
        lambda: Small(nodes=1),
        lambda: Planted(executors=50, nodes=25),
        lambda: Planted(noise=0.9),
        lambda: Planted(load=1.1),
        lambda: Planted(nodes=13, topologies=7),
        lambda: Production(fan_out=0),
    ],
)
def test_parameters_out_of_range_are_refused_when_they_are_made(make):
    with pytest.raises(UsageError):
        make()


def test_a_packing_that_lacks_workers_does_not_fit():
    node = Supervisor(id="n", host="n", slots=[1], cores=1.0, mhz=1000.0, memory_mb=0.0)
    other = Supervisor(id="m", host="m", slots=[1], cores=1.0, mhz=1000.0, memory_mb=0.0)
    topology = Topology(
        id="t",
        name="t",
        workers=1,
        components=[Component(id="s", kind="spout")],
        executors=[Executor(start=i, end=i, component="s", cpu_mhz=600.0) for i in (1, 2)],
    )
    assert not fits(Model(supervisors=[node, other], topologies=[topology]))
    assert fits(Model(supervisors=[node, other], topologies=[msgspec.structs.replace(topology, workers=2)]))


def test_production_traffic_keeps_the_cluster_and_leaves_control_streams_out():
    structure = Topology(
        id="t",
        name="t",
        workers=3,
        components=[
            Component(id="s", kind="spout"),
            Component(id="c", kind="spout"),
            Component(id="b", inputs=[Input(component="s"), Input(component="c", grouping="ALL")]),
        ],
        executors=[
            *(Executor(start=i, end=i, component="s", cpu_mhz=10.0) for i in (1, 2)),
            Executor(start=3, end=3, component="c", cpu_mhz=5.0),
            *(Executor(start=i, end=i, component="b", cpu_mhz=20.0) for i in (4, 5)),
        ],
    )
    bare = Model(
        supervisors=[Supervisor(id="n", host="n", slots=[1], cores=1.0, mhz=2000.0, memory_mb=0.0)],
        topologies=[structure],
        exclusions=[Exclusion(supervisor="n", component="c")],
        guarantees=[Guarantee(user="ann", cpu_mhz=100.0)],
    )
    model = with_traffic(bare, Production(), rng(1))
    assert msgspec.structs.replace(model, traffic=[]) == bare
    assert {(e.from_, e.to) for e in model.traffic} == {(1, 4), (1, 5), (2, 4), (2, 5)}
    assert with_traffic(bare, Production(), rng(1)) == model


@pytest.mark.parametrize("sites", [0, 2])
def test_unlike_clusters_have_the_nodes_that_were_asked_for(sites):
    params = Unlike(executors=400, topologies=5, load=0.5, memory_load=0.45, spread=5.0, slots=(4, 6), sites=sites)
    model = unlike(params, rng(7))
    assert sum(len(t.executors) for t in model.topologies) == 400
    assert demand_ratio(model) == pytest.approx(0.5, abs=0.03)
    cpu = [s.limit_mhz for s in model.supervisors]
    assert max(cpu) / min(cpu) == pytest.approx(5.0, rel=0.01)
    assert len(cpu) == params.node_count == 16
    assert {len(s.slots) for s in model.supervisors} == {4, 6}
    memory = sum(e.memory_mb for t in model.topologies for e in t.executors)
    assert memory / sum(s.memory_mb for s in model.supervisors) == pytest.approx(0.45, abs=0.05)
    wanted = sum(t.workers for t in model.topologies) / sum(len(s.slots) for s in model.supervisors)
    assert wanted == pytest.approx(0.55, abs=0.06)
    assert {s.site for s in model.supervisors} - {None} == {c.site for t in model.topologies for c in t.components} - {
        None
    }
    assert len({s.site for s in model.supervisors} - {None}) == sites
    assert fits(model)
    assert model == unlike(params, rng(7))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
@example(32)
def test_every_site_of_an_unlike_cluster_has_a_component_that_must_run_there(seed):
    """Few components, some larger than what a site has room for."""
    model = unlike(Unlike(executors=24, topologies=2, nodes=10, sites=2), rng(seed))
    assert {c.site for t in model.topologies for c in t.components} - {None} == {"site-0", "site-1"}


def test_more_sites_than_components_are_refused():
    with pytest.raises(UsageError, match="fewer sites"):
        unlike(Unlike(executors=6, topologies=1, nodes=40, sites=8), rng())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["/a", "/a", "/b", "/b"], [None] * 4),
        ([None] * 4, [None] * 4),
        (["/default-rack"] * 4, ["/default-rack"] * 4),
    ],
    ids=["by a plug-in", "as the cost", "without a plug-in"],
)
def test_racks_are_those_of_storm_too_where_it_knew_racks(before, after):
    nodes = [
        Supervisor(id=f"n{i}", host=f"n{i}", rack="/x", storm_rack=r, slots=[1], cores=1.0, mhz=1.0, memory_mb=0.0)
        for i, r in enumerate(before)
    ]
    placed = with_racks(Model(supervisors=nodes, topologies=[]), 2).supervisors
    assert [s.rack for s in placed] == ["/r0", "/r0", "/r1", "/r1"]
    assert [s.storm_rack for s in placed] == after


@pytest.mark.parametrize(
    "params",
    [
        {"spread": 0.5},
        {"slots": ()},
        {"slots_wanted": 1.5},
        {"skew": 2.0},
        {"memory_load": 1.0},
        {"nodes": 3, "sites": 2},
    ],
)
def test_unlike_refuses_what_cannot_be(params):
    with pytest.raises(UsageError):
        Unlike(**params)
