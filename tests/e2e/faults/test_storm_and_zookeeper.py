"""ZooKeeper, Nimbus, supervisors and workers lost and back."""

from __future__ import annotations

import os
import signal
import time

import pytest

from invariants import invariants
from scene import Scene, Slot, until

OUTAGE_S = 60
UNPLACED_S = 10.0
"""Nimbus shows executors of a lost place unassigned until the end of the round that places them: a few rounds."""


def test_one_of_three_zookeepers_lost_changes_nothing(scene: Scene) -> None:
    with invariants(scene):
        scene.cluster.kill_daemon("zookeeper-1")
        try:
            scene.cycles(3)
            assert scene.leads()
            scene.rounds(3)
        finally:
            scene.cluster.start_daemon("zookeeper-1")
        scene.cycles(2)


def test_a_minute_without_any_zookeeper_restarts_no_worker(scene: Scene) -> None:
    before = scene.workers()
    with invariants(scene):
        end = time.monotonic() + OUTAGE_S  # Storm's workers end themselves some seconds after a minute
        scene.cluster.stop_zookeeper()
        try:
            code, said = scene.status()
            assert code == 3
            assert "ZooKeeper" in said
            while time.monotonic() < end:  # the outage itself
                assert scene.workers() == before
                time.sleep(2)
        finally:
            scene.cluster.start_zookeeper()
        until(scene.leads, "the controller to lead again")
        scene.rounds(5)
        until(scene.applied, "the plan to be in force")


@pytest.mark.smoke
def test_a_killed_nimbus_comes_back_to_the_same_placement(scene: Scene) -> None:
    with invariants(scene, nimbus_may_end=True):
        scene.cluster.kill_nimbus()
        scene.cycles(2)
        scene.cluster.start_nimbus()
        scene.rounds(5)
        until(scene.applied, "the plan to be in force")


def test_a_killed_supervisor_leaves_its_workers_running_and_its_return_moves_nothing(scene: Scene) -> None:
    """Its workers report to Nimbus themselves: nobody takes them for lost."""
    supervisor = min(s for s, _ in scene.workers())
    with invariants(scene):
        scene.cluster.kill_daemon(supervisor)
        until(lambda: scene.reason() == "WAITING_FOR_REPAIR", "the controller to notice that it is gone")
        scene.cycles(5)
        scene.rounds(5)
        scene.cluster.start_daemon(supervisor)
        until(lambda: scene.reason() != "WAITING_FOR_REPAIR", "the controller to notice that it is back")
        scene.rounds(3)
        until(scene.applied, "the plan to be in force")


def test_a_lost_host_moves_its_own_executors_and_its_return_moves_nothing(scene: Scene) -> None:
    lost = min(s for s, _ in scene.workers())
    others = {slot: pid for slot, pid in scene.workers().items() if slot[0] != lost}
    with invariants(scene, may_restart=_on(scene, {lost}), unplaced_s=UNPLACED_S):
        _lose_host(scene, lost)
        until(lambda: _all_elsewhere(scene, {lost}), f"the executors of {lost} to be placed elsewhere")
        until(lambda: len(_running(scene, {lost})) == 3, "their workers to run")
        running = _running(scene, {lost})
        assert others.items() <= running.items()
        until(scene.applied, "a plan for what is there to be in force")
        scene.cluster.start_daemon(lost)
        scene.cycles(3)
        scene.rounds(3)
        assert scene.workers() == running


def test_a_killed_worker_comes_back_in_its_slot(scene: Scene) -> None:
    slot, pid = max(scene.workers().items())
    with invariants(scene, may_restart={slot}, unplaced_s=UNPLACED_S):
        os.kill(pid, signal.SIGKILL)
        until(lambda: scene.workers().get(slot, pid) != pid, "the worker to be started again")
        scene.rounds(3)
        until(scene.applied, "the plan to be in force")


def test_two_of_five_hosts_gone_at_once_stop_the_controller_and_storm_goes_on(scene: Scene) -> None:
    """Two are 40%: what ran there is placed anew by the plug-in, and nothing is moved besides until they are back."""
    used = {s for s, _ in scene.workers()}
    gone = {min(used), min(set(scene.cluster.supervisor_ids) - used)}
    with invariants(scene, may_restart=_on(scene, gone), unplaced_s=UNPLACED_S):
        for supervisor in sorted(gone):
            _lose_host(scene, supervisor)
        until(lambda: scene.reason() == "MASS_FAILURE", "the controller to hold for mass failure")
        plan = scene.plan()
        until(lambda: _all_elsewhere(scene, gone), "the lost executors to be placed elsewhere")
        scene.cycles(3)
        assert scene.plan() == plan
        for supervisor in sorted(gone):
            scene.cluster.start_daemon(supervisor)
        until(lambda: scene.reason() != "MASS_FAILURE", "the guard to open")
        until(scene.applied, "a plan for what is there to be in force")


def _lose_host(scene: Scene, supervisor: str) -> None:
    """The supervisor and what runs on its host end at once, as with the power."""
    scene.cluster.kill_daemon(supervisor)
    for slot in _on(scene, {supervisor}):
        os.kill(scene.workers()[slot], signal.SIGKILL)


def _on(scene: Scene, supervisors: set[str]) -> set[Slot]:
    return {slot for slot in scene.workers() if slot[0] in supervisors}


def _all_elsewhere(scene: Scene, supervisors: set[str]) -> bool:
    placed = scene.placed()
    return bool(placed) and not {s for s, _ in placed.values()} & supervisors


def _running(scene: Scene, without: set[str]) -> dict[Slot, int]:
    return {slot: pid for slot, pid in scene.workers().items() if slot[0] not in without}
