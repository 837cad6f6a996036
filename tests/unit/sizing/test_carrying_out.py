"""An allocation on real nodes: threads within tasks, slots like the measured one, bundles in slots of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import supervisor
from sizing_problems import model, problem
from stormpilot.errors import RefusedError
from stormpilot.model.values import Infeasible, Supervisor
from stormpilot.sizing.allocation import Allocation, allocate
from stormpilot.sizing.carrying_out import like_the_measured_slot, placed, ranges, threads_by_tasks

PI = model("pi", (1, 100.0, 0.9, 0.2), (2, 110.0, 0.95, 0.2))
PROBLEM = problem([PI], [("source", "pi", 1.0)])


def sized(rate_tps: float) -> Allocation:
    return allocate(PROBLEM, rate_tps, "mba")


def nodes(count: int, slots: int = 1, part: float = 1.0) -> list[Supervisor]:
    slot = PROBLEM.slot
    return [
        supervisor(f"s{i}", slots, mhz=slot.cpu_mhz * slots * part, memory_mb=slot.memory_mb * slots)
        for i in range(count)
    ]


@pytest.mark.parametrize("parts", [(1.0,) * 4, (2.5,) * 4, (1.0, 1.0, 3.0, 1.0)])
def test_full_bundles_get_slots_of_their_own_on_the_nodes_that_there_are(parts: Sequence[float]) -> None:
    """On larger slots too, though two bundles would fit by CPU and memory: nobody measured two in one worker."""
    allocation = sized(250.0)  # 2 x 2 threads and one
    executors = ranges({"source": [1], "pi": list(range(2, 10))}, {"pi": 5})
    supervisors = [
        msgspec.structs.replace(s, cores=s.cores * part, memory_mb=s.memory_mb * part)
        for s, part in zip(nodes(4), parts, strict=True)
    ]
    answer = placed(PROBLEM, allocation, like_the_measured_slot(PROBLEM, supervisors), executors, "sam")
    assert not isinstance(answer, Infeasible)
    _, plan = answer
    component = {start: c for c, held in executors.items() for start, _ in held}
    held = [Counter(component[s] for s, _ in w.executors) for w in plan.topologies[0].workers]
    assert sorted(c["pi"] for c in held) == [1, 2, 2]
    assert sum(len(w.executors) for w in plan.topologies[0].workers) == 6


@pytest.mark.parametrize("planner", ["rsm", "sam"])
def test_no_slot_gets_more_memory_than_it_has(planner: str) -> None:
    """Two threads of 45% fill one, also where the node of four slots has room for all six."""
    heavy = problem([model("pi", (1, 100.0, 0.1, 0.45))], [("source", "pi", 1.0)])
    allocation = allocate(heavy, 600.0, "lsa")
    executors = ranges({"source": [1], "pi": list(range(2, 8))}, {})
    node = supervisor("s0", 4, mhz=heavy.slot.cpu_mhz * 4, memory_mb=heavy.slot.memory_mb * 4)
    answer = placed(heavy, allocation, like_the_measured_slot(heavy, [node]), executors, planner)
    assert not isinstance(answer, Infeasible)
    held = [sum(start > 1 for start, _ in w.executors) for w in answer[1].topologies[0].workers]
    assert max(held) == 2 and sum(held) == 6


def test_too_few_slots_are_refused() -> None:
    answer = placed(PROBLEM, sized(250.0), nodes(2), ranges({"source": [1], "pi": [2, 3, 4, 5, 6]}, {}), "sam")
    assert isinstance(answer, Infeasible)
    assert answer.text == "3 slots are needed, 2 free"


def test_a_component_that_is_missing_or_has_too_few_tasks_is_refused() -> None:
    own = ["__acker"]
    assert threads_by_tasks({"source": 1, "pi": 8, "__acker": 1}, sized(250.0), own) == {"source": 1, "pi": 5}
    with pytest.raises(RefusedError, match=r"no component pi \(it has: p, source\)"):
        threads_by_tasks({"source": 1, "p": 8}, sized(250.0), own)
    with pytest.raises(RefusedError, match="pi has 3 tasks and needs 5 threads: Storm never adds tasks"):
        threads_by_tasks({"source": 1, "pi": 3}, sized(250.0), own)


def test_a_component_that_the_file_does_not_have_is_refused() -> None:
    with pytest.raises(RefusedError, match="the file has no component db, which the running topology has"):
        threads_by_tasks({"source": 1, "pi": 8, "db": 40, "__acker": 1}, sized(250.0), ["__acker"])


@given(st.integers(1, 40), st.integers(1, 40))
def test_executors_take_all_tasks_in_order_and_alike(tasks: int, threads: int) -> None:
    found = ranges({"pi": list(range(5, 5 + tasks))}, {"pi": threads})["pi"]
    assert len(found) == min(tasks, threads)
    assert [t for start, end in found for t in range(start, end + 1)] == list(range(5, 5 + tasks))
    sizes = [end - start for start, end in found]
    assert max(sizes) - min(sizes) <= 1


def test_a_slot_a_little_smaller_or_larger_than_the_measured_one_counts_as_like_it() -> None:
    (found,) = like_the_measured_slot(PROBLEM, nodes(1, slots=2, part=0.97))
    assert found.cpu_mhz == pytest.approx(2 * PROBLEM.slot.cpu_mhz)
    (larger,) = like_the_measured_slot(PROBLEM, nodes(1, part=2.0))
    assert larger.cpu_mhz == pytest.approx(PROBLEM.slot.cpu_mhz)


def test_a_smaller_slot_is_refused() -> None:
    text = f"a slot of s0 has {PROBLEM.slot.cpu_mhz / 2:,.0f} MHz CPU"
    with pytest.raises(RefusedError, match=re.escape(text)):
        like_the_measured_slot(PROBLEM, nodes(1, part=0.5))


def test_executors_are_those_that_storm_makes_of_tasks() -> None:
    """Storm's `Utils.partitionFixed`: larger ones first."""
    assert ranges({"pi": list(range(1, 11))}, {"pi": 3})["pi"] == [(1, 4), (5, 7), (8, 10)]
