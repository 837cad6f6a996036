"""Dispatch of verdicts: plans, proposals and rollouts, with their audit record, all or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doubles import rolling_jobs
from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.situation import Situation, approved
from stormpilot.decide.decision import Action, Decision
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import Outcome
from stormpilot.messages.core import encode
from stormpilot.operate import Operator

SPREAD: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
NEAR: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}


@pytest.fixture
def world() -> tuple[World, str]:
    w = World("a", "b")
    return w, w.submit(SPREAD)


def verdict(w: World, t: str, situation: Situation, action: Action = "publish", slots: Slots = NEAR) -> Verdict:
    decision = Decision(t, action, Reason.GAIN, "because", moved_executors=2)
    model = situation.part_for({t})
    return Verdict.of_one(decision, plan_in(model, {t: slots}), situation.memory, model)


def dispatched(w: World, t: str, action: Action = "publish") -> Outcome:
    situation = w.situation()
    return w.cycle.dispatcher.publish(approved(verdict(w, t, situation, action), situation), situation)


def audited(w: World) -> list[tuple[str, str, str]]:
    operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    return [(r.verb, r.who, r.result) for r in operate.audit(operator)]


def test_a_plan_is_published_with_its_history_its_move_and_its_audit_record(world: tuple[World, str]) -> None:
    w, t = world
    outcome = dispatched(w, t)
    entry = outcome.plans[t]
    assert w.plan(t) == entry.plan
    assert w.history(t) == [entry]
    assert (w.moves(t).phase, w.moves(t).plan_id) == ("moving", entry.plan.plan_id)
    assert outcome.moves == {t: w.moves(t)}
    assert audited(w) == [("publish", "story", f"published {entry.plan.plan_id}, 2 executors move")]


def test_a_plan_names_the_snapshot_and_the_number_of_workers_that_it_was_made_for(world: tuple[World, str]) -> None:
    w, t = world
    situation = w.situation()
    w.rebalance(t, 7, SPREAD)
    outcome = w.cycle.dispatcher.publish(approved(verdict(w, t, situation), situation), situation)
    before, based_on = situation.snapshot.topologies[t], outcome.plans[t].plan.based_on
    assert (based_on.snapshot_version, based_on.workers) == (before.version, before.workers)
    assert before.workers != 7


def test_the_history_keeps_what_ran_before_the_first_plan_alone(world: tuple[World, str]) -> None:
    w, t = world
    former = dispatched(w, t).plans[t].former
    assert {(x.supervisor, x.port): tuple(start for start, _ in x.executors) for x in former} == SPREAD
    assert w.history(t)[0].former == former
    assert dispatched(w, t).plans[t].former == [], "the plan before it has that"


def test_a_proposal_lies_where_nobody_applies_it(world: tuple[World, str]) -> None:
    w, t = world
    outcome = dispatched(w, t, "advise")
    found = w.proposal(t)
    assert found is not None
    assert found.reason == "GAIN"
    assert (w.plan(t), outcome.plans, audited(w)) == (None, {}, [])


def test_a_plan_that_somebody_else_changed_meanwhile_is_not_published(world: tuple[World, str]) -> None:
    w, t = world
    situation = w.situation()
    w.zookeeper.put(w.paths.plan(t), b"written by somebody else")
    outcome = w.cycle.dispatcher.publish(approved(verdict(w, t, situation), situation), situation)
    assert outcome.decisions[t].reason is Reason.NOT_PUBLISHED
    assert (outcome.plans, w.history(t), audited(w)) == ({}, [], [])


def test_a_plan_that_needs_approval_becomes_a_proposal(world: tuple[World, str]) -> None:
    w, t = world
    situation = w.situation()
    states = {t: replace(situation.topologies[t], approval=True)}
    situation = replace(situation, topologies=states)
    outcome = w.cycle.dispatcher.publish(approved(verdict(w, t, situation), situation), situation)
    assert outcome.decisions[t].reason is Reason.APPROVAL_NEEDED
    assert w.plan(t) is None
    assert w.proposal(t) is not None


def test_an_approved_plan_keeps_its_id_and_closes_its_request(world: tuple[World, str]) -> None:
    w, t = world
    dispatched(w, t, "advise")
    waiting = w.proposal(t)
    assert waiting is not None
    operate.approve(Operator(w.zookeeper, w.paths, "olga", now_ms=w.now_ms), "flights")  # type: ignore[arg-type]
    situation = w.situation()
    asked = w.cycle.request_handler.propose(situation)
    assert asked is not None
    outcome = w.cycle.dispatcher.publish(approved(asked, situation), situation)
    entry = outcome.plans[t]
    assert (entry.plan.plan_id, entry.approved_by) == (waiting.plan.plan_id, "olga")
    assert w.zookeeper.read([w.paths.request(t), w.paths.proposal(t)]) == [None, None]
    assert audited(w)[-1] == ("approve", "olga", f"published {waiting.plan.plan_id}, 2 executors move")


def test_a_rollout_is_written_instead_of_its_plan() -> None:
    w = World("a", "b", "c")
    t = w.submit({("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("c", 6700): (3,)}, routed=True)
    w.tell(40)
    situation = w.situation()
    together: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("a", 6702): (3,)}
    outcome = w.cycle.dispatcher.publish(approved(verdict(w, t, situation, slots=together), situation), situation)
    decision, rollout = outcome.decisions[t], w.rollout(t)
    assert rollout is not None
    assert rollout.entry == outcome.plans[t]
    assert w.plan(t) is None, "its steps publish plans"
    assert decision.strategy is not None
    assert decision.strategy.how == "rolling"
    assert [verb for verb, _, _ in audited(w)] == ["publish"]
    w.zookeeper.put(w.paths.rollout(t), encode(rollout))
    again = w.cycle.dispatcher.publish(approved(verdict(w, t, situation, slots=together), situation), situation)
    assert again.decisions[t].reason is Reason.NOT_PUBLISHED, "somebody else wrote one after it was read"


def test_a_plan_that_restarts_workers_ends_the_rollout_that_runs() -> None:
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t)
    situation = w.situation()
    found = verdict(w, t, situation, slots=rolling_jobs.SOURCE_TOO)
    outcome = w.cycle.dispatcher.publish(approved(found, situation), situation)
    plan_id, rollout = outcome.plans[t].plan.plan_id, w.rollout(t)
    published = w.plan(t)
    assert published is not None and published.plan_id == plan_id
    assert rollout is not None
    assert (rollout.outcome, rollout.text) == ("OVERTAKEN", f"by plan {plan_id}")


@pytest.mark.parametrize(("passed_s", "denied"), [(-1, False), (0, True), (599, True), (600, False)])
def test_a_topology_of_which_a_znode_was_refused_is_left_out_for_ten_minutes_and_not_by_a_clock_that_was_set_back(
    world: tuple[World, str], passed_s: int, denied: bool
) -> None:
    w, t = world
    situation = w.situation()
    w.zookeeper.put(w.paths.moves(t), b"")
    w.zookeeper.denied.add(w.paths.moves(t))
    outcome = w.cycle.dispatcher.publish(approved(verdict(w, t, situation), situation), situation)
    assert outcome.decisions[t].reason is Reason.NOT_PUBLISHED
    assert set(w.cycle.dispatcher.denied(w.now_ms + passed_s * 1000)) == ({t} if denied else set())
