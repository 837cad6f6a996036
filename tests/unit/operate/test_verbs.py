"""Verbs on ZooKeeper in memory: what is asked first, what a drain tells, how long a rollout still takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.snapshots import T0_MS, cluster, everywhere, topology
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.controller_state import ConfiguredModes, ControllerState, TopologyView
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ALL, ModeSetting
from stormpilot.operate import Operator, drain, draining, exclude, include, mode, pause, pin, replan, resume
from stormpilot.operate.pauses import pauses
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
ID = "flights-1-1763690000"
SLOTS = {("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)}


class World:
    """A cluster with one topology, on a clock of the test's own."""

    def __init__(self) -> None:
        self.now_ms = T0_MS
        self.zookeeper = MemoryZooKeeper(lambda: self.now_ms)
        self.zookeeper.put(PATHS.cluster, encode(cluster("a", "b")))
        self.zookeeper.put(PATHS.topology(ID), encode(topology(everywhere(SLOTS))))

    def operator(self, **fields: Any) -> Operator:
        return Operator(self.zookeeper, PATHS, "ann", now_ms=self.now_ms, **fields)  # type: ignore[arg-type]

    def decide(
        self, reason: str, since_ms: int, mode: Any = "advise", action: Any = "skip", configured: Any = None
    ) -> None:
        """The controller ends a cycle; `configured` is its `decide.mode`."""
        view = TopologyView(id=ID, name="flights", mode=mode, action=action, reason=reason, since_ms=since_ms)
        state = ControllerState(
            controller="c:1",
            version="0.1.0",
            epoch=1,
            started_at_ms=T0_MS,
            written_at_ms=self.now_ms,
            period_s=30.0,
            cycles=1,
            planner="best",
            sentence="",
            topologies=[view],
            modes=None if configured is None else ConfiguredModes(mode=configured),
        )
        self.zookeeper.put(PATHS.controller, encode(state))


@pytest.fixture
def world() -> World:
    return World()


def test_pauses_tell_who_made_them_and_why_and_one_that_cannot_be_read_is_left_out(world: World) -> None:
    pause(world.operator(why="release day"))
    pause(world.operator(), "flights")
    world.zookeeper.put(PATHS.pause("words"), b"{")
    found = pauses(world.zookeeper, PATHS, frozenset({ALL, "flights", "words", "gone"}))
    assert {key: (p.by, p.why, p.since_ms) for key, p in found.items()} == {
        ALL: ("ann", "release day", T0_MS),
        "flights": ("ann", "", T0_MS),
    }


def test_a_topology_whose_snapshot_denies_us_is_none_and_others_are_found(world: World) -> None:
    evil = PATHS.topology("evil-1-1")
    world.zookeeper.put(evil, b"{}")
    world.zookeeper.denied.add(evil)
    assert list(world.operator().topologies()) == [ID]
    assert world.operator().topology_name("flights") == "flights"


def test_a_drain_does_not_begin_with_a_decision_of_before(world: World) -> None:
    """`drain --wait` told why nothing moves, which was of a cycle that knew of no drain."""
    world.decide("COOL_DOWN", T0_MS - 60_000)
    world.now_ms += 1_000
    assert draining(world.operator(), "host-a").decisions == {"flights": "COOL_DOWN"}  # nothing is drained yet
    drain(world.operator(), "host-a")
    found = draining(world.operator(), "host-a")
    assert (found.executors, found.decisions) == ({"flights": 3}, {})
    world.now_ms += 500
    world.decide("COOL_DOWN", T0_MS - 60_000)  # a cycle that began before ends after it
    assert draining(world.operator(), "host-a").decisions == {}
    world.now_ms += 500
    world.decide("DRAIN", world.now_ms)  # another reason: it was seen
    assert draining(world.operator(), "host-a").decisions == {"flights": "DRAIN"}
    world.now_ms += 60_000
    world.decide("COOL_DOWN", T0_MS - 60_000)  # still the same one, of a cycle that surely saw it
    assert draining(world.operator(), "host-a").decisions == {"flights": "COOL_DOWN"}


def test_a_drain_that_is_only_proposed_says_who_is_waited_for(world: World) -> None:
    """In mode advise nothing moves by itself: `drain --wait` waited until its time was over."""
    drain(world.operator(), "host-a")
    world.now_ms += 60_000
    world.decide("DRAIN", world.now_ms, action="advise")
    text = "DRAIN; the mode is advise: stormpilot approve flights"
    assert draining(world.operator(), "host-a").decisions == {"flights": text}


