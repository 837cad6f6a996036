"""Drains: as little as possible moves beside what must leave, and who cannot leave is told why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from doubles import rolling_jobs
from doubles.wanted import Slots, plan_in
from doubles.world import World
from stormpilot import operate
from stormpilot.control.drains import DrainProposer
from stormpilot.control.situation import Situation
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import HistoryEntry, encode
from stormpilot.messages.settings import Hold, ModeSetting
from stormpilot.model.values import Infeasible, Model, Plan, Topology
from stormpilot.operate import Operator

HERE: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
AWAY: Slots = {("a", 6700): (1, 4, 6), ("c", 6700): (2, 3, 5)}


@pytest.fixture
def drained() -> tuple[World, str]:
    w = World("a", "b", "c")
    t = w.submit(HERE)
    w.tell(40)
    operate.drain(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "host-b")  # type: ignore[arg-type]
    return w, t


def proposer(w: World, t: str, answers: Callable[[int], bool]) -> tuple[DrainProposer, list[Model]]:
    """One whose planner finds a plan at the n-th question where `answers` says so; and what it was asked."""
    asked: list[Model] = []

    def planner(model: Model) -> Plan | Infeasible:
        asked.append(model)
        return plan_in(model, {t: AWAY}) if answers(len(asked)) else Infeasible(constraint="cpu", text="no room")

    w.planner = planner
    return next(p.__self__ for p in w.cycle.proposers if isinstance(getattr(p, "__self__", None), DrainProposer)), asked


def test_the_first_question_is_the_strictest_and_its_plan_is_taken(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: True)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (verdict.decisions[t].reason, verdict.decisions[t].action) == (Reason.DRAIN, "publish")
    assert len(asked) == 1


def test_where_the_rest_cannot_stand_still_it_may_keep_its_nodes_and_then_move(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: n == 3)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "publish"
    assert len({id(m) for m in asked}) == 3
    assert asked[0] != asked[1] != asked[2], "each question forbids less than the one before"


def test_who_cannot_leave_stays_and_is_told_why(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: False)
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "skip"
    assert "host-b" in verdict.decisions[t].text
    assert "no room" in verdict.decisions[t].text
    assert len(asked) == 3


def test_where_the_planner_fails_nobody_else_moves_for_it_and_it_is_asked_again(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: n > 1)
    answer, failing = w.planner, [True]

    def planner(model: Model) -> Plan | Infeasible:
        found = answer(model)
        if failing:
            failing.pop()
            raise RuntimeError("no answer 17 s after it began")
        return found

    w.planner = planner
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (verdict.decisions[t].reason, verdict.decisions[t].action) == (Reason.PLANNER_FAILED, "skip")
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert verdict.decisions[t].action == "publish"
    assert len(asked) == 2
    assert asked[0] == asked[1], "the strictest question both times"


def test_where_the_answer_breaks_a_constraint_a_looser_question_is_asked(drained: tuple[World, str]) -> None:
    w, t = drained
    drains, asked = proposer(w, t, lambda n: True)
    answer = w.planner

    def planner(model: Model) -> Plan | Infeasible:
        answer(model)
        nowhere: Slots = {("a", 6700): (1, 4, 6), ("z", 6700): (2, 3, 5)}
        return plan_in(model, {t: AWAY if len(asked) == 2 else nowhere})

    w.planner = planner
    verdict = drains.propose(w.situation())
    assert verdict is not None
    assert (len(asked), verdict.decisions[t].action) == (2, "publish")


def test_without_anybody_on_the_host_nothing_is_proposed(drained: tuple[World, str]) -> None:
    w, t = drained
    w.place(t, AWAY)
    situation: Situation = w.situation()
    drains, asked = proposer(w, t, lambda n: True)
    assert drains.propose(situation) is None
    assert asked == []


class Draining:
    """Jobs of which three executors each leave host b; `asked` are those that the planner was asked about."""

    def __init__(self, *names: str, max_skips: int = 0, mode: Literal["advise", "act"] = "advise") -> None:
        self.w = w = World("a", "b", "c", "d")
        w.max_skips = max_skips
        w.new_leader()
        w.planner = self._away
        self.asked: list[str] = []
        self.room = True
        self.ids = [
            w.submit({("a", 6700 + i): (1, 4, 6), ("b", 6700 + i): (2, 3, 5)}, name=n) for i, n in enumerate(names)
        ]
        for name in names:
            w.zookeeper.put(w.paths.mode(name), encode(ModeSetting(mode=mode)))
        w.tell(40)
        self.asked.clear()
        self.operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
        operate.drain(self.operator, "host-b")

    def proposals(self) -> list[HistoryEntry]:
        return [p for p in map(self.w.proposal, self.ids) if p is not None]

    def _away(self, model: Model) -> Plan | Infeasible:
        self.asked += [t.id for t in model.topologies]
        if not self.room:
            return Infeasible(constraint="cpu", text="no room")
        return plan_in(model, {t.id: self._placed(t, model) for t in model.topologies})

    def _placed(self, topology: Topology, model: Model) -> Slots:
        """What ran on b has the first slot that is free on c; one that runs nowhere, the first two."""
        free = [("c", p) for s in model.supervisors if s.id == "c" for p in s.slots]
        if not topology.assignment:
            return {free[0]: (1, 2, 3), free[1]: (4, 5, 6)}
        stays = next((a.supervisor, a.port) for a in topology.assignment if a.start == 1)
        there = next(((a.supervisor, a.port) for a in topology.assignment if a.supervisor == "c"), free[0])
        return {stays: (1, 4, 6), there: (2, 3, 5)}


def test_proposal_of_a_drain_stands_without_another_question_and_its_decision_stays() -> None:
    d = Draining("aaa", "bbb", "ccc")
    d.w.tell(10)
    before, decisions = d.proposals(), d.w.reports[-1].decisions
    assert sorted(d.asked) == d.ids
    assert {e.reason for e in before} == {"DRAIN"}
    assert len({(w.supervisor, w.port) for e in before for w in e.plan.workers}) == 6, "they fit together"
    d.w.tell(60)
    assert len(d.asked) == 3
    assert d.proposals() == before
    assert d.w.reports[-1].decisions == decisions
    assert d.w.reports[-1].sentence(0.0)[0] == "proposal stands"
    d.w.new_leader()
    d.w.tell(60)
    assert (len(d.asked), d.proposals()) == (3, before)


@pytest.mark.parametrize("change", ["why", "fit", "age", "asked", "gone"])
def test_proposal_of_a_drain_is_made_anew_where_it_does_not_stand(change: str) -> None:
    d = Draining("aaa")
    d.w.tell(10)
    (before,) = d.proposals()
    if change == "why":
        operate.drain(d.operator, "host-a")
    elif change == "fit":
        d.w.submit({("c", 6700): (1, 2, 3, 4, 5, 6)}, name="zzz")
    elif change == "age":
        d.w.pass_time(900)
    elif change == "asked":
        operate.replan(Operator(d.w.zookeeper, d.w.paths, "ops", now_ms=d.w.now_ms), "aaa")  # type: ignore[arg-type]
    else:
        d.w.zookeeper.delete(d.w.paths.proposal(d.ids[0]))
    d.w.tell(10)
    assert d.ids[0] in d.asked[1:]
    assert change == "why" or d.proposals()[0].plan.plan_id != before.plan.plan_id


def test_proposals_of_drains_take_no_room_from_plans_of_the_same_cycle() -> None:
    """c has four slots: two proposals want two of them, and a job that comes sees all four."""
    d = Draining("aaa", "bbb")
    new = d.w.submit({}, name="new")
    seen: dict[str, list[int]] = {}
    away = d.w.planner

    def planner(model: Model) -> Plan | Infeasible:
        for t in model.topologies:
            seen[t.id] = next(list(s.slots) for s in model.supervisors if s.id == "c")
        return away(model)

    d.w.planner = planner
    d.w.tell(10)
    assert d.w.plan(new) is not None
    assert seen[new] == [6700, 6701, 6702, 6703]
    assert [len(seen[t]) for t in d.ids] == [4, 3], "a proposal takes room from another"
    d.w.tell(30)
    assert {w.port for e in d.proposals() for w in e.plan.workers if w.supervisor == "c"} == {6702, 6703}


def test_what_is_drained_and_may_act_is_planned_before_what_is_only_proposed() -> None:
    d = Draining("aaa", "bbb")
    d.w.zookeeper.put(d.w.paths.mode("bbb"), encode(ModeSetting(mode="act")))
    d.w.tell(10)
    assert d.asked[:2] == d.ids[::-1]
    assert d.w.plan(d.ids[1]) is not None


@pytest.mark.parametrize("mode", ["advise", "act"])
def test_who_cannot_leave_is_not_planned_again_while_nothing_changes(mode: Literal["advise", "act"]) -> None:
    d = Draining("aaa", max_skips=3, mode=mode)
    d.room = False
    d.w.tell(40)
    assert len(d.asked) == 3
    assert d.w.decision(d.ids[0]).reason is Reason.INFEASIBLE
    d.w.tell(10)
    assert len(d.asked) == 6, "three cycles without a planner, then one with it"
    d.w.supervisors("a", "b", "c", "d", "e")
    d.room = True
    d.w.tell(10)
    assert d.w.decision(d.ids[0]).reason is Reason.DRAIN


@pytest.mark.parametrize(("mode", "room"), [("advise", True), ("advise", False), ("act", False)])
def test_a_cycle_plans_only_some_of_those_that_leave_and_the_others_first_in_the_next(
    mode: Literal["advise", "act"], room: bool
) -> None:
    """Each plan takes the planner's budget, 10 s; who cannot leave is asked about three times."""
    d = Draining(*"abcd", max_skips=3, mode=mode)
    d.room, away = room, d.w.planner

    def planner(model: Model) -> Plan | Infeasible:
        d.w.now_ms += 10_000
        return away(model)

    d.w.planner = planner
    asked: list[list[str]] = []
    for _ in range(4):
        d.asked.clear()
        reports = len(d.w.reports)
        while len(d.w.reports) == reports:
            d.w.tell(2)
        asked.append(sorted(set(d.asked)))
        waiting = [t for t, x in d.w.reports[-1].decisions.items() if x.reason is Reason.WAITING_FOR_DRAIN]
        assert len(asked[-1]) <= 2
        for t in waiting:
            assert "planned in the next cycle" in d.w.decision(t).text
    assert [t for cycle in asked for t in cycle] == d.ids, "each once, in their order"
    assert len(d.proposals()) == (4 if room else 0)


