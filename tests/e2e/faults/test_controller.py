"""The controller killed, frozen, out of disk, with a jumping clock or a planner that misbehaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from invariants import invariants
from scene import PATHS, STORMPILOT, Scene, until

MAY_UNSHARE = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.smoke
def test_a_killed_controller_leaves_every_worker_alone(scene: Scene) -> None:
    assert scene.controller is not None
    with invariants(scene):
        scene.controller.send_signal(signal.SIGKILL)
        scene.controller.wait(300)
        until(lambda: not scene.leads(), "status to notice that no controller leads")
        scene.rounds(3)
        assert scene.applied()
        scene.start_controller()
        until(scene.leads, "the next controller to lead")
        scene.rounds(3)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_controller_killed_around_the_write_of_a_plan_leaves_all_or_nothing(scene: Scene, moment: str) -> None:
    """A second topology makes it publish. Without a plan Storm's own scheduler places it, as it would without us."""
    assert scene.controller is not None
    scene.stop_controller()
    other = None
    try:
        with invariants(scene):
            dies = [sys.executable, "-m", "doubles.dying_controller", scene.config, moment]
            scene.start_controller(dies)
            until(scene.leads, "the doomed controller to lead")
            other = scene.submit("flights", "second", **{"topology.workers": 1, "flights.rate.tps": 10})
            assert scene.controller is not None
            doomed = scene.controller
            until(lambda: doomed.poll() is not None, "the doomed controller to publish")
            assert scene.controller.returncode == -signal.SIGKILL
            assert scene.exists(PATHS.plan(other)) == (moment == "after")
            written = scene.read(PATHS.plan(other)) if moment == "after" else None
            scene.start_controller()
            until(lambda: _state(scene, other) == ("applied" if written else "fallback"), "it to be placed")
            until(scene.leads, "the next controller to lead")
            scene.cycles(3)
            assert (scene.read(PATHS.plan(other)) if scene.exists(PATHS.plan(other)) else None) == written
    finally:
        if other is not None:
            scene.kill_topology(other)


def test_a_leader_frozen_beyond_its_session_acts_no_more_and_stands_for_election_again(scene: Scene) -> None:
    before = scene.state()
    assert before is not None
    assert scene.controller is not None
    frozen = scene.controller
    with invariants(scene):
        frozen.send_signal(signal.SIGSTOP)
        scene.start_controller()
        successor = scene.controller
        try:
            until(lambda: (s := scene.state()) is not None and s.epoch > before.epoch, "the other one to lead")
            frozen.send_signal(signal.SIGCONT)
            mark = scene.log.stat().st_size
            until(lambda: scene.logged("session lost", mark) or scene.logged("stepped down", mark), "it to notice")
            now = scene.state()
            assert now is not None
            assert now.controller.endswith(f":{successor.pid}")
            scene.cycles(2)
        finally:
            frozen.send_signal(signal.SIGCONT)
            frozen.terminate()
            frozen.wait(300)
        assert scene.plan() is not None


@pytest.mark.skipif(not MAY_UNSHARE, reason="needs a mount namespace of its own (unshare -rm is not allowed here)")
@pytest.mark.parametrize("mounted", ["size=16k", "ro"], ids=["full", "read-only"])
def test_a_full_or_read_only_folder_of_the_traffic_log_costs_rows_and_nothing_else(scene: Scene, mounted: str) -> None:
    scene.stop_controller()
    traffic = scene.folder / "traffic"
    traffic.mkdir(exist_ok=True)
    mark = scene.log.stat().st_size
    with invariants(scene):
        script = f"mount -t tmpfs -o {mounted} none {traffic} && exec {STORMPILOT} run {scene.config}"
        scene.start_controller(["unshare", "-rm", "sh", "-c", script])
        until(lambda: (s := scene.state()) is not None and s.counters.get("log_rows_lost", 0) > 0, "lost rows")
        scene.cycles(3)
        assert scene.logged("traffic log", mark)
        assert not scene.logged("cycle failed", mark)
    scene.stop_controller()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_moves_nothing(scene: Scene, hours: int) -> None:
    scene.stop_controller()
    mark = scene.log.stat().st_size
    plan = scene.plan()
    with invariants(scene):
        scene.start_controller([sys.executable, "-m", "doubles.jumping_clock", scene.config, str(hours)])
        assert scene.controller is not None
        until(scene.leads, "the controller to lead")
        scene.cycles(2)
        scene.controller.send_signal(signal.SIGUSR1)
        until(lambda: scene.logged("clock jumped", mark), "the clock to jump")
        until(lambda: scene.logged("the clock was set", mark), "the controller to see it")
        scene.cycles(5)
        assert not scene.logged("cycle failed", mark)
        assert scene.plan() == plan
    scene.stop_controller()


@pytest.mark.parametrize("kind", ["raises", "hangs", "crashes", "nonsense"])
def test_a_planner_that_misbehaves_is_named_and_publishes_nothing(scene: Scene, kind: str) -> None:
    scene.stop_controller()
    plan = scene.plan()
    config = scene.config.read_text()
    mark = scene.log.stat().st_size
    scene.config.write_text(config.replace("cool_down_s: 3600", "cool_down_s: 0"))
    try:
        with invariants(scene):
            scene.start_controller([sys.executable, "-m", "doubles.misplanning_controller", scene.config, kind])
            until(lambda: scene.reason() == "PLANNER_FAILED", "the planner's failure to be told")
            started = time.monotonic()
            scene.cycles(2)
            assert time.monotonic() - started < 60, "the controller did not go on with its cycles"
            assert not scene.logged("cycle failed", mark)
            assert scene.plan() == plan
    finally:
        scene.stop_controller()
        scene.config.write_text(config)


def _state(scene: Scene, topology_id: str) -> str | None:
    status = scene.shim_says(topology_id)
    return None if status is None else status.state