def test_mode_act_tells_how_many_executors_may_move_at_once(world: World) -> None:
    world.decide("ADVISE", T0_MS)
    asked = mode(world.operator(dry_run=True), "act", "flights")
    assert asked.danger == "the controller may then move flights at once: up to 6 of 6 executors of flights"
    everything = mode(world.operator(dry_run=True), "act")
    assert "every topology that no other mode names at once: up to 6 of 6 executors of flights" in everything.danger
    world.zookeeper.put(PATHS.mode("flights"), encode(ModeSetting(mode="advise")))
    everything = mode(world.operator(dry_run=True), "act")
    assert everything.danger == "the controller may then move every topology that no other mode names"
    assert everything.target == ALL


@pytest.mark.parametrize("word", ["advise", "off", "default"])
def test_other_modes_ask_nothing(world: World, word: Any) -> None:
    assert mode(world.operator(dry_run=True), word, "flights").danger == ""


def test_what_acts_already_or_does_not_run_asks_nothing(world: World) -> None:
    world.decide("GAIN", T0_MS, mode="act")
    assert mode(world.operator(dry_run=True), "act", "flights").danger == ""
    assert mode(world.operator(dry_run=True), "act", "later").danger == ""


def test_a_mode_that_is_taken_back_asks_where_the_configured_one_acts(world: World) -> None:
    """And what the last cycle saw does not count: somebody has set advise since."""
    world.decide("GAIN", T0_MS, mode="act", configured="act")
    assert mode(world.operator(dry_run=True), "default", "flights").danger == "", "it acts already"
    world.zookeeper.put(PATHS.mode("flights"), encode(ModeSetting(mode="advise")))
    for word in ("default", "act"):
        danger = mode(world.operator(dry_run=True), word, "flights").danger  # type: ignore[arg-type]
        assert danger == "the controller may then move flights at once: up to 6 of 6 executors of flights"
    assert replan(world.operator(dry_run=True), "flights").danger == ""
    world.zookeeper.put(PATHS.mode("flights"), encode(ModeSetting(mode="act")))
    assert "workers of flights restart" in replan(world.operator(dry_run=True), "flights").danger


def test_replan_of_what_is_held_is_refused_also_where_it_is_only_looked_at(world: World) -> None:
    pause(world.operator())
    with pytest.raises(RefusedError, match="flights: PAUSED"):
        replan(world.operator(dry_run=True), "flights")
    world.zookeeper.delete(PATHS.pause(ALL))
    mode(world.operator(), "off", "flights")
    with pytest.raises(RefusedError, match="flights: MODE_OFF"):
        replan(world.operator(dry_run=True), "flights")


def test_host_is_not_called_empty_where_a_topology_cannot_be_read(world: World) -> None:
    """It may run there: a snapshot of a newer version, or one that denies us."""
    world.zookeeper.put(PATHS.topology("words-1-1"), b"{")
    world.zookeeper.put(PATHS.cluster, encode(cluster("a", "b", "c")))
    assert draining(world.operator(), "host-c").unread == "words-1-1 cannot be read"
    text = drain(world.operator(dry_run=True), "host-c").text
    assert text == "host-c: is drained, and not known to be empty: words-1-1 cannot be read"


def test_host_is_not_called_empty_or_without_supervisor_where_the_cluster_cannot_be_read(world: World) -> None:
    drain(world.operator(), "host-a")
    world.zookeeper.put(PATHS.cluster, b"{")
    found = draining(world.operator(), "host-a")
    assert (found.there, found.executors, found.unread) == (True, {}, "the cluster snapshot cannot be read")


def test_include_of_no_component_is_not_that_of_all(world: World) -> None:
    """A variable of a script that is not set."""
    exclude(world.operator(), "host-a", "flights")
    with pytest.raises(UsageError, match="the component is empty"):
        include(world.operator(), "host-a", "flights", "")
    assert include(world.operator(dry_run=True), "host-a", "flights").changed


def test_a_change_is_camel_case() -> None:
    change = mode(World().operator(dry_run=True), "advise", "flights")
    assert {"dryRun", "requestId"} <= set(msgspec.to_builtins(change))


def test_a_setting_for_a_name_that_no_topology_has_says_so(world: World) -> None:
    """`pause fligths` said "fligths: paused", and flights was moved."""
    unknown = "; no topology of that name runs now (there are: flights)"
    assert pause(world.operator(), "fligths").text == f"fligths: paused{unknown}"
    assert pause(world.operator(), "fligths").text == f"fligths: was paused already{unknown}"
    assert resume(world.operator(), "fligth").text == f"fligth: was not paused{unknown}"
    assert mode(world.operator(), "off", "fligths").text == f"fligths: mode off{unknown}"
    assert pin(world.operator(), "fligths", "parse", "a").text.endswith(unknown)
    assert exclude(world.operator(), "a", "fligths").text.endswith(unknown)
    assert pause(world.operator(), "flights").text == "flights: paused"
    assert pause(world.operator()).text == "everything: paused"


