"""The loop's own moves on a real cluster: one that made it worse is undone, a host that came back is used, `otd` steps.

The job sends its tuples to two sites (`benchmarks/react/step`); the test says which part of them goes east.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.control.live import lose_host
from scene import MISSED_SOON, REPOSITORY, Scene, scene_on, until
from stormpilot.local.spec import ClusterSpec
from stormpilot.submit import submit_topology

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

EAST, WEST, MIDDLE = "supervisor-01", "supervisor-02", "supervisor-03"
STAYS = ("NO_BETTER_PLAN", "GAIN_BELOW_THRESHOLD")
"""Said of a topology that is measured and stays as it is; not while a move is being judged."""
SETTINGS: dict[str, dict[str, Any]] = {
    "cycle": {"period_s": 2, "poll_s": 1},
    "load": {"window_s": 10, "settle_s": 5},
    "planner": {"budget_s": 2, "first_plan": "default"},
    "decide": {"mode": "act", "consecutive_hits": 1, "cool_down_s": 0, "payback_s": 3600},
    "new_supervisors": {"enabled": False},
    "api": {"enabled": False},
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The job in three workers on three hosts, one in the east, one in the west, one in neither."""
    sites = ("east", "west", "middle")
    with scene_on(
        ClusterSpec(name=f"loop-{os.getpid()}", supervisors=3, slots=3, sites=sites, cpu_points=400, conf=MISSED_SOON),
        tmp_path_factory.mktemp("controller"),
        Scene,
    ) as scene:
        turn(scene, 0.5)  # half of the tuples cross nodes at the least: no plan gains the whole
        control(scene, decide={"gain_threshold_ratio": 1.0})
        options = {"topology.workers": 3, "step.east.file": str(east_file(scene)), "stormpilot.report.secs": 1}
        scene.topology_id = submit_topology(
            REPOSITORY / "benchmarks" / "react" / "step",
            "step_anywhere",
            "local",
            options=options,
            nimbus=f"{scene.cluster.nimbus_host}:{scene.cluster.nimbus_port}",
            override_name="step",
        )
        until(lambda: len(scene.workers()) == 3 and scene.applied(), "three workers, where the first plan has them")
        yield scene


def east_file(scene: Scene) -> Path:
    return scene.folder / "east"


def turn(scene: Scene, east_ratio: float) -> None:
    """From now on this part of the tuples goes to the east, the rest to the west."""
    new = scene.folder / "east.new"
    new.write_text(str(east_ratio))
    new.replace(east_file(scene))


def control(scene: Scene, **sections: Mapping[str, Any]) -> None:
    """Another controller, with these settings beside `SETTINGS`; it remembers nothing."""
    scene.stop_controller()
    merged = {name: {**SETTINGS.get(name, {}), **sections.get(name, {})} for name in {*SETTINGS, *sections}}
    merged["zookeeper"] = {"hosts": scene.cluster.zookeeper_hosts}
    scene.config.write_bytes(msgspec.json.encode(merged))  # JSON is YAML
    scene.start_controller()
    until(scene.leads, "the controller to lead")


def senders(scene: Scene) -> Counter[str]:
    """How many of the four executors that may run anywhere are on each supervisor."""
    (topology,) = scene.model().topologies
    free = {e.start for e in topology.executors if e.component in ("source", "sort")}
    return Counter(supervisor for start, (supervisor, _) in scene.placed().items() if start in free)


def where(scene: Scene) -> dict[int, str]:
    """The supervisor of every executor."""
    return {start: supervisor for start, (supervisor, _) in scene.placed().items()}


