"""The partition of a key: the same in Python components as in the workers' groupings (`PartitionsTest` in Java)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stormpilot.instrument import partitions as ours
from stormpilot.messages import routes

VECTORS = json.loads((Path(__file__).parent / "vectors" / "partitions.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: json.dumps(v["keys"]))
def test_a_key_has_the_partition_that_the_workers_give_it(vector: dict[str, Any]) -> None:
    assert ours.partition_of(vector["keys"], vector["partitions"]) == vector["partition"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: json.dumps(v["keys"]))
def test_a_key_has_the_partition_that_workers_of_a_storm_before_2_6_give_it(vector: dict[str, Any]) -> None:
    partition = vector.get("longs", vector["partition"])
    if partition is not None:  # else that Storm cannot read such a number from a component at all
        assert ours.partition_of(vector["keys"], vector["partitions"], longs=True) == partition


def test_there_are_as_many_partitions_per_task_on_both_sides() -> None:
    assert ours.PARTITIONS_PER_TASK == routes.PARTITIONS_PER_TASK


def test_what_json_cannot_hold_is_no_key() -> None:
    with pytest.raises(TypeError, match="a key of type set"):
        ours.partition_of([{1}], 8)
