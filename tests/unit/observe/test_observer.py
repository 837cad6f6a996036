"""What the controller believes of CPU that nobody measured, and of hosts that are away for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, cluster, report, topology
from stormpilot.config import LoadSection
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.model.values import Executor
from stormpilot.observe.capacity import GONE_MS
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.zookeeper.paths import Paths

STORMS = "org.apache.storm.scheduler"


class Read(Reader):
    """A reader that has read this."""

    def __init__(self, seen: StoreSnapshot, reports: Sequence[LoadReport] = ()):
        super().__init__(MemoryZooKeeper(lambda: T0_MS), Paths())  # type: ignore[arg-type]
        self.seen = seen
        self.reports = list(reports)

    def read(self) -> StoreSnapshot:
        return self.seen

    def read_loads(self, topology_ids: list[str]) -> tuple[list[LoadReport], dict[str, str]]:
        return self.reports, {}


@pytest.mark.parametrize(
    ("fallback", "binds"), [("DefaultScheduler", False), ("resource.ResourceAwareScheduler", True)]
)
def test_declared_cpu_binds_only_where_storms_scheduler_keeps_to_it(fallback: str, binds: bool) -> None:
    """Six executors that declare 10 points each, on supervisors of 10 points."""
    there = cluster("a", "b", cpu_pcore_percent=10.0)
    there = msgspec.structs.replace(there, shim=msgspec.structs.replace(there.shim, fallback=f"{STORMS}.{fallback}"))
    new = topology()
    belief = (
        Observer(Read(StoreSnapshot(cluster=there, topologies={new.id: new})), LoadSection(), 0.8).observe(T0_MS).belief
    )
    assert belief is not None
    needed = sum(e.cpu_mhz for t in belief.model.topologies for e in t.executors)
    limit = sum(s.limit_mhz for s in belief.model.supervisors)
    assert (needed > limit) == binds


def test_what_was_measured_of_a_host_is_kept_while_its_supervisor_is_away() -> None:
    """Nobody runs there any more who could tell it again."""
    storms = {"cpu_pcore_percent": 400.0}
    both, without = cluster("a", "b", **storms), cluster("b", **storms)
    job = topology(dict.fromkeys(range(1, 7), ("a", 6700)))
    read = Read(StoreSnapshot(cluster=both, topologies={job.id: job}), [report(60, host_cores=32.0)])
    observer = Observer(read, LoadSection(), 0.8)

    def cores(there: ClusterSnapshot, at_ms: int) -> dict[str, float]:
        read.seen = replace(read.seen, cluster=there)
        belief = observer.observe(at_ms).belief
        assert belief is not None
        return {c.supervisor: c.cores for c in belief.capacities}

    measured_ms = T0_MS + 60_000
    assert cores(both, measured_ms) == {"a": 32.0, "b": 4.0}
    read.seen, read.reports = StoreSnapshot(cluster=both), []
    assert cores(without, measured_ms + 30_000) == {"b": 4.0}
    assert cores(both, measured_ms + 60_000) == {"a": 32.0, "b": 4.0}
    assert cores(without, measured_ms + 90_000) == {"b": 4.0}
    assert cores(without, measured_ms + 90_000 + GONE_MS) == {"b": 4.0}
    assert cores(both, measured_ms + 120_000 + GONE_MS) == {"a": 4.0, "b": 4.0}, "away for a day"


@pytest.mark.parametrize(("hours", "said"), [(-1, "60 min ahead of"), (2, "120 min behind")])
def test_reports_that_are_refused_for_their_clock_are_told_from_none(hours: int, said: str) -> None:
    """The controller's clock was set wrong: there are reports, and none is believed."""
    job = topology(dict.fromkeys(range(1, 7), ("a", 6700)))
    seen = StoreSnapshot(cluster=cluster("a"), topologies={job.id: job})
    now_ms = T0_MS + hours * 3_600_000
    reader = Read(seen, [report(20)])
    observer = Observer(reader, LoadSection(), 0.8)
    first = observer.observe(now_ms).belief
    assert first is not None
    if hours > 0:  # it may be one that somebody left behind hours ago
        assert "refused" not in first.readiness[job.id].text
    reader.reports = [report(25)]
    belief = observer.observe(now_ms + 5_000).belief
    assert belief is not None
    text = belief.readiness[job.id].text
    assert "tasks have no recent report" in text
    assert f"; reports are refused: {said} the controller's clock (stormpilot doctor compares clocks)" in text
    silent = Observer(Read(seen), LoadSection(), 0.8).observe(now_ms).belief
    assert silent is not None
    assert "refused" not in silent.readiness[job.id].text


def test_workers_that_restart_keep_the_cpu_and_the_memory_that_were_measured_last() -> None:
    """They tell nothing for a while; as light as an executor that nobody measured, they would let others come."""
    there, job = cluster("a", "b"), topology(dict.fromkeys(range(1, 7), ("a", 6700)))
    job = msgspec.structs.replace(job, components=[msgspec.structs.replace(c, memory_mb=0.0) for c in job.components])
    reader = Read(StoreSnapshot(cluster=there, topologies={job.id: job}))
    observer = Observer(reader, LoadSection(), 0.8)

    def tasks_1_to_4(at_s: float, *reports: LoadReport) -> list[Executor]:
        reader.reports = list(reports)
        belief = observer.observe(T0_MS + int(at_s * 1000)).belief
        assert belief is not None
        return belief.model.topologies[0].executors[:4]

    for at_s in (30, 60):
        idles = {"polling_cpu_s": 0.1 * at_s, "timed": at_s, "timed_ms": 0.1 * at_s}
        before = tasks_1_to_4(at_s, report(at_s, cpu_s=0.4 * at_s, memory_mb=300.0, **idles))
    assert all(e.cpu_mhz > 800 and e.memory_mb == 300 and e.measured for e in before)
    assert max(e.polling_mhz for e in before) > 0
    moved = topology(dict.fromkeys(range(1, 7), ("b", 6700)), version=2, components=job.components)
    reader.seen = StoreSnapshot(cluster=there, topologies={job.id: moved})
    after = tasks_1_to_4(90)
    assert [e.measured for e in after] == 4 * [False]
    assert [(e.cpu_mhz, e.polling_mhz, e.memory_mb) for e in after] == [
        (pytest.approx(e.cpu_mhz), pytest.approx(e.polling_mhz), e.memory_mb) for e in before
    ]
    declares = [
        msgspec.structs.replace(c, memory_mb=800.0, config={"topology.component.resources.onheap.memory.mb": 800.0})
        for c in job.components
    ]
    moved = msgspec.structs.replace(moved, version=3, components=declares)
    reader.seen = StoreSnapshot(cluster=there, topologies={job.id: moved})
    assert [e.memory_mb for e in tasks_1_to_4(95)] == 4 * [800.0], "declared anew, by a rebalance"


@pytest.mark.parametrize("window_s", [16.1, 32.3, 60.0])
def test_a_window_that_is_over_is_a_whole_one(window_s: float) -> None:
    """It began at a whole millisecond, and was held against a fraction more: it was never whole."""
    job = topology(dict.fromkeys(range(1, 7), ("a", 6700)))
    read = Read(StoreSnapshot(cluster=cluster("a"), topologies={job.id: job}))
    observer = Observer(read, LoadSection(window_s=window_s), 0.8)
    for s in range(0, 300, 2):
        seen = observer.observe(T0_MS + s * 1000)
    assert seen.window_ratio == {job.id: 1.0}
