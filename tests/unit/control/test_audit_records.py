"""Audit records: one for each plan and request, in the same transaction, with who asked and what became of it."""

from __future__ import annotations

import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.audit_records import AuditRecords
from stormpilot.control.situation import approved
from stormpilot.decide.decision import Decision
from stormpilot.decide.judge import Verdict
from stormpilot.decide.origin import PlanOrigin
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import HistoryEntry, decode
from stormpilot.messages.settings import AuditRecord
from stormpilot.operate import Operator
from stormpilot.zookeeper.transaction import Append, Delete, Step

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
NEAR: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}


@pytest.fixture
def world() -> tuple[World, str, AuditRecords]:
    w = World("a", "b")
    t = w.submit(HERE)
    return w, t, AuditRecords(w.cycle.publisher, "n1:7", lambda: "7")


def entry(w: World, t: str) -> HistoryEntry:
    """A plan that was published."""
    situation = w.situation()
    model = situation.part_for({t})
    decision = Decision(t, "publish", Reason.GAIN, "because", moved_executors=2)
    verdict = Verdict.of_one(decision, plan_in(model, {t: NEAR}), situation.memory, model)
    return w.cycle.dispatcher.publish(approved(verdict, situation), situation).plans[t]


def record(steps: list[Step]) -> AuditRecord:
    (append,) = (s for s in steps if isinstance(s, Append))
    return decode(append.data, AuditRecord, "audit")


def test_a_plan_of_our_own_is_in_the_name_of_the_controller(world: tuple[World, str, AuditRecords]) -> None:
    w, t, records = world
    situation = w.situation()
    published = entry(w, t)
    r = record(records.of_plan(published, PlanOrigin(), "5eed", situation))
    assert (r.who, r.verb, r.target, r.why) == ("n1:7", "publish", "flights", "GAIN: because")
    assert (r.before, r.after, r.plan_id) == (None, published.plan.plan_id, published.plan.plan_id)
    assert r.result == f"published {published.plan.plan_id}, 2 executors move"
    assert r.inputs_hash == "5eed"


def test_a_request_is_closed_at_the_version_that_was_answered(world: tuple[World, str, AuditRecords]) -> None:
    w, t, records = world
    olga = Operator(w.zookeeper, w.paths, "olga", why="new disk", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.replan(olga, "flights")
    situation = w.situation()
    answered = situation.requests[t]
    steps = records.of_request(t, answered, "done", situation)
    deletes = [s for s in steps if isinstance(s, Delete)]
    assert [(d.path, d.version) for d in deletes] == [
        (w.paths.request(t), situation.snapshot.settings.requests[t].version)
    ]
    r = record(steps)
    assert (r.who, r.verb, r.why, r.result, r.carried_out_by) == ("olga", "replan", "new disk", "done", "n1:7")
