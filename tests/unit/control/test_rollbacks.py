"""Rollbacks: to the placement before a move that made it worse, or given up where that is not possible any more."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from doubles.world import Slots, World
from stormpilot.control.rollbacks import RollbackProposer
from stormpilot.control.situation import Situation
from stormpilot.decide.events import EventKind
from stormpilot.decide.reasons import Reason
from stormpilot.messages.core import encode
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.settings import PauseSetting
from stormpilot.model.values import Topology

SPREAD: Slots = {("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)}
NEAR: Slots = {("a", 6700): (1, 2, 4), ("b", 6700): (3, 5, 6)}


@pytest.fixture
def worse() -> tuple[World, str, RollbackProposer]:
    """A move was judged as worse: its topology is to go back."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(30)
    assert w.moves(t).former
    return w, t, RollbackProposer(w.cycle.move_tracker)


def going_back(w: World, t: str) -> Situation:
    situation = w.situation()
    move = msgspec.structs.replace(situation.moves[t], phase="rollback", text="40% more between nodes")
    return replace(situation, moves={t: move})


def slots(situation: Situation, t: str) -> Slots:
    return {(w.supervisor, w.port): tuple(s for s, _ in w.executors) for w in situation.moves[t].former}


def test_the_former_placement_is_proposed_with_what_made_it_worse(worse: tuple[World, str, RollbackProposer]) -> None:
    w, t, rollbacks = worse
    situation = going_back(w, t)
    verdict = rollbacks.propose(situation)
    assert verdict is not None
    decision = verdict.decisions[t]
    assert (decision.action, decision.reason, decision.moved_executors) == ("publish", Reason.ROLLBACK_EFFECT, 2)
    assert decision.text == "back to the former placement: 40% more between nodes"
    placed = {(p.supervisor, p.port): tuple(s for s, _ in p.executors) for p in verdict.plans[t].workers}
    assert placed == slots(situation, t)


def test_a_pause_holds_it(worse: tuple[World, str, RollbackProposer]) -> None:
    w, t, rollbacks = worse
    w.zookeeper.put(w.paths.pause("flights"), encode(PauseSetting()))
    verdict = rollbacks.propose(going_back(w, t))
    assert verdict is not None
    assert (verdict.decisions[t].reason, verdict.plans) == (Reason.PAUSED, {})


def test_a_blackout_window_holds_it(worse: tuple[World, str, RollbackProposer]) -> None:
    w, t, rollbacks = worse
    situation = going_back(w, t)
    states = {t: replace(situation.topologies[t], blackout="20:00 to 21:00", blackout_until_ms=w.now_ms + 1000)}
    verdict = rollbacks.propose(replace(situation, topologies=states))
    assert verdict is not None
    decision = verdict.decisions[t]
    assert (decision.reason, decision.until_ms, verdict.plans) == (Reason.BLACKOUT, w.now_ms + 1000, {})


def test_a_former_slot_that_another_topology_has_ends_it_with_an_event(
    worse: tuple[World, str, RollbackProposer],
) -> None:
    w, t, rollbacks = worse
    situation = going_back(w, t)
    taken = msgspec.structs.replace(situation.moves[t].former[0], port=6703)
    moved = msgspec.structs.replace(situation.moves[t], former=[taken, *situation.moves[t].former[1:]])
    w.submit({(taken.supervisor, 6703): (1, 2, 3, 4, 5, 6)}, name="wordcount")
    situation = replace(w.situation(), moves={**w.situation().moves, t: moved})
    verdict = rollbacks.propose(situation)
    assert verdict is not None
    decision = verdict.decisions[t]
    assert (decision.action, decision.reason) == ("skip", Reason.BACK_OFF)
    assert f"slot {taken.supervisor}:6703 is held by wordcount" in decision.text
    assert [e.kind for e in w.cycle.outbox.events] == [EventKind.ROLLBACK_IMPOSSIBLE]
    assert w.moves(t).phase == "none"


