"""Everything of ours on a cluster of an older Storm and, with it, Java 11: `make test-storms` starts them.

`STORM_VERSIONS` names the Storms, `STORM_JAVA_HOME` another Java to run them with; below 17 it gets the jars for 11.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from streamparse import Grouping, JavaBolt, JavaSpout, Topology

from scene import PATHS, REPOSITORY, STORMPILOT, Scene, groups, scene_on, until
from stormpilot import operate
from stormpilot.errors import RefusedError
from stormpilot.local.home import MIN_JAVA
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.messages.load import TaskLoad, by_pair
from stormpilot.nimbus import Nimbus
from stormpilot.operate import Operator
from stormpilot.submit import submit_topology
from stormpilot.submit.jar import build_jar

pytestmark = [pytest.mark.cluster, pytest.mark.versions, pytest.mark.timeout(1800)]

VERSIONS = os.environ.get("STORM_VERSIONS", "").split()
JAVA_HOME = Path(os.environ["STORM_JAVA_HOME"]) if os.environ.get("STORM_JAVA_HOME") else None
ROUTED = REPOSITORY / "tests" / "integration" / "routes" / "project"
JAVA = Path(shutil.which("java", path=str(JAVA_HOME / "bin") if JAVA_HOME else None) or "java")
STORMS = "org.apache.storm.testing."


class Plain(Topology):
    """Classes out of Storm's own jars: of any Java, and nothing in them reports."""

    words = JavaSpout.spec(full_class_name=STORMS + "TestWordSpout", args_list=[], outputs=["word"], par=2)
    count = JavaBolt.spec(
        full_class_name=STORMS + "TestGlobalCount",
        args_list=[],
        inputs={words: Grouping.fields("word")},
        outputs=["n"],
        par=2,
    )
    total = JavaBolt.spec(
        full_class_name=STORMS + "TestGlobalCount", args_list=[], inputs={count: Grouping.GLOBAL}, outputs=["n"]
    )


