"""What plans do not honour is found, named with its value, and holds what uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
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
        ({"topology.worker.max.heap.size.mb": 1.0}, None),  # no heap is filled by Storm's default scheduler
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


def test_heap_under_the_resource_aware_scheduler() -> None:
    """Seven executors of 128 MB do not fit into Storm's default heap of 768 MB; six do."""
    job = snapshots.topology()
    seven = msgspec.structs.replace(
        job, executors=[*job.executors, msgspec.structs.replace(job.executors[0], start=7, end=7)]
    )
    assert len(job.executors) == 6
    assert found(job, cluster(RAS)) is None
    expected = "topology.worker.max.heap.size.mb is 768, and its executors declare 896 MB"
    assert found(seven, cluster(RAS)) == expected
    assert found(seven, cluster(DEFAULT)) is None
    roomy = msgspec.structs.replace(seven, config={"topology.worker.max.heap.size.mb": 896.0})
    assert found(roomy, cluster(RAS)) is None


def test_machines_that_belong_to_somebody_hold_every_topology() -> None:
    machines = {"isolation.scheduler.machines": {"billing": 2}}
    assert found(snapshots.topology(), cluster(**machines)) == "isolation.scheduler.machines is {'billing': 2}"
    assert found(snapshots.topology(), cluster("org.apache.storm.scheduler.multitenant.MultitenantScheduler")) == (
        "multitenant.scheduler.user.pools is with the MultitenantScheduler, in a file of its own"
    )
    alone, other = snapshots.topology(config={"topology.isolate.machines": 2}), snapshots.topology(name="words")
    held = unsupported(cluster(), {t.id: t for t in (alone, other)})
    assert held == {
        alone.id: "topology.isolate.machines is 2",
        other.id: "topology.isolate.machines is 2 in flights",
    }


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
