"""Limits of a rollout and the plans that it takes back: what is waited for, how long, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.rolling import AFTER, BEFORE, CONFIG, WORK, Rolling, begun, worker
from stormpilot.messages.core import BasedOn, ExecutorPart
from stormpilot.messages.rollouts import RolloutStepPart, workers_of
from stormpilot.rollout.facts import Facts
from stormpilot.rollout.state_machine import given_back, next_of


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
    r.looks(30)
    assert not any(n.withdraw for n in r.written)
    assert not {2, 3} & r.active()
    r.looks(1)
    assert [n.withdraw for n in r.written][-1]
    assert (r.rollout.phase, r.active()) == ("ready", frozenset(WORK))
    r.held, r.shim = "", ""
    assert done(r)


@pytest.mark.parametrize("state", ["moving", "applied"])
def test_a_plan_that_the_plug_in_carries_out_is_not_taken_back(state: str) -> None:
    """What runs just then is no plan: executors have no slot, or the snapshot is the one before."""
    r = in_phase("moving", shim=state)
    r.looks(r.apply_s)
    now, m = r.facts(), r.rollout
    assert now.status is not None and (now.status.state, now.status.plan_id) == (state, m.standing_plan_id)
    stopped = replace(now, held="paused", forbidden_target="its target is drained", now_ms=m.since_ms + 31_000)
    assert next_of(m, stopped, CONFIG) is None
    assert not given_back(m, now, "OVERTAKEN", "by another plan").withdraw
    late = next_of(m, replace(now, now_ms=m.since_ms + 41_000), CONFIG)
    assert late is not None
    assert (late.rollout.phase, late.rollout.outcome, late.withdraw) == ("returning", "TOO_LATE", False)
    assert late.rollout.text == "the plan of step 1 was not applied within 41 s"
    assert late.rollout.since_ms == m.since_ms + 41_000, "tasks have their time to come back from then on"

    before = replace(stopped, status=msgspec.structs.replace(now.status, plan_id="p-0"))
    back = next_of(m, before, CONFIG)
    assert back is not None and back.withdraw
    assert given_back(m, before, "OVERTAKEN", "by another plan").withdraw


def test_a_plan_is_applied_once_its_executors_run_where_it_says() -> None:
    """The plug-in's status and the snapshot of the topology are two znodes."""
    r = in_phase("moving", shim="silent")
    r.say("applied")
    assert next_of(r.rollout, r.facts(), CONFIG) is None
    said, r.status = r.status, None
    r.workers = r.plan_workers
    assert next_of(r.rollout, r.facts(), CONFIG) is None
    r.status = said
    found = next_of(r.rollout, r.facts(), CONFIG)
    assert found is not None
    assert found.rollout.applied_at_ms == r.facts().now_ms


def test_tasks_that_do_not_restart_after_all_get_their_tuples_back_at_once() -> None:
    r = in_phase("moving", shim="silent")
    facts = r.facts()
    r.write(given_back(r.rollout, facts, "OVERTAKEN", "by another plan"), facts)
    since_s, never = r.now_s, replace(r.facts(), alive=frozenset())
    assert next_of(r.rollout, replace(never, now_ms=facts.now_ms + 40_000), CONFIG) is None
    late = next_of(r.rollout, replace(never, now_ms=facts.now_ms + 40_001), CONFIG)
    assert late is not None and late.routes is not None
    assert late.rollout.phase == "ended", "nor do they wait for ever for a report"
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.now_s - since_s == 1, "a look sees that they report"


def test_a_step_waits_for_its_interval_and_the_first_one_does_not() -> None:
    r = Rolling()
    r.looks(1)
    assert r.rollout.phase == "draining"
    while (r.rollout.step, r.rollout.phase) != (1, "ready"):
        r.look()
    since_s = r.now_s
    while r.rollout.phase == "ready":
        r.look()
    assert r.now_s - since_s == 2


def test_a_step_gives_up_after_its_time_without_spare_capacity_alone() -> None:
    """An hour of a pause or of a blackout is no time without spare capacity."""
    r = Rolling(held="a blackout")
    r.looks(3600)
    assert r.rollout.text == "held: a blackout"
    r.held, r.lacking = "", "full"
    r.looks(31)
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
    behind_ms = r.rollout.since_ms - 10_000
    assert next_of(r.rollout, replace(facts, now_ms=behind_ms), CONFIG) is None
    found = next_of(r.rollout, replace(facts, now_ms=behind_ms - 1), CONFIG)
    assert found is not None
    assert found.rollout.since_ms == behind_ms - 1


def test_a_task_that_restarted_is_known_by_the_begin_of_its_process() -> None:
    """In a container every process has the same number; a task that does not report has not restarted."""
    r = in_phase("moving")
    while r.rollout.applied_at_ms is None:
        r.look()
    now, before = r.facts(), r.rollout.processes
    assert {p.task for p in before} == {2, 3}
    for unchanged in (before, before[:1], []):
        assert next_of(r.rollout, replace(now, processes=unchanged), CONFIG) is None
    new = [msgspec.structs.replace(p, start_ms=p.start_ms + 1) for p in before]
    found = next_of(r.rollout, replace(now, processes=new), CONFIG)
    assert found is not None
    assert found.rollout.reported_at_ms == now.now_ms