def jar(module: str) -> Path | None:
    """The jar for this Java; None: the usual one."""
    said = subprocess.run([JAVA, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    assert version is not None, said
    if int(version[1]) >= MIN_JAVA:
        return None
    folder = REPOSITORY / "storm-plugin" / module / "target" / "jdk11"
    (found,) = folder.glob(f"stormpilot-{module}-*-jdk11.jar")
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Three supervisors; the topology of Java classes has three workers, and no controller has run yet."""
    folder = tmp_path_factory.mktemp("controller")
    spec = ClusterSpec(
        name=f"storm-{request.param}-{os.getpid()}",
        supervisors=3,
        slots=3,
        cpu_points=400,
        hook=True,
        conf=PATIENT,
        storm_version=request.param,
        java_home=JAVA_HOME,
        scheduler_jar=jar("scheduler"),
        hook_jar=jar("worker"),
    )
    with scene_on(spec, folder, Scene) as scene:
        settings = {
            "zookeeper": {"hosts": scene.cluster.zookeeper_hosts},
            "cycle": {"period_s": 2, "poll_s": 1},
            "load": {"window_s": 10, "settle_s": 3},
            "planner": {"name": "online", "first_plan": "default", "budget_s": 1},
            "decide": {"mode": "act", "consecutive_hits": 1, "cool_down_s": 0, "payback_s": 3600, "restart_s": 5},
            "api": {"enabled": False},
        }
        scene.config.write_bytes(msgspec.json.encode(settings))  # JSON is YAML
        with Nimbus.connect(scene.cluster.nimbus_address) as nimbus:
            location = nimbus.upload([build_jar(ROUTED / "src")])
            nimbus.submit("plain", location, {"topology.workers": 3}, Plain.thrift_topology)
            found = nimbus.find("plain")
        assert found is not None
        scene.topology_id = found.id
        yield scene


def loads(scene: Scene, topology_id: str = "") -> dict[int, TaskLoad]:
    """The newest report of every task of a topology."""
    try:
        return operate.loads(Operator(scene.zookeeper, PATHS, "test"), topology_id or scene.topology_id)
    except RefusedError:
        return {}


def done(scene: Scene, *words: str) -> str:
    command = [STORMPILOT, *words, "--zookeeper", scene.cluster.zookeeper_hosts]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def settled(scene: Scene, reason: str) -> None:
    """The newest plan was made for this reason, Nimbus has it, and its workers, and no others, run."""
    until(lambda: scene.history() and scene.history()[-1].reason == reason and scene.applied(), f"a plan for {reason}")
    plan = scene.plan()
    assert plan is not None
    wanted = {e: (w.supervisor, w.port) for w in plan.workers for e, _ in w.executors}
    assert scene.placed() == wanted
    until(lambda: set(scene.workers()) == set(wanted.values()), "its workers, and no others, to run")


def test_storm_runs_on_this_java_and_is_the_version_that_the_plug_in_says(scene: Scene) -> None:
    """What the other tests see, they see there."""
    until(lambda: scene.exists(PATHS.cluster), "the plug-in to write")
    snapshot: ClusterSnapshot = scene.message(PATHS.cluster, ClusterSnapshot)
    assert snapshot.shim.storm_version == scene.cluster.description.storm_version
    until(lambda: len(scene.workers()) == 3, "three workers")
    of_daemons = {scene.cluster.pid(d.id) for d in scene.cluster.description.daemons}
    runs = {Path(f"/proc/{pid}/exe").resolve() for pid in (*of_daemons, *scene.workers().values())}
    assert runs == {JAVA.resolve()}


def test_nimbus_places_a_topology_without_a_plan_by_the_fallback(scene: Scene) -> None:
    until(lambda: (said := scene.shim_says()) is not None and said.state == "fallback", "the plug-in to say so")
    assert scene.plan() is None
    assert set(scene.placed().values()) == set(scene.workers())


def test_hook_reports_every_task_of_a_topology_of_java_classes(scene: Scene) -> None:
    tasks = {e: c for e, c in scene.components().items() if not c.startswith("__")}
    assert sorted(tasks.values()) == ["count", "count", "total", "words", "words"]
    until(lambda: tasks.keys() <= loads(scene).keys(), "every task to report")

    def lacking() -> set[str]:
        """What no report says yet."""
        of = {t: loads(scene)[t] for t in tasks}
        sources = {source for t in of.values() for (source, _), n in by_pair(t.received).items() if n > 0}
        idle = {f"CPU of {t}" for t, load in of.items() if load.cpu_s <= 0}
        unknown = {f"memory of {t}" for t, load in of.items() if not load.memory_mb}
        return idle | unknown | {f"tuples of {t}" for t, c in tasks.items() if c != "total" and t not in sources}

    with suppress(AssertionError):
        until(lambda: not lacking(), "all of it", 90)
    assert lacking() == set(), loads(scene)


def test_plan_for_a_gain_is_applied_where_it_says(scene: Scene) -> None:
    before = scene.placed()
    scene.start_controller()
    settled(scene, "GAIN")
    plan = scene.plan()
    assert plan is not None
    assert plan.expected.after["inter_node_tps"] < plan.expected.before["inter_node_tps"]
    assert scene.placed() != before
    pids = set(scene.workers().values())

    def measured() -> bool:
        return {t.pid for t in loads(scene).values()} == pids

    until(measured, "the moved tasks, and no others, to report")


def test_drained_host_is_left_and_a_rollback_brings_back_what_ran_there(scene: Scene) -> None:
    settled(scene, scene.history()[-1].reason)
    first = scene.placed()
    leaves = min(supervisor for supervisor, _ in first.values())
    host = next(s.host for s in scene.cluster.description.supervisors if s.id == leaves)
    assert f"{host}: is empty" in done(scene, "drain", host, "--yes", "--wait", "--timeout", "240")
    settled(scene, "DRAIN")
    assert leaves not in {supervisor for supervisor, _ in scene.placed().values()}
    done(scene, "undrain", host)
    assert "published p-" in done(scene, "rollback", "plain", "--yes")
    settled(scene, "ROLLBACK")
    assert groups(scene.placed()) == groups(first)


def test_routes_move_the_traffic_of_python_tasks_without_a_restart(scene: Scene, tmp_path: Path) -> None:
    scene.stop_controller()
    keyed = submit_topology(
        ROUTED,
        "keyed",
        options={"keys.stop.file": str(tmp_path / "stop")},
        nimbus=str(scene.cluster.nimbus_address),
        standby={"take": 1},
    )

    def tasks(component: str) -> list[TaskLoad]:
        """By their hook; for the collector, a Python task of ours, that and the task itself report."""
        return sorted((t for t in loads(scene, keyed).values() if t.component == component), key=lambda t: t.task)

    def got() -> list[int]:
        return [sum(t.received.get("default", ([], []))[1]) for t in tasks("take")]

    until(lambda: len(tasks("take")) == 3 and tasks("keys"), "every task to report")
    until(lambda: all(got()[:2]), "tuples to reach both tasks")
    assert got()[2] == 0
    pids = {t.task: t.pid for t in (*tasks("keys"), *tasks("take"))}
    _, old, standby = (t.task for t in tasks("take"))
    done(scene, "routes", "shift", keyed, "take", "--from", str(old), "--to", str(standby))
    until(lambda: got()[2] > 0, "tuples to reach the other task")
    done(scene, "routes", "reset", keyed, "--yes")
    (tmp_path / "stop").touch()

    def all_acked() -> bool:
        (spout,) = tasks("keys")
        return spout.emitted > 0 and spout.completed == spout.emitted == sum(got())

    until(all_acked, "every tuple to be acked once")
    assert [spout.failed for spout in tasks("keys")] == [0]
    assert {t.task: t.pid for t in (*tasks("keys"), *tasks("take"))} == pids
