"""Epochs: each leader gets a higher one, whatever lies in ZooKeeper."""

from __future__ import annotations

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import NOW_MS
from stormpilot.publish.epoch import raise_epoch
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper(lambda: NOW_MS)


def test_every_leader_gets_the_next_epoch(zookeeper: MemoryZooKeeper) -> None:
    assert [raise_epoch(zookeeper, PATHS).number for _ in range(3)] == [1, 2, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("there", [None, b"", b"nonsense", b"-7"])
def test_an_epoch_that_is_lost_goes_on_above_what_others_saw(zookeeper: MemoryZooKeeper, there: bytes | None) -> None:
    if there is not None:
        zookeeper.put(PATHS.epoch, there)
    assert raise_epoch(zookeeper, PATHS, least=41).number == 42  # type: ignore[arg-type]


def test_two_candidates_at_once_get_different_epochs(zookeeper: MemoryZooKeeper) -> None:
    numbers = []

    def faster() -> None:
        zookeeper.before_commit = lambda: None
        numbers.append(raise_epoch(zookeeper, PATHS).number)  # type: ignore[arg-type]

    zookeeper.before_commit = faster
    numbers.append(raise_epoch(zookeeper, PATHS).number)  # type: ignore[arg-type]
    assert numbers == [1, 2]
