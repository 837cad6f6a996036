"""Users and priorities of Storm's page on them, on a real cluster: who runs first, and who leaves for another."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from java_topologies import java_jar, submit_java
from scene import MISSED_SOON, PATHS, STORMPILOT, SUBMITTER, Scene, scene_on, until
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(2400)]

POINTS, MB = 60, 280
"""What a topology of five executors declares; a supervisor has room for one, and not for a single executor more."""
CONF = MISSED_SOON | {
    "stormpilot.fallback.scheduler": "org.apache.storm.scheduler.resource.ResourceAwareScheduler",
    "stormpilot.initial.plan.wait.secs": 60,
    "resource.aware.scheduler.user.pools": {
        "A": {"cpu": POINTS, "memory": MB},
        "B": {"cpu": 2 * POINTS, "memory": 1.5 * MB},
    },
}
ORDER = ("B-1", "A-1", "B-2", "A-2")
PRIORITY = {"A-0": 0, "A-1": 1, "A-2": 10, "B-1": 1, "B-2": 10}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    spec = ClusterSpec(
        name=f"users-{os.getpid()}",
        supervisors=4,
        cpu_points=100,
        memory_mb=300,
        hook=True,
        conf=CONF,
        nimbus_conf={SUBMITTER: "B"},
    )
    with scene_on(spec, tmp_path_factory.mktemp("users"), Scene) as scene:
        scene.configure("{mode: act, cool_down_s: 0, evict: ['*'], evict_after_s: 5}")
        yield scene


def operate(scene: Scene, *words: str) -> str:
    """An operator's command that succeeds; what it prints, in one line."""
    command = [STORMPILOT, *words, "--zookeeper", scene.cluster.zookeeper_hosts]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return " ".join(ran.stdout.split())


def test_topologies_get_room_in_their_order_and_the_last_leaves_for_one_before_it(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jar = java_jar(tmp_path_factory.mktemp("jar"))
    ids: dict[str, str] = {}

    def submit(name: str) -> None:
        ids[name] = submit_java(
            scene.cluster,
            jar,
            "java_only",
            name,
            **{
                "topology.priority": PRIORITY[name],
                "topology.acker.executors": 0,
                "topology.component.cpu.pcore.percent": POINTS / 5,
                "topology.component.resources.onheap.memory.mb": MB / 5,
                "bench.phases": [[36000, 20]],
            },
        )

    def running() -> set[str]:
        found = set()
        for name, i in ids.items():
            snapshot: TopologySnapshot | None = scene.message(PATHS.topology(i), TopologySnapshot)
            if snapshot is not None and all(e.supervisor is not None for e in snapshot.executors):
                found.add(name)
        return found

    def supervisors() -> set[str]:
        cluster: ClusterSnapshot | None = scene.message(PATHS.cluster, ClusterSnapshot)
        return set() if cluster is None else {s.id for s in cluster.supervisors}

    def runs(name: str) -> bool:
        return name in running() and bool(scene.workers(ids[name]))

    # Nobody has room; then supervisors come, one after the other.
    nodes = sorted(scene.cluster.supervisor_ids)
    until(lambda: supervisors() == set(nodes), "the plug-in to know them")
    for node in nodes:
        scene.cluster.kill_daemon(node)
    until(lambda: not supervisors(), "the supervisors to be missed")
    submit("B-1")
    submit("B-2")
    scene.submits_as("A")
    submit("A-1")
    submit("A-2")
    scene.start_controller()
    until(scene.leads, "the controller to lead")
    # Who waits for a first plan is not the scheduler's yet: one after it in the order would be served before it.
    until(lambda: all((m := scene.shim_says(i)) and m.state == "fallback" for i in ids.values()), "it to have all four")
    for n, node in enumerate(nodes, 1):
        scene.cluster.start_daemon(node)
        until(lambda: bool(running() - set(ORDER[: n - 1])), f"number {n} to run")  # noqa: B023
        assert running() == set(ORDER[:n])
        scene.cycles(3)
        assert running() == set(ORDER[:n])

    # All but A-1 get a plan. Then another comes before the last one, which RAS does not see: it would stop A-1 instead.
    operate(scene, "mode", "off", "A-1", "--yes")
    for user, names in (("B", ("B-1", "B-2")), ("A", ("A-1", "A-2"))):
        for name in names:
            scene.kill_topology(ids.pop(name))
        scene.submits_as(user)
        for name in names:
            submit(name)
        planned = [n for n in names if n != "A-1"]
        until(lambda: all(scene.applied(ids[n]) for n in planned), f"{planned} to have plans")  # noqa: B023
        until(lambda: all(runs(n) for n in names), f"{names} to run")  # noqa: B023
    assert scene.plan(ids["A-1"]) is None
    submit("A-0")

    def shown() -> str:
        return operate(scene, "status")

    until(lambda: "stormpilot approve A-2" in shown(), "the controller to propose that A-2 leaves")
    assert "A-0 comes before it" in operate(scene, "explain", "A-2")

    def waits_for() -> str:
        status = scene.shim_says(ids["A-0"])
        return status.text if status is not None and status.code == "LOWER_PRIORITY_HAS_PLAN" else ""

    # Until its time for a first plan is over, that is what it waits for.
    until(lambda: "A-2" in waits_for(), "the plug-in to say whose room A-0 waits for")
    scene.cycles(5)
    assert running() == set(ORDER), "nobody leaves without approval"
    operate(scene, "approve", "A-2", "--yes", "--wait")
    assert scene.plan(ids["A-2"]) is None
    until(lambda: runs("A-0"), "A-0 to run")
    assert running() == {*ORDER, "A-0"} - {"A-2"}
    scene.cycles(5)
    assert running() == {*ORDER, "A-0"} - {"A-2"}

    scene.kill_topology(ids.pop("A-0"))
    until(lambda: runs("A-2"), "A-2 to run again")
