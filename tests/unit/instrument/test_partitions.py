"""Keys get the partitions that the Storm around them gives them; vectors are those of tests/contract."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, ClassVar

import pytest
from streamparse import Bolt

from multilang import handshake, run, tuple_message
from stormpilot.instrument import KeyedState
from stormpilot.instrument.partitions import partition_of

A, B = 3, 4


@pytest.mark.parametrize(
    ("defaults", "partition"),
    [
        ({}, 30),
        ({"ui.title": "Storm UI"}, 30),
        ({"storm.exhibitor.port": 8080}, 31),
        ({"storm.exhibitor.port": 8080, "ui.title": "Storm UI"}, 30),
    ],
)
def test_a_negative_number_has_the_partition_that_the_storm_around_it_gives_it(
    tmp_path: Path, defaults: dict[str, Any], partition: int
) -> None:
    assert partition_seen(tmp_path, defaults, -1) == partition


@pytest.mark.parametrize(
    ("defaults", "partition"), [({"ui.title": "Storm UI"}, 67), ({"storm.exhibitor.port": 8080}, 38)]
)
def test_a_number_of_many_digits_has_the_partition_that_the_storm_around_it_gives_it(
    tmp_path: Path, defaults: dict[str, Any], partition: int
) -> None:
    """Storm since 2.6 makes a BigDecimal of it; the state of such a key was not handed over."""
    assert partition_seen(tmp_path, defaults, 0.1 + 0.2) == partition


def test_a_key_that_stands_for_the_list_of_keys_is_refused() -> None:
    """Its letters would be the keys: state was kept under another partition than its tuples, and left behind."""
    with pytest.raises(TypeError, match="keys are 'word', expected a list"):
        partition_of("word", 128)


def test_long_keys_are_not_kept_in_memory() -> None:
    """66,000 texts of 10,000 characters took 640 MB of each task's process."""
    key = Text(10_000 * "x")
    kept = weakref.ref(key)
    partition_of([key], 128)
    del key
    gc.collect()
    assert kept() is None


class Text(str):
    """A text that can have a weak reference."""


def partition_seen(tmp_path: Path, defaults: dict[str, Any], key: float) -> int:
    """The partition, of 128, that a bolt gives a key in a Storm of these defaults."""
    seen: list[int] = []

    class Plain(KeyedState, Bolt):
        outputs: ClassVar[list[str]] = []

        def process(self, tup: Any) -> None:
            seen.append(self.partition_of(tup.values))

    tasks = {1: "source", A: "count", B: "count"}
    first = handshake(tmp_path, {"storm.id": "t-1"} | defaults, A, "count", tasks=tasks)
    run(Plain, first, [tuple_message("1", [key])])
    (partition,) = seen
    return partition
