"""A real cluster under our plan, while parts of what is ours break: nothing may restart, and `status` must tell.

The tests share one cluster and one applied plan, and each leaves both as it found them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.model.messages import PlanMessage, StatusMessage, decode
from stormpilot.paths import Paths
from stormpilot.submit import submit_topology
from stormpilot.zookeeper import ZooKeeper

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).resolve().parents[2]
STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()
ROUND_S = 2
"""`nimbus.monitor.freq.secs` of the local cluster."""
OUTAGE_S = 60


@dataclass
class Scene:
    """The cluster, its topology, and the controller that runs now."""

    cluster: LocalCluster
    topology_id: str
    config: Path
    controller: subprocess.Popen[bytes]

    def start_controller(self) -> None:
        """Start a controller; its log is beside its configuration."""
        with self.config.with_suffix(".log").open("ab") as log:
            self.controller = subprocess.Popen([STORMPILOT, "run", self.config], stdout=log, stderr=log)

    def workers(self) -> dict[tuple[str, int], int]:
        """Process id of every worker by slot."""
        return {(w.supervisor, w.port): w.pid for w in self.cluster.workers() if w.topology_id == self.topology_id}

    def read(self, path: str) -> tuple[bytes, int]:
        """A znode's data and version."""
        zookeeper = _connect(self.cluster)
        try:
            data, stat = zookeeper.client.get(path)
            return data, stat.version
        finally:
            zookeeper.stop()

    def write(self, path: str, data: bytes) -> None:
        """Overwrite a znode, as a careless hand would."""
        zookeeper = _connect(self.cluster)
        try:
            zookeeper.client.set(path, data)
        finally:
            zookeeper.stop()

    def shim_says(self) -> StatusMessage:
        """What the scheduler in Nimbus reports."""
        path = PATHS.status(self.topology_id)
        return decode(self.read(path)[0], StatusMessage, path)

    def status(self) -> tuple[int, Any]:
        """Exit code and parsed output of `stormpilot status -f json` (its text where it is not JSON)."""
        done = subprocess.run(
            [STORMPILOT, "status", "-f", "json", "--zookeeper", self.cluster.zookeeper_hosts],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Flights on two supervisors, under a plan of ours that Nimbus has applied."""
    # Nimbus hears no heartbeats while ZooKeeper is away, and must not take workers for dead after the minute.
    conf = {"nimbus.task.timeout.secs": 2 * OUTAGE_S}
    cluster = LocalCluster.up(ClusterSpec(name="resilience", supervisors=3, slots=3, scheduler="pilot", conf=conf))
    scene: Scene | None = None
    try:
        config = tmp_path_factory.mktemp("controller") / "controller.yaml"
        config.write_text(
            f'zookeeper: {{hosts: "{cluster.zookeeper_hosts}"}}\n'
            "cycle: {period_s: 2, poll_s: 1}\n"
            "planner: {name: online, first_plan: default}\n"
            "decide: {mode: act, reschedule_timeout_s: 3600}\n"
        )
        scene = Scene(cluster, "", config, None)  # type: ignore[arg-type]
        scene.start_controller()  # before the topology: its first plan is then ours as well
        scene.topology_id = submit_topology(
            REPOSITORY / "topologies",
            "flights",
            "local",
            options={"topology.workers": 3, "flights.rate.tps": 50},
            nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
        )
        _until(lambda: _applied(scene), 120, "the first plan to be applied")
        _until(lambda: len(scene.workers()) == 3, 120, "three workers")
        _until(lambda: _reports(scene), 180, "load reports, which come when the components run")
        yield scene
    finally:
        if scene is not None and scene.controller.poll() is None:
            scene.controller.terminate()
            scene.controller.wait(20)
        cluster.down()


def test_a_killed_controller_leaves_every_worker_alone(scene: Scene) -> None:
    before = scene.workers()
    scene.controller.send_signal(signal.SIGKILL)
    scene.controller.wait(10)
    _until(lambda: not _controller_up(scene), 60, "status to notice that no controller leads")
    _rounds(scene, 3)
    assert scene.workers() == before
    assert scene.shim_says().state == "applied"
    scene.start_controller()
    _until(lambda: _controller_up(scene), 60, "the next controller to lead")
    _rounds(scene, 3)
    assert scene.workers() == before


@pytest.mark.parametrize("kind", ["not JSON", "a worker changed", "a newer schema", "an older epoch"])
def test_a_plan_that_was_tampered_with_is_refused_and_changes_nothing(scene: Scene, kind: str) -> None:
    path = PATHS.plan(scene.topology_id)
    good, _ = scene.read(path)
    assert decode(good, PlanMessage, path).topology_id == scene.topology_id
    before, nimbus = scene.workers(), scene.cluster.pid("nimbus")
    plan = json.loads(good)
    if kind == "a worker changed":
        plan["workers"][0]["executors"], plan["workers"][1]["executors"] = (
            plan["workers"][1]["executors"],
            plan["workers"][0]["executors"],
        )
    elif kind == "a newer schema":
        plan["schema"] = 99
    elif kind == "an older epoch":
        plan["epoch"] = 0
    scene.controller.send_signal(signal.SIGSTOP)  # it would mend its plan at once
    try:
        scene.write(path, b"\x00 not a plan" if kind == "not JSON" else json.dumps(plan).encode())
        _until(lambda: scene.shim_says().state == "rejected", 30, "the scheduler to refuse the plan")
        refusal = scene.shim_says()
        assert refusal.code != "OK"
        assert refusal.text
        _, shown = scene.status()
        assert refusal.code in json.dumps(shown)
        _rounds(scene, 3)
        assert scene.workers() == before
        assert scene.cluster.pid("nimbus") == nimbus
    finally:
        scene.write(path, good)
        scene.controller.send_signal(signal.SIGCONT)
    _until(lambda: _applied(scene), 60, "the good plan to be accepted again")
    assert scene.workers() == before


def test_a_minute_without_zookeeper_restarts_no_worker(scene: Scene) -> None:
    before, nimbus = scene.workers(), scene.cluster.pid("nimbus")
    scene.cluster.stop_zookeeper()
    try:
        code, said = scene.status()
        assert code == 3
        assert "ZooKeeper" in said
        end = time.monotonic() + OUTAGE_S
        while time.monotonic() < end:  # the outage itself
            assert scene.workers() == before
            time.sleep(2)
    finally:
        scene.cluster.start_zookeeper()
    assert scene.cluster.pid("nimbus") == nimbus
    _until(lambda: _controller_up(scene), 90, "the controller to lead again")
    _rounds(scene, 5)
    assert scene.workers() == before
    assert scene.cluster.pid("nimbus") == nimbus
    assert scene.shim_says().state == "applied"


def _connect(cluster: LocalCluster) -> ZooKeeper:
    zookeeper = ZooKeeper(cluster.zookeeper_hosts)
    zookeeper.start()
    assert zookeeper.wait_connected(20.0)
    return zookeeper


def _applied(scene: Scene) -> bool:
    zookeeper = _connect(scene.cluster)
    try:
        if not zookeeper.client.exists(PATHS.status(scene.topology_id)):
            return False
    finally:
        zookeeper.stop()
    return scene.shim_says().state == "applied"


def _reports(scene: Scene) -> bool:
    zookeeper = _connect(scene.cluster)
    try:
        folder = PATHS.load(scene.topology_id)
        return bool(zookeeper.client.exists(folder) and zookeeper.client.get_children(folder))
    finally:
        zookeeper.stop()


def _controller_up(scene: Scene) -> bool:
    code, shown = scene.status()
    return code == 0 and bool(shown["controller"]["up"])


def _rounds(scene: Scene, n: int) -> None:
    """Let Nimbus schedule so many times, by its own count of rounds in the cluster log's time."""
    end = time.monotonic() + n * (ROUND_S + 1)
    while time.monotonic() < end:
        assert scene.cluster.pid("nimbus") is not None
        time.sleep(0.5)


def _until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(0.5)
