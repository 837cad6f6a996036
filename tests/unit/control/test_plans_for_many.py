"""Topologies that are planned together: where one stays, the others are planned again beside it, in the same cycle."""

from __future__ import annotations

from collections.abc import Callable

from doubles.world import Slots, World, plan_in
from stormpilot.control.improvements import MOST_PLANS
from stormpilot.decide.reasons import Reason
from stormpilot.model.values import Model, Plan


def spread(i: int, *nodes: str) -> Slots:
    """Two workers of the i-th topology: all tuples between components cross nodes."""
    here, there = nodes
    return {(here, 6700 + i): (1, 4, 6), (there, 6700 + i): (2, 3, 5)}


def near(i: int) -> Slots:
    """Half of them do, in the slots in which the i-th topology runs at first."""
    return {("a", 6700 + i): (1, 2, 4), ("b", 6700 + i): (3, 5, 6)}


def world(n: int, wanted: Callable[[list[int]], dict[int, Slots]]) -> tuple[World, list[str], list[list[int]]]:
    """So many jobs on a and b, measured; whom the planner was asked about since.

    `wanted` is the plan, by the number of a job, for those that are planned together.
    """
    w = World("a", "b", "c", "d")
    ids = [w.submit(spread(i, "a", "b"), name=f"job{i}") for i in range(n)]
    w.tell(40)
    asked: list[list[int]] = []

    def planner(model: Model) -> Plan:
        asked.append(sorted(ids.index(t.id) for t in model.topologies))
        return plan_in(model, {ids[i]: slots for i, slots in wanted(asked[-1]).items()})

    w.planner = planner
    w.tell(10)
    return w, ids, asked


def test_one_that_stays_does_not_hold_the_others() -> None:
    """Together: job1 in the slots that job0 leaves for others that are no better, which it does not do."""
    w, (first, second), asked = world(
        2, lambda group: {0: spread(0, "c", "d"), 1: near(0)} if len(group) > 1 else {1: near(1)}
    )
    assert w.reports[-1].decisions[first].reason is Reason.NO_BETTER_PLAN
    assert (w.decision(second).action, w.decision(second).reason) == ("publish", Reason.GAIN)
    assert asked == [[0, 1], [1]]
    plan = w.plan(second)
    assert plan is not None
    assert {(x.supervisor, x.port) for x in plan.workers} == {("a", 6701), ("b", 6701)}


def test_plans_beside_what_stays_are_made_a_bounded_number_of_times() -> None:
    """The first of any group stays, and each of the others wants the slots of the one before it."""

    def chain(group: list[int]) -> dict[int, Slots]:
        first = group[0]
        return {first: spread(first, "c", "d"), **{i: near(i - 1) for i in group[1:]}}

    w, ids, asked = world(MOST_PLANS + 1, chain)
    assert asked == [list(range(i, MOST_PLANS + 1)) for i in range(MOST_PLANS)]
    assert [w.decision(t).reason for t in ids] == [Reason.NO_BETTER_PLAN] * MOST_PLANS + [Reason.SLOT_OCCUPIED]
