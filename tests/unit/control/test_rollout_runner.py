"""Rollouts beside the cycle: who waits for theirs or rests after it, and what ends one or lets it go on."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import structlog

from doubles.rolling_jobs import APART, TOGETHER, all_active, begun, two
from doubles.world import World
from stormpilot import operate
from stormpilot.config.rollout import RolloutSection
from stormpilot.control import rollout_runner
from stormpilot.control.rollout_gates import resting, waiting_for_rollouts
from stormpilot.control.rollout_runner import MID_STEP
from stormpilot.control.situation import Situation
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import decode, encode
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routes import Routes
from stormpilot.messages.settings import ModeSetting
from stormpilot.operate import Operator
from stormpilot.publish.publisher import DeposedError
from stormpilot.rollout.facts import Facts
from stormpilot.rollout.state_machine import Next
from stormpilot.zookeeper.client import ConflictError
from stormpilot.zookeeper.transaction import Put


@pytest.fixture
def rolling() -> tuple[World, str]:
    """A rollout that has just begun."""
    w = World("a", "b", "c", settings="rollout: {task_refresh_s: 4, step_interval_s: 2, start_timeout_s: 60}\n")
    t = w.submit(APART, routed=True)
    w.tell(40)
    w.wanted = {t: TOGETHER}
    w.tell(10)
    assert w.rollout(t) is not None
    return w, t


def proposed(w: World, situation: Situation) -> dict[str, Decision]:
    verdict = waiting_for_rollouts(situation)
    return {} if verdict is None else dict(verdict.decisions)


def test_a_topology_waits_for_its_rollout(rolling: tuple[World, str]) -> None:
    w, t = rolling
    decision = proposed(w, w.situation())[t]
    assert (decision.reason, decision.value, decision.threshold) == (Reason.ROLLOUT_IN_PROGRESS, 1, 2)


def test_a_plan_that_replaces_a_step_leaves_its_tasks_without_tuples_while_they_restart(
    rolling: tuple[World, str],
) -> None:
    w, t = rolling
    begun(w, t, "moving")
    (put,) = w.cycle.rollout_runner.closing(t, "p-9", w.cycle.observer.observe(w.now_ms))
    assert isinstance(put, Put)
    m = decode(put.data, Rollout, put.path)
    assert (m.phase, m.outcome, m.text, m.back) == ("returning", "OVERTAKEN", "by plan p-9", m.stage.away)


def test_a_rollout_that_replaces_another_waits_for_its_tasks_and_takes_back_the_plan_of_its_step(
    rolling: tuple[World, str],
) -> None:
    w, t = rolling
    begun(w, t, "moving")
    w.wanted = {}
    situation, before = w.situation(), w.rollout(t)
    assert before is not None
    for phase in ("moving", "returning"):
        m = w.rollout(t)
        assert m is not None
        assert m.phase == phase
        with pytest.raises(ConflictError, match=f"tasks {m.stage.away[0]} of the rollout to .* tuples back first"):
            w.cycle.rollout_runner.begin(
                m.entry, m.steps, situation.topologies[t].topology, None, 30.0, w.cycle.observer.observe(w.now_ms)
            )
    published, m = w.plan(t), w.rollout(t)
    assert published is not None and m is not None
    assert (published.plan_id, m.withdrawn) == (m.standing_plan_id, 1)
    w.tell(60)
    m = w.rollout(t)
    assert m is not None
    assert (m.phase, m.outcome) == ("ended", "OVERTAKEN")
    assert all_active(w, t)
    assert w.slots(t) == APART


def test_what_is_decided_already_stays_decided(rolling: tuple[World, str]) -> None:
    w, t = rolling
    situation = w.situation()
    approved = Decision(t, "publish", Reason.APPROVED)
    assert proposed(w, replace(situation, decisions={t: approved})) == {}


def test_a_repair_goes_before_a_rollout(rolling: tuple[World, str]) -> None:
    w, t = rolling
    situation = w.situation()
    lost = replace(situation.topologies[t], plan_problem="cannot be read")
    assert lost.degraded
    assert proposed(w, replace(situation, topologies={t: lost})) == {}


def test_a_drain_of_its_target_goes_before_a_rollout_and_one_that_it_leaves_does_not(
    rolling: tuple[World, str],
) -> None:
    w, t = rolling
    operator = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.drain(operator, "host-b")
    assert set(proposed(w, w.situation())) == {t}
    operate.drain(operator, "host-a")
    assert proposed(w, w.situation()) == {}


def test_the_slots_of_its_target_are_reserved(rolling: tuple[World, str]) -> None:
    w, _ = rolling
    other = w.submit({("b", 6702): (1, 2, 3), ("c", 6702): (4, 5, 6)}, name="wordcount")
    (a,) = (s for s in w.situation().part_for({other}).supervisors if s.id == "a")
    assert {6700, 6701, 6702}.isdisjoint(a.slots)
    assert a.slots


def test_a_step_does_not_begin_while_a_worker_that_is_to_do_its_work_restarts(rolling: tuple[World, str]) -> None:
    w, t = rolling
    m = w.rollout(t)
    assert m is not None
    (peer,) = {2, 3} - {*m.stage.away}
    operate.pause_rollout(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), t)  # type: ignore[arg-type]
    w._start(t, peer, w.now_ms + 60_000)
    w.tell(40)
    operate.resume_rollout(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), t)  # type: ignore[arg-type]
    w.tell(10)
    m = w.rollout(t)
    assert m is not None
    assert m.phase == "ready"
    assert m.text == f"no spare capacity: task {peer}, which is to get their tuples, does not report"
    w.tell(200)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "DONE"


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("ABORTED", Reason.OPERATOR_HOLD),
        ("REJECTED", Reason.COOL_DOWN),
        ("GAVE_UP", Reason.COOL_DOWN),
        ("DONE", None),
        ("OVERTAKEN", None),
    ],
)
def test_a_topology_rests_after_a_rollout_that_ended_early(
    rolling: tuple[World, str], outcome: str, reason: Reason | None
) -> None:
    w, t = rolling
    ended = msgspec.structs.replace(w.rollout(t), phase="ended", outcome=outcome, since_ms=w.now_ms)
    w.zookeeper.put(w.paths.rollout(t), encode(ended))
    situation = w.situation()
    state = situation.topologies[t]
    decision = resting(state, situation)
    assert (None if decision is None else decision.reason) == reason
    assert resting(replace(state, asked=True), situation) is None, "an operator need not wait"
    assert resting(replace(state, plan_problem="cannot be read"), situation) is None, "nor a repair"
    w.now_ms += 24 * 3_600_000
    situation = w.situation()
    assert resting(situation.topologies[t], situation) is None


def test_an_approved_rollout_goes_on_in_mode_advise_and_another_one_does_not(rolling: tuple[World, str]) -> None:
    w, t = rolling
    w.zookeeper.put(w.paths.mode("flights"), encode(ModeSetting(mode="advise", by="ops")))
    w.tell(60)
    m = w.rollout(t)
    assert m is not None
    assert (m.phase, m.text) == ("ready", "held: the mode of this topology is advise")
    approved = msgspec.structs.replace(m, entry=msgspec.structs.replace(m.entry, approved_by="ops"))
    w.zookeeper.put(w.paths.rollout(t), encode(approved))
    w.tell(120)
    m = w.rollout(t)
    assert m is not None
    assert m.outcome == "DONE"


@pytest.mark.parametrize("seconds", [0, 4, 6])
def test_a_rollout_ends_when_its_target_is_drained_and_nobody_moves_there_any_more(
    rolling: tuple[World, str], seconds: int
) -> None:
    w, t = rolling
    w.tell(seconds)
    here = {node for node, _ in w.slots(t)}
    assert here == {"a", "b", "c"}
    operate.drain(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "host-a")  # type: ignore[arg-type]
    on_a = set(w.slots(t)["a", 6700])
    w.wanted = {}
    w.tell(60)
    m = w.rollout(t)
    assert m is not None
    assert (m.running, m.outcome, m.text) == (False, "DISTURBED", "its target is drained, excluded or off its site")
    assert {e for (node, _), es in w.slots(t).items() for e in es if node == "a"} <= on_a


def test_who_leaves_by_a_rollout_goes_before_the_others(rolling: tuple[World, str]) -> None:
    w, t = rolling
    m = w.rollout(t)
    assert m is not None
    leaving = msgspec.structs.replace(m, entry=msgspec.structs.replace(m.entry, reason="DRAIN"))
    w.zookeeper.put(w.paths.rollout(t), encode(leaving))
    other = w.submit({("b", 6701): (1, 2, 3), ("c", 6701): (4, 5, 6)}, name="words")
    w.tell(30)
    operate.drain(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), "host-c")  # type: ignore[arg-type]
    w.tell(10)
    m = w.rollout(t)
    assert m is not None
    assert m.running
    assert w.decision(other).reason is Reason.WAITING_FOR_DRAIN


def test_an_aborted_drain_is_not_begun_again_until_somebody_asks_anew(rolling: tuple[World, str]) -> None:
    w, t = rolling
    m = w.rollout(t)
    assert m is not None
    ops = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.drain(ops, "host-b")
    w.now_ms += 2_000
    entry = msgspec.structs.replace(m.entry, reason="DRAIN")
    ended = msgspec.structs.replace(m, entry=entry, phase="ended", outcome="ABORTED", since_ms=w.now_ms)
    w.zookeeper.put(w.paths.rollout(t), encode(ended))
    w.wanted = {t: {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("c", 6700): (3,)}}
    w.tell(30)
    assert w.decision(t).reason is Reason.OPERATOR_HOLD
    ops = Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms)  # type: ignore[arg-type]
    operate.undrain(ops, "host-b")
    operate.drain(ops, "host-b")
    w.tell(20)
    assert w.decision(t).reason in (Reason.DRAIN, Reason.ROLLOUT_IN_PROGRESS)


def test_a_plan_of_a_step_is_as_new_as_its_leader_and_whole(rolling: tuple[World, str]) -> None:
    """The plug-in rejects plans of an epoch before, and those whose checksum is another plan's."""
    w, t = rolling
    w.new_leader()
    begun(w, t, "moving")
    plan, m = w.plan(t), w.rollout(t)
    assert plan is not None and m is not None
    assert (plan.epoch, m.entry.plan.epoch) == (2, 1)
    assert plan.checksum == plan.expected_checksum()
    assert plan.created_at_ms == m.since_ms


