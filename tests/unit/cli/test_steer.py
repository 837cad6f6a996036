"""Commands that change a running system: the question before a dangerous one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from doubles.installations import state
from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, topology
from stormpilot.cli import app, steer, thresholds, verbs
from stormpilot.cli.live import place
from stormpilot.cli.output import Format
from stormpilot.errors import RefusedError, UnreachableError, UsageError
from stormpilot.messages.controller_state import TopologyView
from stormpilot.messages.core import encode
from stormpilot.messages.settings import AuditRecord
from stormpilot.messages.thresholds import CPU_LIMIT_RATIO, ThresholdEntry, Thresholds
from stormpilot.operate import Change, Operator
from stormpilot.zookeeper.paths import Paths

LOOKED = Change(
    verb="mode",
    target="flights",
    before=None,
    after={"mode": "act"},
    text="flights: mode act",
    danger="it moves",
    dry_run=True,
)
"""A change as it is looked at before anybody is asked."""


class Terminal(io.StringIO):
    """A person who types."""

    def isatty(self) -> bool:
        return True


def test_the_question_shows_the_change_and_does_not_speak_of_a_dry_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody asked for one, and after the answer it would be wrong."""
    monkeypatch.setattr("sys.stdin", Terminal())
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda text, **_: bool(asked.append(text)))
    with pytest.raises(RefusedError, match="nothing was changed"):
        steer.confirm(LOOKED.danger, steer.lines_of(LOOKED, asked=True))
    assert asked == ["it moves. Continue?"]
    shown = capsys.readouterr().err
    assert "flights: mode act" in shown
    assert "after   mode=act" in shown
    assert "dry run" not in shown
    assert steer.lines_of(LOOKED)[-1] == "dry run: nothing was changed"