def test_those_that_act_and_cannot_leave_take_no_time_from_those_that_are_proposed() -> None:
    d = Draining(*"abcd")
    for name in "abc":
        d.w.zookeeper.put(d.w.paths.mode(name), encode(ModeSetting(mode="act")))
    away = d.w.planner

    def planner(model: Model) -> Plan | Infeasible:
        d.w.now_ms += 10_000
        found = away(model)
        return found if model.topologies[0].id == d.ids[-1] else Infeasible(constraint="cpu", text="no room")

    d.w.planner = planner
    d.w.tell(10)
    assert [e.plan.topology_id for e in d.proposals()] == d.ids[-1:]


# --- after what an operator held --------------------------------------------------------------------------------------


def behind(w: World, by_s: float) -> Operator:
    """Somebody whose machine's clock is behind."""
    return Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms - int(by_s * 1000))  # type: ignore[arg-type]


def drain_b(o: Operator) -> None:
    operate.drain(o, "host-b")


def pin_to_c(o: Operator) -> None:
    operate.pin(o, "flights", "parse", "c")


def pin_another(o: Operator) -> None:
    operate.pin(o, "words", "parse", "c")


def exclude_b(o: Operator) -> None:
    operate.exclude(o, "host-b")


def exclude_b_for_another(o: Operator) -> None:
    operate.exclude(o, "host-b", "words")


