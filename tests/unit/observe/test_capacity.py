"""A number that nobody said is not believed: what hosts have is measured, and remembered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.messages.controller_state import CapacityPart
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.observe.capacity import (
    GONE_MS,
    MOST_GONE,
    HostCapacity,
    capacities,
    in_words,
    last_there,
    measured,
    remembered,
    sharing_of,
)

RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
MEASURED = {"host-a": HostCapacity(32.0, 65536.0)}


def cluster(fallback: str = "DefaultScheduler", **declared: Any) -> ClusterSnapshot:
    nodes = snapshots.cluster("a", "b")
    supervisors = [msgspec.structs.replace(s, **declared) for s in nodes.supervisors]
    return msgspec.structs.replace(
        nodes, supervisors=supervisors, shim=msgspec.structs.replace(nodes.shim, fallback=fallback)
    )


def load(host: str, cores: float | None, memory_mb: float | None = None, task: int = 1) -> TaskLoad:
    return TaskLoad(
        task=task,
        component="x",
        host=host,
        host_cores=cores,
        host_memory_mb=memory_mb,
        pid=1,
        start_ms=0,
        seq=1,
        at_ms=1,
        cpu_s=0.0,
    )


def told(nodes: ClusterSnapshot, policy: Any = "auto", cpu: Any = "auto") -> tuple[float, str, float, str]:
    c = capacities(nodes, MEASURED, policy, cpu=cpu)["a"]
    return c.cores, c.cores_from, c.memory_mb, c.memory_from


STORMS = {"cpu_pcore_percent": 400.0, "memory_mb": 4096.0}
OWN = {"cpu_pcore_percent": 800.0, "memory_mb": 2048.0}


@pytest.mark.parametrize(
    ("nodes", "policy", "expected"),
    [
        (cluster(**STORMS), "auto", (32.0, "measured", 65536.0, "measured")),
        (cluster(**OWN), "auto", (8.0, "declared", 2048.0, "declared")),
        (cluster(**OWN), "measured", (32.0, "measured", 65536.0, "measured")),
        (cluster(**STORMS), "declared", (4.0, "default", 4096.0, "default")),
        (cluster(RAS, **STORMS), "auto", (32.0, "measured", 4096.0, "default")),
        (cluster(RAS, **OWN), "auto", (8.0, "declared", 2048.0, "declared")),
        (cluster(RAS, **STORMS), "measured", (32.0, "measured", 65536.0, "measured")),
    ],
)
def test_declared_wins_over_measured_and_measured_over_storms_defaults(
    nodes: ClusterSnapshot, policy: str, expected: tuple[float, str, float, str]
) -> None:
    assert told(nodes, policy) == expected


def test_where_declared_cpu_alone_counts_a_supervisor_has_what_ras_shares_out() -> None:
    nodes = cluster(RAS, **STORMS)
    assert told(nodes, cpu="declared") == (4.0, "default", 4096.0, "default")
    assert told(nodes, "measured", cpu="declared") == (32.0, "measured", 65536.0, "measured")


def test_what_nobody_declared_and_nobody_measured_limits_no_memory() -> None:
    b = capacities(cluster(**STORMS), MEASURED, "auto")["b"]
    assert (b.cores, b.cores_from, b.memory_mb, b.memory_from) == (4.0, "default", 0.0, "unlimited")


def test_supervisors_of_one_host_share_what_it_has() -> None:
    nodes = cluster(host="host-a", **STORMS)
    assert [c.cores for c in capacities(nodes, MEASURED, "auto").values()] == [16.0, 16.0]
    assert remembered([*capacities(nodes, MEASURED, "auto").values()], nodes.supervisors) == MEASURED


def test_a_supervisor_that_is_away_keeps_its_share_while_it_has_executors() -> None:
    """It is restarted, or blacklisted, and its workers run on; one that came back with another id has none any more."""
    nodes = cluster(host="host-a", **STORMS)
    a, b = nodes.supervisors
    host_of = {"a": "host-a", "b": "host-a"}
    on_both = [snapshots.topology({1: ("a", 6700), 2: ("b", 6700)})]
    on_a = [snapshots.topology({1: ("a", 6700), 2: ("a", 6700)})]
    listed = msgspec.structs.replace(b, blacklisted=True)
    for rest in ([a], [a, listed]):
        assert sharing_of(host_of, rest, on_both) == {"host-a": 2}
        assert sharing_of(host_of, rest, on_a) == {"host-a": 1}
    assert sharing_of(host_of, [a, b], on_a) == {"host-a": 2}
    alone = msgspec.structs.replace(nodes, supervisors=[a])
    shared = capacities(alone, MEASURED, "auto", {"host-a": 2})
    assert shared["a"].cores == 16.0
    assert remembered([*shared.values()], alone.supervisors) == MEASURED, "for the next leader too"


@pytest.mark.parametrize("then", [False, True], ids=["meanwhile", "before"])
def test_a_blacklisted_supervisor_of_a_host_does_not_change_what_is_remembered_of_it(then: bool) -> None:
    nodes = cluster(host="host-a", **STORMS)
    a, b = nodes.supervisors
    listed = msgspec.structs.replace(nodes, supervisors=[a, msgspec.structs.replace(b, blacklisted=True)])
    written = [*capacities(listed if then else nodes, MEASURED, "auto").values()]
    assert remembered(written, listed.supervisors) == MEASURED


def told_by(loads: dict[str, list[TaskLoad]]) -> dict[str, HostCapacity]:
    """What tasks 1 (on a) and 2 (on b) of these topologies tell."""
    jobs = {t: snapshots.topology({1: ("a", 6700), 2: ("b", 6700), 3: ("a", 6700)}) for t in loads}
    return measured(jobs, loads, snapshots.cluster("a", "b").supervisors)


def test_tasks_tell_what_their_host_has() -> None:
    loads = [load("x", 8.0, 1000.0), load("x", 32.0, None, task=2), load("x", 8.0, task=3), load("x", None, task=9)]
    assert told_by({"t": loads}) == {"host-a": HostCapacity(8.0, 1000.0), "host-b": HostCapacity(32.0, None)}


def test_nobody_tells_of_a_host_on_which_it_does_not_run_nor_makes_one_small_for_others() -> None:
    honest, liar = [load("host-a", 8.0)], [load("host-b", 0.001), load("host-b", 64.0, task=9)]
    assert told_by({"honest": honest, "liar": liar}) == {"host-a": HostCapacity(8.0, None)}


@pytest.mark.parametrize("host", ["host-a", "HOST-A.example.org", "host-gone"])
def test_what_a_task_told_of_the_host_that_it_left_does_not_count_for_the_one_it_is_on(host: str) -> None:
    """Task 2 was moved to b; its last report is of the process before, on another host of the cluster, or a former."""
    jobs = {"t": snapshots.topology({2: ("b", 6700), 3: ("b", 6700)})}
    loads = {"t": [load(host, 64.0, 9000.0, task=2), load("name-of-its-own", 8.0, 1000.0, task=3)]}
    found = measured(jobs, loads, snapshots.cluster("a", "b").supervisors, former=["host-gone"])
    assert found == {"host-b": HostCapacity(8.0, 1000.0)}


def test_what_an_earlier_leader_wrote_is_believed_within_bounds() -> None:
    nodes = cluster(**STORMS)
    wild = [
        CapacityPart(supervisor=s, host=h, cores=c, cores_from="measured", memory_mb=-1.0, memory_from="measured")
        for s, h, c in (("a", "host-a", 1e300), ("b", "host-b", -1.0), ("z", "gone", 4.0))
    ]
    assert remembered(wild, nodes.supervisors) == {}


def test_hosts_that_are_gone_are_remembered_for_a_day_and_not_without_end() -> None:
    nodes, now_ms = cluster(), 2 * GONE_MS
    gone = {f"gone-{i}": now_ms - i for i in range(MOST_GONE + 5)}
    found = last_there({"host-a": 1, "old": now_ms - GONE_MS - 1, **gone}, nodes.supervisors, now_ms)
    assert found.keys() - gone.keys() == {"host-a", "host-b"}
    assert found["host-a"] == now_ms
    assert found.keys() & gone.keys() == {f"gone-{i}" for i in range(MOST_GONE)}


def test_sources_in_words() -> None:
    def part(host: str, cores: float, source: str) -> CapacityPart:
        return CapacityPart(supervisor=host, host=host, cores=cores, cores_from=source)

    found = [part("n1", 8.0, "declared"), part("n2", 32.0, "measured"), part("n3", 4.0, "default")]
    assert in_words(found) == "1 as declared, 1 measured (n2: 32 cores), 1 by Storm's default of 4 cores"
    assert in_words([]) == ""
