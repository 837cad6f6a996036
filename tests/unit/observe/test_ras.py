"""What the ResourceAwareScheduler keeps is a rule of the model, and plans keep it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.config import LoadSection
from stormpilot.decide.memory import Memory
from stormpilot.messages.core import ClusterSnapshot, SharedMemoryPart, TopologySnapshot
from stormpilot.model.compiled import compile_model
from stormpilot.model.subset import subset
from stormpilot.model.values import Assigned, Infeasible, Model, Plan, Topology
from stormpilot.model.violations import violations
from stormpilot.observe.build import build
from stormpilot.observe.ras import ON_HEAP, need_of
from stormpilot.planner import compute

RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
DEFAULT = "org.apache.storm.scheduler.DefaultScheduler"
HEAP = "topology.worker.max.heap.size.mb"
RESOURCES = "topology.component.resources.map"


def cluster(*nodes: str, fallback: str = RAS, **resources: float) -> ClusterSnapshot:
    """Supervisors of two cores; the last one has the resources."""
    made = snapshots.cluster(*nodes)
    last = msgspec.structs.replace(made.supervisors[-1], resources=resources)
    shim = msgspec.structs.replace(made.shim, fallback=fallback)
    return msgspec.structs.replace(made, shim=shim, supervisors=[*made.supervisors[:-1], last])


def model(job: TopologySnapshot, nodes: ClusterSnapshot | None = None, **load: Any) -> Model:
    built = build(nodes or cluster("a", "b"), {job.id: job}, {}, LoadSection(**load), 1.0, snapshots.T0_MS)
    return built.model


def topology(job: TopologySnapshot, nodes: ClusterSnapshot | None = None) -> Topology:
    return model(job, nodes).topologies[0]


def asking(job: TopologySnapshot, component: str, **config: Any) -> TopologySnapshot:
    parts = [
        msgspec.structs.replace(c, config={**c.config, **config}) if c.id == component else c for c in job.components
    ]
    return msgspec.structs.replace(job, components=parts)


def planned(m: Model) -> Plan:
    plan = compute(m, "best", {"iterations": 20_000}, traffic="flow")
    assert isinstance(plan, Plan), plan
    assert violations(m, plan) == []
    return plan


def components_of(m: Model, plan: Plan) -> list[list[str]]:
    of = {e.start: e.component for e in m.topologies[0].executors}
    return [sorted(of[start] for start, _ in w.executors) for w in plan.topologies[0].workers]


def sharing(job: TopologySnapshot, *components: str, **amounts: float) -> TopologySnapshot:
    memory = SharedMemoryPart(name="lookup", components=list(components), **amounts)
    return msgspec.structs.replace(job, shared_memory=["lookup"], shared_memories=[memory])


def test_shared_memory_on_the_heap_counts_once_in_a_worker() -> None:
    job = sharing(snapshots.topology(workers=6, config={HEAP: 400.0}), "parse", on_heap_mb=140.0)
    found = model(job)
    assert all(len(w) <= (2 if "parse" in w else 3) for w in components_of(found, planned(found)))


@pytest.mark.parametrize(("kind", "workers"), [("off_heap_worker_mb", 2), ("off_heap_node_mb", 6)])
def test_shared_memory_beside_the_heap_counts_once_in_a_worker_or_on_a_node(kind: str, workers: int) -> None:
    job = sharing(snapshots.topology(workers=workers), "parse", "sink", **{kind: 1000.0})
    for memory_mb, fits in ((1700.0, True), (1000.0 + 3 * 128.0 - 1, False)):
        nodes = cluster("a", "b")
        parts = [msgspec.structs.replace(s, memory_mb=memory_mb) for s in nodes.supervisors]
        found = model(job, msgspec.structs.replace(nodes, supervisors=parts))
        answer = compute(found, "best", {"iterations": 5_000})
        if fits:
            assert isinstance(answer, Plan), answer
            assert violations(found, answer) == []
        elif isinstance(answer, Plan):
            assert violations(found, answer) == []
            assert len({w.supervisor for w in answer.topologies[0].workers}) == 2


def test_memory_that_others_share_is_taken() -> None:
    place = {i: ("a", 6700 + i % 2) for i in range(1, 7)}
    amounts = {"on_heap_mb": 1.0, "off_heap_worker_mb": 10.0, "off_heap_node_mb": 100.0}
    other, new = sharing(snapshots.topology(place), "parse", **amounts), snapshots.topology(name="words")
    built = build(cluster("a", "b"), {j.id: j for j in (other, new)}, {}, LoadSection(), 1.0, snapshots.T0_MS).model
    (left,) = [s.memory_mb for s in subset(built, {new.id}).supervisors if s.id == "a"]
    assert left == 8192.0 - 6 * 128.0 - 2 * 11.0 - 100.0, "parse is in both workers"


def test_the_heap_of_a_worker_is_what_its_executors_declare() -> None:
    """Six executors of 128 MB, 256 MB a worker: three workers, whatever topology.workers says."""
    m = model(snapshots.topology(workers=1, config={HEAP: 256.0}))
    assert (m.topologies[0].worker_heap_mb, m.topologies[0].workers) == (256.0, 3)
    assert [len(w) for w in components_of(m, planned(m))] == [2, 2, 2]
    own = asking(
        snapshots.topology(workers=1, config={HEAP: 256.0}),
        "parse",
        **{"topology.component.resources.map": {"onheap.memory.mb": 200.0}},
    )
    assert {c.id: c.heap_mb for c in topology(own).components}["parse"] == 200.0
    alone = asking(
        snapshots.topology(config={"topology.acker.resources.onheap.memory.mb": 64.0}),
        "parse",
        **{"topology.component.resources.onheap.memory.mb": 300.0},
    )
    assert {c.id: c.heap_mb for c in topology(alone).components} == {
        "source": 128.0,
        "parse": 300.0,
        "sink": 128.0,
        "__acker": 64.0,
        "collector": 128.0,
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"topology.component.resources.onheap.memory.mb": 256.0}, 256.0),
        ({RESOURCES: {"onheap.memory.mb": 300.0}, "topology.component.resources.onheap.memory.mb": 128.0}, 300.0),
    ],
    ids=["key", "name"],
)
def test_ackers_and_consumers_without_keys_of_their_own_take_the_heap_of_all(
    config: dict[str, Any], expected: float
) -> None:
    """As Storm's `NormalizedResourceRequest` does: a resource by its name counts before the key for all components."""
    needs = {c: need_of(c, ON_HEAP, {}, config) for c in ("parse", "__acker", "__metrics_org.Consumer")}
    assert needs == dict.fromkeys(needs, expected)
    own = config | {"topology.acker.resources.onheap.memory.mb": 0.0}
    assert need_of("__acker", ON_HEAP, {}, own) == 0.0
    assert {c.id: c.heap_mb for c in topology(snapshots.topology(config=config)).components}["__acker"] == expected


