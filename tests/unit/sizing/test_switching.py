"""Which executors on standby make up a size."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import pytest

from sizing_problems import model, problem
from stormpilot.sizing import switching
from stormpilot.sizing.prediction import SlotName
from stormpilot.sizing.problem import Static
from stormpilot.sizing.switching import Executors, Switched, switched

PI = model("pi", (1, 100.0, 0.8, 0.2), (2, 110.0, 0.9, 0.2))
PROBLEM = problem([PI], [("source", "pi", 1.0)])
"""A slot does 110/s with two threads of `pi`: hardly more than with one."""
A, B, C = ("a", 1), ("b", 1), ("c", 1)
PI_SLOTS: Mapping[int, SlotName] = {2: A, 3: A, 4: B, 5: B, 6: C}
ALIKE = {"a": 1.0, "b": 1.0, "c": 1.0}


def chosen(active: Collection[int], rate_tps: float, cores: Mapping[str, float] = ALIKE) -> Switched:
    executors = {"source": Executors({1: A}, [1], False), "pi": Executors(PI_SLOTS, active, True)}
    found = switched(PROBLEM, executors, rate_tps, cores)
    assert found.active["source"] == [1]
    return found


@pytest.mark.parametrize(
    ("active", "rate_tps", "then", "supported_tps"),
    [
        ([2], 90.0, [2], 100.0),
        ([2], 180.0, [2, 4], 200.0),  # the second of slot a adds 10/s, one of b or c 100/s: b has the first of them
        ([2, 3], 180.0, [2, 4], 200.0),  # the second of slot a gets as many as the first, and is not needed
        ([2], 250.0, [2, 4, 6], 300.0),
        ([2, 3, 4, 5, 6], 200.0, [2, 4], 200.0),
        ([2, 4, 6], 150.0, [2, 4], 200.0),
        ([3, 5], 150.0, [3, 5], 200.0),
        ([4, 5, 6], 50.0, [4], 100.0),
    ],
)
def test_as_many_get_tuples_as_the_rate_needs_where_they_are(
    active: list[int], rate_tps: float, then: list[int], supported_tps: float
) -> None:
    found = chosen(active, rate_tps)
    assert (found.active["pi"], found.supported_tps) == (then, pytest.approx(supported_tps))


def test_a_rate_that_all_together_do_not_support_is_come_near_to() -> None:
    """A fourth one would get as many tuples as the others, in a slot that two of them fill."""
    found = chosen([2], 1000.0)
    assert (found.active["pi"], found.supported_tps, found.limiting) == ([2, 4, 6], pytest.approx(300.0), "pi")


def test_slots_that_are_full_alike_each_get_one_more() -> None:
    """Shuffles stay in a worker: one more in one of two slots makes nothing more of the other, and of both."""
    twice = model("pi", (1, 100.0, 0.4, 0.2), (2, 190.0, 0.8, 0.2))
    local = problem([twice], [("source", "pi", 1.0)], shuffle="local")
    executors = {
        "source": Executors({1: A, 2: B}, [1, 2], False),
        "pi": Executors({3: A, 4: A, 5: B, 6: B}, [3, 5], True),
    }
    found = switched(local, executors, 370.0, {"a": 1.0, "b": 1.0})
    assert (found.active["pi"], found.supported_tps) == ([3, 4, 5, 6], pytest.approx(380.0))


def test_they_begin_on_the_node_with_the_most_cpu_left() -> None:
    assert chosen([2], 180.0, {"a": 1.0, "b": 1.0, "c": 2.0}).active["pi"] == [2, 6]


def test_two_components_that_are_full_at_the_same_rate_both_get_more() -> None:
    again = model("again", (1, 100.0, 0.4, 0.1))
    of = problem([PI, again], [("source", "pi", 1.0), ("pi", "again", 1.0)])
    executors = {
        "source": Executors({1: A}, [1], False),
        "pi": Executors({2: A, 3: B}, [2], True),
        "again": Executors({4: A, 5: C}, [4], True),
    }
    found = switched(of, executors, 150.0, {"a": 4.0, "b": 4.0, "c": 4.0})
    assert (found.threads, found.supported_tps) == ({"source": 1, "pi": 2, "again": 2}, pytest.approx(200.0))


def test_a_full_node_is_relieved_by_executors_elsewhere() -> None:
    """One thread needs 0.72 of a core for 90/s, and its node has half a core: another one takes all of it."""
    assert chosen([2], 90.0).active["pi"] == [2]
    assert chosen([2], 90.0, {"a": 0.5, "b": 1.0, "c": 1.0}).active["pi"] == [4]


@pytest.mark.parametrize("active", [[2, 3, 4, 5, 6], [2, 4], [2, 3, 4]])
def test_static_needs_are_of_as_many_threads_at_any_rate(active: list[int]) -> None:
    """One thread supports any rate as well: that says nothing of how many are needed."""
    static = Static(threads=3, cpu_share=0.1, memory_share=0.1)
    of = problem([], [("source", "pi", 1.0)])
    parts = [msgspec.structs.replace(c, static=static) if c.id == "pi" else c for c in of.components]
    of = msgspec.structs.replace(of, components=parts)
    executors = {"source": Executors({1: A}, [1], False), "pi": Executors(PI_SLOTS, active, True)}
    assert switched(of, executors, 50.0, ALIKE).threads["pi"] == 3
    fixed = {**executors, "pi": Executors(PI_SLOTS, [2], False)}
    assert switched(of, fixed, 50.0, ALIKE).threads["pi"] == 1


def test_what_cannot_be_routed_is_what_limits() -> None:
    executors = {"source": Executors({1: A}, [1], False), "pi": Executors(PI_SLOTS, [2], False)}
    found = switched(PROBLEM, executors, 500.0, ALIKE)
    assert (found.active["pi"], found.limiting) == ([2], "pi")


def test_of_hundreds_that_get_tuples_those_that_are_needed_are_left() -> None:
    """Five threads do 500/s, each in a slot of its own; nobody looks at hundreds of slots hundreds of times."""
    pi = model("pi", (1, 100.0, 0.8, 0.2), (2, 150.0, 0.9, 0.2))
    of = problem([pi], [("source", "pi", 1.0)])
    slots = {start: (f"n{start % 80}", 0) for start in range(2, 322)}
    executors = {"source": Executors({1: ("n0", 0)}, [1], False), "pi": Executors(slots, list(slots), True)}
    then = switched(of, executors, 500.0, {f"n{i}": 1.0 for i in range(80)})
    assert then.supported_tps >= 500.0
    assert len(then.active["pi"]) == len({slots[start] for start in then.active["pi"]}) == 5


@pytest.mark.parametrize("slots", [40, 80])
def test_where_many_are_missing_slots_are_not_looked_at_for_each(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time, each of them asked for one prediction of all slots for every slot: 64,000 of 40 slots."""
    pi = model("pi", (1, 100.0, 0.4, 0.1), (2, 150.0, 0.5, 0.1))
    of = problem([pi], [("source", "pi", 1.0)])
    where = {start: (f"n{start % slots}", 0) for start in range(2, 2 + 2 * slots)}
    executors = {"source": Executors({1: ("n0", 0)}, [1], False), "pi": Executors(where, [2], True)}
    asked: list[int] = []
    predict = switching.predict

    def counting(*given: object) -> object:
        asked.append(1)
        return predict(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(switching, "predict", counting)
    then = switched(of, executors, 80.0 * slots, {f"n{i}": 1.0 for i in range(slots)})
    assert then.supported_tps >= 80.0 * slots
    assert len(asked) < 20 * slots


def test_of_many_that_do_not_support_the_rate_those_that_add_nothing_end() -> None:
    """Two threads of a slot do 150/s: 3,000/s are the most of 20 slots, by two in each as by four."""
    pi = model("pi", (1, 100.0, 0.4, 0.1), (2, 150.0, 0.5, 0.1), (4, 150.0, 0.6, 0.1))
    of = problem([pi], [("source", "pi", 1.0)])
    where = {start: (f"n{start % 20}", 0) for start in range(2, 82)}
    executors = {"source": Executors({1: ("n0", 0)}, [1], False), "pi": Executors(where, [2], True)}
    then = switched(of, executors, 6000.0, {f"n{i}": 4.0 for i in range(20)})
    assert (len(then.active["pi"]), then.supported_tps) == (40, pytest.approx(3000.0))