def test_a_setting_does_not_deny_a_topology_where_the_plug_in_tells_of_none() -> None:
    """The plug-in is not installed yet: "no topology of that name runs now" was said of one that ran."""
    text = pause(Operator(MemoryZooKeeper(lambda: T0_MS), PATHS, "olga"), "flights").text
    assert "runs now" not in text
    assert "the scheduler plug-in tells of none; where topologies run, stormpilot doctor tells what is wrong" in text


def test_a_setting_does_not_deny_a_topology_that_may_be_one_that_cannot_be_read() -> None:
    """Its access list let the operator read nothing: "the plug-in tells of none" was said of one that ran."""
    zookeeper = MemoryZooKeeper(lambda: T0_MS)
    zookeeper.put(PATHS.topology("words-1-1"), b"{")
    text = pause(Operator(zookeeper, PATHS, "olga"), "words").text
    assert text.endswith("no topology of that name is known (words-1-1 cannot be read)")


def test_what_is_resumed_and_stays_paused_by_another_pause_is_told(world: World) -> None:
    """Resumed, it did not move; and "was not paused" was said of one that status shows as paused."""
    for name in ("flights", None):
        pause(world.operator(), name)
    assert resume(world.operator(dry_run=True)).text == (
        "everything: resumed, but 1 topology is paused by name (flights): `stormpilot resume NAME` ends that"
    )
    everything = ", but everything is paused, and so is flights: `stormpilot resume` ends that"
    assert resume(world.operator(), "flights").text == f"flights: resumed{everything}"
    assert resume(world.operator(), "flights").text == f"flights: was not paused by its name{everything}"
    assert resume(world.operator()).text == "everything: resumed"
    assert resume(world.operator()).text == "everything: was not paused"


@pytest.mark.parametrize(
    ("leads", "of", "said"),
    [
        (False, "act", ", once a controller leads: none does now"),
        (True, "act", ""),
        (True, "advise", " (flights waits for `stormpilot approve flights`)"),
        (True, "off", " (flights stays, its mode is off)"),
    ],
)
def test_what_a_drain_pin_or_exclusion_moves_is_told_with_who_is_waited_for(
    world: World, leads: bool, of: str, said: str
) -> None:
    """Executors were "to be moved", and a topology planned, where nobody was going to do it."""
    world.decide("NO_BETTER_PLAN", T0_MS, mode=of)
    if leads:
        world.zookeeper.put(f"{PATHS.leader}/n-1", b"")
    moved = f"; 3 executors (3 of flights) to be moved{said}"
    assert drain(world.operator(dry_run=True), "host-a").text == f"host-a: is drained{moved}"
    assert exclude(world.operator(dry_run=True), "host-a").text == f"everything: excluded from host-a{moved}"
    assert pin(world.operator(dry_run=True), "flights", "parse", "b").text.endswith(f"to be moved{said}")
    if of != "off":
        text = "the leading controller plans it in its next cycle" if leads else f"planned{said[1:]}"
        assert replan(world.operator(dry_run=True), "flights").text == f"flights: {text}"


def test_a_host_that_nobody_knows_is_not_called_empty(world: World) -> None:
    """Who waits for a drain over HTTP, by a misspelt name, would have switched a full host off."""
    with pytest.raises(RefusedError, match=r"no supervisor on 'host-A', and it is not drained \(there are: host-a"):
        draining(world.operator(), "host-A")
    forced = drain(world.operator(), "HOST-A", force=True).text
    assert forced.startswith("HOST-A: is drained, and no supervisor is on a host of that name now (there are: host-a")
    drain(world.operator(), "host-z", force=True)
    assert draining(world.operator(), "host-z").total == 0, "it is down, and stays empty"


def test_a_host_whose_supervisor_is_gone_is_not_called_empty_while_its_workers_may_run(world: World) -> None:
    """A supervisor that died while its host was drained made `drain --wait` end: "is empty", with workers on it."""
    drain(world.operator(), "host-a")
    world.zookeeper.put(PATHS.cluster, encode(cluster("b")))
    assert draining(world.operator(), "host-a").executors == {"flights": 3}
    drain(world.operator(), "host-b")
    assert draining(world.operator(), "host-b").executors == {"flights": 3}, "of its own supervisor alone"
    world.zookeeper.put(PATHS.topology(ID), encode(topology(everywhere({("b", 6700): (1, 2, 3, 4, 5, 6)}))))
    assert draining(world.operator(), "host-a").total == 0
