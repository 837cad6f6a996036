"""The clock of all hosts is set back by an hour: what waits, waits no longer than it may from then on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from doubles.rolling_jobs import begun, operator, world
from doubles.world import HALF, NEAR, SPREAD, World
from stormpilot import operate
from stormpilot.messages.core import encode
from stormpilot.observe.reader import Reader
from stormpilot.operate import Operator
from stormpilot.operate.plans import published_plan
from stormpilot.operate.views import proposals
from unit.control.test_request_handler import TO, pending, propose, results

HOUR_S = 3600


def configured(**decide: object) -> World:
    w = World("a", "b")
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, **decide)))
    return w


def set_back(w: World) -> None:
    """The leader begins anew, as it does then."""
    w.set_clock(-HOUR_S)
    w.new_leader()


def test_a_cool_down_and_the_check_of_an_effect_last_no_longer_than_they_are_configured() -> None:
    w = World("a", "b", settings="verify: {timeout_s: 60}\n")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    assert w.tell(20)[-1] == "COOL_DOWN"
    set_back(w)
    assert "COOL_DOWN" in w.tell(60)
    assert w.tell(110)[-1] not in {"COOL_DOWN", "MOVE_BEING_EVALUATED"}


def test_a_proposal_stays_valid_for_no_longer_than_it_may() -> None:
    w = configured(approve=["*"], approval_max_age_s=120.0)
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(10)
    first = w.proposal(t)
    set_back(w)
    w.tell(60)
    assert w.proposal(t) == first
    assert w.decision(t).reason == "APPROVAL_NEEDED"
    w.tell(120)
    second = w.proposal(t)
    assert second is not None
    assert w.now_ms - 120_000 <= second.plan.created_at_ms <= w.now_ms


def with_request(verb: Callable[[Operator, str], object], max_age: str) -> tuple[World, str]:
    """A request that waits for a plan that is on its way, written before the clock was set back."""
    w = configured(**{max_age: 120.0})
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted, w.apply_after_s = {t: NEAR}, 2 * HOUR_S
    w.tell(10)
    w.answer(t, "moving")
    propose(w, t, TO)
    verb(operator(w), "flights")
    set_back(w)
    return w, t


def test_an_approval_of_a_proposal_that_is_too_old_by_then_is_refused() -> None:
    """A plan that is on its way holds it up; the clock is set back before it is read."""
    w, t = with_request(operate.approve, "approval_max_age_s")
    w.tell(60)
    assert pending(w, t)
    w.tell(70)
    w.answer(t, "applied")
    w.tell(10)
    assert not pending(w, t)
    assert any("at most 120 s" in r for r in results(w)), results(w)


def test_a_request_stays_valid_for_no_longer_than_it_may() -> None:
    w, t = with_request(operate.replan, "request_max_age_s")
    w.tell(60)
    assert pending(w, t)
    w.tell(70)
    assert not pending(w, t)
    assert any("and void after 120 s" in r for r in results(w)), results(w)


def proposed_after_it_was_set_back() -> tuple[World, str]:
    """A plan of before is published, and a proposal is made that seems to be older."""
    w = configured(cool_down_s=30.0)
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(200)
    set_back(w)
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, approve=["*"])))
    w.traffic, w.wanted = {(1, 2): 10.0, (1, 3): 90.0, (2, 4): 90.0, (3, 4): 10.0}, {t: HALF}
    w.tell(60)
    assert w.decision(t).reason == "APPROVAL_NEEDED"
    return w, t


def test_a_proposal_is_approved_though_what_is_published_seems_to_be_newer() -> None:
    w, t = proposed_after_it_was_set_back()
    operate.approve(operator(w), "flights")
    w.tell(30)
    assert w.slots(t) == HALF


def test_a_proposal_is_shown_though_what_is_published_seems_to_be_newer() -> None:
    w, t = proposed_after_it_was_set_back()
    made = w.proposal(t)
    assert made is not None
    found = published_plan(w.zookeeper, w.paths, t, w.now_ms)  # type: ignore[arg-type]
    assert (found.plan.plan_id, found.proposal) == (made.plan.plan_id, True)
    seen = Reader(w.zookeeper, w.paths).read()  # type: ignore[arg-type]
    assert proposals(w.zookeeper, w.paths, seen) == {t: made}  # type: ignore[arg-type]


def test_a_proposal_stays_the_newest_when_what_is_published_is_signed_anew() -> None:
    w, t = proposed_after_it_was_set_back()
    w.tell(60 * 60 + 300)
    plan, made = w.plan(t), w.proposal(t)
    assert plan is not None
    assert made is not None
    assert made.plan.created_at_ms > plan.created_at_ms
    w.zookeeper.put(w.paths.plan(t), encode(plan))
    seen = Reader(w.zookeeper, w.paths).read()  # type: ignore[arg-type]
    assert proposals(w.zookeeper, w.paths, seen) == {t: made}  # type: ignore[arg-type]


def test_the_rest_after_a_rollout_that_was_aborted_lasts_as_long_as_a_hold() -> None:
    w, t = world()
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, discard_hold_s=120)))
    begun(w, t, "draining")
    operate.abort_rollout(operator(w), t)
    w.tell(60)
    assert w.decision(t).reason == "OPERATOR_HOLD"
    set_back(w)
    w.tell(60)
    assert w.decision(t).reason == "OPERATOR_HOLD"
    w.tell(80)
    assert w.decision(t).reason != "OPERATOR_HOLD"
