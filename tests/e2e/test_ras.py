"""What RAS users declared holds in every assignment: around a plan, another Nimbus that takes over, and a loss."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from benchmarks.control.live import lose_host
from invariants import never
from java_topologies import java_jar, submit_java
from scene import MISSED_SOON, PATHS, ROUND_S, STORMPILOT, Scene, Slot, scene_on, until
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.model.values import Plan

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

RESOURCE_AWARE = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
CONSTRAINTS = "org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverStrategy"
WITH_GPU = "supervisor-03"
HEAP_MB, EXECUTOR_MB = 384, 128
ROUNDS = 10
RULES = {"source": {"incompatibleComponents": ["relay"]}, "relay": {"maxNodeCoLocationCnt": 1}}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    spec = ClusterSpec(
        name=f"ras-{os.getpid()}",
        supervisors=3,
        nimbuses=2,
        declares=False,
        hook=True,
        conf=MISSED_SOON | {"stormpilot.fallback.scheduler": RESOURCE_AWARE},
        supervisor_conf={WITH_GPU: {"supervisor.resources.map": {"gpu": 2.0}}},
    )
    with scene_on(spec, tmp_path_factory.mktemp("ras"), Scene) as scene:
        scene.configure("{mode: act, consecutive_hits: 1, cool_down_s: 0, payback_s: 3600}")
        yield scene


def broken(components: Mapping[int, str], placed: Mapping[int, Slot]) -> set[str]:
    """What an assignment breaks of the rules, of the heap of workers and of the resources of supervisors."""
    found = set()
    workers: dict[Slot, list[str]] = {}
    for start, slot in placed.items():
        workers.setdefault(slot, []).append(components[start])
    for slot, inside in workers.items():
        if {"source", "relay"} <= set(inside):
            found.add(f"source beside relay in {slot}")
        if len(inside) * EXECUTOR_MB > HEAP_MB:
            found.add(f"{len(inside)} executors in {slot}")
    on = Counter((components[start], supervisor) for start, (supervisor, _) in placed.items())
    found |= {f"{n} relays on {s}" for (c, s), n in on.items() if c == "relay" and n > 1}
    return found | {f"sink on {s}" for c, s in on if c == "sink" and s != WITH_GPU}


def operate(scene: Scene, *words: str) -> None:
    """An operator's command that succeeds."""
    command = [STORMPILOT, *words, "--zookeeper", scene.cluster.zookeeper_hosts]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def assessed(scene: Scene) -> dict[int, Slot]:
    """Where the executors would be by a plan on what `assess` tells, which asks Nimbus alone."""
    model, plan = scene.folder / "model.json", scene.folder / "plan.json"
    nimbus = str(scene.cluster.nimbus_address)
    for words in (
        ["assess", "--nimbus", nimbus, "--budget", "2", "-o", model, "--page", scene.folder / "assess.html"],
        ["plan", "compute", "-m", model, "-o", plan, "--budget", "2"],
    ):
        ran = subprocess.run([STORMPILOT, *words], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    (topology,) = msgspec.json.decode(plan.read_bytes(), type=Plan).topologies
    return {start: (w.supervisor, w.port) for w in topology.workers for start, _ in w.executors}


def test_what_ras_keeps_holds_around_a_plan_a_fail_over_and_a_loss(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jar = java_jar(tmp_path_factory.mktemp("jar"))
    options = {
        "topology.acker.executors": 1,
        "bench.phases": [[36000, 20]],
        "topology.scheduler.strategy": CONSTRAINTS,
        "topology.ras.constraints": RULES,
        "topology.worker.max.heap.size.mb": HEAP_MB,
    }
    scene.start_controller()
    until(scene.leads, "the controller to lead")
    scene.topology_id = submit_java(scene.cluster, jar, "apart", **options)

    def all_run() -> bool:
        placed = scene.placed()
        return set(placed) == set(scene.components()) and set(scene.workers()) == set(placed.values())

    def alive() -> set[str]:
        cluster: ClusterSnapshot = scene.message(PATHS.cluster, ClusterSnapshot)
        return {s.id for s in cluster.supervisors}

    def hosts() -> set[str]:
        return {supervisor for supervisor, _ in scene.placed().values()}

    def written_by() -> str:
        cluster: ClusterSnapshot = scene.message(PATHS.cluster, ClusterSnapshot)
        return cluster.shim.nimbus

    with never(scene, broken):
        until(lambda: scene.exists(PATHS.topology(scene.topology_id)) and all_run(), "it to run")
        before = len(scene.workers())

        # A plan that has to move: a supervisor without the resource is drained.
        drained = next(s for s in sorted(hosts()) if s != WITH_GPU)
        operate(scene, "drain", scene.host_of(drained), "--yes", "--wait", "--timeout", "240")
        until(lambda: drained not in hosts() and all_run() and scene.applied(), "nobody to run on the drained host")
        assert len(scene.workers()) <= before + 1
        operate(scene, "undrain", scene.host_of(drained))
        scene.cycles(5)

        # The leading Nimbus ends under the plan: the other one takes over, and starts nothing anew.
        scene.stop_controller()
        until(all_run, "all executors to run")
        first, placed, workers = scene.cluster.leading_nimbus(), scene.placed(), scene.workers()
        assert first is not None
        scene.cluster.kill_nimbus()
        until(lambda: (d := scene.cluster.leading_nimbus()) is not None and d.id != first.id, "the other to lead")
        second = scene.cluster.leading_nimbus()
        assert second is not None
        until(lambda: written_by() == second.host, "its scheduler to have had a round")
        time.sleep(ROUNDS * ROUND_S)  # what would be placed anew would be so in its first rounds
        assert (scene.placed(), scene.workers()) == (placed, workers)
        scene.cluster.start_nimbus()
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        scene.cycles(5)

        # A host is lost, with the controller and without it.
        lost = next(s for s in sorted(hosts()) if s != WITH_GPU)
        scene.stop_controller()
        lose_host(scene.cluster, lost)
        until(lambda: lost not in hosts(), "the lost host to be missed")
        until(all_run, "all executors to run again")
        scene.start_controller()
        until(scene.leads, "the controller to lead")
        scene.cycles(5)
        assert set(scene.placed()) == set(scene.components())

        # So does the one with the resource: the sinks wait, and the others run.
        lose_host(scene.cluster, WITH_GPU)
        # Its workers may be missed before it is: then they are started there once more.
        until(lambda: WITH_GPU not in alive() and WITH_GPU not in hosts(), "the lost host to be missed")
        scene.cycles(5)
        waiting = {c for start, c in scene.components().items() if start not in scene.placed()}
        assert "sink" in waiting
        scene.cluster.start_daemon(WITH_GPU)
        scene.cluster.start_daemon(lost)
        until(all_run, "all executors to run again")
        assert broken(scene.components(), assessed(scene)) == set()
