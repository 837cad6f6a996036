"""What plans do not honour is found, named with its value, and holds what uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.messages.core import ClusterSnapshot, SharedMemoryPart, TopologySnapshot
from stormpilot.observe.storm_keys import STORM_KEYS, unsupported

REPOSITORY = Path(__file__).resolve().parents[3]
DEFAULT = "org.apache.storm.scheduler.DefaultScheduler"
RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
STRATEGIES = "org.apache.storm.scheduler.resource.strategies.scheduling"


def cluster(fallback: str = DEFAULT, **config: Any) -> ClusterSnapshot:
    nodes = snapshots.cluster("a", "b")
    return msgspec.structs.replace(nodes, shim=msgspec.structs.replace(nodes.shim, fallback=fallback, config=config))


def found(job: TopologySnapshot, nodes: ClusterSnapshot | None = None, *ignored: str) -> str | None:
    return unsupported(nodes or cluster(), {job.id: job}, ignored).get(job.id)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, None),
        ({"topology.ras.constraints": {}}, None),
        ({"topology.ras.one.executor.per.worker": False}, None),
        ({"topology.worker.max.heap.size.mb": 1.0}, None),
        ({"topology.scheduler.strategy": f"{STRATEGIES}.GenericResourceAwareStrategy"}, None),
        ({"topology.component.resources.map": {"cpu.pcore.percent": 10.0, "onheap.memory.mb": 128.0}}, None),
        (
            {"topology.scheduler.strategy": f"{STRATEGIES}.ConstraintSolverStrategy"},
            "topology.scheduler.strategy is ConstraintSolverStrategy",
        ),
        ({"topology.spread.components": ["parse"]}, "topology.spread.components is ['parse']"),
        ({"topology.ras.one.executor.per.worker": True}, "topology.ras.one.executor.per.worker is True"),
        ({"topology.component.resources.map": {"gpu": 1.0}}, "topology.component.resources.map is gpu"),
        ({"topology.isolate.machines": 2}, "topology.isolate.machines is 2"),
        (
            {"topology.scheduler.favored.nodes": ["n1"], "topology.ras.one.component.per.worker": True},
            "topology.ras.one.component.per.worker is True; topology.scheduler.favored.nodes is ['n1']",
        ),
    ],
)
def test_settings_of_a_topology(config: dict[str, Any], said: str | None) -> None:
    assert found(snapshots.topology(config=config)) == said


def test_generic_resources_of_one_component_and_shared_memory() -> None:
    job = snapshots.topology(shared_memory=["lookup"])
    gpu = {"topology.component.resources.map": {"gpu": 1.0}}
    parts = [msgspec.structs.replace(c, config=gpu) if c.id == "parse" else c for c in job.components]
    job = msgspec.structs.replace(job, components=parts)
    assert found(job) == "topology.component.resources.map is gpu of parse; shared memory is ['lookup']"
    assert found(job, cluster(RAS)) == "shared memory is not told by this plug-in, which is older"
    told = msgspec.structs.replace(job, shared_memories=[SharedMemoryPart(name="lookup", components=["parse"])])
    assert found(told, cluster(RAS)) is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"topology.worker.max.heap.size.mb": 1.0}, None),
        ({"topology.scheduler.strategy": f"{STRATEGIES}.ConstraintSolverStrategy"}, None),
        ({"topology.ras.constraints": {"parse": {"incompatibleComponents": ["sink"]}}}, None),
        ({"topology.ras.constraints": [["parse", "sink"]]}, None),
        ({"topology.ras.constraints": "parse"}, "topology.ras.constraints is parse"),
        (
            {"topology.ras.constraints": {"parse": {"incompatibleComponents": ["sink", "parse"]}}},
            "topology.ras.constraints is parse apart from itself",
        ),
        ({"topology.ras.constraints": [["parse", "parse"]]}, "topology.ras.constraints is parse apart from itself"),
        ({"topology.ras.constraints": [["prase", "prase"]]}, None),  # Storm, too, goes on without what is not there
        ({"topology.spread.components": ["parse"], "topology.ras.one.executor.per.worker": True}, None),
        ({"topology.ras.one.component.per.worker": True}, None),
        ({"topology.component.resources.map": {"gpu": 1.0}}, None),
        (
            {"topology.scheduler.strategy": f"{STRATEGIES}.RoundRobinResourceAwareStrategy"},
            "topology.scheduler.strategy is RoundRobinResourceAwareStrategy",
        ),
        ({"topology.scheduler.favored.nodes": ["n1"], "topology.scheduler.unfavored.nodes": ["n2"]}, None),
        ({"topology.scheduler.favored.nodes": "n1"}, "topology.scheduler.favored.nodes is n1"),
    ],
)
def test_what_plans_keep_under_the_resource_aware_scheduler(config: dict[str, Any], said: str | None) -> None:
    assert found(snapshots.topology(config=config), cluster(RAS)) == said


def test_machines_that_belong_to_somebody_hold_every_topology_where_another_scheduler_is_the_fallback() -> None:
    machines = {"isolation.scheduler.machines": {"billing": 2}}
    assert found(snapshots.topology(), cluster(**machines)) == "isolation.scheduler.machines is {'billing': 2}"
    assert found(snapshots.topology(), cluster("org.apache.storm.scheduler.multitenant.MultitenantScheduler")) == (
        "multitenant.scheduler.user.pools is with the MultitenantScheduler, in a file of its own"
    )
    alone, other = snapshots.topology(config={"topology.isolate.machines": 2}), snapshots.topology(name="words")
    held = unsupported(cluster(), {t.id: t for t in (alone, other)})
    assert held == {alone.id: "topology.isolate.machines is 2"}


def test_ignored_keys_hold_nothing() -> None:
    job = snapshots.topology(config={"topology.isolate.machines": 2, "topology.spread.components": ["parse"]})
    assert found(job, None, "topology.isolate.machines") == "topology.spread.components is ['parse']"
    assert found(job, None, "topology.isolate.machines", "topology.spread.components") is None
    machines = {"isolation.scheduler.machines": {"billing": 2}}
    assert found(snapshots.topology(), cluster(**machines), "isolation.scheduler.machines") is None


def test_rows_are_one_to_a_key_and_name_tests_that_are_there() -> None:
    assert len({k.key for k in STORM_KEYS}) == len(STORM_KEYS)
    for k in STORM_KEYS:
        assert bool(k.test) == (k.treatment in ("honoured", "held")), k.key
        assert not k.test or (REPOSITORY / k.test).exists(), k.test
