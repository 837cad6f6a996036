"""One rollout, interrupted at every look and at every write in every way: it goes on, or it ends cleanly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from doubles.rolling import AFTER, BEFORE, CONFIG, START_S, WORK, Rolling, begun, handing_over, worker
from stormpilot.messages.core import Worker
from stormpilot.messages.rollouts import Rollout, RolloutStepPart, workers_of
from stormpilot.messages.routes import take_up
from stormpilot.rollout.facts import placement
from stormpilot.rollout.state_machine import Next, given_back, next_of

LOOKS = 60
"""A rollout of two steps takes fewer."""


def whole() -> Rolling:
    r = Rolling()
    r.until_ended()
    return r


def duration() -> int:
    return whole().now_s


def as_planned(r: Rolling) -> None:
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "DONE"
    assert workers_of(r.workers) == workers_of(AFTER)
    assert workers_of(r.plan_workers) == workers_of(AFTER)


def test_steps_are_carried_out_one_after_the_other_and_nobody_is_put_aside_in_the_end() -> None:
    r = whole()
    as_planned(r)
    assert r.now_s < LOOKS
    published = [n.rollout.step for n in r.written if n.publish]
    assert published == [0, 1]
    assert [n.rollout.phase for n in r.written if n.routes is not None and not n.publish] == [
        *("draining", "ready"),
        *("draining", "returning"),
    ]


def test_a_task_drains_two_seconds_at_least_and_until_it_is_idle_or_had_its_time() -> None:
    """`look` is a second; the table says since when."""
    r = Rolling()
    while r.rollout.phase != "draining":
        r.look()
    since_s = r.now_s
    while r.rollout.phase == "draining":
        r.look()
    assert r.now_s - since_s == 2


def test_tasks_get_tuples_again_only_when_all_workers_know_where_they_are() -> None:
    r = Rolling()
    while r.rollout.reported_at_ms is None:
        r.look()
    reported_s = r.now_s
    assert reported_s < r.known_s[2]  # workers start sooner than a supervisor asks that was not told
    assert "1 of these nodes only when they ask" in r.rollout.sentence(r.facts().now_ms)
    while r.rollout.phase == "moving":
        assert not {2, 3} & r.active()
        r.look()
    assert r.now_s >= r.known_s[2] + CONFIG.connect_s
    assert {2, 3} <= r.active()


def test_nobody_waits_for_a_supervisor_to_ask_where_storm_tells_it() -> None:
    """The tasks go to the node of the spout: that is told, since its own executors change."""
    after = [worker("a", 6701, 2, 3)]
    r = Rolling(rollout=msgspec.structs.replace(begun(), steps=[RolloutStepPart(workers=after, away=[2, 3])]))
    while r.rollout.reported_at_ms is None:
        r.look()
    reported_s = r.now_s
    assert r.rollout.uninformed_supervisors == []
    assert r.known_s[2] <= reported_s
    while r.rollout.phase == "moving":
        r.look()
    assert r.now_s == reported_s + CONFIG.connect_s


@pytest.mark.parametrize("refresh_s", [0, 3, 20])
def test_connections_get_their_time_once_places_are_known_however_late_that_is(refresh_s: float) -> None:
    r = Rolling()
    config = msgspec.structs.replace(CONFIG, task_refresh_s=refresh_s)
    while r.rollout.reported_at_ms is None:
        r.look()
    m = r.rollout
    assert m.applied_at_ms is not None and m.reported_at_ms is not None
    assert m.uninformed_supervisors == ["a"]
    back_ms = max(m.reported_at_ms, m.applied_at_ms + int(refresh_s * 1000) + 10_000) + 2_000
    facts = replace(r.facts(), now_ms=back_ms - 1)
    assert next_of(m, facts, config) is None
    found = next_of(m, replace(facts, now_ms=back_ms), config)
    assert found is not None and found.routes is not None


@pytest.mark.parametrize("at", range(1, LOOKS))
def test_another_leader_goes_on_wherever_the_first_one_ended(at: int) -> None:
    r = Rolling()
    r.looks(at)
    r.new_leader()
    r.until_ended()
    as_planned(r)


@pytest.mark.parametrize("write", range(20))
def test_a_leader_that_ends_just_before_a_write_leaves_what_the_next_one_does_anew(write: int) -> None:
    """Nothing of the transaction is there; it takes a minute until another one leads."""
    r = Rolling()
    seen = 0

    def drop(_: Next) -> bool:
        nonlocal seen
        seen += 1
        return seen != write + 1

    r.before_write = drop
    while r.rollout.running and seen < write + 1:
        r.look()
    for _ in range(60):
        r.now_s += 1
        r._shim()
    r.new_leader()
    r.until_ended()
    as_planned(r)


@pytest.mark.parametrize("rolling", [Rolling, handing_over])
@pytest.mark.parametrize("at", range(LOOKS))
def test_abort_gives_all_tuples_back_and_leaves_the_placement_as_it_then_is(
    at: int, rolling: Callable[[], Rolling]
) -> None:
    r = rolling()
    r.looks(at)
    over = not r.rollout.running
    r.rollout = r.rollout if over else msgspec.structs.replace(r.rollout, abort_by="ops")
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome in ({"DONE"} if over else {"ABORTED", "DONE"})
    r.runs_its_plan()


@pytest.mark.parametrize("at", range(LOOKS))
def test_pause_lets_a_step_that_moves_come_to_its_end_and_everybody_works_meanwhile(at: int) -> None:
    r = Rolling()
    r.looks(at)
    if not r.rollout.running:
        return
    r.rollout = msgspec.structs.replace(r.rollout, paused_by="ops")
    r.looks(100)
    if r.rollout.running:
        assert r.rollout.phase == "ready"
        assert r.active() == frozenset(WORK)
        r.rollout = msgspec.structs.replace(r.rollout, paused_by="", since_ms=r.now_s * 1000, text="")
    r.until_ended()
    as_planned(r)


@pytest.mark.parametrize("at", range(LOOKS))
def test_a_pause_of_the_topology_holds_the_plug_in_too_and_no_task_waits_for_it(at: int) -> None:
    """The plan of a step that is not applied any more is taken back, and its tasks get tuples meanwhile."""
    r = Rolling()
    r.looks(at)
    if not r.rollout.running:
        return
    r.held, r.shim = "paused by an operator", "silent"
    r.looks(100)
    assert r.active() == frozenset(WORK)
    r.held, r.shim = "", ""
    r.until_ended()
    as_planned(r)


@pytest.mark.parametrize("node", ["b", "c"])
@pytest.mark.parametrize("at", range(1, LOOKS))
def test_a_supervisor_that_is_lost_ends_it_and_everybody_gets_tuples(at: int, node: str) -> None:
    """What ran there is placed by the plug-in; what restarts then gets tuples that wait for it, as after every loss."""
    r = Rolling()
    r.looks(at)
    if not r.rollout.running:
        return
    r.checked = False
    r.lose(node)
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome in ("DISTURBED", "DONE")


@pytest.mark.parametrize("at", range(1, LOOKS))
def test_a_user_who_changes_the_number_of_workers_ends_it(at: int) -> None:
    """The plug-in rejects a plan that was made for another number, and what runs is not made the plan for it."""
    r = Rolling()
    r.looks(at)
    if r.rollout.phase in ("returning", "ended"):
        return
    waits = r.rollout.phase == "moving" and r.rollout.applied_at_ms is None
    r.wanted = 2
    r.shim = "silent" if waits else ""
    published = len([n for n in r.written if n.publish or n.withdraw])
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.text) == ("DISTURBED", "the number of workers was changed by a user")
    assert len([n for n in r.written if n.publish or n.withdraw]) == published


@pytest.mark.parametrize("at", range(1, LOOKS))
def test_another_plan_ends_it(at: int) -> None:
    r = Rolling()
    r.looks(at)
    if not r.rollout.running:
        return
    r.publish("p-9", r.workers)
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome in ("OVERTAKEN", "DONE")
    assert r.plan_id == "p-9"


@pytest.mark.parametrize("at", range(1, LOOKS))
def test_what_replaces_it_waits_for_tasks_that_restart(at: int) -> None:
    """It is asked for at every look; a plan of the step that is not applied yet must not be applied later."""
    r = Rolling()
    r.looks(at)
    while r.rollout.running:
        facts = r.facts()
        found = given_back(r.rollout, facts, "OVERTAKEN", "by another plan")
        if found.rollout != r.rollout:
            r.write(found, facts)
        r.looks(1)
    r.everybody_gets_tuples()
    assert r.rollout.outcome in ("OVERTAKEN", "DONE")
    for _ in range(r.apply_s + START_S):
        r.now_s += 1
        r._shim()
        r.check()


@pytest.mark.parametrize("at", range(1, LOOKS))
def test_a_table_that_somebody_takes_away_ends_it_or_is_made_anew(at: int) -> None:
    r = Rolling()
    r.looks(at)
    draining = r.rollout.phase == "draining"
    r.checked = False  # who takes it away sends tuples to tasks that restart
    r.routes = None
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == ("INTERFERED" if draining else "DONE")


def test_a_task_that_somebody_brings_back_while_it_drains_ends_it() -> None:
    r = Rolling()
    while r.rollout.phase != "draining":
        r.look()
    assert r.routes is not None
    (route,) = r.routes.components
    r.routes = r.routes.with_route(take_up(route, WORK, 2, r.now_s * 1000))
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "INTERFERED"
    assert "task 2" in r.rollout.text


def test_tasks_that_never_come_back_get_their_tuples_after_a_while_and_nothing_more_is_moved() -> None:
    r = Rolling(never_start={3}, checked=False)
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.step) == ("TOO_LATE", 0)
    assert r.rollout.text == "tasks 3 did not report within 41 s (rollout.start_timeout_s)"
    r.runs_its_plan()


def test_a_plan_that_is_refused_ends_it_before_anything_restarts() -> None:
    r = Rolling(shim="rejected")
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "REJECTED"
    assert workers_of(r.workers) == workers_of(BEFORE)


def test_a_plug_in_that_does_not_answer_is_not_waited_for_and_finds_what_runs_as_the_plan() -> None:
    r = Rolling(shim="silent")
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "TOO_LATE"
    r.shim = ""
    r.runs_its_plan()
    assert workers_of(r.workers) == workers_of(BEFORE)


def test_a_step_waits_for_spare_capacity_and_says_so_and_gives_up_in_the_end() -> None:
    r = Rolling(lacking="b would be used with 900 MHz of 800 MHz")
    r.looks(20)
    assert r.rollout.text == "no spare capacity: b would be used with 900 MHz of 800 MHz"
    assert r.active() == frozenset(WORK)
    waiting = len(r.written)
    r.lacking = "b would be used with 901 MHz of 800 MHz"
    r.looks(3)
    assert len(r.written) == waiting  # another number is not written every second
    r.until_ended()
    assert r.rollout.outcome == "GAVE_UP"
    r = Rolling(lacking="full")
    r.looks(20)
    r.lacking = ""
    r.until_ended()
    as_planned(r)


def test_a_step_waits_for_tasks_that_are_to_get_its_tuples_and_do_not_report() -> None:
    r = Rolling(silent={4})
    r.looks(20)
    assert r.rollout.phase == "ready"
    assert r.rollout.text == "no spare capacity: task 4, which is to get their tuples, does not report"
    assert r.active() == frozenset(WORK)
    r.silent = {2}  # it moves itself
    r.looks(1)
    assert r.rollout.phase == "draining"
    r.silent = set()
    r.until_ended()
    as_planned(r)


def test_executors_that_are_others_now_end_it() -> None:
    """`storm rebalance` in the middle: the plug-in sets the plan aside."""
    r = Rolling()
    r.looks(8)
    r.checked = False
    r.say("fallback", "EXECUTORS_CHANGED")
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "DISTURBED"


def test_trouble_with_the_plan_before_is_not_ours() -> None:
    r = Rolling()
    r.say("rejected", "SLOT_OCCUPIED")
    r.until_ended()
    as_planned(r)


def test_ports_that_something_used_just_now_are_left_alone_where_others_are_free() -> None:
    r = Rolling()
    facts = r.facts()

    def ports(*free: int) -> list[tuple[str, int]]:
        found: list[Worker] = placement(r.rollout, facts, {n: list(free) for n in "abcd"})
        return sorted((w.supervisor, w.port) for w in found)

    assert ports(6700, 6701, 6702) == [("a", 6700), ("c", 6700), ("c", 6701)]
    assert ports(6700, 6702) == [("a", 6700), ("c", 6700), ("c", 6702)]
    staying = msgspec.structs.replace(r.rollout.stage, workers=[worker("b", 6700, 2, 3)])
    r.rollout = msgspec.structs.replace(r.rollout, steps=[staying])
    assert ports(6700, 6701) == [("a", 6700), ("b", 6701), ("c", 6700)]
    assert ports(6700) == [("a", 6700), ("b", 6700), ("c", 6700)]


@pytest.mark.parametrize("change", [lambda m: m, lambda m: msgspec.structs.replace(m, paused_by="ops")])
def test_what_is_over_stays_over(change: Callable[[Rollout], Rollout]) -> None:
    r = whole()
    r.rollout = change(r.rollout)
    assert r.look() is None


@pytest.mark.parametrize("make", [Rolling, handing_over])
def test_a_clock_that_is_set_back_by_an_hour_holds_nothing_up(make: Callable[[], Rolling]) -> None:
    """Whenever that is; the leader may be another one, whose clock is behind."""
    undisturbed = make()
    undisturbed.until_ended()
    for at_s in range(1, undisturbed.now_s):
        r = make()
        r.looks(at_s)
        r.set_back_s = 3600
        r.until_ended(at_most_s=2 * LOOKS)
        r.everybody_gets_tuples()
        assert r.rollout.outcome == "DONE", at_s


@pytest.mark.parametrize("make", [Rolling, handing_over])
@pytest.mark.parametrize("by_s", [-3600, 3600])
def test_times_that_are_shifted_with_the_clock_end_nothing_earlier_or_later(
    make: Callable[[], Rolling], by_s: int
) -> None:
    undisturbed = make()
    undisturbed.until_ended()
    for at_s in range(1, undisturbed.now_s):
        r = make()
        r.looks(at_s)
        r.set_back_s = -by_s
        r.rollout = r.rollout.shifted(by_s * 1000)
        r.routes = None if r.routes is None else r.routes.shifted(by_s * 1000)
        r.until_ended(at_most_s=LOOKS)
        r.everybody_gets_tuples()
        assert (r.rollout.outcome, r.now_s) == ("DONE", undisturbed.now_s), at_s