def test_otd_moves_one_executor_at_a_time_towards_those_it_talks_to(scene: Scene) -> None:
    """The first plan deals the executors out; everything goes east."""
    first = scene.history()[0]
    assert first.reason == "FIRST_PLAN"
    before = {start: w.supervisor for w in first.plan.workers for start, _ in w.executors}
    scene.stop_controller()
    turn(scene, 1.0)
    control(scene, otd={"enabled": True, "period_s": 2, "cool_down_s": 5, "threshold_asc_tps": 1})
    until(lambda: [e.reason for e in scene.history()].count("OTD") >= 2, "two steps of otd")
    steps = [e for e in scene.history() if e.reason == "OTD"]
    assert {e.moved_executors for e in steps} == {1}
    placed = before
    for e in steps:
        then = {start: w.supervisor for w in e.plan.workers for start, _ in w.executors}
        assert sum(then[start] != placed[start] for start in placed) == 1
        now_tps, then_tps = e.plan.expected.before["inter_node_tps"], e.plan.expected.after["inter_node_tps"]
        assert then_tps < now_tps
        placed = then
    assert scene.reason() not in ("GAIN", "OVERLOAD")  # the main loop leaves the topology to it


def test_host_that_was_lost_is_used_again_once_it_is_back_and_has_stayed(scene: Scene) -> None:
    """The plug-in squeezes what ran there onto the others; nothing but the host's return moves it again."""
    turn(scene, 0.5)
    new_supervisors = {
        "enabled": True,
        "gain_threshold_ratio": 1.0,
        "busy_ratio": 0.01,
        "relief_ratio": 0.1,
        "traffic_rise_ratio": 1.0,
    }
    control(scene, decide={"gain_threshold_ratio": 1.0}, new_supervisors=new_supervisors)
    assert MIDDLE in where(scene).values()
    lose_host(scene.cluster, MIDDLE)
    everyone = len(where(scene))
    until(lambda: MIDDLE not in where(scene).values() and len(where(scene)) == everyone, "the plug-in to repair")
    until(lambda: scene.history() != [] and scene.history()[-1].reason == "REPAIR", "that to be kept as the plan")
    assert scene.history()[-1].moved_executors == 0
    scene.cycles(3)
    plans = len(scene.history())
    scene.cluster.start_daemon(MIDDLE)
    until(lambda: len(scene.history()) > plans, "a plan after the host's return")
    (entry,) = scene.history()[plans:]
    assert (entry.reason, f"{MIDDLE} came and is used" in entry.text) == ("NEW_SUPERVISOR", True), entry.text
    until(lambda: scene.applied() and MIDDLE in where(scene).values(), "the host to be used")


def test_move_that_made_it_worse_is_undone_once_and_nothing_is_tried_after_it(scene: Scene) -> None:
    """Most tuples went west when the move there was decided; they all turn east the moment it is made."""
    turn(scene, 1.0)
    control(scene)
    until(lambda: senders(scene) == {EAST: 4} and scene.reason() in STAYS, "the senders to be in the east for good")
    scene.stop_controller()
    turn(scene, 0.35)
    plans = len(scene.history())
    log = scene.log.stat().st_size
    control(scene, verify={"back_off_s": 600})
    until(lambda: len(scene.history()) > plans, "the move to the west")  # many plans in the hour: it must last
    turn(scene, 1.0)
    assert scene.history()[-1].reason == "GAIN"
    until(lambda: senders(scene) == {WEST: 4}, "it to be made")
    until(lambda: scene.history()[-1].reason == "ROLLBACK_EFFECT", "it to be undone")
    until(lambda: senders(scene) == {EAST: 4} and scene.applied(), "the senders to be back in the east")
    tried, undone = scene.history()[plans:]
    assert tried.effect is not None
    assert tried.effect.verdict == "WORSE"
    assert tried.effect.measured is not None
    assert tried.effect.predicted < tried.effect.before < tried.effect.measured
    assert undone.plan.workers != tried.plan.workers
    turn(scene, 0.0)  # a better placement again: not now
    until(lambda: scene.reason() == "BACK_OFF", "the back-off")
    scene.cycles(5)
    assert len(scene.history()) == plans + 2
    said = scene.log.read_bytes()[log:].decode(errors="replace")
    assert said.count("MOVE_WORSE") == 1