def test_a_step_begins_when_no_other_topology_is_in_the_middle_of_one() -> None:
    """Each takes away a part of what a topology can do."""
    w, *topologies = two()
    waited = set()
    for _ in range(100):
        w.tell(2)
        rollouts = [m for t in topologies if (m := w.rollout(t)) is not None]
        assert len([m for m in rollouts if m.phase in MID_STEP]) < 2
        waited |= {m.text for m in rollouts}
        if not any(m.running for m in rollouts):
            break
    assert [m.outcome for m in rollouts] == ["DONE", "DONE"]
    assert "held: a step of another topology" in waited


def test_a_rollout_that_cannot_go_on_in_the_middle_of_a_step_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    w, first, second = two()
    begun(w, first, "draining")
    next_of = rollout_runner.next_of

    def failing(m: Rollout, facts: Facts, config: RolloutSection) -> Next | None:
        if m.topology_id == first:
            raise ValueError("what nobody thought of")
        return next_of(m, facts, config)

    monkeypatch.setattr(rollout_runner, "next_of", failing)
    with structlog.testing.capture_logs() as lines:
        w.tell(100)
    m = w.rollout(second)
    assert m is not None
    assert m.outcome == "DONE"
    failures = [x for x in lines if x["event"] == "rollout cannot go on; those of other topologies do"]
    assert len(failures) == 1


