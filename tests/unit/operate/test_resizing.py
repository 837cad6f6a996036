"""A size on a running topology: what changes, and what is refused before anything is touched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest

from doubles.sized_world import PATHS, SLOT, World, running
from doubles.snapshots import T0_MS, cluster, task_load, topology
from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError
from stormpilot.messages.core import (
    ClusterSnapshot,
    ComponentPart,
    ExecutorPart,
    InputPart,
    decode,
)
from stormpilot.messages.load import LoadReport
from stormpilot.messages.settings import (
    AuditRecord,
    DrainSetting,
    ExcludeSetting,
    PauseSetting,
    PinSetting,
)
from stormpilot.messages.signing import signature
from stormpilot.operate.resizing import Resizing


def test_threads_by_a_rebalance_then_the_placement_as_plan() -> None:
    world = World()
    change = world.size(250.0)
    assert change.before == {"source": 1, "pi": 2, "__acker": 1}
    assert change.threads == {"source": 1, "pi": 5}
    assert world.rebalanced == []
    plan_id = world.carry_out(change)
    assert world.rebalanced == [(3, 3, {"pi": 5})]
    plan = world.plan()
    assert (plan.plan_id, plan.planner, plan.signature) == (plan_id, "sam", "")
    (names,) = world.zookeeper.children([PATHS.audit()])
    (node,) = world.zookeeper.read([f"{PATHS.audit()}/{names[-1]}"])
    assert node is not None
    record = decode(node.data, AuditRecord, "audit")
    assert (record.who, record.verb, record.target, record.plan_id) == ("ann", "apply-size", world.id, plan_id)
    held = sorted(e for w in plan.workers for e in w.executors)
    assert held == [(1, 1), (2, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)]
    pi = sorted(sum(1 for start, _ in w.executors if 2 <= start <= 7) for w in plan.workers)
    assert pi == [1, 2, 2]


def test_where_nimbus_takes_signed_plans_only_the_placement_is_signed_or_nothing_is_changed() -> None:
    world, key = World(), b"a key of many bytes"
    world.nimbus_conf = {"stormpilot.plan.key.file": "/etc/stormpilot-plan.key"}
    with pytest.raises(RefusedError, match=r"takes signed plans only .*: give --config with a controller\.yaml"):
        world.size(250.0)
    world.carry_out(world.size(250.0, key=key))
    assert world.plan().signature == signature(world.plan(), key)


def test_no_rebalance_where_threads_and_workers_are_as_wanted() -> None:
    world = World()
    assert len(world.size(105.0).workers) == 2  # as many as the topology asks for, and two threads of pi
    world.apply_later()
    world.carry_out(world.size(105.0))
    assert world.rebalanced == []


def test_what_restarts_is_said_before() -> None:
    world = World()
    assert world.size(250.0).danger(5) == "workers of t restart, after its sources were off for 5 s"
    same = world.size(105.0)
    assert same.danger(5) == "workers of t that are elsewhere now restart"
    same.controller = "n1:7"
    assert same.danger(5) == "", "the controller places them"


def test_workers_that_are_asked_for_count_not_those_that_are_used() -> None:
    world = World()
    world.put(PATHS.topology(world.id), running({"source": 1, "pi": 2, "__acker": 1}, workers=4))
    world.carry_out(world.size(105.0))  # two of four are used
    assert world.rebalanced == [(3, 2, None)]


def test_an_executor_without_a_size_goes_where_the_least_is() -> None:
    change = World().size(205.0)
    (acker,) = [w for w in change.workers if (8, 8) in w.executors]
    assert (1, 1) in acker.executors  # beside the source, which needs nothing


@pytest.mark.parametrize("kind", ["bolt", None])
def test_a_component_that_the_file_does_not_have_is_refused(kind: Literal["bolt"] | None) -> None:
    """Also one that the snapshot does not list (None)."""
    world = World()
    more = ExecutorPart(start=9, end=9, component="db", supervisor="a", port=6700)
    listed = [*world.snapshot.components, *([ComponentPart(id="db", kind=kind)] if kind else [])]
    executors = [*world.snapshot.executors, more]
    world.put(PATHS.topology(world.id), msgspec.structs.replace(world.snapshot, components=listed, executors=executors))
    with pytest.raises(RefusedError, match="the file has no component db"):
        world.size(205.0)


def test_the_collector_goes_where_the_least_is() -> None:
    world = World()
    reports = [InputPart(component="pi", stream="stormpilot_load", grouping="GLOBAL")]
    listed = [*world.snapshot.components, ComponentPart(id="stormpilot-collector", kind="bolt", inputs=reports)]
    more = ExecutorPart(start=9, end=9, component="stormpilot-collector", supervisor="a", port=6700)
    executors = [*world.snapshot.executors, more]
    world.put(PATHS.topology(world.id), msgspec.structs.replace(world.snapshot, components=listed, executors=executors))
    (w,) = [w for w in world.size(205.0).workers if (9, 9) in w.executors]
    assert {(1, 1), (8, 8)} <= set(w.executors)


def test_fewer_threads_than_tasks_is_noted() -> None:
    assert any("pi: more tasks than threads" in n for n in World().size(50.0).notes)


@pytest.mark.parametrize(
    ("world", "rate_tps", "text"),
    [
        (World(), 1000.0, "pi has 6 tasks and needs 19 threads: Storm never adds tasks"),
        (World(nodes="ab"), 250.0, "t: no place for this size (slots): 3 slots are needed, 2 free"),
        (World(part=0.5), 250.0, "and models were measured on one of"),
        (World(reports=()), 250.0, "so that nobody knows how fast a core is: submit the topology with"),
    ],
)
def test_what_cannot_be_done_is_refused(world: World, rate_tps: float, text: str) -> None:
    with pytest.raises(RefusedError, match=re.escape(text)):
        world.size(rate_tps)


STORMS_DEFAULTS = {"cpu_pcore_percent": 400.0, "memory_mb": 4096.0}


def test_storm_s_defaults_say_nothing_of_a_node_what_its_tasks_report_counts() -> None:
    """Of the other nodes nobody knows the memory."""
    fits = World(declared=STORMS_DEFAULTS, host={"host_cores": 1.0, "host_memory_mb": SLOT.memory_mb})
    assert len(fits.size(250.0).workers) == 3
    small = World(declared=STORMS_DEFAULTS, host={"host_cores": 1.0, "host_memory_mb": SLOT.memory_mb / 2})
    with pytest.raises(RefusedError, match=f"a slot of a has {SLOT.memory_mb / 2:,.0f} MB memory"):
        small.size(250.0)
    slow = World(declared=STORMS_DEFAULTS, host={"host_cores": 0.5, "host_memory_mb": SLOT.memory_mb})
    with pytest.raises(RefusedError, match=f"a slot of a has {SLOT.cpu_mhz / 2:,.0f} MHz CPU"):
        slow.size(250.0)


def test_capacity_counts_as_the_configuration_of_the_controller_says() -> None:
    """Slots are declared as large as the measured one; its tasks report half of the memory."""
    world = World(host={"host_cores": 1.0, "host_memory_mb": SLOT.memory_mb / 2})
    assert len(world.size(250.0, LoadSection(capacity="declared")).workers) == 3
    with pytest.raises(RefusedError, match=f"a slot of a has {SLOT.memory_mb / 2:,.0f} MB memory"):
        world.size(250.0, LoadSection(capacity="measured"))


def test_a_slow_node_that_the_topology_does_not_run_on_is_not_taken_for_a_fast_one() -> None:
    """Its supervisor declares how fast it is, or another topology tells."""
    half = SLOT.cpu_mhz / 2
    world = World()
    (node,) = world.zookeeper.read([PATHS.cluster])
    assert node is not None
    seen = decode(node.data, ClusterSnapshot, "cluster")
    slow = [msgspec.structs.replace(s, meta={"cpu.mhz": str(half)} if s.id == "d" else {}) for s in seen.supervisors]
    world.put(PATHS.cluster, msgspec.structs.replace(seen, supervisors=slow))
    with pytest.raises(RefusedError, match=f"a slot of d has {half:,.0f} MHz CPU"):
        world.size(250.0)
    world = World(slots=2)
    other = topology({1: ("c", 6700)}, name="other")
    world.put(PATHS.topology(other.id), other)
    told = LoadReport(
        topology_id=other.id, reporter="c", seq=1, written_at_ms=T0_MS, tasks=[task_load(1, 1.0, mhz=half)]
    )
    world.put(PATHS.load(other.id, "c"), told)
    with pytest.raises(RefusedError, match=f"a slot of c has {half:,.0f} MHz CPU"):
        world.size(250.0)


def placed_on(change: Resizing, component: str) -> set[str]:
    """Supervisors that a size puts the component on."""
    return {
        w.supervisor for w in change.workers if any(change.component_of[start] == component for start, _ in w.executors)
    }


def set_for(world: World, setting: PinSetting | ExcludeSetting) -> None:
    parent = PATHS.pin if isinstance(setting, PinSetting) else PATHS.exclusion
    world.put(parent(setting.key), setting)


def test_a_drained_host_gets_nothing() -> None:
    world = World()
    for host in ("host-a", "host-b"):
        world.put(PATHS.drain(host), DrainSetting(host=host))
    change = world.size(105.0)
    assert {w.supervisor for w in change.workers} <= {"c", "d"}
    world.put(PATHS.drain("host-c"), DrainSetting(host="host-c"))
    with pytest.raises(RefusedError, match="no place for this size"):
        world.size(105.0)


def test_pins_and_exclusions_hold() -> None:
    world = World()
    set_for(world, PinSetting(topology="t", component="source", supervisor="d"))
    set_for(world, PinSetting(topology="t", component="__acker", supervisor="d"))
    set_for(world, ExcludeSetting(topology="t", component="pi", host="host-a"))
    set_for(world, ExcludeSetting(topology="t", supervisor="b"))
    change = world.size(105.0)
    assert (placed_on(change, "source"), placed_on(change, "__acker")) == ({"d"}, {"d"})
    assert placed_on(change, "pi") <= {"c", "d"}


@pytest.mark.parametrize("key", ["t", "_all"])
def test_nothing_is_sized_against_a_setting_that_nobody_can_read(key: str) -> None:
    """A pin of the topology, or an exclusion whose name does not say whom it is for."""
    world = World()
    path = PATHS.pin("t,pi") if key == "t" else PATHS.exclusion("nonsense")
    world.zookeeper.put(path, b"{nonsense")
    with pytest.raises(RefusedError, match=r"t: SETTING_UNREADABLE: an? (pin|exclusion) cannot be read"):
        world.size(105.0)
    world.zookeeper.put(PATHS.pin("other,pi"), b"{nonsense")
    world.zookeeper.delete(path)
    assert world.size(105.0).workers, "a pin of another topology"


@pytest.mark.parametrize("key", ["t", "_all"])
def test_nothing_is_sized_in_a_pause(key: str) -> None:
    """Storm rebalanced, and the plan of the placement waited for `resume` until the time was over."""
    world = World()
    world.put(PATHS.pause(key), PauseSetting(by="ann"))
    with pytest.raises(RefusedError, match="t: PAUSED: `stormpilot status` says by whom"):
        world.size(105.0)


def test_a_pin_to_a_supervisor_without_free_slots_is_refused() -> None:
    world = World()
    set_for(world, PinSetting(topology="t", component="source", supervisor="d"))
    other = topology({1: ("d", 6700)}, name="other")
    world.put(PATHS.topology(other.id), other)
    with pytest.raises(RefusedError, match="no place for this size"):
        world.size(105.0)


def test_an_executor_without_a_size_gets_a_slot_of_its_own_or_is_refused() -> None:
    """Where it may be beside none of the others, or in no slot."""
    world = World()
    set_for(world, PinSetting(topology="t", component="pi", supervisor="a"))
    set_for(world, PinSetting(topology="t", component="__acker", supervisor="d"))
    assert together(world.size(50.0)) == [{"source", "pi"}, {"__acker"}]
    set_for(world, ExcludeSetting(topology="t", component="__acker", supervisor="d"))
    with pytest.raises(RefusedError, match="and no free slot, is where sites, pins and exclusions allow __acker"):
        world.size(50.0)


def test_sites_hold() -> None:
    world = World()
    listed = [*world.snapshot.components, ComponentPart(id="pi", kind="bolt", config={"site": "east"})]
    world.put(PATHS.topology(world.id), msgspec.structs.replace(world.snapshot, components=listed))
    (node,) = world.zookeeper.read([PATHS.cluster])
    assert node is not None
    seen = decode(node.data, ClusterSnapshot, "cluster")
    sites = [msgspec.structs.replace(s, meta={"site": "east" if s.id in "cd" else "west"}) for s in seen.supervisors]
    world.put(PATHS.cluster, msgspec.structs.replace(seen, supervisors=sites))
    assert placed_on(world.size(105.0), "pi") <= {"c", "d"}


RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"


def under_ras(config: Mapping[str, Any], **resources: float) -> World:
    """A cluster whose fallback is Storm's ResourceAwareScheduler, with these settings of the topology."""
    world = World(config=config)
    (node,) = world.zookeeper.read([PATHS.cluster])
    assert node is not None
    seen = decode(node.data, ClusterSnapshot, "cluster")
    shim = msgspec.structs.replace(seen.shim, fallback=RAS)
    supervisors = [msgspec.structs.replace(s, resources=resources) for s in seen.supervisors]
    world.put(PATHS.cluster, msgspec.structs.replace(seen, shim=shim, supervisors=supervisors))
    return world


