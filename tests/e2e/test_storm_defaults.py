"""Clusters on which nobody declared anything: Storm's default capacities and memory, hosts as workers measure them."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from java_topologies import java_jar, submit_java
from scene import PATHS, STORMPILOT, Scene, scene_on, until
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.controller_state import CapacityPart, TopologyView

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

RESOURCE_AWARE = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
DECLARING = "supervisor-03"
"""The only supervisor that declares its CPU, one core of those that its host has."""
DEFAULT_MB = 128
"""Memory of an executor where nobody said anything."""
DEFAULT_HEAP_MB = 768
LIGHT = {
    "topology.disable.loadaware.messaging": True,
    "topology.spout.wait.progressive.level3.sleep.millis": 50,
    "topology.bolt.wait.progressive.level2.count": 2,
    "topology.bolt.wait.progressive.level3.sleep.millis": 50,
}
"""Tuples go everywhere. Who has nothing to do sleeps at once: a hundred that look around first keep a machine busy."""
CALM = ("NO_BETTER_PLAN", "GAIN_BELOW_THRESHOLD")


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return java_jar(tmp_path_factory.mktemp("jar"))


def cluster_of(name: str, **fields: object) -> ClusterSpec:
    spec = ClusterSpec(name=f"{name}-{os.getpid()}", supervisors=3, declares=False, hook=True, conf=PATIENT)
    return msgspec.structs.replace(spec, **fields)


def control(scene: Scene, mode: str = "act") -> None:
    """A controller that measures a little longer than the example configuration does, and keeps a traffic log."""
    scene.config.write_text(
        f'zookeeper: {{hosts: "{scene.cluster.zookeeper_hosts}"}}\n'
        "cycle: {period_s: 2, poll_s: 1}\n"
        "load: {window_s: 10, settle_s: 5}\n"
        "planner: {budget_s: 5}\n"
        f"decide: {{mode: {mode}, consecutive_hits: 1, cool_down_s: 0, payback_s: 3600}}\n"
        f"traffic_log: {{dir: {scene.folder / 'log'}}}\n"
        "api: {enabled: false}\n"
    )
    scene.start_controller()
    until(scene.leads, "the controller to lead")


def told(*words: str) -> str:
    """What a command that succeeds prints."""
    ran = subprocess.run([STORMPILOT, *words], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def trial(scene: Scene) -> dict[str, Any]:
    """What a trial run tells of the only topology that was decided about."""
    page = str(scene.folder / "trial.html")
    shown = json.loads(told("trial-run", "--config", str(scene.config), "-f", "json", "-o", page))
    assert json.loads((scene.folder / "trial.json").read_text()) == shown
    assert shown["obstacles"] == []
    (found,) = shown["topologies"]
    return found  # type: ignore[no-any-return]


def view(scene: Scene, topology_id: str) -> TopologyView | None:
    state = scene.state()
    return next((v for v in state.topologies if v.id == topology_id), None) if state else None


def capacities(scene: Scene) -> dict[str, CapacityPart]:
    state = scene.state()
    return {c.supervisor: c for c in state.capacities} if state else {}


@pytest.fixture(scope="module")
def undeclared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    spec = cluster_of("undeclared", supervisor_conf={DECLARING: {"supervisor.cpu.capacity": 100}})
    with scene_on(spec, tmp_path_factory.mktemp("undeclared"), Scene) as scene:
        yield scene


def test_forty_executors_a_host_that_nobody_declared_are_planned_and_applied(undeclared: Scene, jar: Path) -> None:
    scene = undeclared
    options = {"topology.workers": 6, "bench.phases": [[36000, 50]], **LIGHT}
    scene.topology_id = submit_java(scene.cluster, jar, "wide", **options)
    until(lambda: len(scene.workers()) == 6, "Storm's own scheduler to have started it")
    before = Counter(supervisor for supervisor, _ in scene.placed().values())
    assert min(before.values()) >= 40
    control(scene, "advise")

    # A trial run: what is proposed is told, with what it would win and cost, and nothing moves.
    def proposed() -> bool:
        now = view(scene, scene.topology_id)
        return now is not None and now.action == "advise" and now.moved_executors > 0

    until(proposed, "a plan to be proposed")
    scene.cycles(10)  # so long that the log is written
    found = trial(scene)
    best = max(found["proposals"], key=lambda p: p["savedTuples"])
    assert best["movedExecutors"] > 0
    assert 0 <= best["plannedInterNodeTps"] < best["interNodeTps"]
    assert found["published"] == 0
    assert found["followedInterNodeShare"] < found["interNodeShare"]
    assert scene.plan() is None
    assert Counter(supervisor for supervisor, _ in scene.placed().values()) == before

    told("mode", "act", "wide", "--yes", "--zookeeper", scene.cluster.zookeeper_hosts)
    until(lambda: scene.plan() is not None and scene.applied(), "a plan to be applied")
    plan = scene.plan()
    assert plan is not None
    assert plan.expected.after["inter_node_tps"] < plan.expected.before["inter_node_tps"]
    until(lambda: set(scene.workers()) == set(scene.placed().values()), "its workers, and no others, to run")
    planned = Counter({w.supervisor: 0 for w in plan.workers})
    for w in plan.workers:
        planned[w.supervisor] += len(w.executors)
    assert max(planned.values()) * DEFAULT_MB > 4096  # what Storm's defaults would have had room for
    known = capacities(scene)
    cores = len(os.sched_getaffinity(0))
    assert (known[DECLARING].cores, known[DECLARING].cores_from) == (1.0, "declared")
    for supervisor in known.keys() - {DECLARING}:
        assert known[supervisor].cores_from == "measured"
        assert known[supervisor].cores == pytest.approx(cores, abs=0.5)
        assert known[supervisor].memory_from == "measured"

    # What a repair goes by: only what somebody declared is never exceeded.
    assert plan.room is not None
    assert sum(count for count, _, _ in plan.room.executors) == len(scene.placed())
    rooms = {supervisor: room for room in plan.room.supervisors for supervisor in room.supervisors}
    assert rooms.keys() == known.keys()
    assert 0 < rooms[DECLARING].cpu_mhz < rooms[DECLARING].cpu_most_mhz
    assert {supervisor for supervisor, room in rooms.items() if room.cpu_most_mhz} == {DECLARING}
    assert not any(room.memory_most_mb for room in rooms.values())

    def measured() -> bool:
        now = view(scene, scene.topology_id)
        return now is not None and now.memory.endswith(f"MB measured of {len(scene.placed())} executors")

    until(measured, "the memory of all its executors to be measured, ackers too")


@pytest.fixture(scope="module")
def resource_aware(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    spec = cluster_of("ras", conf=dict(PATIENT) | {"stormpilot.fallback.scheduler": RESOURCE_AWARE})
    with scene_on(spec, tmp_path_factory.mktemp("ras"), Scene) as scene:
        control(scene)
        yield scene


def test_what_the_resource_aware_scheduler_made_stays_until_something_is_gained(
    resource_aware: Scene, jar: Path
) -> None:
    """One topology needs several heaps, the other has a large one; a plan of either keeps to them."""
    scene = resource_aware
    load = {"bench.phases": [[36000, 50]], **LIGHT}
    several = submit_java(scene.cluster, jar, "twenty", "several", **load)
    single = submit_java(scene.cluster, jar, "twenty", "single", **load, **{"topology.worker.max.heap.size.mb": 4096})
    made: dict[str, int] = {}
    for made_of in (several, single):
        scene.topology_id = made_of
        until(
            lambda: scene.exists(PATHS.topology(scene.topology_id)) and scene.placed(), "Storm's scheduler to place it"
        )
        made[made_of] = len(set(scene.placed().values()))
    assert made[several] > 1

    def judged(topology_id: str) -> bool:
        v = view(scene, topology_id)
        return v is not None and (v.reason in CALM or scene.plan(topology_id) is not None)

    until(lambda: judged(several) and judged(single), "both to be judged")
    scene.cycles(10)
    for topology_id, workers in made.items():
        scene.topology_id = topology_id
        executors = Counter(scene.placed().values())
        plan = scene.plan()
        assert len(executors) <= workers
        if plan is not None and plan.reason_code == "GAIN":  # a first plan has no figures of before
            assert plan.expected.after["inter_node_tps"] < plan.expected.before["inter_node_tps"]
        if topology_id == several:
            assert max(executors.values()) * DEFAULT_MB <= DEFAULT_HEAP_MB