@pytest.mark.parametrize(("heap_mb", "workers"), [(512.0, 6), (384.0, 3), (300.0, 3), (100.0, 1)])
def test_a_new_topology_may_have_the_workers_into_which_its_executors_fit(heap_mb: float, workers: int) -> None:
    """Six executors, 768 MB a worker: of 512 MB each has one to itself, though four workers have as much heap."""
    m = model(snapshots.topology(workers=1, config={"topology.component.resources.onheap.memory.mb": heap_mb}))
    assert m.topologies[0].workers == workers
    assert len(planned(m).topologies[0].workers) <= workers


def test_a_heap_that_an_executor_does_not_fit_into_is_told() -> None:
    m = model(snapshots.topology(config={HEAP: 100.0}))
    answer = compute(m, "best", {"iterations": 100})
    assert isinstance(answer, Infeasible)
    assert answer.proved
    assert "128 MB" in answer.text or "768 MB of heap" in answer.text


@pytest.mark.parametrize(
    "rules",
    [
        {"parse": {"incompatibleComponents": ["sink"]}},
        {"sink": {"incompatibleComponents": "parse"}},
        [["sink", "parse"]],
    ],
)
def test_components_are_kept_apart(rules: Any) -> None:
    m = model(snapshots.topology(workers=3, config={"topology.ras.constraints": rules}))
    assert m.topologies[0].apart == [("parse", "sink")]
    assert all(not {"parse", "sink"} <= set(w) for w in components_of(m, planned(m)))


def test_at_most_so_many_of_a_component_on_a_node() -> None:
    config = {"topology.ras.constraints": {"parse": {"maxNodeCoLocationCnt": 1}}}
    m = model(snapshots.topology(workers=3, config=config))
    on = {s: w.supervisor for w in planned(m).topologies[0].workers for s, _ in w.executors}
    assert on[2] != on[3]
    spread = topology(snapshots.topology(config={"topology.spread.components": ["parse", "none"]}))
    assert {c.id: c.most_per_node for c in spread.components}["parse"] == 1


def test_one_executor_and_one_component_per_worker() -> None:
    single = model(snapshots.topology(workers=1, config={"topology.ras.one.executor.per.worker": True}))
    assert [len(w) for w in components_of(single, planned(single))] == [1] * 6
    kind = model(snapshots.topology(workers=1, config={"topology.ras.one.component.per.worker": True}))
    assert all(len(set(w)) == 1 for w in components_of(kind, planned(kind)))