@pytest.mark.parametrize(("fallback", "back"), [("", True), ("x.resource.ResourceAwareScheduler", False)])
def test_heap_that_is_measured_keeps_nobody_from_where_it_ran(
    worse: tuple[World, str, RollbackProposer], fallback: str, back: bool
) -> None:
    """The limit was that of the fullest worker, which is divided by now; a declared one is the owner's rule."""
    w, t, rollbacks = worse
    situation = going_back(w, t)
    model = situation.model
    own = next(x for x in model.topologies if x.id == t)
    components = [msgspec.structs.replace(c, heap_mb=100.0) for c in own.components]
    limited = msgspec.structs.replace(own, components=components, worker_heap_mb=250.0)
    model = msgspec.structs.replace(model, topologies=[limited if x.id == t else x for x in model.topologies])
    assert situation.snapshot.cluster is not None
    shim = msgspec.structs.replace(situation.snapshot.cluster.shim, fallback=fallback)
    cluster = msgspec.structs.replace(situation.snapshot.cluster, shim=shim)
    observation = replace(situation.observation, seen=replace(situation.observation.seen, cluster=cluster))
    at = replace(situation, observation=observation, readiness=replace(situation.readiness, model=model))
    verdict = rollbacks.propose(at)
    assert verdict is not None
    assert (verdict.decisions[t].reason is Reason.ROLLBACK_EFFECT) is back


def test_memory_that_another_topology_has_by_now_keeps_it_where_it_is(
    worse: tuple[World, str, RollbackProposer],
) -> None:
    """What it needs more than is there by itself it did need when it ran; what others took since is not there."""
    w, t, rollbacks = worse
    situation = going_back(w, t)

    def heavy(of: Topology) -> Topology:
        return msgspec.structs.replace(
            of, executors=[msgspec.structs.replace(e, memory_mb=100.0) for e in of.executors]
        )

    def tight(memory_mb: float, *more: Topology) -> Situation:
        nodes = [msgspec.structs.replace(s, memory_mb=memory_mb) for s in situation.model.supervisors]
        topologies = [*map(heavy, situation.model.topologies), *more]
        model = msgspec.structs.replace(situation.model, supervisors=nodes, topologies=topologies)
        return replace(situation, readiness=replace(situation.readiness, model=model))

    own = heavy(next(x for x in situation.model.topologies if x.id == t))
    there = [msgspec.structs.replace(a, port=6703) for a in own.assignment]
    other = msgspec.structs.replace(own, id="other-1-1", name="other", assignment=there)
    needed = 300.0
    for at in (tight(needed), tight(needed / 2)):
        verdict = rollbacks.propose(at)
        assert verdict is not None and verdict.decisions[t].reason is Reason.ROLLBACK_EFFECT
    verdict = rollbacks.propose(tight(needed * 1.5, other))
    assert verdict is not None
    assert (verdict.decisions[t].action, verdict.decisions[t].reason) == ("skip", Reason.BACK_OFF)
    assert "memory" in verdict.decisions[t].text


def test_what_goes_nowhere_back_is_left_alone(worse: tuple[World, str, RollbackProposer]) -> None:
    w, _, rollbacks = worse
    assert rollbacks.propose(w.situation()) is None


@pytest.mark.parametrize("began_after_ms", [0, -1])
def test_what_an_operator_aborted_is_given_up_and_what_was_judged_since_is_not(
    worse: tuple[World, str, RollbackProposer], began_after_ms: int
) -> None:
    w, t, rollbacks = worse
    situation = going_back(w, t)
    move = msgspec.structs.replace(situation.moves[t], judged_at_ms=w.now_ms)
    entry = msgspec.structs.replace(w.history(t)[-1], reason="ROLLBACK_EFFECT")
    ended = Rollout(
        topology_id=t,
        entry=entry,
        steps=[],
        since_ms=w.now_ms,
        started_at_ms=w.now_ms + began_after_ms,
        started_by="n1",
        standing_plan_id=None,
        former=[],
        phase="ended",
        outcome="ABORTED",
    )
    w.zookeeper.put(w.paths.rollout(t), encode(ended))
    verdict = rollbacks.propose(replace(w.situation(), moves={t: move}))
    assert verdict is not None
    decision = verdict.decisions[t]
    if began_after_ms < 0:
        assert (decision.action, decision.reason) == ("publish", Reason.ROLLBACK_EFFECT)
        return
    assert (decision.action, decision.reason) == ("skip", Reason.BACK_OFF)
    assert "an operator aborted its rollout" in decision.text
