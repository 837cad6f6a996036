"""Holds and approvals over a fail-over to a controller whose clock is ten minutes off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from doubles.shim import until
from doubles.snapshots import cluster, topology
from stormpilot import clock, operate
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import HistoryEntry
from stormpilot.operate import Operator
from stormpilot.zookeeper.client import connect
from stormpilot.zookeeper.paths import Paths

from .conftest import ID, SPREAD, Play, Settings, Start, held, message, view

pytestmark = pytest.mark.zookeeper

APART = pytest.mark.parametrize("minutes", [10, -10])


@pytest.fixture
def act(shared_zookeeper: LocalZooKeeper, paths: Paths) -> Iterator[Callable[[], Operator]]:
    connection = connect(shared_zookeeper.hosts)
    yield lambda: Operator(connection, paths, "ops", "test", now_ms=round(time.time() * 1000))
    connection.stop()


def set_clock(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """The clock of controllers that start from now on."""
    real = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: real() + minutes * 60_000)


@APART
def test_a_hold_holds_for_the_next_leader_too_whatever_its_clock_says(
    shared_zookeeper: LocalZooKeeper,
    settings: Settings,
    start: Start,
    play: Play,
    act: Callable[[], Operator],
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
) -> None:
    """The hold ends at a time of the clock that began it: ten minutes more or less of an hour."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    config = settings(shared_zookeeper.hosts, approve=["*"], discard_hold_s=3600)
    first = start(config)
    until(lambda: held(shim, "APPROVAL_NEEDED"), "a plan that waits for approval")
    operate.discard(act(), "flights")
    until(lambda: held(shim, "OPERATOR_HOLD"), "the hold")
    hold, before = shim.client.get(shim.paths.hold(ID))[0], view(shim).text
    first.stop()
    set_clock(monkeypatch, minutes)
    start(config)
    until(lambda: message(shim, shim.paths.controller, ControllerState).epoch >= 2, "the next one to lead")
    until(lambda: message(shim, shim.paths.controller, ControllerState).cycles >= 3, "cycles")
    assert held(shim, "OPERATOR_HOLD"), view(shim)
    assert view(shim).text == before
    assert shim.client.get(shim.paths.hold(ID))[0] == hold
    assert shim.applied == []


@pytest.mark.parametrize(
    ("minutes", "result"), [(-10, "published {plan}"), (5, "published {plan}"), (10, "refused: it is 6")]
)
def test_an_approval_is_carried_out_once_by_the_next_leader_or_refused_for_its_age(
    shared_zookeeper: LocalZooKeeper,
    settings: Settings,
    start: Start,
    play: Play,
    act: Callable[[], Operator],
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    result: str,
) -> None:
    """A request is void after ten minutes by the clock of who is to act on it; then nothing is done, as is told."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    config = settings(shared_zookeeper.hosts, approve=["*"])
    first = start(config)
    until(lambda: held(shim, "APPROVAL_NEEDED"), "a plan that waits for approval")
    proposal: HistoryEntry = message(shim, shim.paths.proposal(ID), HistoryEntry)
    first.stop()
    change = operate.approve(act(), "flights")
    set_clock(monkeypatch, minutes)
    start(config)
    until(lambda: operate.outcome(act(), change.request_id), "the outcome")
    outcome = operate.outcome(act(), change.request_id)
    assert outcome is not None
    plan_id = proposal.plan.plan_id
    assert outcome.result.startswith(result.format(plan=plan_id))
    published = [plan_id] if "published" in result else []
    until(lambda: shim.applied == published, "the plan to be applied, if there is one")
    until(lambda: message(shim, shim.paths.controller, ControllerState).cycles >= 4, "cycles")
    assert shim.applied == published
    assert not shim.client.exists(shim.paths.request(ID))