@pytest.mark.parametrize("name", ["gpu", "gpu.memory.mb", "vcpus"])
def test_a_generic_resource_is_where_a_supervisor_has_it(name: str) -> None:
    """Whatever its name contains: Storm knows CPU and memory by their whole names."""
    gpu = asking(snapshots.topology(), "parse", **{"topology.component.resources.map": {name: 1.0}})
    m = model(gpu, cluster("a", "b", "c", **{name: 2.0}))
    on = {s: w.supervisor for w in planned(m).topologies[0].workers for s, _ in w.executors}
    assert (on[2], on[3]) == ("c", "c")
    short = compute(model(gpu, cluster("a", "b", "c", **{name: 1.0})), "best", {"iterations": 100})
    assert isinstance(short, Infeasible)
    assert (short.constraint, short.proved) == ("resource", True)
    assert f"take 2 of {name}, the supervisors have 1" in short.text


def test_cpu_and_memory_are_no_generic_resources() -> None:
    """By Storm's newer names and by its older ones, as its `ResourceNameNormalizer` has them."""
    names = {"cpu.pcore.percent": 20.0, "topology.component.resources.offheap.memory.mb": 64.0, "memory.mb": 1.0}
    built = topology(asking(snapshots.topology(), "parse", **{RESOURCES: names}))
    assert {name for c in built.components for name in c.resources} == {"cpu.pcore.percent"}, "the reservation"


def test_generic_resources_of_a_whole_topology_are_those_of_every_executor_that_says_nothing_else() -> None:
    """Ackers too, as Storm's `NormalizedResourceRequest` has it."""
    whole = snapshots.topology(config={"topology.component.resources.map": {"gpu": 1.0, "disk": 3.0}})
    own = asking(whole, "parse", **{"topology.component.resources.map": {"gpu": 0.5}})
    built = {c.id: {k: v for k, v in c.resources.items() if k in ("gpu", "disk")} for c in topology(own).components}
    assert built["parse"] == {"gpu": 0.5, "disk": 3.0}
    assert {tuple(sorted(built[c].items())) for c in built if c != "parse"} == {(("disk", 3.0), ("gpu", 1.0))}
    assert "__acker" in built


def test_declared_cpu_is_a_reservation() -> None:
    """Six executors of 100 points on supervisors of 200: two on each, however little they use."""
    job = snapshots.topology(workers=6)
    parts = [msgspec.structs.replace(c, cpu_pcore_percent=100.0) for c in job.components]
    job = msgspec.structs.replace(job, components=parts)
    m = model(job, cluster("a", "b", "c"))
    plan = planned(msgspec.structs.replace(m, topologies=[without_cpu(m.topologies[0])]))
    on = [w.supervisor for w in plan.topologies[0].workers for _ in w.executors]
    assert {n: on.count(n) for n in "abc"} == dict.fromkeys("abc", 2)
    measured = model(job, cluster("a", "b", "c"), cpu="measured")
    assert all(not s.resources for s in measured.supervisors)
    declared = model(job, cluster("a", "b", "c"), cpu="declared").topologies[0]
    assert {(e.cpu_mhz, e.measured) for e in declared.executors} == {(1000.0, True)}


def test_supervisors_may_be_filled_with_all_that_they_declare_where_what_is_declared_counts_alone() -> None:
    """B(n) left a fifth of them free, and one that its scheduler had filled by the rules was overloaded."""
    job, nodes = snapshots.topology(workers=6), cluster("a", "b", "c")
    parts = [msgspec.structs.replace(c, cpu_pcore_percent=100.0) for c in job.components]
    job = msgspec.structs.replace(job, components=parts)
    found = build(nodes, {job.id: job}, {}, LoadSection(cpu="declared"), 0.8, snapshots.T0_MS).model
    assert len(found.topologies[0].executors) == 6, "as many as the three supervisors have cores"
    assert {s.limit_mhz for s in found.supervisors} == {s.cpu_mhz for s in found.supervisors}
    full = msgspec.structs.replace(found, topologies=[placed(found.topologies[0], planned(found))])
    assert Memory().observe(full, snapshots.T0_MS).overloaded_since_ms == {}


def placed(t: Topology, plan: Plan) -> Topology:
    assignment = [
        Assigned(start=start, supervisor=w.supervisor, port=w.port)
        for w in plan.topologies[0].workers
        for start, _ in w.executors
    ]
    return msgspec.structs.replace(t, assignment=assignment)


def without_cpu(t: Topology) -> Topology:
    return msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, cpu_mhz=1.0) for e in t.executors])


