"""Routes and the moves of traffic between tasks, at every step where one may be cut off."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormpilot.errors import RefusedError
from stormpilot.messages.routes import (
    DRAIN_MIN_MS,
    PARTITIONS_PER_TASK,
    ComponentRoute,
    DrainingTask,
    Routes,
    drained_at,
    first_route,
    rest,
    settled,
    switch,
    take_up,
)

TASKS = [4, 5, 6]


def test_the_first_route_leaves_standby_tasks_out_and_deals_keys_as_storm_does() -> None:
    route = first_route("count", TASKS, standby=1, keyed=True)
    assert route.active == [4, 5]
    assert route.partitions == [4, 5] * PARTITIONS_PER_TASK
    assert first_route("count", TASKS, standby=9, keyed=False) == ComponentRoute(component="count", active=[4])


def test_a_switch_gives_the_keys_of_one_task_to_another_and_leaves_the_rest() -> None:
    route = first_route("count", TASKS, standby=1, keyed=True)
    after = switch(route, TASKS, 5, 6, now_ms=7_000)
    assert after.active == [4, 6]
    assert after.partitions == [4, 6] * PARTITIONS_PER_TASK
    assert after.draining == [DrainingTask(task=5, since_ms=7_000)]


def test_a_switch_there_and_back_is_where_it_began() -> None:
    route = first_route("count", TASKS, standby=1, keyed=True)
    back = switch(switch(route, TASKS, 5, 6, 1_000), TASKS, 6, 5, 2_000)
    assert (back.active, back.partitions) == (route.active, route.partitions)
    assert [d.task for d in back.draining] == [6]


@pytest.mark.parametrize(
    ("from_", "to", "message"),
    [(6, 5, "task 6 of count gets no tuples now"), (4, 9, "9 is no task of count"), (4, 4, "on both ends")],
)
def test_a_switch_that_cannot_be_says_why(from_: int, to: int, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        switch(first_route("count", TASKS, 1, True), TASKS, from_, to, 0)


def test_the_last_active_task_cannot_rest() -> None:
    with pytest.raises(RefusedError, match="the only one"):
        rest(first_route("count", TASKS, 2, False), 4, 0)


def test_a_task_that_is_taken_up_gets_its_share_of_the_keys() -> None:
    route = take_up(first_route("count", TASKS, 1, True), TASKS, 6, 0)
    assert Counter(route.partitions) == {4: 43, 5: 43, 6: 42}
    with pytest.raises(RefusedError, match="gets tuples already"):
        take_up(route, TASKS, 6, 0)
    with pytest.raises(RefusedError, match="is no task"):
        take_up(route, TASKS, 7, 0)


@pytest.mark.parametrize(
    ("idle", "after_ms", "drains"),
    [
        ([], DRAIN_MIN_MS - 1, True),
        ([5], DRAIN_MIN_MS - 1, True),
        ([5], DRAIN_MIN_MS, False),
        ([4], 29_999, True),
        ([], 30_000, False),
    ],
)
def test_a_task_drains_until_it_is_idle_within_its_bounds(idle: list[int], after_ms: int, drains: bool) -> None:
    route = switch(first_route("count", TASKS, 1, True), TASKS, 5, 6, now_ms=1_000)
    done = settled(route, idle, 1_000 + after_ms, drain_timeout_ms=30_000)
    assert bool(done.draining) == drains
    assert (done.active, done.partitions) == (route.active, route.partitions)


def test_the_limit_of_a_task_holds_for_whoever_looks() -> None:
    moved = switch(first_route("count", TASKS, 1, True), TASKS, 5, 6, now_ms=1_000)
    route = drained_at(moved, 5, until_ms=61_000)
    assert settled(route, [], 60_999, drain_timeout_ms=15_000).draining == route.draining
    assert settled(route, [], 61_000, drain_timeout_ms=600_000).draining == []
    assert settled(route, [5], 1_000 + DRAIN_MIN_MS, drain_timeout_ms=15_000).draining == []
    assert drained_at(moved, 4, until_ms=61_000) == moved


def test_a_table_holds_one_route_per_component() -> None:
    table = Routes(topology_id="t-1")
    table = table.with_route(first_route("b", TASKS, 0, False)).with_route(first_route("a", [1], 0, False))
    table = table.with_route(first_route("b", TASKS, 2, False))
    assert [(c.component, c.active) for c in table.components] == [("a", [1]), ("b", [4])]
    assert table.of("b") == first_route("b", TASKS, 2, False)
    assert table.of("c") is None


@given(st.lists(st.tuples(st.sampled_from(["switch", "rest", "take"]), st.sampled_from(TASKS), st.sampled_from(TASKS))))
def test_whatever_is_done_every_partition_belongs_to_an_active_task(steps: list[tuple[str, int, int]]) -> None:
    """Wherever a sequence of moves is cut off, the table is one that workers follow."""
    route = first_route("count", TASKS, 1, True)
    for now_ms, (verb, a, b) in enumerate(steps):
        before = route
        try:
            if verb == "switch":
                route = switch(route, TASKS, a, b, now_ms)
            else:
                route = rest(route, a, now_ms) if verb == "rest" else take_up(route, TASKS, a, now_ms)
        except RefusedError:
            continue
        assert route.active == sorted(set(route.active)) and set(route.active) <= set(TASKS)
        assert set(route.partitions) <= set(route.active)
        assert len(route.partitions) == 2 * PARTITIONS_PER_TASK
        assert not {d.task for d in route.draining} & set(route.active)
        moved = sum(x != y for x, y in zip(before.partitions, route.partitions, strict=True))
        touched = max(Counter(before.partitions)[a], Counter(route.partitions)[a], Counter(route.partitions)[b])
        assert moved <= touched


def test_a_task_that_drains_since_a_time_that_has_not_come_drains_from_now_on() -> None:
    """By the clock of a command on another host, or one that was set back since."""
    ahead = DrainingTask(task=5, since_ms=3_600_000, until_ms=3_605_000)
    route = ComponentRoute(component="parse", active=[4], draining=[ahead])
    now = settled(route, [5], 1_000, drain_timeout_ms=15_000)
    assert now.draining == [DrainingTask(task=5, since_ms=1_000, until_ms=6_000)]
    assert settled(now, [5], 1_000 + DRAIN_MIN_MS, drain_timeout_ms=15_000).draining == []
    near = ComponentRoute(component="parse", active=[4], draining=[DrainingTask(task=5, since_ms=1_500)])
    assert settled(near, [5], 1_000, drain_timeout_ms=15_000) == near
