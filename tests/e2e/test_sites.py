"""Two sites, two hosts in one and one in the other: whatever is lost, nothing leaves its site, and the rest runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping

import pytest

from benchmarks.control.live import lose_host
from invariants import never
from java_topologies import java_jar, submit_java
from scene import MISSED_SOON, PATHS, STORMPILOT, Scene, Slot, scene_on, until
from stormpilot.local.spec import ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

EAST, WEST = ("supervisor-01", "supervisor-03"), ("supervisor-02",)
SITE_OF = {"source": EAST, "clean": EAST, "store": WEST}
"""Components of `two_sites` that need a site; `between` and ackers run anywhere."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Supervisors with Storm's default capacities."""
    spec = ClusterSpec(
        name=f"sites-{os.getpid()}",
        supervisors=3,
        slots=3,
        sites=("east", "west", "east"),
        declares=False,
        hook=True,
        conf=MISSED_SOON,
    )
    with scene_on(spec, tmp_path_factory.mktemp("controller"), Scene) as scene:
        scene.configure("{mode: act, consecutive_hits: 1, cool_down_s: 0, payback_s: 3600}")
        yield scene


def waiting(scene: Scene) -> set[str]:
    """Components with executors that are nowhere."""
    placed = scene.placed()
    return {c for start, c in scene.components().items() if start not in placed}


def outside(components: Mapping[int, str], placed: Mapping[int, Slot]) -> set[str]:
    """Components with an executor outside the site that they need."""
    return {
        f"{components[start]} on {supervisor}"
        for start, (supervisor, _) in placed.items()
        if supervisor not in SITE_OF.get(components[start], (supervisor,))
    }


def status_text(scene: Scene) -> str:
    """What an operator reads."""
    command = [STORMPILOT, "status", "--zookeeper", scene.cluster.zookeeper_hosts]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return " ".join(shown.stdout.split())


def code(scene: Scene) -> str:
    said = scene.shim_says()
    return said.code if said else ""


def test_nothing_leaves_its_site_and_the_other_components_run(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jar = java_jar(tmp_path_factory.mktemp("jar"))
    options = {"topology.workers": 3, "topology.acker.executors": 1, "bench.phases": [[36000, 20]]}

    # No controller: the plug-in places it by its sites.
    scene.topology_id = submit_java(scene.cluster, jar, "two_sites", "alone", **options)
    with never(scene, outside):
        until(lambda: scene.exists(PATHS.topology(scene.topology_id)) and scene.placed(), "the plug-in to place it")
        until(lambda: not waiting(scene) and len(scene.workers()) == 3, "its workers to run")
    scene.kill_topology(scene.topology_id)

    scene.start_controller()
    until(scene.leads, "the controller to lead")
    scene.topology_id = submit_java(scene.cluster, jar, "two_sites", "planned", **options)
    with never(scene, outside):
        until(scene.applied, "the first plan to be applied")
        until(lambda: set(scene.workers()) == set(scene.placed().values()), "its workers to run")
        scene.stop_controller()

        # One host of the east is lost: what ran there goes to the other one.
        lost = next(s for s in EAST if any(s == at for at, _ in scene.placed().values()))
        west = {slot: pid for slot, pid in scene.workers().items() if slot[0] in WEST}
        lose_host(scene.cluster, lost)
        until(lambda: lost not in {s for s, _ in scene.placed().values()}, "the lost host to be missed")
        until(lambda: not waiting(scene), "all executors to have a place again")
        assert {slot: pid for slot, pid in scene.workers().items() if slot in west} == west

        # The whole east is lost: who needs it waits, and the others run.
        (other,) = set(EAST) - {lost}
        lose_host(scene.cluster, other)
        until(lambda: code(scene) == "NO_SLOT_IN_SITE", "the plug-in to say that a site has no room")
        until(lambda: waiting(scene) == {"source", "clean"}, "the others to have a place")
        until(lambda: set(scene.workers()) == set(scene.placed().values()), "the workers of the others to run")
        assert "site east has no room for clean (2 executors), source (2 executors)" in status_text(scene)

        # A controller that comes back changes nothing of that.
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        scene.cycles(5)
        assert waiting(scene) == {"source", "clean"}

        # So does the site itself: what waits is placed again.
        scene.cluster.start_daemon(lost)
        until(lambda: not waiting(scene), "all executors to have a place again")
