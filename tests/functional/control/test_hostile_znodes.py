"""Whatever lies in a znode, cycles go on, and a topology that nobody wrote into is planned as if it lay not there."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
import structlog

from doubles import rolling_jobs
from doubles.hostile import bombs
from doubles.rolling_jobs import operator, two
from doubles.world import World
from fuzzing import BETTER, ELSEWHERE, GOOD, OTHER, controller, of_topology, steered_controller
from stormpilot import operate
from stormpilot.decide.events import EventKind
from stormpilot.messages.core import StatusMessage, encode
from stormpilot.messages.moves import MoveState
from stormpilot.messages.routes import ComponentRoute, Routes
from stormpilot.messages.settings import Hold
from stormpilot.observe import listing
from stormpilot.zookeeper.client import DeniedError
from stormpilot.zookeeper.transaction import Put, Step

FEW = 50
NOBODY = ComponentRoute(component="nobody", active=[1])


def two_topologies() -> tuple[World, str, str]:
    """Both report, and both move to one worker as soon as they are measured."""
    world = World("a", "b", "c")
    good, other = world.submit(GOOD), world.submit(OTHER, "other")
    return world, good, other


@pytest.mark.parametrize("what", sorted(bombs()))
def test_a_bomb_in_every_znode_of_a_topology_costs_that_topology_alone(what: str) -> None:
    world, good, other = two_topologies()
    world.tell(20)
    for path in of_topology(world, other):
        world.zookeeper.put(path, bombs()[what])
    for kind in (world.paths.mode("other"), world.paths.hold(other), world.paths.request(other)):
        world.zookeeper.put(kind, bombs()[what])
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == BETTER
    problems = "\n".join(world.state().problems)
    assert world.paths.topology(other) in problems
    assert world.decision(other).action != "publish"


@pytest.mark.parametrize("seed", range(2))
def test_messages_that_are_nearly_honest_cost_the_topology_alone_that_they_are_of(seed: int) -> None:
    controller(random.Random(seed))
    steered_controller(random.Random(seed))


def test_a_rollout_and_a_table_that_somebody_broke_stop_no_other_rollout() -> None:
    """The table routes a component that the topology does not have; the rollout beside it cannot be read."""
    world, _, other = two_topologies()
    world.tell(20)
    world.zookeeper.put(world.paths.routes(other), encode(Routes(topology_id=other, components=[NOBODY])))
    world.zookeeper.put(world.paths.rollout(other), b"{nonsense")
    world.cycle.advance_rollouts(world.cycle.observer.observe(world.now_ms))
    assert world.rollout(other) is None


@pytest.mark.parametrize("step", [-9, 7])
def test_a_rollout_at_a_step_that_it_does_not_have_is_taken_away(step: int) -> None:
    world, first, second = two()
    rolling = next(t for t in (first, second) if (m := world.rollout(t)) is not None and m.running)
    m = world.rollout(rolling)
    assert m is not None
    world.zookeeper.put(world.paths.routes(rolling), encode(Routes(topology_id=rolling)))
    world.zookeeper.put(world.paths.rollout(rolling), encode(msgspec.structs.replace(m, step=step)))
    world.situation()
    world.cycle.advance_rollouts(world.cycle.observer.observe(world.now_ms))
    assert world.rollout(rolling) is None


MEASURING = MoveState(topology_id="", phase="measuring", plan_id="p-1", metric="inter_node_share", window_s=0.0)
JUDGED = MoveState(topology_id="", plan_id="p-1", metric="inter_node_share", judged_at_ms=1, verdict="REJECTED")


@pytest.mark.parametrize("move", [MEASURING, JUDGED])
def test_a_move_that_is_judged_by_nothing_costs_its_topology_alone(move: MoveState) -> None:
    world, good, other = two_topologies()
    world.tell(20)
    since_ms = world.now_ms - 1000
    hostile = msgspec.structs.replace(move, topology_id=other, published_at_ms=since_ms, applied_at_ms=since_ms)
    status = StatusMessage(topology_id=other, plan_id="p-1", state="applied", code="OK", since_ms=1, written_at_ms=1)
    world.zookeeper.put(world.paths.moves(other), encode(hostile))
    world.zookeeper.put(world.paths.status(other), encode(status))
    world.wanted = {good: BETTER}
    world.tell(10)
    assert f"{world.paths.moves(other)}: not a valid MoveState: before, predicted" in "\n".join(world.state().problems)
    world.tell(50)
    assert world.slots(good) == BETTER


def flood(world: World, folder: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill a folder with more znodes than are read."""
    monkeypatch.setattr(listing, "MAX_CHILDREN", FEW)
    for n in range(FEW + 1):
        world.zookeeper.put(folder(f"nobody-{n}-1-1"), b"")