def together(change: Resizing) -> list[set[str]]:
    """Components of each worker."""
    return [{change.component_of[start] for start, _ in w.executors} for w in change.workers]


def test_rules_of_the_resource_aware_scheduler_hold() -> None:
    """Else the plug-in rejects the placement, after the topology was rebalanced."""
    apart = {"topology.ras.constraints": {"source": {"incompatibleComponents": ["pi"]}}}
    assert {"source", "pi"} <= together(under_ras({}).size(50.0))[0]
    assert not any({"source", "pi"} <= held for held in together(under_ras(apart).size(50.0)))
    few = {"topology.worker.max.heap.size.mb": 256.0, "topology.component.resources.onheap.memory.mb": 128.0}
    assert max(len(w.executors) for w in under_ras(few).size(205.0).workers) <= 2
    spread = {"topology.ras.constraints": {"pi": {"maxNodeCoLocationCnt": 1}}}
    assert len(placed_on(under_ras(spread).size(105.0), "pi")) == 2


def test_a_size_that_the_rules_leave_no_place_for_is_refused() -> None:
    gpus = {"topology.component.resources.map": {"gpu.count": 1.0}}
    with pytest.raises(RefusedError, match="no place for this size"):
        under_ras(gpus).size(105.0)
    alone = {"topology.ras.one.executor.per.worker": True}
    assert sorted(len(w.executors) for w in under_ras(alone).size(50.0).workers) == [1, 1, 1]
    with pytest.raises(RefusedError, match="allow __acker"):
        under_ras(alone).size(205.0)


