"""Whole cycles: from load reports in a real ZooKeeper to plans that a double of the plug-in applies."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, supervisor, topology
from stormpilot.cli.live import Place, connected
from stormpilot.config import CycleSection
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import HistoryEntry, PlanMessage, encode
from stormpilot.messages.settings import ModeSetting, PauseSetting
from stormpilot.observe import observer
from stormpilot.observe.build import build
from stormpilot.operate.plans import moved, published_plan
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths

from .conftest import ID, SPREAD, Play, Settings, Start, held, message, view

pytestmark = pytest.mark.zookeeper


def measured_below(shim: ShimDouble, tps: float) -> bool:
    v = view(shim)
    return v is not None and v.inter_node_tps is not None and v.inter_node_tps < tps


def test_new_topology_gets_its_first_plan_at_once(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    """By watch, not by the clock: the period here is an hour, and the plug-in only waits for some seconds."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    hourly = CycleSection(period_s=3600.0, poll_s=1.0)
    controller = start(msgspec.structs.replace(settings(shared_zookeeper.hosts), cycle=hourly))
    until(lambda: controller.logged("no change"), "the first cycle, which finds nothing to do")
    shim.submit(topology())
    until(lambda: shim.applied, "the first plan to be applied")
    assert all(supervisor for supervisor, _ in shim.placement(ID).values())
    (line,) = controller.logged("published plan")
    assert (line["topology"], line["reason"], line["moves"]) == ("flights", "FIRST_PLAN", 6)
    until(lambda: controller.logged("plan applied"), "the controller to see that it was applied")


def test_measured_gain_is_published_applied_and_followed_by_a_cool_down(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("no change", reason="INSUFFICIENT_METRICS"), "a cycle that has too little data")
    until(lambda: controller.logged("no change", reason="GAIN_NOT_SUSTAINED"), "the gain to be seen once")
    until(lambda: shim.applied, "a plan to be applied")
    (line,) = controller.logged("published plan")
    before, after = (int(x) for x in str(line["inter_node_tps"]).split("->"))
    assert after < before * 0.9
    assert (line["reason"], line["planner"]) == ("GAIN", "online")

    plan: PlanMessage = message(shim, shim.paths.plan(ID), PlanMessage)
    assert plan.checksum == plan.expected_checksum()
    assert plan.expected.after["inter_node_tps"] == pytest.approx(after, abs=1)
    assert (plan.seed, plan.params, plan.plan_set_topologies) == (1, {"alpha": 0.0}, [ID])
    entry: HistoryEntry = message(shim, shim.paths.plan_history(ID, "0000000001"), HistoryEntry)
    assert entry.plan == plan
    assert (entry.reason, entry.published_by) == ("GAIN", controller.daemon.name)

    until(lambda: controller.logged("no change", reason="COOL_DOWN"), "the cool-down")
    assert len(shim.applied) == 1
    until(lambda: measured_below(shim, before * 0.95), "the measured traffic to be that of the plan")


def test_advice_is_written_beside_and_nothing_is_published(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    shim.client.create(shim.paths.mode("flights"), encode(ModeSetting(mode="advise")), makepath=True)
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("proposed plan", reason="GAIN"), "proposal")
    assert shim.client.get_children(shim.paths.plan()) == []
    proposal: HistoryEntry = message(shim, shim.paths.proposal(ID), HistoryEntry)
    assert proposal.plan.topology_id == ID
    with connected(Place(shared_zookeeper.hosts, shim.paths, Login())) as connection:
        shown = published_plan(connection, shim.paths, "flights")
        assert shown.proposal
        assert len(moved(shown)) == proposal.moved_executors
        shim.client.set(shim.paths.mode("flights"), encode(ModeSetting(mode="act")))
        until(lambda: shim.applied, "the plan, once the operator lets it act")
        until(lambda: not moved(published_plan(connection, shim.paths, ID)), "it to be in force")


