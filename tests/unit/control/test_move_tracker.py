"""Verification of moves: every step is written, told once, and survives a failing cycle and a new leader."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
import structlog

from doubles.world import NEAR, SPREAD, World
from stormpilot.config import VerifySection, parse
from stormpilot.control import move_tracker
from stormpilot.decide.effect import Facts
from stormpilot.decide.events import Event, EventKind
from stormpilot.errors import RefusedError
from stormpilot.messages.core import decode
from stormpilot.messages.moves import MoveState
from stormpilot.zookeeper.client import ConflictError, DeniedError
from stormpilot.zookeeper.transaction import Put, Step


@pytest.fixture
def moved() -> tuple[World, str]:
    """A move that is applied and is about to be judged."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(40)
    assert w.moves(t).phase == "measuring"
    return w, t


def until_judged(w: World, t: str) -> None:
    """Observations without a cycle's end, until the move is judged."""
    for _ in range(60):
        if w.moves(t).phase == "none":
            return
        w.pass_time(2)
        w.situation()
    raise AssertionError("never judged")


def test_what_was_found_in_a_cycle_that_failed_is_told_by_the_next_one(moved: tuple[World, str]) -> None:
    w, t = moved
    until_judged(w, t)
    assert w.events == []
    w.tell(10)
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]
    assert [m.plan_id for m in w.reports[-1].ended] == [w.history(t)[0].plan.plan_id]
    w.tell(10)
    assert len(w.events) == 1
    assert w.reports[-1].ended == []


def test_the_next_leader_goes_on_with_the_move_and_knows_how_long_restarts_took(moved: tuple[World, str]) -> None:
    w, t = moved
    restarts = w.reports[-1].restarts
    assert len(restarts) == 1
    w.new_leader()
    w.tell(10)
    assert w.reports[-1].restarts == restarts
    assert w.reports[-1].followed[t].plan_id == w.history(t)[0].plan.plan_id


def test_another_configuration_is_used_for_the_next_step() -> None:
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    w.tell(20)
    settings = parse("verify: {timeout_s: 10}", "test.yaml").verify
    w.traffic.clear()  # nothing can be measured any more
    w.tell(30)
    assert w.moves(t).phase == "measuring"
    w.use(msgspec.structs.replace(w.config, verify=settings))
    w.tell(20)
    assert (w.moves(t).phase, w.moves(t).verdict) == ("none", "TOO_LATE")


def test_a_rollback_that_is_given_up_is_written_and_told(moved: tuple[World, str]) -> None:
    w, t = moved
    situation = w.situation()
    topology = situation.topologies[t].topology
    text = w.cycle.move_tracker.give_up_rollback(situation.moves[t], topology, situation.observation, "no room")
    assert text == "cannot go back to the former placement: no room"
    assert (w.moves(t).phase, w.moves(t).text) == ("none", text)
    assert [e.kind for e in w.cycle.outbox.events] == [EventKind.ROLLBACK_IMPOSSIBLE]


@pytest.mark.parametrize("error", [ConflictError, DeniedError])
def test_a_move_whose_znode_somebody_else_wrote_or_locked_is_told_once_and_stops_no_cycle(
    moved: tuple[World, str], monkeypatch: pytest.MonkeyPatch, error: type[RefusedError]
) -> None:
    w, t = moved
    commit = w.zookeeper.commit

    def refusing(steps: Sequence[Step]) -> None:
        if any(s.path == w.paths.moves(t) for s in steps):
            raise error(w.paths.moves(t))
        commit(steps)

    with monkeypatch.context() as m, structlog.testing.capture_logs() as lines:
        m.setattr(w.zookeeper, "commit", refusing)
        w.tell(120)
    assert (w.moves(t).phase, w.events) == ("measuring", [])
    assert [x["event"] for x in lines if x["log_level"] == "warning"] == ["what became of a move cannot be written"]
    w.tell(20)
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]
    assert w.moves(t).phase == "none"


def test_a_restart_is_taken_in_once_however_often_its_move_could_not_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    while w.plan(t) is None:
        w.tell(2)
    commit = w.zookeeper.commit

    def refusing(steps: Sequence[Step]) -> None:
        written = [s for s in steps if isinstance(s, Put) and s.path == w.paths.moves(t)]
        if any(decode(s.data, MoveState, "move").timed for s in written):
            raise DeniedError(w.paths.moves(t))
        commit(steps)

    monkeypatch.setattr(w.zookeeper, "commit", refusing)
    w.tell(60)
    assert (w.moves(t).timed, w.reports[-1].restarts) == (False, ())
    monkeypatch.setattr(w.zookeeper, "commit", commit)
    w.tell(60)
    assert len(w.reports[-1].restarts) == 1


def test_a_move_that_cannot_be_verified_is_told_once_and_stops_nobody_elses(
    moved: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, t = moved
    other = w.submit({("a", 6701): (1, 2, 4), ("b", 6701): (3, 5, 6)}, "other")
    step = move_tracker.step

    def failing(state: MoveState, facts: Facts, config: VerifySection) -> tuple[MoveState, list[Event]]:
        if state.topology_id == t:
            raise ValueError("what nobody thought of")
        return step(state, facts, config)

    with monkeypatch.context() as m, structlog.testing.capture_logs() as lines:
        m.setattr(move_tracker, "step", failing)
        w.tell(60)
        assert w.decision(other).action == "skip"
    assert [x["why"] for x in lines if x["log_level"] == "error"] == ["ValueError: what nobody thought of"]
    assert w.moves(t).phase == "measuring"
    w.tell(60)
    assert (w.moves(t).phase, [e.kind for e in w.events]) == ("none", [EventKind.MOVE_HELPED])


def test_a_history_that_somebody_else_locked_keeps_no_move_from_being_judged(
    moved: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    w, t = moved
    commit = w.zookeeper.commit

    def refusing(steps: Sequence[Step]) -> None:
        if any(s.path.startswith(w.paths.plan_history(t)) for s in steps):
            raise DeniedError(w.paths.plan_history(t))
        commit(steps)

    monkeypatch.setattr(w.zookeeper, "commit", refusing)
    w.tell(120)
    assert w.moves(t).phase == "none"
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]