def test_what_changed_while_somebody_was_asked_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal is made anew when rates change: yes was said to the one before."""
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: True)
    made: list[bool] = []

    def verb(*plans: str) -> Callable[[Operator], Change]:
        left = iter(plans)

        def looked(operator: Operator) -> Change:
            made.append(not operator.dry_run)
            after = {"planId": next(left), "createdAtMs": len(made)}
            return msgspec.structs.replace(LOOKED, verb="approve", after=after, dry_run=operator.dry_run)

        return looked

    how = steer.Steering(place(None, None, None), Format.table, None, "", dry_run=False, yes=False)
    with pytest.raises(RefusedError, match=r"not what you looked at any more: .*planId=p-2"):
        steer._act(how, MemoryZooKeeper(lambda: T0_MS), verb("p-1", "p-2", "p-2"), show=False)
    assert made == [False, False]
    steer._act(how, MemoryZooKeeper(lambda: T0_MS), verb("p-1", "p-1", "p-1"), show=False)
    assert made[2:] == [False, False, True]


def test_an_interruption_at_the_question_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise typer.Abort from None

    def ended(*_: object, **__: object) -> None:
        raise typer.Abort

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(typer, "confirm", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steer.confirm(LOOKED.danger, steer.lines_of(LOOKED, asked=True))
    monkeypatch.setattr(typer, "confirm", ended)
    with pytest.raises(RefusedError, match="nothing was changed"):
        steer.confirm(LOOKED.danger, steer.lines_of(LOOKED, asked=True))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(RefusedError, match="confirm with --yes"):
        steer.confirm(LOOKED.danger, steer.lines_of(LOOKED, asked=True))


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("skip: INFEASIBLE: leaving host-a", 1),
        ("skip: PLANNER_FAILED: best", 1),
        ("refused: PAUSED", 1),
        ("skip: NO_BETTER_PLAN: it runs as well", 0),
        ("published p-2", 0),
    ],
)
def test_a_replan_that_nobody_could_make_ends_with_1(monkeypatch: pytest.MonkeyPatch, result: str, code: int) -> None:
    zookeeper, paths, flights = MemoryZooKeeper(lambda: T0_MS), Paths(), "flights-1-1763690000"
    zookeeper.put(paths.topology(flights), encode(topology({1: ("a", 6700)}, id=flights)))
    zookeeper.put(f"{paths.leader}/n-1", b"")

    @contextmanager
    def connected(_: object) -> Iterator[MemoryZooKeeper]:
        yield zookeeper

    record = AuditRecord(id="a-1", at_ms=T0_MS, who="c", verb="replan", target="flights", result=result)
    monkeypatch.setattr(steer, "connected", connected)
    monkeypatch.setattr("stormpilot.operate.outcome", lambda *_: record)
    done = CliRunner().invoke(app, ["replan", "flights", "--yes"])
    assert isinstance(done.exception, RefusedError) == bool(code), done.output
    assert (done.exit_code, result in (done.output if code == 0 else str(done.exception))) == (code, True)


def test_a_task_is_a_number_that_can_be_read() -> None:
    with pytest.raises(UsageError, match="with the number of a task"):
        verbs._component("c/²")


def test_a_request_without_an_answer_says_what_holds_it_and_that_it_stays_pending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It said where to look; the move began minutes after the command had failed."""
    zookeeper, paths, flights = MemoryZooKeeper(lambda: T0_MS), Paths(), "flights-1-1763690000"
    view = TopologyView(id=flights, name="flights", mode="act", action="skip", reason="PLAN_MOVING", text="p-1")
    zookeeper.put(paths.topology(flights), encode(topology({1: ("a", 6700)}, id=flights)))
    zookeeper.put(paths.controller, encode(state(topologies=[view])))
    zookeeper.put(f"{paths.leader}/n-1", b"")

    @contextmanager
    def connected(_: object) -> Iterator[MemoryZooKeeper]:
        yield zookeeper

    monkeypatch.setattr(steer, "connected", connected)
    monkeypatch.setattr(steer, "OUTCOME_S", 0.0)
    done = CliRunner().invoke(app, ["replan", "flights", "--yes"])
    assert isinstance(done.exception, UnreachableError)
    assert "no answer within 0 s (PLAN_MOVING: p-1); the request stays pending" in str(done.exception)


@pytest.fixture
def two_mined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold was mined of supervisor a, and one of b."""
    paths, store, flights = Paths(), MemoryZooKeeper(lambda: T0_MS), topology([])
    entries = [
        ThresholdEntry(name=CPU_LIMIT_RATIO, scope="supervisor", of=[s], value=0.55, source="mined") for s in "ab"
    ]
    mined = Thresholds(
        topology_id=flights.id, topology_name="flights", mined_at_ms=1, from_ms=0, to_ms=1, entries=entries
    )
    store.put(paths.topology(flights.id), encode(flights))
    store.put(paths.thresholds(flights.id), encode(mined))

    @contextmanager
    def connected(_: object) -> Iterator[MemoryZooKeeper]:
        yield store

    monkeypatch.setattr(steer, "connected", connected)
    monkeypatch.setattr(thresholds, "connected", connected)


@pytest.mark.usefixtures("two_mined")
def test_what_freeze_prints_of_several_thresholds_is_one_document() -> None:
    done = CliRunner().invoke(app, ["thresholds", "freeze", "flights", "-f", "json"])
    assert (done.exit_code, len(json.loads(done.stdout))) == (0, 2)


@pytest.mark.usefixtures("two_mined")
def test_freeze_of_one_supervisor_leaves_the_thresholds_of_others() -> None:
    done = CliRunner().invoke(app, ["thresholds", "freeze", "flights", "--of", "b", "-f", "json"])
    (change,) = json.loads(done.stdout)
    assert change["after"]["of"] == ["b"]
    refused = CliRunner().invoke(app, ["thresholds", "freeze", "flights", "--of", "c"])
    assert "no threshold was mined of supervisor c" in str(refused.exception)