@pytest.mark.parametrize("by_s", [0, 120, -120])
@pytest.mark.parametrize(
    ("ask", "moves"),
    [(drain_b, True), (pin_to_c, True), (exclude_b, True), (pin_another, False), (exclude_b_for_another, False)],
)
def test_what_is_asked_for_after_a_hold_overrules_it_whatever_the_clock_of_the_one_who_asks(
    ask: Callable[[Operator], None], moves: bool, by_s: float
) -> None:
    """What is asked for of another topology does not: this one had to leave before the hold already."""
    w = World("a", "b", "c")
    t = w.submit(HERE)
    w.submit({("a", 6703): (1, 2, 3, 4, 5, 6)}, name="words")
    w.tell(40)
    if not moves:
        drain_b(behind(w, 0))
    hold = Hold(topology_id=t, since_ms=w.now_ms, until_ms=w.now_ms + 1_800_000, cause="discard", by="ops")
    w.zookeeper.put(w.paths.hold(t), encode(hold))
    w.tell(10)
    ask(behind(w, by_s))
    w.wanted = {t: AWAY}
    w.tell(30)
    assert (w.slots(t) == AWAY) == moves


@pytest.mark.parametrize("by_s", [0, 120, -7200])
def test_a_hold_stands_over_what_was_asked_for_before_it(by_s: float) -> None:
    w = World("a", "b", "c")
    t = w.submit(HERE)
    w.tell(40)
    drain_b(behind(w, by_s))
    hold = Hold(topology_id=t, since_ms=w.now_ms, until_ms=w.now_ms + 1_800_000, cause="discard", by="ops")
    w.zookeeper.put(w.paths.hold(t), encode(hold))
    w.wanted = {t: AWAY}
    w.tell(60)
    assert w.slots(t) == HERE
    assert w.decision(t).reason is Reason.OPERATOR_HOLD


@pytest.mark.parametrize("by_s", [0, 120])
def test_a_drain_after_a_rollout_that_was_aborted_is_carried_out(by_s: float) -> None:
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "draining")
    operate.abort_rollout(rolling_jobs.operator(w), t)
    w.tell(60)
    assert w.decision(t).reason is Reason.OPERATOR_HOLD
    operate.drain(behind(w, by_s), "host-b")
    w.tell(60)
    assert not any(supervisor == "b" for supervisor, _ in w.slots(t))
