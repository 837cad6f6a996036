"""Isolated topologies stay where they are, and nobody else's plan comes to their hosts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.config import LoadSection
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.model.constraints import misplaced
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.model.what_if import Changes, changed
from stormpilot.observe.build import build
from stormpilot.observe.isolation import of_cluster
from stormpilot.observe.storm_keys import unsupported
from stormpilot.planner import compute

ISOLATION = "org.apache.storm.scheduler.IsolationScheduler"
MULTITENANT = "org.apache.storm.scheduler.multitenant.MultitenantScheduler"
MACHINES = {"isolation.scheduler.machines": {"billing": 1}}
POOLS = {"multitenant.scheduler.user.pools": {"boss": 1}}


def cluster(fallback: str, config: dict[str, Any], hosts: str = "abc") -> ClusterSnapshot:
    """Supervisors a, b, c...; `hosts` has the host of each."""
    made = snapshots.cluster(*"abcdef"[: len(hosts)])
    parts = [msgspec.structs.replace(s, host=f"host-{h}") for s, h in zip(made.supervisors, hosts, strict=True)]
    shim = msgspec.structs.replace(made.shim, fallback=fallback, config=config)
    return msgspec.structs.replace(made, shim=shim, supervisors=parts)


def on(supervisor: str, port: int = 6700, **fields: Any) -> TopologySnapshot:
    return snapshots.topology(dict.fromkeys(range(1, 7), (supervisor, port)), **fields)


def model(nodes: ClusterSnapshot, *jobs: TopologySnapshot) -> Model:
    return build(nodes, {j.id: j for j in jobs}, {}, LoadSection(), 1.0, snapshots.T0_MS).model


def planned(m: Model, planner: str = "best") -> Plan:
    plan = compute(m, planner, {"iterations": 5_000} if planner == "best" else {})
    assert isinstance(plan, Plan), plan
    assert violations(m, plan) == []
    return plan


def nodes_of(plan: Plan, job: TopologySnapshot) -> set[str]:
    return {w.supervisor for t in plan.topologies if t.id == job.id for w in t.workers}


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [
        (cluster(ISOLATION, MACHINES), {"a"}),
        (cluster(ISOLATION, MACHINES, "aab"), {"a", "b"}),
        (cluster(MULTITENANT, POOLS), {"a"}),
        (cluster(MULTITENANT, POOLS, "aab"), {"a"}),
        (cluster("DefaultScheduler", MACHINES | POOLS), set()),
    ],
)
def test_hosts_of_an_isolated_topology_are_kept_for_it(nodes: ClusterSnapshot, kept: set[str]) -> None:
    billing, job = on("a", name="billing", owner="boss"), on("c")
    found = model(nodes, billing, job)
    assert {x.supervisor for x in found.exclusions if x.topology == job.id} == kept
    assert not [x for x in found.exclusions if x.topology == billing.id]
    assert {x.kept_for for x in found.exclusions} <= {"billing"}
    assert misplaced(found) == {}
    free = planned(found)
    assert not nodes_of(free, job) & kept
    assert not kept or nodes_of(free, billing) == {"a"}


@pytest.mark.parametrize("planner", ["best", "online", "offline", "rsm", "partition"])
def test_new_topologies_and_what_if_stay_off_their_hosts(planner: str) -> None:
    billing, new = on("a", name="billing"), snapshots.topology(workers=3)
    found = model(cluster(ISOLATION, MACHINES), billing, new)
    assert nodes_of(planned(found, planner), new) <= {"b", "c"}
    assert nodes_of(planned(found, planner), billing) == {"a"}
    less = changed(found, Changes(remove_nodes=("c",)))
    assert nodes_of(planned(less, planner), new) == {"b"}
    none = changed(less, Changes(remove_nodes=("b",)))
    answer = compute(none, planner)
    assert isinstance(answer, Infeasible), answer


def test_an_isolated_topology_on_a_port_that_is_gone_hinders_no_plan() -> None:
    """Nimbus names the port until the worker there is dead; the others are planned all the same."""
    billing, job = on("a", 6799, name="billing"), on("c")
    assert not nodes_of(planned(model(cluster(ISOLATION, MACHINES), billing, job)), job) & {"a"}


def test_who_runs_on_such_a_host_has_to_leave() -> None:
    billing, job = on("a", name="billing"), on("a", 6701)
    found = model(cluster(ISOLATION, MACHINES), billing, job)
    assert misplaced(found) == {job.id: [1, 2, 3, 4, 5, 6]}
    texts = {str(v) for v in violations(found, compute_as_it_is(found))}
    assert texts == {"exclusion: a is kept for billing"}


def compute_as_it_is(m: Model) -> Plan:
    from stormpilot.model.cost import current_plan

    plan = current_plan(m)
    assert plan is not None
    return plan


def test_isolated_topologies_are_left_alone_by_the_key_and_others_are_not() -> None:
    billing, job = on("a", name="billing", owner="boss"), on("b")
    jobs = {j.id: j for j in (billing, job)}
    for nodes, said in (
        (cluster(ISOLATION, MACHINES), "isolation.scheduler.machines is 1"),
        (cluster(MULTITENANT, POOLS), "multitenant.scheduler.user.pools is 1 of boss"),
    ):
        keys = ("isolation.scheduler.machines", "multitenant.scheduler.user.pools")
        for ignored in ((), keys):
            assert unsupported(nodes, jobs, ignored, of_cluster(nodes, jobs)) == {billing.id: said}


def test_machines_to_itself_count_where_a_scheduler_knows_them() -> None:
    job = on("a", config={"topology.isolate.machines": 2}, owner="boss")
    jobs = {job.id: job}
    nodes = cluster(MULTITENANT, POOLS)
    assert "multitenant.scheduler.user.pools" in unsupported(nodes, jobs, (), of_cluster(nodes, jobs))[job.id]
    nobody = cluster(MULTITENANT, {"multitenant.scheduler.user.pools": {}})
    assert unsupported(nobody, jobs, (), of_cluster(nobody, jobs)) == {}, "Storm heeds it for users with a pool alone"