@pytest.mark.parametrize("folder", ["plan", "status", "mode", "pause", "hold", "pin"])
def test_a_folder_with_more_children_than_a_packet_holds_is_named_and_stops_nobody(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, good, _ = two_topologies()
    world.tell(20)
    flood(world, getattr(world.paths, folder), monkeypatch)
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == BETTER
    assert "children, more than" in "\n".join(world.state().problems)


def test_topologies_that_ran_before_somebody_filled_their_folder_are_looked_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, good, _ = two_topologies()
    world.tell(20)
    flood(world, world.paths.topology, monkeypatch)
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == BETTER
    assert "2 are still read" in "\n".join(world.state().problems)


@pytest.mark.parametrize("folder", ["mode", "pause", "hold", "pin", "drain", "exclusion"])
def test_a_new_leader_that_cannot_read_what_is_forbidden_moves_nothing(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, good, _ = two_topologies()
    before = world.slots(good)
    flood(world, getattr(world.paths, folder), monkeypatch)
    world.new_leader()
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == before
    assert world.decision(good).reason.row.holds_everything


def test_a_name_in_a_history_that_only_looks_like_a_number_stops_no_plan() -> None:
    world, good, other = two_topologies()
    world.tell(20)
    for t in (good, other):
        world.zookeeper.put(world.paths.plan_history(t, "\u00b2"), b"")
        world.zookeeper.put(world.paths.plan_history(t, "9" * 5000), b"")
    world.wanted = {good: BETTER}
    world.tell(60)
    assert world.slots(good) == BETTER


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("kind", ["plan_history", "proposal", "moves", "load", "below a proposal"])
def test_a_znode_that_denies_us_costs_the_plans_of_its_topology_alone(kind: str, together: bool) -> None:
    """Where both want to move at once their plans are one set: it was refused as a whole, again and again."""
    world, good, other = two_topologies()
    world.tell(20)
    if kind == "below a proposal":  # which ZooKeeper does not remove then
        world.zookeeper.put(f"{world.paths.proposal(other)}/below", b"")
    else:
        path = getattr(world.paths, kind)(other)
        for _ in range(3):
            world.zookeeper.put(path, b"")
        world.zookeeper.denied.add(path)
    if not together:
        world.wanted = {other: ELSEWHERE}
        world.tell(30)
    world.wanted = {other: ELSEWHERE, good: BETTER}
    world.tell(100)
    assert world.slots(good) == BETTER
    assert (world.plan(other) is None) is (kind != "proposal"), "a proposal is removed: the folder is ours"


@pytest.mark.parametrize(
    ("kind", "verb"), [("request", operate.replan), ("hold", operate.replan), ("proposal", operate.discard)]
)
def test_a_znode_below_what_a_request_removes_costs_its_topology_alone(
    kind: str, verb: Callable[[operate.Operator, str], operate.Change]
) -> None:
    """ZooKeeper removes no znode with others below it; the request is done once they are gone."""
    world, good, other = two_topologies()
    world.configure(other, {"stormpilot.approval": True})
    world.wanted = {other: ELSEWHERE}
    world.tell(60)
    assert world.decision(other).reason == "APPROVAL_NEEDED"
    until_ms = world.now_ms + 3_600_000
    hold = Hold(topology_id=other, since_ms=world.now_ms, until_ms=until_ms, cause="discard")
    world.zookeeper.put(world.paths.hold(other), encode(hold))
    below = f"{getattr(world.paths, kind)(other)}/below"
    verb(operator(world), other)
    world.zookeeper.put(below, b"")
    world.wanted = {good: BETTER, other: ELSEWHERE}
    world.tell(60)
    assert world.slots(good) == BETTER
    assert world.zookeeper.children([world.paths.request()]) == [[other]]
    world.zookeeper.delete(below)
    world.tell(10)
    assert world.zookeeper.children([world.paths.request()]) == [[]]


@pytest.mark.parametrize("name", ["9" * 18, "0999999999", "0999999998"])
def test_a_number_in_a_history_that_is_none_of_ours_stops_no_plan(name: str) -> None:
    """The plan after it was to have a longer name, which was no number of a plan to the next one."""
    world, good, _ = two_topologies()
    world.zookeeper.put(world.paths.plan_history(good, name), b"")
    world.wanted = {good: BETTER}
    world.tell(100)
    assert world.slots(good) == BETTER
    world.wanted = {}
    operate.rollback(operator(world), good, 1)
    world.tell(100)
    assert world.slots(good) == GOOD


def test_a_plan_is_told_as_published_though_its_history_cannot_be_shortened() -> None:
    world, good, _ = two_topologies()
    for n in range(25):
        world.zookeeper.put(world.paths.plan_history(good, f"x{n:02d}"), b"")
    world.zookeeper.denied.add(world.paths.plan_history(good, "x00"))
    world.tell(20)
    world.wanted = {good: BETTER}
    for _ in range(20):
        if world.plan(good) is None:
            world.tell(10)
    assert world.decision(good).action == "publish"


def refuse(w: World, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper lets nobody write this znode from now on."""
    commit = w.cycle.publisher._commit

    def denied(steps: Sequence[Step]) -> None:
        if any(isinstance(s, Put) and s.path == path for s in steps):
            raise DeniedError(path)
        commit(steps)

    monkeypatch.setattr(w.cycle.publisher, "_commit", denied)


@pytest.mark.parametrize("at", ["draining", "moving", "not started"])
def test_a_rollout_whose_move_cannot_be_written_gives_its_tuples_back_and_ends(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed at that znode every second, and its tasks got no tuples for as long."""
    w, t = rolling_jobs.world()
    path = w.paths.moves(t)
    rolling_jobs.begun(w, t, "draining" if at == "draining" else "moving")
    if at == "not started":  # others may read it alone
        w.restart_s = 100_000
        monkeypatch.setattr(w.cycle.publisher, "follow", lambda *_: (_ for _ in ()).throw(DeniedError(path)))
    else:
        w.apply_after_s = 1_000_000
        w.zookeeper.put(path, b"")
        w.zookeeper.denied.add(path)
    with structlog.testing.capture_logs() as logs:
        w.tell(140)
    m = w.rollout(t)
    assert m is not None
    assert (m.outcome, path in m.text) == ("INTERFERED" if at == "draining" else "TOO_LATE", at == "draining")
    assert rolling_jobs.all_active(w, t)
    assert [x["event"] for x in logs].count("a step of a rollout could not be written") == 1
    assert [e.kind for e in w.events] == [EventKind.ROLLOUT_ENDED]


def test_a_rollout_whose_own_znode_cannot_be_written_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log had it every second, and that a rollout was taken away that was there as before."""
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "draining")
    refuse(w, w.paths.rollout(t), monkeypatch)
    with structlog.testing.capture_logs() as logs:
        w.tell(40)
    told = [x["event"] for x in logs if x["log_level"] in ("warning", "error")]
    assert told == ["rollout cannot go on; those of other topologies do"]


def test_a_rollout_whose_own_znode_denies_us_is_removed_and_its_tasks_get_tuples() -> None:
    """It was removed by a version that nobody may read, in vain, and its tasks stood still for as long."""
    w, t = rolling_jobs.world()
    rolling_jobs.begun(w, t, "draining")
    w.wanted = {}
    w.zookeeper.denied.add(w.paths.rollout(t))
    with structlog.testing.capture_logs() as logs:
        w.tell(40)
    told = [x["event"] for x in logs if x["log_level"] in ("warning", "error")]
    assert told == ["a rollout could not be read, it was taken away and all tasks get tuples"]
    assert w.rollout(t) is None
    assert rolling_jobs.all_active(w, t)


def test_a_rollout_whose_table_cannot_be_written_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was to begin with it, every second, for ever."""
    w, t = rolling_jobs.world()
    refuse(w, w.paths.routes(t), monkeypatch)
    rolling_jobs.begun(w, t)
    w.tell(20)
    m = w.rollout(t)
    assert m is not None
    assert (m.outcome, w.paths.routes(t) in m.text) == ("INTERFERED", True)


def test_no_rollout_begins_whose_steps_could_not_be_followed() -> None:
    w, t = rolling_jobs.world()
    w.zookeeper.put(w.paths.moves(t), b"")
    w.zookeeper.denied.add(w.paths.moves(t))
    w.tell(30)
    assert w.rollout(t) is None
    assert w.decision(t).reason == "NOT_PUBLISHED"
    assert w.paths.moves(t) in w.decision(t).text
