"""Epochs: each leader gets a higher one, whatever lies in ZooKeeper."""

from __future__ import annotations

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import NOW_MS
from stormpilot.messages.limits import LARGEST_INT
from stormpilot.publish.epoch import MOST_AHEAD, newest_epoch, raise_epoch
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper(lambda: NOW_MS)


def test_every_leader_gets_the_next_epoch(zookeeper: MemoryZooKeeper) -> None:
    assert [raise_epoch(zookeeper, PATHS).number for _ in range(3)] == [1, 2, 3]  # type: ignore[arg-type]


@pytest.mark.parametrize("there", [None, b"", b"nonsense", b"-7", b"9223372036854775807", b"999999999999", b"9" * 30])
def test_an_epoch_that_is_lost_goes_on_above_what_others_saw(zookeeper: MemoryZooKeeper, there: bytes | None) -> None:
    if there is not None:
        zookeeper.put(PATHS.epoch, there)
    assert raise_epoch(zookeeper, PATHS, least=41).number == 42  # type: ignore[arg-type]


def test_an_epoch_goes_on_from_the_highest_number_that_can_be_one() -> None:
    """Else one number that anybody may write would be older than every later plan."""
    assert newest_epoch(41, []) == 41
    assert newest_epoch(41, [43, 42]) == 43
    assert newest_epoch(41, [LARGEST_INT, 43]) == 43
    assert newest_epoch(41, [41 + MOST_AHEAD]) == 41 + MOST_AHEAD
    assert newest_epoch(41, [42 + MOST_AHEAD]) == 41
    assert newest_epoch(LARGEST_INT, [43]) == 43, "an earlier version of the plug-in believed it"


def test_two_candidates_at_once_get_different_epochs(zookeeper: MemoryZooKeeper) -> None:
    numbers = []

    def faster() -> None:
        zookeeper.before_commit = lambda: None
        numbers.append(raise_epoch(zookeeper, PATHS).number)  # type: ignore[arg-type]

    zookeeper.before_commit = faster
    numbers.append(raise_epoch(zookeeper, PATHS).number)  # type: ignore[arg-type]
    assert numbers == [1, 2]
