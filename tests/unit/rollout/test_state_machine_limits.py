"""Limits of a rollout and the plans that it takes back: what is waited for, how long, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from doubles.rolling import AFTER, CONFIG, WORK, Rolling, worker
from stormpilot.messages.rollouts import workers_of
from stormpilot.rollout.state_machine import CLOCKS_APART_MS, HELD_S, given_back, next_of


def in_phase(phase: str, **changes: object) -> Rolling:
    r = Rolling(**changes)  # type: ignore[arg-type]
    while r.rollout.phase != phase:
        r.look()
    return r


def done(r: Rolling) -> bool:
    r.until_ended()
    r.everybody_gets_tuples()
    return r.rollout.outcome == "DONE" and workers_of(r.workers) == workers_of(AFTER)


def test_a_plan_that_is_held_for_a_moment_is_not_taken_back() -> None:
    """The plug-in may be applying it just then: its tasks would get tuples while they restart."""
    r = in_phase("moving", shim="silent")
    r.held = "paused by an operator"
    r.looks(int(HELD_S))
    assert not any(n.withdraw for n in r.written)
    assert not {2, 3} & r.active()
    r.looks(1)
    assert [n.withdraw for n in r.written][-1]
    assert (r.rollout.phase, r.active()) == ("ready", frozenset(WORK))
    r.held, r.shim = "", ""
    assert done(r)


def test_a_plan_that_the_plug_in_is_carrying_out_is_not_taken_back() -> None:
    """Slots are free and executors without one: what runs just then is no plan."""
    r = in_phase("moving", shim="moving")
    r.looks(r.apply_s)
    now, m = r.facts(), r.rollout
    assert now.status is not None and (now.status.state, now.status.plan_id) == ("moving", m.standing_plan_id)
    stopped = replace(now, held="paused", forbidden_target="its target is drained", now_ms=m.since_ms + 31_000)
    assert next_of(m, stopped, CONFIG) is None
    assert not given_back(m, now, "OVERTAKEN", "by another plan").withdraw
    late = next_of(m, replace(now, now_ms=m.since_ms + 41_000), CONFIG)
    assert late is not None
    assert (late.rollout.phase, late.rollout.outcome, late.withdraw) == ("returning", "TOO_LATE", False)
    assert late.rollout.text == "the plan of step 1 was not applied within 41 s"

    before = replace(stopped, status=msgspec.structs.replace(now.status, plan_id="p-0"))
    back = next_of(m, before, CONFIG)
    assert back is not None and back.withdraw
    assert given_back(m, before, "OVERTAKEN", "by another plan").withdraw


def test_a_plan_is_applied_once_its_executors_run_where_it_says() -> None:
    """The plug-in's status and the snapshot of the topology are two znodes."""
    r = in_phase("moving", shim="silent")
    r.say("applied")
    assert next_of(r.rollout, r.facts(), CONFIG) is None
    r.workers = r.plan_workers
    found = next_of(r.rollout, r.facts(), CONFIG)
    assert found is not None
    assert found.rollout.applied_at_ms == r.facts().now_ms


def test_tasks_that_do_not_restart_after_all_get_their_tuples_back_at_once() -> None:
    r = in_phase("moving", shim="silent")
    facts = r.facts()
    r.write(given_back(r.rollout, facts, "OVERTAKEN", "by another plan"), facts)
    since_s = r.now_s
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.now_s - since_s == 2, "a look sees that they report"


def test_a_step_waits_for_its_interval_and_the_first_one_does_not() -> None:
    r = Rolling()
    r.looks(1)
    assert r.rollout.phase == "draining"
    while (r.rollout.step, r.rollout.phase) != (1, "ready"):
        r.look()
    since_s = r.now_s
    while r.rollout.phase == "ready":
        r.look()
    assert r.now_s - since_s == CONFIG.step_interval_s


def test_a_step_gives_up_after_its_time_without_spare_capacity_alone() -> None:
    """An hour of a pause or of a blackout is no time without spare capacity."""
    r = Rolling(held="a blackout")
    r.looks(3600)
    assert r.rollout.text == "held: a blackout"
    r.held, r.lacking = "", "full"
    r.looks(1 + int(CONFIG.capacity_timeout_s))
    assert (r.rollout.phase, r.rollout.text) == ("ready", "no spare capacity: full")
    r.looks(1)
    assert (r.rollout.phase, r.rollout.outcome) == ("ended", "GAVE_UP")
    r.everybody_gets_tuples()


def test_executors_that_moved_while_tasks_drained_end_it_before_another_worker_restarts() -> None:
    """4 came to the worker of 2 and 3, which the step starts anew: it would restart under its tuples."""
    r = in_phase("draining")
    r.workers = [worker("a", 6700, 1), worker("b", 6700, 2, 3, 4), worker("c", 6700, 5)]
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.text) == ("DISTURBED", "executors moved while tasks drained")
    assert not any(n.publish for n in r.written)


def test_a_clock_that_is_some_seconds_behind_changes_no_time() -> None:
    r = in_phase("moving")
    facts = r.facts()
    behind_ms = r.rollout.since_ms - CLOCKS_APART_MS
    assert next_of(r.rollout, replace(facts, now_ms=behind_ms), CONFIG) is None
    found = next_of(r.rollout, replace(facts, now_ms=behind_ms - 1), CONFIG)
    assert found is not None
    assert found.rollout.since_ms == behind_ms - 1