def test_slots_that_others_take_or_lose_during_the_rebalance_are_not_placed_on() -> None:
    world = World(nodes="abcde")
    other = topology({1: ("b", 6700)}, name="other")

    def meanwhile() -> None:
        world.put(PATHS.topology(other.id), other)
        world.put(PATHS.cluster, cluster(*"bcde", ports=[6700]))

    world.meanwhile = meanwhile
    change = world.size(250.0)
    assert {w.supervisor for w in change.workers} == {"a", "b", "c"}
    world.carry_out(change)
    assert {w.supervisor for w in world.plan().workers} == {"c", "d", "e"}


def test_a_rebalance_after_which_nothing_is_free_is_told() -> None:
    world = World(nodes="abc")
    other = topology({1: ("b", 6700)}, name="other")
    world.meanwhile = lambda: world.put(PATHS.topology(other.id), other)
    with pytest.raises(
        RefusedError, match=r"Storm has rebalanced t to these threads, but it is not placed: t: no place"
    ):
        world.carry_out(world.size(250.0))
    assert world.rebalanced


def test_slots_of_other_topologies_are_not_free() -> None:
    world = World()
    other = topology({1: ("b", 6700), 2: ("c", 6700)}, name="other")
    world.put(PATHS.topology(other.id), other)
    with pytest.raises(RefusedError, match="3 slots are needed, 2 free"):
        world.size(250.0)


def test_slots_of_a_topology_that_nimbus_has_no_more_are_free() -> None:
    """The plug-in keeps its snapshot for a while."""
    world = World()
    other = topology({1: ("b", 6700), 2: ("c", 6700)}, name="other")
    world.put(PATHS.topology(other.id), other)
    world.status[other.id] = "KILLED"
    with pytest.raises(RefusedError, match="2 free; slots of what is being killed come free soon: other"):
        world.size(250.0)
    world.status[other.id] = None
    change = world.size(250.0)
    assert len(change.workers) == 3
    assert "slots of killed topologies, which Nimbus has no more, count as free: other" in change.notes
    assert world.carry_out(change) is not None, "its snapshot is still there"
