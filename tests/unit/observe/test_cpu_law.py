"""What follows from places is learned from windows of workers, and stays near the constants where they tell nothing."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from stormpilot.messages.core import encode
from stormpilot.messages.moves import CpuSums, MoveState
from stormpilot.observe.cpu_law import (
    CONSTANTS,
    MOST_KEPT,
    MOST_ROWS,
    Evidence,
    Row,
    evidence_of,
    law_of,
    sums_of,
)
from stormpilot.publish.publisher import TRANSACTION_BYTES

TRUE = {"worker": 0.05, "asleep": 0.02, "in_worker": 20e-6, "far": 140e-6, "own:bolt": 50e-6}


def window(rng: np.random.Generator, noise: float = 0.0) -> Row:
    """A worker with one to six executors of a bolt, some tuples from near and some from far."""
    executors, near, far = int(rng.integers(1, 7)), float(rng.uniform(0, 500)), float(rng.uniform(0, 500))
    of = {"worker": 1.0, "asleep": float(executors), "in_worker": near, "far": far, "own:bolt": near + far}
    cores = sum(TRUE[n] * x for n, x in of.items())
    return Row(of, cores * (1 + noise * float(rng.standard_normal())))


def test_without_windows_the_constants_hold() -> None:
    law = law_of(None, 0.055, 2000.0)
    assert law.worker_mhz == pytest.approx(CONSTANTS["worker"].value * 2000)
    assert law.far_mhz == pytest.approx(CONSTANTS["far"].value * 2000)
    assert (law.error_ratio, law.rows) == (None, 0)


def test_windows_of_many_placements_tell_what_a_worker_and_a_distance_cost() -> None:
    rng = np.random.default_rng(1)
    found, error = Evidence().plus([window(rng, 0.01) for _ in range(100)]).solved
    assert found["far"] - found["in_worker"] == pytest.approx(TRUE["far"] - TRUE["in_worker"], rel=0.2)
    assert found["worker"] == pytest.approx(TRUE["worker"], rel=0.3)
    assert error is not None
    assert error < 0.05


def test_what_no_window_tells_of_stays_at_its_constant() -> None:
    found, _ = Evidence().plus([Row({"worker": 1.0, "asleep": 2.0}, 0.09)] * 50).solved
    assert found["far"] == CONSTANTS["far"].value
    assert found["worker"] + 2 * found["asleep"] == pytest.approx(0.09, rel=0.05)


def test_tuples_that_are_sent_many_at_once_cost_less_near_too() -> None:
    """Only far ones were seen, at a tenth of the constant: near ones used to cost more, and merging seemed dear."""
    rows = [
        Row({"worker": 1.0, "asleep": 4.0, "far": tps, "own:bolt": tps}, 0.06 + tps * 12e-6) for tps in (8e3, 9e3, 1e4)
    ]
    found, _ = Evidence().plus(rows * 5).solved
    assert found["in_worker"] < found["in_node"] < found["far"] < 15e-6
    assert found["in_worker"] < 0.5 * found["far"]


def test_no_tuple_costs_less_the_further_it_goes() -> None:
    rng = np.random.default_rng(4)
    rows = []
    for _ in range(60):
        near, far = float(rng.uniform(0, 500)), float(rng.uniform(0, 500))
        rows.append(Row({"worker": 1.0, "in_worker": near, "far": far}, 0.05 + near * 90e-6 + far * 40e-6))
    found, _ = Evidence().plus(rows).solved
    assert found["in_worker"] <= found["in_node"] <= found["far"]


def test_no_unknown_is_below_zero() -> None:
    rows = [Row({"worker": 1.0, "far": tps}, 0.2 - tps * 1e-4) for tps in (0.0, 500.0, 1000.0)]
    found, _ = Evidence().plus(rows).solved
    assert min(found.values()) >= 0


def test_evidence_in_parts_is_evidence_as_a_whole() -> None:
    rng = np.random.default_rng(2)
    rows = [window(rng) for _ in range(20)]
    parts = Evidence().plus(rows[:7]).plus(rows[7:])
    whole = Evidence().plus(rows)
    assert parts.names == whole.names
    assert np.allclose(parts.gram, whole.gram)
    assert parts.solved[0] == pytest.approx(whole.solved[0])


def test_old_windows_fade() -> None:
    old, new = Row({"worker": 1.0}, 0.3), Row({"worker": 1.0}, 0.1)
    evidence = Evidence().plus([old] * MOST_ROWS)
    for _ in range(5 * MOST_ROWS // 100):
        evidence = evidence.plus([new] * 100)
    assert evidence.rows <= MOST_ROWS
    assert evidence.solved[0]["worker"] == pytest.approx(0.1, abs=0.03)


def test_more_windows_at_once_than_count_in_full_are_taken_in_and_then_fade() -> None:
    """A topology of 500 workers tells as many in its first window."""
    rng = np.random.default_rng(2)
    rows = [window(rng) for _ in range(MOST_ROWS + 100)]
    once = Evidence().plus(rows)
    assert (once.rows, once.seen) == (len(rows), len(rows))
    assert once.solved[0]["worker"] == pytest.approx(TRUE["worker"], rel=0.1)
    again = once.plus(rows)
    assert (again.rows, again.seen) == (len(rows), 2 * len(rows))


def test_next_leader_goes_on_with_what_was_learned() -> None:
    rng = np.random.default_rng(3)
    evidence = Evidence().plus([window(rng) for _ in range(30)])
    kept = sums_of(evidence)
    message = msgspec.json.decode(msgspec.json.encode(kept), type=CpuSums)
    again = evidence_of(message)
    assert again is not None
    assert again.solved[0] == pytest.approx(evidence.solved[0])


def test_what_was_learned_of_very_many_components_is_not_kept_beside_their_plan() -> None:
    """It filled the znode, and no plan of that topology could be written."""
    rng = np.random.default_rng(4)
    names = [f"own:{i}" for i in range(2 * MOST_KEPT)]
    evidence = Evidence().plus([Row(dict(zip(names, rng.uniform(0, 1, len(names)), strict=True)), 1.0)])
    assert sums_of(evidence) is None
    kept = sums_of(
        Evidence(
            names=evidence.names[:MOST_KEPT],
            gram=evidence.gram[:MOST_KEPT, :MOST_KEPT],
            moment=evidence.moment[:MOST_KEPT],
        )
    )
    assert len(encode(MoveState(topology_id="t-1-1", cpu=kept))) < TRANSACTION_BYTES // 3


@pytest.mark.parametrize(
    "wrong", [{"gram": [1.0]}, {"moment": [math.nan]}, {"names": ["a", "a"]}, {"gram": [-1.0, 0.0, 1.0]}]
)
def test_sums_that_cannot_be_are_not_taken(wrong: dict[str, object]) -> None:
    sums = CpuSums(names=["a", "b"], gram=[1.0, 0.0, 1.0], moment=[1.0, 1.0], squares=1.0, rows=1.0, seen=1)
    assert evidence_of(sums) is not None
    assert evidence_of(msgspec.structs.replace(sums, **wrong)) is None
