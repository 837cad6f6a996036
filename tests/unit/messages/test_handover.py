"""Keyed state that goes with its keys: every phase, every way to be cut off."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stormpilot.errors import RefusedError
from stormpilot.messages.handover import ANSWER_MS, DRAIN_MIN_MS, Handover, KeyedTask, under_way
from stormpilot.messages.routes import (
    ComponentRoute,
    first_route,
    handed_on,
    rest,
    rest_all,
    settled,
    switch,
    take_up,
    take_up_all,
)

TASKS = [4, 5, 6]


def route(standby: int = 1) -> ComponentRoute:
    return first_route("count", TASKS, standby, keyed=True, hands_over=True)


def wrote(task: int, **what: object) -> dict[int, KeyedTask]:
    return {task: msgspec.convert({"topologyId": "t-1", "task": task, **what}, KeyedTask)}


def one(after: ComponentRoute) -> Handover:
    (handover,) = after.handovers
    return handover


def on(before: ComponentRoute, now_ms: int, tasks: dict[int, KeyedTask] | None = None, idle: int = 0) -> ComponentRoute:
    """One look of whoever drives, which finds nothing to complain of."""
    after, said = handed_on(settled(before, [idle], now_ms, drain_timeout_ms=10_000), tasks or {}, now_ms)
    assert said == []
    return after


def test_a_switch_hands_the_state_of_every_partition_that_moved_over() -> None:
    moved = switch(route(), TASKS, 5, 6, now_ms=1_000)
    assert one(moved) == Handover(partitions=list(range(1, 128, 2)), from_=5, to=6, begun_ms=1_000, since_ms=1_000)
    assert one(moved).key == "5-6-1000"


def test_a_component_that_hands_nothing_over_moves_as_before() -> None:
    plain = first_route("count", TASKS, 1, keyed=True)
    assert switch(plain, TASKS, 5, 6, 0).handovers == []
    assert not first_route("count", TASKS, 1, keyed=False, hands_over=True).hands_over, "no keys, no state by key"


def test_the_giver_saves_when_it_has_drained_the_taker_loads_when_it_has_saved_and_then_it_is_over() -> None:
    moved = switch(route(), TASKS, 5, 6, now_ms=0)
    assert one(on(moved, DRAIN_MIN_MS - 1, idle=5)).phase == "drain"
    assert one(on(moved, DRAIN_MIN_MS)).phase == "drain", "it still does something"
    saving = on(moved, DRAIN_MIN_MS, idle=5)
    assert (one(saving).phase, one(saving).since_ms, saving.draining) == ("save", DRAIN_MIN_MS, [])
    assert on(saving, 3_000, wrote(6, loaded=["5-6-0"])) == saving, "nobody may load before it is saved"
    assert on(saving, 3_000, wrote(5, saved=["4-6-0"])) == saving, "another hand-over's answer"
    loading = on(saving, 3_000, wrote(5, saved=["5-6-0"]))
    assert (one(loading).phase, one(loading).since_ms) == ("load", 3_000)
    assert on(loading, 4_000, wrote(5, saved=["5-6-0"])) == loading
    assert on(loading, 4_000, wrote(6, loaded=["5-6-0"])).handovers == []


def test_a_giver_that_goes_on_with_other_keys_is_not_waited_for_to_be_idle() -> None:
    taken = take_up(route(), TASKS, 6, now_ms=0)
    assert [(h.from_, h.to, len(h.partitions)) for h in taken.handovers] == [(4, 6, 21), (5, 6, 21)]
    assert {h.phase for h in on(taken, DRAIN_MIN_MS).handovers} == {"save"}


def test_partitions_whose_state_is_on_its_way_are_not_moved_again() -> None:
    moved = switch(route(), TASKS, 5, 6, now_ms=0)
    with pytest.raises(RefusedError, match=r"count: state of 64 partitions is still on its way \(task 5 -> 6, drain\)"):
        switch(moved, TASKS, 6, 5, 1_000)
    with pytest.raises(RefusedError, match="still on its way"):
        rest(moved, 6, 1_000)
    switch(moved, TASKS, 4, 6, 1_000)  # others may go


def test_a_task_that_is_taken_up_takes_only_keys_whose_state_is_at_home() -> None:
    resting = rest(route(standby=0), 6, now_ms=0)
    held = under_way(resting.handovers)
    taken = take_up(resting, TASKS, 6, now_ms=1_000)
    got = {p for p, owner in enumerate(taken.partitions) if owner == 6}
    assert len(got) == 64 and not got & held
    everything = switch(switch(route(), TASKS, 4, 6, 0), TASKS, 5, 6, 0)
    with pytest.raises(RefusedError, match="still on its way"):
        take_up(everything, TASKS, 4, 1_000)


@pytest.mark.parametrize(("back", "tasks"), [(3, 4), (4, 5), (5, 7), (6, 8)])
def test_several_that_are_taken_up_at_once_do_not_wait_for_each_other(back: int, tasks: int) -> None:
    known = range(1, tasks + 1)
    resting = rest_all(first_route("count", known, 0, keyed=True, hands_over=True), known[:back], now_ms=0)
    arrived = msgspec.structs.replace(resting, handovers=[], draining=[])
    taken = take_up_all(arrived, known, known[:back], now_ms=1_000)
    assert taken.active == list(known)
    assert set(Counter(taken.partitions).values()) == {64}
    assert under_way(taken.handovers) == {p for p, owner in enumerate(taken.partitions) if owner in known[:back]}
    with pytest.raises(RefusedError, match="still on its way"):
        take_up_all(resting, known, known[:back], now_ms=1_000)
    assert take_up_all(resting, known, [], now_ms=1_000) == resting


def test_several_that_rest_at_once_deal_nothing_to_each_other() -> None:
    resting = rest_all(route(standby=0), [5, 6], now_ms=0)
    assert set(resting.partitions) == {4}
    assert [(h.from_, h.to) for h in resting.handovers] == [(5, 4), (6, 4)]
    assert [d.task for d in resting.draining] == [5, 6]
    with pytest.raises(RefusedError, match="task 4, 5, 6 are all of count"):
        rest_all(route(standby=0), TASKS, 0)


def test_a_giver_that_cannot_save_keeps_its_state_and_it_is_said() -> None:
    saving = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    after, said = handed_on(saving, wrote(5, failed={"5-6-0": "2 MB are too much"}), 3_000)
    assert after.handovers == []
    assert said == [
        "count: state of 64 partitions, task 5 -> 6: not handed over, it stays where it was: 2 MB are too much"
    ]


@pytest.mark.parametrize(("saved", "text"), [(False, "task 5 did not save it within 60 s"), (True, "task 6 did not")])
def test_a_task_that_never_answers_is_waited_for_a_minute(saved: bool, text: str) -> None:
    waiting = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    if saved:
        waiting = on(waiting, DRAIN_MIN_MS, wrote(5, saved=["5-6-0"]))
    assert handed_on(waiting, {}, DRAIN_MIN_MS + ANSWER_MS - 1) == (waiting, [])
    after, (said,) = handed_on(waiting, {}, DRAIN_MIN_MS + ANSWER_MS)
    assert after.handovers == [] and text in said


def test_what_reached_the_giver_too_late_is_handed_over_after_it() -> None:
    """A sender that was cut off from ZooKeeper went on sending to it."""
    moved = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    done = msgspec.structs.replace(moved, handovers=[])
    again = on(done, 60_000, wrote(5, late=[1, 3, 9_999]))
    assert one(again) == Handover(partitions=[1, 3], from_=5, to=6, begun_ms=60_000, since_ms=60_000)
    assert on(again, 60_500, wrote(5, late=[1, 3])) == again, "once"
    assert on(done, 60_000, wrote(6, late=[1])).handovers == [], "it has the partition again"


def test_what_came_late_is_asked_of_a_task_that_does_not_answer_once_until_it_writes_again() -> None:
    done = msgspec.structs.replace(switch(route(), TASKS, 5, 6, 0), draining=[], handovers=[])
    last = wrote(5, late=[1, 3], writtenAtMs=50_000)
    saving = on(on(done, 60_000, last), 60_000 + DRAIN_MIN_MS, last)
    given_up_ms = 60_000 + DRAIN_MIN_MS + ANSWER_MS
    after, (said,) = handed_on(saving, last, given_up_ms)
    assert (after.handovers, after.silent) == ([], {5: 50_000})
    assert said == "count: state of 2 partitions, task 5 -> 6: task 5 did not save it within 60 s: given up"
    assert on(after, given_up_ms + 600_000, last) == after
    assert on(after, given_up_ms + 600_000) == after, "its answer cannot be read just now"
    again = on(after, given_up_ms + 700_000, wrote(5, late=[1, 3], writtenAtMs=800_000))
    assert (one(again).partitions, again.silent) == ([1, 3], {})


def test_state_that_was_given_up_is_asked_for_once_its_task_writes_again() -> None:
    """Its session was away for a minute, it never read that it was to save, and knows of nothing late."""
    saving = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    last = wrote(5, writtenAtMs=500)
    given_up_ms = DRAIN_MIN_MS + ANSWER_MS
    after, _ = handed_on(saving, last, given_up_ms)
    assert (after.handovers, after.silent, after.owed) == ([], {5: 500}, {5: list(range(1, 128, 2))})
    assert on(after, given_up_ms + 1, last) == after
    gone_on = msgspec.structs.replace(after, partitions=[4 if p == 1 else o for p, o in enumerate(after.partitions)])
    again = on(gone_on, 200_000, wrote(5, writtenAtMs=150_000))
    assert {(h.to, len(h.partitions)) for h in again.handovers} == {(4, 1), (6, 63)}, "whose they are now"
    assert (again.silent, again.owed) == ({}, {})
    assert on(after, 200_000, wrote(5, writtenAtMs=150_000)).handovers, "all of it"


def test_a_task_that_never_wrote_is_asked_once_it_does() -> None:
    saving = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    after, _ = handed_on(saving, {}, DRAIN_MIN_MS + ANSWER_MS)
    assert one(on(after, 200_000, wrote(5, writtenAtMs=150_000))).partitions == list(range(1, 128, 2))


def test_what_came_late_to_a_task_that_could_not_save_something_else_follows() -> None:
    saving = on(switch(route(), TASKS, 5, 6, 0), DRAIN_MIN_MS, idle=5)
    after, (said,) = handed_on(saving, wrote(5, failed={"5-6-0": "too much"}, late=[1]), 3_000)
    assert "too much" in said
    assert (one(after).partitions, after.silent) == ([1], {})


def test_two_hand_overs_of_one_moment_have_names_of_their_own() -> None:
    done = msgspec.structs.replace(switch(route(), TASKS, 5, 6, 0), draining=[])
    (first, second) = on(on(done, DRAIN_MIN_MS), DRAIN_MIN_MS).handovers + on(done, 0, wrote(5, late=[])).handovers
    assert first.key == second.key == "5-6-0"
    loading = msgspec.structs.replace(done, handovers=[msgspec.structs.replace(one(done), phase="load")])
    keys = [h.key for h in on(loading, 0, wrote(5, late=[1])).handovers]
    assert keys == ["5-6-0", "5-6-1"]


@example([("switch", 5, 4), ("look", True, 1900), ("take", 5, 4), *[("look", True, n) for n in (2000, 0, 0)]])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["switch", "rest", "take"]), st.sampled_from(TASKS), st.sampled_from(TASKS)),
            st.tuples(st.just("look"), st.booleans(), st.integers(0, 70_000)),
        ),
        max_size=40,
    )
)
def test_whatever_is_done_state_ends_where_its_keys_go(steps: list[tuple[str, int, int]]) -> None:
    """Follows where the state of each partition lies: with answers it is always with the owner in the end."""
    now = route()
    at = list(now.partitions)
    clock = count(0, 100)
    now_ms = 0
    for verb, a, b in steps:
        now_ms = max(now_ms, next(clock))
        try:
            if verb == "switch":
                now = switch(now, TASKS, a, b, now_ms)
            elif verb == "rest":
                now = rest(now, a, now_ms)
            elif verb == "take":
                now = take_up(now, TASKS, a, now_ms)
            else:
                now_ms += b
                saved: defaultdict[int, list[str]] = defaultdict(list)
                loaded: defaultdict[int, list[str]] = defaultdict(list)
                for h in now.handovers if a else []:
                    if h.phase == "save":
                        saved[h.from_].append(h.key)
                    elif h.phase == "load":
                        for p in h.partitions:
                            assert at[p] == h.from_
                            at[p] = h.to
                        loaded[h.to].append(h.key)
                answers: dict[int, KeyedTask] = {}
                for task in {*saved, *loaded}:
                    answers |= wrote(task, saved=saved[task], loaded=loaded[task])
                if a:
                    now, _ = handed_on(settled(now, TASKS, now_ms, 10_000), answers, now_ms)
        except RefusedError:
            continue
        for p, owner in enumerate(now.partitions):
            held = [h for h in now.handovers if p in h.partitions]
            assert len(held) <= 1
            assert at[p] == (held[0].from_ if held else owner) or (held and at[p] == held[0].to == owner)