def test_pause_and_off_hold_at_once_and_resume_lets_go(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.client.create(shim.paths.pause(), encode(PauseSetting(why="test")), makepath=True)
    shim.submit(topology(SPREAD))
    start(settings(shared_zookeeper.hosts))
    until(lambda: held(shim, "PAUSED"), "the pause to hold")
    shim.client.delete(shim.paths.pause())
    shim.client.create(shim.paths.mode("flights"), encode(ModeSetting(mode="off")), makepath=True)
    until(lambda: held(shim, "MODE_OFF"), "the mode to hold")
    assert shim.applied == []
    shim.client.delete(shim.paths.mode("flights"))
    until(lambda: shim.applied, "a plan when nothing holds any more")


def test_refused_plan_is_told_and_another_is_made(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    """The plug-in knows of a slot that went, the snapshot did not say so yet."""
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim._cluster = cluster("a", "b", ports=[6799])
    shim.submit(topology())
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("plan rejected", code="PORT_UNKNOWN"), "the refusal to be told")
    shim.change_cluster(cluster("a", "b", ports=[6799]))
    until(lambda: shim.applied, "a plan that fits")
    assert {port for _, port in shim.placement(ID).values()} == {6799}


def test_placement_repaired_by_the_plug_in_becomes_the_plan_without_moving_anything(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b", "c"))
    shim.submit(topology())
    config = settings(shared_zookeeper.hosts)
    controller = start(config)
    until(lambda: shim.applied, "the first plan")
    place = shim.placement(ID)
    lost = sorted({s for s, _ in place.values() if s})[0]
    left = sorted({"a", "b", "c"} - {lost})
    shim.change_cluster(cluster(*left))
    shim.degrade(ID, {t: ((left[-1], 6703) if s == lost else (s, p)) for t, (s, p) in place.items()})  # type: ignore[misc]
    until(lambda: controller.logged("plan degraded"), "the loss to be told")
    until(lambda: len(shim.applied) == 2, "the repair to be made the plan")
    assert {s for s, _ in shim.placement(ID).values()} <= set(left)
    assert controller.logged("published plan")[-1]["reason"] in ("REPAIR", "GAIN")


def test_nothing_moves_when_most_of_the_cluster_vanishes(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b", "c", "d"))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: controller.logged("no change", reason="NO_TOPOLOGY"), "a cycle that sees four supervisors")
    shim.change_cluster(cluster("a", "b"))
    shim.submit(topology())
    until(lambda: held(shim, "MASS_FAILURE"), "the guard")
    assert shim.applied == []
    shim.change_cluster(cluster("a", "b", "c", "d"))
    until(lambda: shim.applied, "the first plan when they are back")


def test_topologies_that_stand_still_keep_their_slots(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    """A topology in mode off holds slots that a plan for another one must not take."""
    small = cluster("a", "b", ports=[6700, 6701])
    shim = play(shared_zookeeper.hosts, small)
    off = "wordcount-1-1763690000"
    shim.submit(topology(everywhere({("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)}), name="wordcount"))
    shim.client.create(shim.paths.mode("wordcount"), encode(ModeSetting(mode="off")), makepath=True)
    before = shim.placement(off)
    start(settings(shared_zookeeper.hosts))
    until(lambda: held(shim, "MODE_OFF", off), "the first topology to be seen")
    shim.submit(topology())
    until(lambda: shim.applied, "the plan of the other topology")
    assert set(shim.placement(ID).values()) == {("a", 6701), ("b", 6701)}
    assert shim.placement(off) == before


@pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"{}", b'{"schema": 99}', b"[1, 2", b"null"])
def test_garbage_anywhere_is_named_once_and_stops_nothing(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths, garbage: bytes
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    for path in (
        paths.status("gone-1-1"),
        paths.plan("gone-1-1"),
        paths.topology("gone-1-1"),
        paths.mode("gone"),
        paths.controller,
        paths.epoch,
        f"{paths.load(ID)}/strange",
    ):
        shim.client.create(path, garbage, makepath=True)
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "a plan all the same")
    for path in (paths.status("gone-1-1"), paths.plan("gone-1-1"), paths.topology("gone-1-1"), paths.mode("gone")):
        assert len(controller.logged("cannot be read, left out", path=path)) == 1
    assert not controller.logged("cycle failed; retrying next period")
    state: ControllerState = message(shim, paths.controller, ControllerState)
    assert any("gone-1-1" in p for p in state.problems)


def test_snapshot_that_becomes_unreadable_still_holds_its_slots(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b", ports=[6700, 6701]))
    shim.submit(topology(everywhere({("a", 6700): (1, 2, 3), ("b", 6700): (4, 5, 6)}), name="wordcount"))
    shim.client.create(paths.mode("wordcount"), encode(ModeSetting(mode="off")), makepath=True)
    start(settings(shared_zookeeper.hosts))
    until(lambda: held(shim, "MODE_OFF", "wordcount-1-1763690000"), "it to be seen")
    shim.client.set(paths.topology("wordcount-1-1763690000"), b"oops")
    shim.submit(topology())
    until(lambda: shim.applied, "the plan of the other topology")
    assert set(shim.placement(ID).values()) == {("a", 6701), ("b", 6701)}
    assert shim.refused == []


def test_corrupted_plan_is_told_and_what_runs_is_left_alone(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, paths: Paths
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology())
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: shim.applied, "the first plan")
    before = shim.placement(ID)
    plan = json.loads(shim.client.get(paths.plan(ID))[0])
    plan["workers"][0]["port"] = 6703
    shim.client.set(paths.plan(ID), json.dumps(plan).encode())
    until(lambda: held(shim, "PLAN_REJECTED"), "the controller to tell")
    assert "checksum" in view(shim).text
    assert shim.placement(ID) == before
    assert controller.running


def test_traffic_log_and_audit_are_written(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, tmp_path: Any
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts, "traffic_log: {dir: log}\n"))
    until(lambda: shim.applied, "a plan to be applied")
    until(lambda: list(tmp_path.glob("log/edges/*/*/*.parquet")), "a window in the log")
    controller.stop()
    edges = pq.read_table(tmp_path / "log" / "edges").to_pylist()
    assert {(e["from_executor"], e["to_executor"]) for e in edges} >= {(1, 2), (2, 4)}
    decisions = pq.read_table(tmp_path / "log" / "decisions").to_pylist()
    published = [d for d in decisions if d["action"] == "publish"]
    assert [d["plan_id"] for d in published] == shim.applied
    assert {d["reason"] for d in decisions} >= {"INSUFFICIENT_METRICS", "GAIN"}
    assert supervisor("a").id in {n["supervisor"] for n in pq.read_table(tmp_path / "log" / "nodes").to_pylist()}
    assert all(d["plan"] for d in published)
    windows = pq.read_table(tmp_path / "log" / "windows").to_pylist()
    assert {w["topology_id"] for w in windows} == {ID}
    assert any(w["total_tps"] > 0 for w in windows)


def test_what_nobody_thought_of_in_a_snapshot_costs_cycles_and_not_the_controller(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = threading.Event()

    def believe(*given: Any) -> Any:
        if broken.is_set():
            raise ZeroDivisionError("a cluster of no cores")
        return build(*given)

    monkeypatch.setattr(observer, "build", believe)
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    shim.submit(topology(SPREAD))
    controller = start(settings(shared_zookeeper.hosts))
    until(lambda: view(shim) is not None, "a cycle")
    broken.set()
    until(lambda: controller.logged("cluster could not be observed; retrying next period"), "a failure")
    broken.clear()
    cycles = message(shim, shim.paths.controller, ControllerState).cycles
    until(lambda: message(shim, shim.paths.controller, ControllerState).cycles > cycles + 1, "cycles that go on")
    assert controller.running
