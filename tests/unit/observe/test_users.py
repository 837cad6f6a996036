"""Users' guarantees from the cluster's snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.model.values import Guarantee
from stormpilot.observe.users import guarantees

RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"


def cluster(pools: Any, fallback: str = RAS) -> ClusterSnapshot:
    plain = snapshots.cluster("a")
    shim = msgspec.structs.replace(plain.shim, fallback=fallback, config={"resource.aware.scheduler.user.pools": pools})
    return msgspec.structs.replace(plain, shim=shim)


def test_points_of_cpu_and_memory_of_each_user() -> None:
    found = guarantees(cluster({"b": {"cpu": 200.0, "memory": 1500.0}, "a": {"memory": 10}}), 2000.0)
    assert found == [
        Guarantee(user="a", memory_mb=10.0),
        Guarantee(user="b", cpu_mhz=4000.0, memory_mb=1500.0, cpu_points=200.0),
    ]


@pytest.mark.parametrize("pools", [None, [], "x", {"a": 5}, {"a": {"cpu": "many", "memory": float("nan")}}])
def test_what_is_no_guarantee_guarantees_nothing(pools: object) -> None:
    assert all((g.cpu_points, g.memory_mb) == (0.0, 0.0) for g in guarantees(cluster(pools), 1000.0))


def test_other_schedulers_know_no_users() -> None:
    assert guarantees(cluster({"a": {"cpu": 1}}, "org.apache.storm.scheduler.DefaultScheduler"), 1000.0) == []
