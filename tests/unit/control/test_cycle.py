"""The page on which the stages meet: order of urgency, one situation after the other, nothing lost by a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.situation import Situation
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import Outcome
from stormpilot.messages.core import encode
from stormpilot.messages.settings import PauseSetting
from stormpilot.model.values import Model, Plan
from stormpilot.operate import Operator

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
BESIDE: Slots = {("a", 6701): (1, 4, 6), ("b", 6701): (2, 3, 5)}


def skipping(reason: Reason, seen: list[list[str]]) -> Callable[[Situation], Verdict | None]:
    """A proposer that decides one topology at a time; `seen` are those that were undecided at each call."""

    def propose(situation: Situation) -> Verdict | None:
        undecided = sorted(situation.undecided)
        seen.append(undecided)
        if not undecided:
            return None
        return Verdict.without_plan({undecided[0]: skip(undecided[0], reason, "")}, situation.memory)

    return propose


@pytest.fixture
def two() -> tuple[World, str, str]:
    w = World("a", "b")
    return w, w.submit(HERE), w.submit(BESIDE, name="wordcount")


def test_a_proposer_is_asked_again_in_the_situation_that_its_verdict_led_to(two: tuple[World, str, str]) -> None:
    w, first, second = two
    seen: list[list[str]] = []
    w.cycle.proposers = (skipping(Reason.PAUSED, seen), skipping(Reason.COOL_DOWN, seen))
    report = w.cycle.run(w.cycle.observer.observe(w.now_ms))
    assert seen == [[first, second], [second], [], []]
    assert {d.reason for d in report.decisions.values()} == {Reason.PAUSED}


def test_a_verdict_that_decides_nothing_new_ends_the_cycle_instead_of_going_on_for_ever(
    two: tuple[World, str, str],
) -> None:
    w, first, _ = two
    again = Verdict.without_plan({first: skip(first, Reason.PAUSED, "")}, w.cycle.memory)
    w.cycle.proposers = (lambda situation: again,)
    with pytest.raises(ValueError, match="decides nothing new"):
        w.cycle.run(w.cycle.observer.observe(w.now_ms))


def test_placements_of_a_verdict_are_reserved_for_the_rest_of_the_cycle(two: tuple[World, str, str]) -> None:
    w, first, second = two
    situation = w.situation()
    decision = Decision(first, "publish", Reason.GAIN, moved_executors=6)
    placement = plan_in(situation.model, {first: {("b", 6703): (1, 2, 3, 4, 5, 6)}}).topologies[0]
    after = situation.after(Outcome({first: decision}, situation.memory, placements={first: placement}))
    (b,) = (s for s in after.part_for({second}).supervisors if s.id == "b")
    assert b.slots == [6701, 6702]
    assert after.slot_holders(msgspec.structs.replace(placement, id=second)) == {
        ("b", 6703): "flights, whose plan is on its way"
    }
    (b,) = (s for s in after.part_for({first}).supervisors if s.id == "b")
    assert b.slots == [6700, 6702, 6703], "its own"
    assert situation.on_their_way == {}, "a situation never changes"


def test_events_of_a_cycle_that_failed_are_in_the_next_report(two: tuple[World, str, str]) -> None:
    w, first, _ = two
    w.tell(40)
    w.wanted = {first: {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}}
    w.tell(10)
    w.pass_time(10)
    proposers, w.cycle.proposers = w.cycle.proposers, (failing,)
    with pytest.raises(RuntimeError):
        w.cycle.run(w.cycle.observer.observe(w.now_ms))
    w.cycle.proposers = proposers
    report = w.cycle.run(w.cycle.observer.observe(w.now_ms))
    assert [(c.topology, c.status.state) for c in report.status_changes] == [("flights", "applied")]
    assert w.cycle.run(w.cycle.observer.observe(w.now_ms)).status_changes == []


def failing(situation: Situation) -> Verdict | None:
    raise RuntimeError("a fault of ours")


def test_drained_topologies_leave_one_after_the_other(two: tuple[World, str, str]) -> None:
    w, first, second = two
    w.supervisors("a", "b", "c")
    w.tell(40)
    w.planner = away_from_b
    operate.drain(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "host-b")  # type: ignore[arg-type]
    w.tell(10)
    assert (w.decision(first).reason, w.decision(first).action) == (Reason.DRAIN, "publish")
    assert w.decision(second).reason is Reason.WAITING_FOR_DRAIN
    w.zookeeper.put(w.paths.pause("wordcount"), encode(PauseSetting()))
    w.tell(10)
    assert w.decision(second).reason is Reason.PAUSED, "a refusal is told before the wait"


def away_from_b(model: Model) -> Plan:
    wanted = {}
    for t in model.topologies:
        (port, *_) = (p for s in model.supervisors if s.id == "c" for p in s.slots)
        at = {a.start: (a.supervisor, a.port) for a in t.assignment}
        slots: dict[tuple[str, int], tuple[int, ...]] = {}
        for task, slot in sorted(at.items()):
            slot = ("c", port) if slot[0] == "b" else slot  # noqa: PLW2901
            slots[slot] = (*slots.get(slot, ()), task)
        wanted[t.id] = slots
    return plan_in(model, wanted)


def test_a_report_and_a_situation_cannot_be_changed(two: tuple[World, str, str]) -> None:
    w, _, _ = two
    report, situation = w.cycle.run(w.cycle.observer.observe(w.now_ms)), w.situation()
    with pytest.raises(AttributeError):
        report.at_ms = 0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        situation.config = replace(situation).config  # type: ignore[misc]
