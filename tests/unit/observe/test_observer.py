"""What the controller believes of CPU that nobody measured, by what Storm's own scheduler makes of it."""

from __future__ import annotations

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, cluster, topology
from stormpilot.config import LoadSection
from stormpilot.messages.load import LoadReport
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.zookeeper.paths import Paths

STORMS = "org.apache.storm.scheduler"


class Read(Reader):
    """A reader that has read this."""

    def __init__(self, seen: StoreSnapshot):
        super().__init__(MemoryZooKeeper(lambda: T0_MS), Paths())  # type: ignore[arg-type]
        self.seen = seen

    def read(self) -> StoreSnapshot:
        return self.seen

    def read_loads(self, topology_ids: list[str]) -> tuple[list[LoadReport], dict[str, str]]:
        return [], {}


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
