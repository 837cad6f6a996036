"""Load reports are read again and again: only what was written since is decoded anew."""

from __future__ import annotations

import msgspec

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, cluster, report, topology
from stormpilot.messages.core import encode
from stormpilot.messages.handover import KeyedTask
from stormpilot.observe.reader import Reader
from stormpilot.publish.epoch import raise_epoch
from stormpilot.zookeeper.paths import Paths

TOPOLOGY = "flights-1-1763690000"


def test_report_that_was_not_written_since_is_the_same_object_again() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: T0_MS), Paths()
    reader = Reader(zookeeper, paths)  # type: ignore[arg-type]
    for name, seconds in (("r0", 10), ("r1", 10)):
        zookeeper.put(paths.load(TOPOLOGY, name), encode(msgspec.structs.replace(report(seconds), reporter=name)))
    first, _ = reader.read_loads([TOPOLOGY])
    zookeeper.put(paths.load(TOPOLOGY, "r1"), encode(msgspec.structs.replace(report(20), reporter="r1")))
    second, _ = reader.read_loads([TOPOLOGY])
    assert second[0] is first[0]
    assert (first[1].seq, second[1].seq) == (101, 201)
    zookeeper.put(paths.load(TOPOLOGY, "r0"), b"not a report")
    third, problems = reader.read_loads([TOPOLOGY])
    assert [r.reporter for r in third] == ["r1"]
    assert list(problems) == [paths.load(TOPOLOGY, "r0")]
    assert reader.read_loads([])[0] == []


def test_snapshot_that_was_not_written_since_is_the_same_object_again() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: T0_MS), Paths()
    reader = Reader(zookeeper, paths)  # type: ignore[arg-type]
    zookeeper.put(paths.cluster, encode(cluster("a")))
    for name in ("flights", "wordcount"):
        zookeeper.put(paths.topology(topology(name=name).id), encode(topology(name=name)))
    first = reader.read()
    changed = topology({1: ("a", 6700)}, name="wordcount")
    zookeeper.put(paths.topology(changed.id), encode(changed))
    second = reader.read()
    assert second.cluster is first.cluster
    assert second.topologies[TOPOLOGY] is first.topologies[TOPOLOGY]
    assert second.topologies[changed.id] == changed
    zookeeper.put(paths.topology(changed.id), b"nonsense")
    third = reader.read()
    assert third.topologies[changed.id] == changed
    assert list(third.problems) == [paths.topology(changed.id)]


def test_znodes_that_deny_us_are_named_or_left_out_and_the_rest_is_read() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: T0_MS), Paths()
    reader = Reader(zookeeper, paths)  # type: ignore[arg-type]
    zookeeper.put(paths.topology(TOPOLOGY), encode(topology()))
    zookeeper.put(f"{paths.leader}/b__lock__0000000002", b"nimbus-1:7")
    denied = f"{paths.leader}/x__lock__0000000001"
    unnamed = [paths.profile(TOPOLOGY), paths.keyed(TOPOLOGY, "tasks", "1")]
    for path in (denied, *unnamed):
        zookeeper.put(path, b"{}")
        zookeeper.denied.add(path)
    seen = reader.read()
    assert list(seen.topologies) == [TOPOLOGY]
    assert seen.contenders == ("unreadable", "nimbus-1:7")
    assert list(seen.problems) == [denied]
    assert reader.read_profiles([TOPOLOGY]) == {}
    assert reader.read_keyed(TOPOLOGY, [1, 2]) == {}
    zookeeper.denied.add(paths.keyed(TOPOLOGY, "tasks"))
    zookeeper.put(paths.keyed(TOPOLOGY, "tasks", "2"), encode(KeyedTask(topology_id=TOPOLOGY, task=2)))
    assert list(reader.read_keyed(TOPOLOGY, [1, 2])) == [2], "their folder is not listed"


def test_why_there_is_no_cluster_snapshot_is_told() -> None:
    zookeeper, paths = MemoryZooKeeper(lambda: T0_MS), Paths()
    reader = Reader(zookeeper, paths)  # type: ignore[arg-type]
    assert reader.read().no_cluster.startswith("no cluster snapshot yet: put `storm.scheduler")
    zookeeper.put(paths.cluster, b"nonsense")
    seen = reader.read()
    assert seen.cluster is None
    assert seen.no_cluster == seen.problems[paths.cluster]
    assert paths.cluster in seen.no_cluster


def test_a_leader_leads_since_the_epoch_was_raised() -> None:
    now_ms, paths = T0_MS, Paths()
    zookeeper = MemoryZooKeeper(lambda: now_ms)
    reader = Reader(zookeeper, paths)  # type: ignore[arg-type]
    assert reader.read().leading_since_ms is None
    for _ in range(2):
        now_ms += 1000
        raise_epoch(zookeeper, paths)  # type: ignore[arg-type]
    assert reader.read().leading_since_ms == T0_MS + 2000
    zookeeper.denied.add(paths.epoch)
    assert reader.read().leading_since_ms is None