@pytest.mark.parametrize("phase", ["ready", "draining", "moving"])
def test_executors_and_places_that_are_others_now_end_it(phase: str) -> None:
    r = in_phase(phase, shim="silent")
    by_d = RolloutStepPart(workers=[worker("d", 6700, 2, 3)], away=[2, 3])
    r.rollout = msgspec.structs.replace(r.rollout, steps=[by_d, *r.rollout.steps[1:]])
    now = r.facts()
    *most, last = now.snapshot.executors
    unplaced = msgspec.structs.replace(last, supervisor=None, port=None)
    for facts, text in (
        (with_executors(now, most), "the executors of the topology are others now"),
        (with_executors(now, [*most, unplaced]), "1 executor has no slot on a live supervisor"),
        (replace(now, supervisors=now.supervisors - {"d"}), "supervisor d is gone"),
        (replace(now, forbidden_target="its target is drained"), "its target is drained"),
    ):
        found = next_of(r.rollout, facts, CONFIG)
        assert found is not None
        assert (found.rollout.outcome, found.rollout.text) == ("DISTURBED", text)
        assert found.rollout.phase == ("ended" if phase == "ready" else "returning")


def test_a_rollout_that_does_not_know_the_number_of_workers_goes_on_where_that_is_changed() -> None:
    """It was begun by an earlier version."""
    m = begun()
    plan = msgspec.structs.replace(m.entry.plan, based_on=BasedOn())
    r = Rolling(rollout=msgspec.structs.replace(m, entry=msgspec.structs.replace(m.entry, plan=plan)), wanted=2)
    assert done(r)


def with_executors(facts: Facts, executors: list[ExecutorPart]) -> Facts:
    return replace(facts, snapshot=msgspec.structs.replace(facts.snapshot, executors=executors))


def test_a_plan_before_the_first_step_that_is_disturbed_is_repaired_first() -> None:
    r = Rolling()
    r.say("degraded", "SUPERVISOR_GONE")
    found = next_of(r.rollout, r.facts(), CONFIG)
    assert found is not None
    assert (found.rollout.phase, found.rollout.outcome) == ("ended", "DISTURBED")


def test_a_task_that_is_to_stand_in_for_good_has_to_report() -> None:
    step = RolloutStepPart(workers=[], away=[2], stand_ins=[5], switches=[(2, 5)])
    r = Rolling(rollout=msgspec.structs.replace(begun(), steps=[step]))
    now = replace(r.facts(), now_ms=1_000)
    there = [p for p in now.processes if p.task != 5]
    found = next_of(r.rollout, replace(now, processes=there), CONFIG)
    assert found is not None and found.routes is None
    assert found.rollout.text == "no spare capacity: task 5, which is to stand in for good, has not reported"


def test_a_plan_that_is_refused_and_may_fit_later_is_withdrawn() -> None:
    """The plug-in tries some of them again: its tasks have their tuples again by then."""
    r = Rolling(shim="rejected")
    r.until_ended()
    r.shim = ""
    r.runs_its_plan()
    assert workers_of(r.workers) == workers_of(BEFORE)


def test_a_plan_that_nimbus_has_not_applied_yet_is_withdrawn_where_a_node_of_a_later_step_is_lost() -> None:
    after = [BEFORE[0], worker("c", 6701, 2, 3), worker("d", 6701, 4, 5)]
    steps = [RolloutStepPart(workers=[after[1]], away=[2, 3]), RolloutStepPart(workers=[after[2]], away=[4, 5])]
    entry = begun().entry
    entry = msgspec.structs.replace(entry, plan=msgspec.structs.replace(entry.plan, workers=after))
    r = Rolling(rollout=msgspec.structs.replace(begun(), entry=entry, steps=steps), apply_s=10)
    while r.rollout.phase != "moving":
        r.look()
    r.looks(2)
    r.live.discard("d")
    r.until_ended()
    r.everybody_gets_tuples()
    assert (r.rollout.outcome, r.rollout.text) == ("DISTURBED", "supervisor d is gone")
    r.runs_its_plan()


def test_a_step_that_another_leader_published_is_published_anew() -> None:
    """The plug-in takes no plan of an epoch that is over, and no round came between the two leaders."""
    r = Rolling(shim="rejected")
    while r.rollout.phase != "moving":
        r.look()
    before = r.plan_id
    r._published_s = None
    r.say("rejected", "EPOCH_OLD")
    r.shim = ""
    r.look()
    assert r.plan_id != before
    r.until_ended()
    r.everybody_gets_tuples()
    assert r.rollout.outcome == "DONE"