def test_another_scheduler_knows_none_of_these() -> None:
    config = {"topology.ras.one.executor.per.worker": True, HEAP: 100.0}
    t = topology(snapshots.topology(config=config), cluster("a", fallback=DEFAULT))
    assert (t.worker_heap_mb, t.worker_executors, t.apart) == (None, None, [])


def test_what_is_no_number_is_left_to_storm() -> None:
    config = {
        HEAP: "much",
        "topology.ras.constraints": {"parse": {"maxNodeCoLocationCnt": "x", "incompatibleComponents": 3}, "sink": 1},
        "topology.spread.components": 7,
    }
    t = topology(snapshots.topology(config=config))
    assert (t.worker_heap_mb, t.apart) == (768.0, [])
    assert {c.most_per_node for c in t.components} == {None}


@pytest.mark.parametrize(
    "job",
    [
        asking(snapshots.topology(), "parse", **{RESOURCES: {"gpu": -1.0}}),
        asking(snapshots.topology(), "parse", **{RESOURCES: {"gpu": 1e13}}),
        asking(snapshots.topology(), "parse", **{RESOURCES: {"onheap.memory.mb": 1e13}}),
        asking(snapshots.topology(), "parse", **{RESOURCES: {"onheap.memory.mb": 10**400}}),
        snapshots.topology(config={HEAP: 5e-324}),
        sharing(snapshots.topology(), "parse", off_heap_node_mb=1e13),
    ],
)
def test_an_amount_that_no_cluster_has_costs_its_topology_alone(job: TopologySnapshot) -> None:
    other = snapshots.topology(name="other")
    built = build(cluster("a", "b"), {t.id: t for t in (job, other)}, {}, LoadSection(), 1.0, snapshots.T0_MS)
    assert not built.failed
    compile_model(built.model)


def test_a_generic_resource_below_0_asks_for_none() -> None:
    whole = snapshots.topology(config={RESOURCES: {"gpu": 2.0}})
    own = asking(whole, "parse", **{RESOURCES: {"gpu": -1.0}})
    built = {c.id: c.resources["gpu"] for c in topology(own).components}
    assert (built["parse"], built["sink"]) == (0.0, 2.0)


def test_rules_take_room_by_the_topologies_that_have_them() -> None:
    """A thousand components of which none share a worker beside many topologies that only reserve CPU."""
    wide = snapshots.topology(config={"topology.ras.one.component.per.worker": True})
    parts = [msgspec.structs.replace(wide.components[0], id=f"c{i}") for i in range(1000)]
    wide = msgspec.structs.replace(
        wide,
        components=parts,
        executors=[msgspec.structs.replace(wide.executors[0], start=i, end=i, component=f"c{i}") for i in range(1000)],
    )
    assert topology(wide).apart == []
    others = [snapshots.topology(name=f"other{i}") for i in range(200)]
    jobs = {job.id: job for job in (*others, wide)}
    built = build(cluster("a", "b"), jobs, {}, LoadSection(), 1.0, snapshots.T0_MS)
    sharing = compile_model(built.model).sharing
    assert sharing.apart.shape == (2000, 1000)
    assert int(sharing.keeps_apart().sum()) == 1


FAVORED, UNFAVORED = "topology.scheduler.favored.nodes", "topology.scheduler.unfavored.nodes"


@pytest.mark.parametrize("traffic", ["measured", "flow"])
@pytest.mark.parametrize(
    ("config", "slots", "used", "note"),
    [
        ({FAVORED: ["host-b"]}, 4, {"b"}, ""),
        ({UNFAVORED: ["host-a", "host-b"]}, 4, {"c"}, ""),
        ({FAVORED: ["host-b"], UNFAVORED: ["host-a"]}, 1, {"b", "c"}, "favored nodes have not enough room"),
        ({UNFAVORED: ["host-a", "host-b"]}, 1, None, "wishes for favored or unfavored nodes were given up"),
        ({FAVORED: ["elsewhere"]}, 4, None, None),
    ],
)
def test_favored_nodes_come_first_and_unfavored_ones_last(
    config: dict[str, Any], slots: int, used: set[str] | None, note: str | None, traffic: Any
) -> None:
    nodes = cluster("a", "b", "c")
    parts = [msgspec.structs.replace(s, ports=list(range(6700, 6700 + slots))) for s in nodes.supervisors]
    job = snapshots.topology(workers=6, config={**config, HEAP: 400.0})
    found = model(job, msgspec.structs.replace(nodes, supervisors=parts))
    plan = compute(found, "best", {"iterations": 3_000}, traffic=traffic)
    assert isinstance(plan, Plan), plan
    assert violations(found, plan) == []
    assert used is None or {w.supervisor for w in plan.topologies[0].workers} == used
    assert note is None or note in " ".join(plan.notes)
