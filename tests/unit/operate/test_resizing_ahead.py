"""A plan that is published ahead of the rebalance that it was made for, so that workers restart once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from doubles.sized_world import PATHS, World, running
from doubles.snapshots import T0_MS, topology
from stormpilot.cli.apply_size import _described
from stormpilot.messages.core import HistoryEntry, PlanMessage, Worker, decode
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.settings import Mode, ModeSetting
from stormpilot.nimbus import Address
from stormpilot.operate.placing import PLAN_KEY
from stormpilot.operate.resizing import Resizing
from stormpilot.zookeeper.client import Node

NIMBUS = Address("nimbus-1", 6627)


def with_a_plan(world: World) -> Node:
    """The znode of a plan that runs."""
    workers = [Worker(supervisor="a", port=6700, executors=[(e.start, e.end) for e in world.snapshot.executors])]
    plan = PlanMessage(
        plan_id="p-former",
        plan_set="r",
        planner="online",
        topology_id=world.id,
        epoch=7,
        created_at_ms=T0_MS,
        workers=workers,
        checksum="",
    )
    world.put(PATHS.plan(world.id), plan)
    world.zookeeper.put(PATHS.epoch, b"7")
    (node,) = world.zookeeper.read([PATHS.plan(world.id)])
    assert node is not None
    return node


def leads(world: World, mode: Mode = "act") -> None:
    """A controller leads, and the topology has this mode."""
    world.zookeeper.put(f"{PATHS.leader}/contender-0000000001", b"ctl-1:77")
    world.put(PATHS.mode("t"), ModeSetting(mode=mode, by="ann"))


@pytest.mark.parametrize("controller", [False, True])
def test_the_plan_is_there_when_nimbus_rebalances(controller: bool) -> None:
    """Else Storm's own scheduler places the threads first, and workers restart twice."""
    world = World()
    world.waits = True
    with_a_plan(world)
    if controller:
        leads(world)
    change = world.size(250.0)
    plan_id = world.carry_out(change)
    plan = world.plan()
    assert plan.plan_id == plan_id
    assert [state for said, state in world.said if said == plan_id][:2] == ["waiting", "applied"]
    assert {p for p, _ in world.said} <= {"p-former", plan_id}, "one plan, once"
    assert (plan.based_on.workers, plan.based_on.rebalance_s) == (3, 63)
    assert plan.workers == change.workers
    assert plan.epoch == (7 if controller else 8), "who leads is not deposed"


@pytest.mark.parametrize(
    ("mode", "said"),
    [("off", "Storm's own scheduler places its threads, for t is in mode off"), (None, "ctl-1:77 places its threads")],
)
def test_what_was_rebalanced_is_left_to_a_controller_whose_mode_is_off_or_not_known(
    mode: Mode | None, said: str
) -> None:
    world = World()
    former = with_a_plan(world)
    leads(world, mode or "off")
    if mode is None:
        world.zookeeper.delete(PATHS.mode("t"))
    change = world.size(250.0)
    assert world.carry_out(change) is None
    assert world.rebalanced == [(3, 3, {"pi": 5})]
    assert world.zookeeper.read([PATHS.plan(world.id)]) == [former]
    assert any("not where its threads go" in n for n in change.notes)
    assert _described(change, NIMBUS)[-1] == said


def test_a_leading_controller_goes_on_from_the_placement_of_the_size() -> None:
    world = World()
    leads(world, "advise")
    change = world.size(250.0)
    assert world.carry_out(change) is None, "no leader has been there: there is no epoch"
    world.zookeeper.put(PATHS.epoch, b"7")
    world.put(PATHS.topology(world.id), world.snapshot)
    change = world.size(250.0)
    assert world.carry_out(change) == world.plan().plan_id
    assert "a controller leads: ctl-1:77 goes on from the slots above" in change.notes
    assert _described(change, NIMBUS)[-1] == "placed by this command"


def slot_is_taken(world: World, change: Resizing) -> None:
    """Another topology takes a slot of the size."""
    w = change.workers[-1]
    other = topology({1: (w.supervisor, w.port)}, name="other")
    world.put(PATHS.topology(other.id), other)


def storm_makes_others(world: World, _: Resizing) -> None:
    """The larger executor is the last one, and not the first."""
    made = running({"source": 1, "pi": 5, "__acker": 1}, 3)
    ranges = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 7), (8, 8)]
    parts = [msgspec.structs.replace(e, start=a, end=b) for e, (a, b) in zip(made.executors, ranges, strict=True)]
    world.put(PATHS.topology(world.id), msgspec.structs.replace(made, executors=parts))


@pytest.mark.parametrize("happens", [slot_is_taken, storm_makes_others])
def test_a_plan_that_does_not_fit_what_storm_made_is_withdrawn(happens: Callable[[World, Resizing], None]) -> None:
    """A controller finds its own plan again, and plans what was rebalanced; the history tells of ours."""
    world = World(slots=1)
    former = with_a_plan(world)
    leads(world)
    change = world.size(250.0)
    world.meanwhile = lambda: happens(world, change)
    assert world.carry_out(change) is None
    (node,) = world.zookeeper.read([PATHS.plan(world.id)])
    assert node is not None
    assert node.data == former.data
    (names,) = world.zookeeper.children([PATHS.plan_history(world.id)])
    (kept,) = world.zookeeper.read([PATHS.plan_history(world.id, names[-1])])
    assert kept is not None
    assert decode(kept.data, HistoryEntry, "history").rejected


def test_a_plan_that_somebody_else_publishes_meanwhile_is_not_written_over() -> None:
    world = World()
    with_a_plan(world)
    leads(world)
    change = world.size(250.0)
    world.meanwhile = lambda: setattr(world.zookeeper, "before_commit", lambda: with_a_plan(world))
    assert world.carry_out(change) is None
    assert world.plan().plan_id == "p-former"


def rollout_goes_on(world: World) -> None:
    rollout = decode((Path(__file__).parents[2] / "contract/rollout.json").read_bytes(), Rollout, "rollout")
    assert rollout.running
    world.put(PATHS.rollout(world.id), msgspec.structs.replace(rollout, topology_id=world.id))


def plans_have_to_be_signed(world: World) -> None:
    world.nimbus_conf = {PLAN_KEY: "/etc/stormpilot-plan.key"}


@pytest.mark.parametrize("prevents", [rollout_goes_on, plans_have_to_be_signed])
def test_where_no_plan_can_be_ahead_the_controller_places_what_was_rebalanced_and_that_is_told_before(
    prevents: Callable[[World], None],
) -> None:
    world = World()
    with_a_plan(world)
    leads(world)
    prevents(world)
    change = world.size(250.0)
    assert _described(change, NIMBUS)[-1] == "ctl-1:77 places its threads"
    assert any("not where its threads go" in n for n in change.notes)
    assert world.carry_out(change) is None
    assert world.plan().plan_id == "p-former"
