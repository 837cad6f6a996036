"""CPU and memory of a slot from the load reports of its JVM."""

from __future__ import annotations

from typing import Any

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import cluster, supervisor
from stormpilot.errors import StormpilotError
from stormpilot.messages.core import encode
from stormpilot.messages.load import JvmPart, LoadReport, TaskLoad
from stormpilot.trials.slot import slot_size, used, worker_report
from stormpilot.zookeeper.paths import Paths

T0_MS = 1_763_690_000_000


def task(number: int, *, component: str = "component", host: str = "host-a", **fields: Any) -> TaskLoad:
    return TaskLoad(
        **{
            "task": number,
            "component": component,
            "host": host,
            "mhz": 2500.0,
            "pid": 100,
            "start_ms": T0_MS,
            "seq": 1,
            "at_ms": T0_MS,
            "cpu_s": 1.0,
            "memory_mb": 60.0,
            **fields,
        }
    )


def report(seconds: float, *tasks: TaskLoad, jvm_cpu_s: float | None = 0.0, **worker: Any) -> LoadReport:
    return LoadReport(
        topology_id="t-1",
        reporter="r",
        seq=int(seconds) + 1,
        written_at_ms=T0_MS + int(1000 * seconds),
        worker=JvmPart(**{"port": 6700, "cpu_s": jvm_cpu_s, "memory_mb": 90.0, "heap_mb": 12.0, **worker}),
        tasks=list(tasks),
    )


def test_cpu_is_that_of_the_jvm_and_of_its_children() -> None:
    before = report(0, task(1, child_cpu_s=1.0), task(2, child_cpu_s=2.0), jvm_cpu_s=10.0)
    now = report(10, task(1, child_cpu_s=2.5), task(2, child_cpu_s=3.0), jvm_cpu_s=12.0)
    found = used(before, now)
    assert found is not None
    assert found.cores == pytest.approx(0.45)
    assert (found.memory_mb, found.heap_mb) == (120.0, 12.0)


def test_a_worker_that_restarted_or_tells_no_cpu_is_not_measured() -> None:
    assert used(report(0, task(1)), report(5, task(1, pid=7))) is None
    assert used(report(0, task(1), jvm_cpu_s=None), report(5, task(1))) is None
    assert used(report(5, task(1)), report(5, task(1))) is None


def test_a_slot_is_an_equal_part_of_its_node() -> None:
    size = slot_size(cluster("a", "b"), supervisor("a"), report(0, task(1)))
    assert (size.cores, size.mhz, size.memory_mb) == (0.5, 2500.0, 2048.0)


def test_what_a_node_does_not_declare_is_that_of_its_host() -> None:
    """Nor do Storm's defaults: 400 points and 4,096 MB, whatever the host has."""
    for cpu_pcore_percent, memory_mb in ((0.0, 0.0), (400.0, 4096.0)):
        declared = {"cpu_pcore_percent": cpu_pcore_percent, "memory_mb": memory_mb, "ports": [1, 2]}
        seen, bare = cluster("a", "b", **declared), supervisor("a", **declared)
        size = slot_size(seen, bare, report(0, task(1, host_cores=3.0, host_memory_mb=1000.0)))
        assert (size.cores, size.memory_mb) == (1.5, 500.0)
        with pytest.raises(StormpilotError, match="a: its memory is neither declared nor known"):
            slot_size(seen, bare, report(0, task(1)))


def test_the_capacity_that_a_configuration_names_is_that_of_the_slot() -> None:
    host = {"host_cores": 3.0, "host_memory_mb": 1000.0}
    declared = {"cpu_pcore_percent": 200.0, "memory_mb": 3000.0, "ports": [1, 2]}
    seen, own = cluster("a", "b", **declared), supervisor("a", **declared)
    size = slot_size(seen, own, report(0, task(1, **host)), "measured")
    assert (size.cores, size.memory_mb) == (1.5, 500.0)
    default = {"cpu_pcore_percent": 400.0, "memory_mb": 4096.0, "ports": [1, 2]}
    size = slot_size(cluster("a", "b", **default), supervisor("a", **default), report(0, task(1, **host)), "declared")
    assert (size.cores, size.memory_mb) == (2.0, 2048.0)


def test_supervisors_of_one_host_share_what_it_has_and_a_declared_mhz_wins() -> None:
    bare = {"cpu_pcore_percent": 400.0, "memory_mb": 4096.0, "ports": [1], "meta": {"cpu.mhz": "2000"}}
    seen, own = cluster("a", "b", host="one", **bare), supervisor("a", host="one", **bare)
    size = slot_size(seen, own, report(0, task(1, host_cores=4.0, host_memory_mb=1000.0)))
    assert (size.cores, size.mhz, size.memory_mb) == (2.0, 2000.0, 500.0)


def test_the_newest_report_of_the_worker_that_has_the_component_alone() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: T0_MS), Paths()

    def put(name: str, message: LoadReport) -> None:
        zookeeper.put(paths.load("t-1", name), encode(message))

    def found() -> LoadReport | None:
        return worker_report(zookeeper, paths, "t-1", supervisor("a"), "component")  # type: ignore[arg-type]

    put("elsewhere", report(9, task(1, host="host-b")))
    put("mixed", report(9, task(1), task(3, component="source")))
    put("another-port", report(9, task(1), port=9999))
    put("not-a-jvm", LoadReport(topology_id="t-1", reporter="r", seq=1, written_at_ms=T0_MS, tasks=[task(1)]))
    assert found() is None
    put("old", report(1, task(1)))
    put("new", report(2, task(1)))
    newest = found()
    assert newest is not None
    assert newest.written_at_ms == T0_MS + 2000
    put("with its domain", report(3, task(1, host="host-a.example.com")))
    newest = found()
    assert newest is not None
    assert newest.written_at_ms == T0_MS + 3000, "the name that the machine has for itself, or the canonical one"