def test_the_plan_of_each_step_is_based_on_what_runs_before_it(rolling: tuple[World, str]) -> None:
    w, t = rolling
    based_on: dict[str, tuple[int, int]] = {}
    for _ in range(100):
        w.tell(2)
        if (plan := w.plan(t)) is not None:
            based_on.setdefault(plan.plan_id, (plan.based_on.snapshot_version, plan.based_on.workers))
    (first, workers), (second, still) = based_on.values()
    assert first < second
    assert workers == still == 3


def test_a_deposed_leader_ends_at_its_next_step(rolling: tuple[World, str]) -> None:
    w, t = rolling
    begun(w, t, "ready")
    deposed = w.cycle
    w.new_leader()
    before = w.rollout(t)
    with pytest.raises(DeposedError):
        deposed.advance_rollouts(deposed.observer.observe(w.now_ms))
    assert w.rollout(t) == before


def test_what_an_operator_changes_just_then_stays_as_he_made_it(rolling: tuple[World, str]) -> None:
    w, t = rolling
    begun(w, t, "ready")
    seen = w.cycle.observer.observe(w.now_ms)
    operate.deactivate_task(Operator(w.zookeeper, w.paths, "ops", now_ms=w.now_ms), t, "parse", 3)  # type: ignore[arg-type]
    table, m = w.routes(t), w.rollout(t)
    w.cycle.advance_rollouts(seen)
    assert (w.routes(t), w.rollout(t)) == (table, m)


def test_a_rollout_that_can_be_read_again_is_not_taken_away(rolling: tuple[World, str]) -> None:
    w, t = rolling
    m = w.rollout(t)
    assert m is not None
    w.zookeeper.put(w.paths.rollout(t), b"{nonsense")
    seen = w.cycle.observer.observe(w.now_ms)
    w.zookeeper.put(w.paths.rollout(t), encode(m))
    w.cycle.advance_rollouts(seen)
    assert w.rollout(t) == m


def test_workers_may_read_every_table_of_a_rollout(rolling: tuple[World, str]) -> None:
    """They know no password of ours; a table is taken up by its number."""
    w, t = rolling
    w.tell(200)
    tables = [s for steps in w.zookeeper.commits for s in steps if isinstance(s, Put) and s.path == w.paths.routes(t)]
    assert all(put.world_reads for put in tables)
    assert [decode(put.data, Routes, put.path).version for put in tables] == [*range(1, len(tables) + 1)]
    assert len(tables) >= 4
