"""The progress of a source, written in the background."""

from dataclasses import replace

import pytest

from doubles.memory_kazoo import MemoryKazoo
from flight_delays.committer import Committer
from flight_delays.progress import TaskProgress, read_progress
from flight_delays.progress_store import ZooKeeperStore


@pytest.fixture
def zookeeper():
    return MemoryKazoo()


def committer(zookeeper: MemoryKazoo) -> Committer:
    return Committer(ZooKeeperStore(zookeeper, "/flights", "t-1", 0, 1), period_s=1.0)


def written(zookeeper: MemoryKazoo) -> TaskProgress:
    return read_progress(zookeeper, "t-1")[0]


def test_claims_first_and_then_writes_the_newest_progress(zookeeper):
    it = committer(zookeeper)
    assert it.claimed is None
    it.step()
    assert it.claimed == TaskProgress(index=0, tasks=1, incarnation=1)
    it.offer(replace(it.claimed, committed=1))
    it.offer(replace(it.claimed, committed=2))
    it.step()
    assert written(zookeeper).committed == 2


def test_what_is_written_is_not_written_again(zookeeper):
    it = committer(zookeeper)
    it.step()
    it.offer(replace(it.claimed, committed=1))
    it.step()
    version = zookeeper.get("/flights/t-1/0")[1].version
    it.step()
    assert zookeeper.get("/flights/t-1/0")[1].version == version


def test_a_store_that_is_gone_is_a_problem_until_it_is_back(zookeeper):
    it = committer(zookeeper)
    zookeeper.gone = True
    it.step()
    assert it.claimed is None
    assert "ConnectionLoss" in it.problem
    zookeeper.gone = False
    it.step()
    assert it.claimed is not None
    assert it.problem == ""


def test_progress_offered_while_the_store_is_gone_is_written_when_it_is_back(zookeeper):
    it = committer(zookeeper)
    it.step()
    zookeeper.gone = True
    it.offer(replace(it.claimed, committed=3))
    it.step()
    zookeeper.gone = False
    it.step()
    assert written(zookeeper).committed == 3


def test_a_znode_that_is_not_ours_is_a_problem_and_stays_as_it_is(zookeeper):
    zookeeper.create("/flights/t-1/0", b"somebody else's")
    it = committer(zookeeper)
    it.step()
    assert it.claimed is None
    assert "expected the progress of a spout task" in it.problem
    assert zookeeper.get("/flights/t-1/0")[0] == b"somebody else's"


def test_a_newer_process_deposes_this_one(zookeeper):
    old, new = committer(zookeeper), committer(zookeeper)
    old.step()
    new.step()
    old.offer(replace(old.claimed, committed=9))
    old.step()
    assert old.deposed
    assert not new.deposed
    assert written(zookeeper) == new.claimed
