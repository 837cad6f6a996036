"""Stories of planning again: not while nothing changes, at once when something does."""

from __future__ import annotations

import msgspec
import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import HALF, NEAR, SPREAD, World
from stormpilot import operate
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ModeSetting
from stormpilot.model.values import Model, Plan
from stormpilot.operate import Operator


class Counting:
    """A planner that finds nothing better, and counts how often it is asked."""

    def __init__(self, w: World) -> None:
        self.asked = 0
        self._world = w

    def __call__(self, model: Model) -> Plan:
        self.asked += 1
        return plan_in(model, self._world.wanted)


def world_without_gain(max_skips: int) -> tuple[World, str, Counting]:
    """A job that nothing better is found for."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.max_skips = max_skips
    w.new_leader()
    w.planner = planner = Counting(w)
    return w, t, planner


def test_the_planner_is_not_asked_again_while_nothing_changes_but_for_a_bounded_time() -> None:
    w, t, planner = world_without_gain(max_skips=3)
    w.tell(40)
    assert w.decision(t).reason == "NO_BETTER_PLAN"
    assert "nothing has changed since" in w.decision(t).text
    assert planner.asked == 1
    w.tell(40)
    assert planner.asked == 2, "three cycles without a planner, then one with it"


@pytest.mark.parametrize("change", ["traffic", "settings", "asked"])
def test_the_planner_is_asked_again_when_something_changes(change: str) -> None:
    w, _, planner = world_without_gain(max_skips=100)
    w.tell(60)
    assert planner.asked == 1
    if change == "traffic":
        w.traffic = {pair: 2 * tps for pair, tps in w.traffic.items()}
    elif change == "settings":
        w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, payback_s=60.0)))
    else:
        operate.replan(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "flights")  # type: ignore[arg-type]
    w.tell(40)
    assert planner.asked >= 2


def quiet_world_with_proposal(
    max_skips: int = 5, *, spare: tuple[str, ...] = (), **decide: object
) -> tuple[World, str, Counting]:
    """A job in mode advise with a proposal that nobody approves, and the planner that is asked from then on."""
    w = World("a", "b", *spare)
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, mode="advise", **decide)))
    w.max_skips = max_skips
    w.new_leader()
    t = w.submit(SPREAD)
    w.wanted = {t: NEAR}
    assert w.tell(40)[-1] == "GAIN"
    w.planner = planner = Counting(w)
    return w, t, planner


def test_proposal_stands_without_another_plan_while_nothing_changes() -> None:
    w, t, planner = quiet_world_with_proposal()
    assert w.tell(300) == ["GAIN"]
    assert planner.asked == 5, "30 cycles: one in six asks the planner"
    d = w.decision(t)
    assert (d.action, d.moved_executors) == ("advise", 2)
    assert w.proposal(t) is not None


def test_proposal_that_stands_keeps_its_id_and_says_so() -> None:
    w, t, _ = quiet_world_with_proposal(max_skips=100)
    first = w.proposal(t)
    w.tell(100)
    assert first is not None
    assert w.proposal(t) == first
    assert w.decision(t).text.endswith("; nothing has changed since")
    event, fields = w.reports[-1].sentence(0.0)
    assert (event, fields["topology"], fields["reason"], fields["planner"]) == (
        "proposal stands",
        "flights",
        "GAIN",
        None,
    )


@pytest.mark.parametrize("change", ["traffic", "supervisor", "gone", "asked", "mode", "settings"])
def test_proposal_is_planned_anew_at_once_when_something_changes(change: str) -> None:
    w, t, planner = quiet_world_with_proposal(max_skips=100)
    decide = w.config.decide
    operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    w.tell(30)
    assert planner.asked == 0
    if change == "traffic":
        w.traffic = {pair: 2 * tps for pair, tps in w.traffic.items()}
        w.tell(30)
    elif change == "supervisor":
        w.supervisors("a", "b", "c")
    elif change == "gone":
        w.zookeeper.delete(w.paths.proposal(t))
    elif change == "asked":
        operate.replan(operator, "flights")
    elif change == "mode":
        w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="act")))
        assert w.tell(10) == ["GAIN"]
        assert w.plan(t) is not None
    else:
        w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(decide, payback_s=600.0)))
    w.tell(10)
    assert planner.asked >= 1


def test_proposal_is_planned_anew_at_once_when_a_supervisor_goes() -> None:
    w, _, planner = quiet_world_with_proposal(max_skips=100, spare=("c",))
    w.tell(30)
    assert planner.asked == 0
    w.supervisors("a", "b")
    w.tell(10)
    assert planner.asked == 1


def test_proposal_is_planned_anew_before_it_is_too_old_to_be_approved() -> None:
    w, t, planner = quiet_world_with_proposal(max_skips=100, approval_max_age_s=60.0)
    for _ in range(30):
        w.tell(10)
        standing = w.proposal(t)
        assert standing is not None
        assert w.now_ms - standing.plan.created_at_ms < 60_000
    assert planner.asked == 5


def test_overload_that_has_lasted_is_planned_at_once_where_plans_are_only_proposed() -> None:
    w, t, _ = quiet_world_with_proposal(max_skips=100, overload_s=150.0)
    w.place(t, NEAR)
    w.wanted, w.cores = {t: HALF}, 0.55
    assert w.tell(120)[-1] == "NO_BETTER_PLAN"
    w.planner = planner = Counting(w)
    assert w.tell(200) == ["NO_BETTER_PLAN", "OVERLOAD"]
    assert planner.asked == 1
    assert w.decision(t).text.endswith("; nothing has changed since")


def beside(slots: Slots) -> Slots:
    return {(supervisor, port + 1): executors for (supervisor, port), executors in slots.items()}


def test_proposals_that_trade_places_stand_while_nothing_changes() -> None:
    w = World("a", "b")
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, mode="advise")))
    w.max_skips = 100
    w.new_leader()
    first, second = w.submit(SPREAD), w.submit(beside(SPREAD), name="wordcount")
    w.wanted = {first: beside(NEAR), second: NEAR}
    w.tell(40)
    before = [w.proposal(t) for t in (first, second)]
    assert all(e is not None for e in before)
    w.planner = planner = Counting(w)
    w.tell(100)
    assert planner.asked == 0
    assert [w.proposal(t) for t in (first, second)] == before
    assert all(w.decision(t).text.endswith("; nothing has changed since") for t in (first, second))


def test_what_was_repaired_is_proposed_once_and_is_the_plan_when_it_is_approved() -> None:
    """Approval was refused, so it stayed degraded, and all that is in mode advise was planned anew in every cycle."""
    w = World("a", "b")
    t, other = w.submit(SPREAD), w.submit(beside(SPREAD), name="wordcount")
    w.wanted = {t: NEAR}
    w.tell(60)
    assert w.slots(t) == NEAR
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise")))
    w.zookeeper.put(w.paths.mode("wordcount"), encode(ModeSetting(mode="advise")))
    w.max_skips = 100
    w.new_leader()
    w.place(t, SPREAD, "degraded", "SUPERVISOR_LOST")
    w.wanted = {t: NEAR, other: beside(NEAR)}
    w.tell(60)
    proposed = [w.proposal(x) for x in (t, other)]
    assert [None if e is None else e.reason for e in proposed] == ["REPAIR", "GAIN"]
    w.tell(60)
    assert [w.proposal(x) for x in (t, other)] == proposed
    operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.approve(operator, t)
    w.tell(20)
    plan = w.plan(t)
    assert plan is not None
    assert plan.reason_code == "APPROVED"
    assert w.slots(t) == SPREAD
    w.tell(200)
    assert w.decision(t).reason == "GAIN"


def test_what_an_operator_asked_for_stands_though_another_plan_would_keep_what_runs() -> None:
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.wanted = {t: NEAR}
    w.tell(60)
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise")))
    w.max_skips = 100
    w.new_leader()
    w.place(t, SPREAD, "degraded", "SUPERVISOR_LOST")
    w.tell(60)
    operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.replan(operator, t)
    w.tell(10)
    asked_for = w.proposal(t)
    assert asked_for is not None
    assert asked_for.plan.reason_code == "GAIN"
    w.tell(60)
    assert w.proposal(t) == asked_for
