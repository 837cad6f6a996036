"""An isolated topology has its host to itself: before, during and after a plan, a lost host, and a new Nimbus."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping

import pytest

from benchmarks.control.live import lose_host
from invariants import never
from java_topologies import java_jar, submit_java
from scene import MISSED_SOON, PATHS, STORMPILOT, Scene, Slot, scene_on, until
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import TopologySnapshot

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(2400)]

SCHEDULERS = {
    "isolation": {
        "stormpilot.fallback.scheduler": "org.apache.storm.scheduler.IsolationScheduler",
        "isolation.scheduler.machines": {"alone": 1},
    },
    "multitenant": {
        "stormpilot.fallback.scheduler": "org.apache.storm.scheduler.multitenant.MultitenantScheduler",
        "multitenant.scheduler.user.pools": {"tenant": 1},
    },
}
LOOKS = 6
"""Looks, two a second, for which both may seem to be on a host: the plug-in writes one topology after the other."""


@pytest.fixture(scope="module", params=SCHEDULERS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    conf = MISSED_SOON | SCHEDULERS[request.param]
    spec = ClusterSpec(name=f"{request.param}-{os.getpid()}", supervisors=4, hook=True, conf=conf)
    with scene_on(spec, tmp_path_factory.mktemp(request.param), Scene) as scene:
        scene.configure("{mode: act, consecutive_hits: 1, cool_down_s: 0, payback_s: 3600}")
        yield scene


def nodes(scene: Scene, topology_id: str) -> dict[int, str]:
    """Supervisors of the executors that Nimbus has placed, by start task."""
    snapshot: TopologySnapshot | None = scene.message(PATHS.topology(topology_id), TopologySnapshot)
    placed = [] if snapshot is None else snapshot.executors
    return {e.start: e.supervisor for e in placed if e.supervisor is not None}


def shares(scene: Scene, alone: str) -> Callable[[Mapping[int, str], Mapping[int, Slot]], set[str]]:
    """What is wrong where the isolated topology has shared a host for several looks."""
    looks = 0

    def wrong(_: Mapping[int, str], placed: Mapping[int, Slot]) -> set[str]:
        nonlocal looks
        both = {s for s, _ in placed.values()} & set(nodes(scene, alone).values())
        looks = looks + 1 if both else 0
        return both if looks >= LOOKS else set()

    return wrong


def operate(scene: Scene, *words: str) -> str:
    """An operator's command that succeeds; what it prints."""
    command = [STORMPILOT, *words, "--zookeeper", scene.cluster.zookeeper_hosts]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_isolated_topology_never_shares_its_host(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    jar = java_jar(tmp_path_factory.mktemp("jar"))
    options = {"topology.acker.executors": 1, "bench.phases": [[36000, 20]]}
    scene.start_controller()
    until(scene.leads, "the controller to lead")
    scene.topology_id = submit_java(scene.cluster, jar, "java_only", "shared", **options, **{"topology.workers": 4})

    def whole(topology_id: str) -> bool:
        snapshot: TopologySnapshot | None = scene.message(PATHS.topology(topology_id), TopologySnapshot)
        return snapshot is not None and len(nodes(scene, topology_id)) == len(snapshot.executors) > 0

    def hosts(topology_id: str) -> set[str]:
        return set(nodes(scene, topology_id).values())

    def runs(topology_id: str, *, alone_there: bool = True) -> bool:
        running = {s for s, _ in scene.workers(topology_id)}
        there = hosts(topology_id)
        placed = whole(topology_id) and (running == there if alone_there else running >= there)
        return placed and scene.started(topology_id)

    until(lambda: runs(scene.topology_id), "it to run")
    if request.node.callspec.params["scene"] == "multitenant":
        scene.submits_as("tenant")
    alone = submit_java(scene.cluster, jar, "java_only", "alone", **options, **{"topology.workers": 2})
    with never(scene, shares(scene, alone)):

        def both_run() -> bool:
            return runs(alone) and runs(scene.topology_id) and not hosts(alone) & hosts(scene.topology_id)

        until(both_run, "both to run, each on its hosts")
        assert len(hosts(alone)) == 1
        status = scene.shim_says(alone)
        assert status is not None
        assert status.code == "ISOLATED"
        scene.cycles(5)

        # A plan that has to move: one of the others' hosts is drained.
        drained = min(hosts(scene.topology_id))
        operate(scene, "drain", scene.host_of(drained), "--yes", "--wait", "--timeout", "240")
        until(lambda: drained not in hosts(scene.topology_id) and both_run(), "nobody to run on the drained host")
        operate(scene, "undrain", scene.host_of(drained))
        scene.cycles(5)
        assert scene.plan(alone) is None

        # Another Nimbus: nobody who is isolated moves.
        before = nodes(scene, alone)
        scene.cluster.kill_nimbus()
        scene.cluster.start_nimbus()
        scene.cycles(5)
        assert nodes(scene, alone) == before

        # Its host is lost, without the controller: it gets another one, and who was there goes on elsewhere.
        scene.stop_controller()
        (lost,) = hosts(alone)
        lose_host(scene.cluster, lost)
        until(lambda: lost not in hosts(alone), "the lost host to be missed")
        until(both_run, "both to run again")
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        scene.cluster.start_daemon(lost)
        scene.cycles(5)
        # Storm's supervisor starts what it ran before, hears a second later that it is gone, and loses a worker
        # that it ends before that has written its pid: it goes on with nobody's placement. Seen with 2.8.3.
        until(
            lambda: (
                runs(alone, alone_there=False)
                and runs(scene.topology_id, alone_there=False)
                and not hosts(alone) & hosts(scene.topology_id)
            ),
            "both to run with the host that came back",
        )
