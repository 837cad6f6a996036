"""`stormpilot doctor` as a program against real servers: a healthy cluster, and the same one broken in turn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from scene import PATHS, Scene, until
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.zookeeper import LocalZooKeeper

STORMPILOT = Path(sys.executable).with_name("stormpilot")
CONTROLLER = """\
zookeeper: {{hosts: '{hosts}'}}
cycle: {{period_s: 1, poll_s: 0.5}}
load: {{window_s: 10}}
decide: {{mode: advise}}
traffic_log: {{dir: ''}}
api: {{enabled: false}}
"""


def doctor(*arguments: str | Path) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings."""
    done = subprocess.run(
        [STORMPILOT, "doctor", "-f", "json", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def wrong(found: list[dict[str, str]]) -> dict[str, str]:
    """check -> text of what is wrong; each says how to mend it."""
    failed = [f for f in found if f["level"] == "fail"]
    assert all(f["mend"] for f in failed)
    return {f["check"]: f["text"] for f in failed}


# --- ZooKeeper alone --------------------------------------------------------------------------------------------------


@pytest.mark.zookeeper
def test_an_empty_zookeeper_is_told_from_a_missing_one(zookeeper: LocalZooKeeper) -> None:
    code, found = doctor("--zookeeper", zookeeper.hosts)
    assert code == 1
    assert "neither the plug-in nor a controller" in wrong(found)["access"]
    assert {"plug-in", "controller"} <= set(wrong(found))
    zookeeper.stop()
    code, found = doctor("--zookeeper", zookeeper.hosts)
    assert code == 3
    assert list(wrong(found)) == ["zookeeper"]


@pytest.mark.zookeeper
def test_znodes_of_another_login_and_open_ones_are_found(zookeeper: LocalZooKeeper, tmp_path: Path) -> None:
    client = KazooClient(zookeeper.hosts, auth_data=[("digest", "storm:secret")])
    client.start(timeout=10)
    try:
        client.create("/stormpilot", acl=[make_digest_acl("storm", "secret", all=True)])
        client.create("/stormpilot/v1", acl=[make_digest_acl("storm", "secret", all=True)])
        code, found = doctor("--zookeeper", zookeeper.hosts)
        assert code == 1
        assert "access" in wrong(found)
        (tmp_path / "auth").write_text("storm:secret\n")
        (tmp_path / "auth").chmod(0o600)
        (tmp_path / "c.yaml").write_text(f"zookeeper: {{hosts: '{zookeeper.hosts}', auth_file: auth}}\n")
        _, found = doctor("--config", tmp_path / "c.yaml")
        assert "access" not in wrong(found)
        client.create("/stormpilot/v1/settings", acl=None)
        _, found = doctor("--config", tmp_path / "c.yaml")
        assert "/stormpilot/v1/settings may be changed by anyone" in wrong(found)["access"]
    finally:
        client.stop()
        client.close()


# --- a whole cluster --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A controller, and a topology that reports."""
    scene = Scene(cluster, tmp_path_factory.mktemp("doctor"))
    scene.config.write_text(CONTROLLER.format(hosts=cluster.zookeeper_hosts))
    scene.topology_id = scene.submit("wordcount_comm", "doctored", **{"topology.workers": 2})
    scene.start_controller()
    try:
        until(scene.leads, 180, "a controller to lead")
        yield scene
    finally:
        scene.stop_controller()
        scene.kill_topology(scene.topology_id)
        scene.zookeeper.stop()


def ask(scene: Scene) -> tuple[int, list[dict[str, str]]]:
    return doctor("--config", scene.config, "--nimbus", str(scene.cluster.nimbus_address))


def wait_for_health(scene: Scene, timeout_s: float) -> None:
    """Wait until nothing is wrong and nothing to look at; says what is, where that does not come."""
    bad: list[dict[str, str]] = []

    def healthy() -> bool:
        bad[:] = [f for f in ask(scene)[1] if f["level"] in ("warn", "fail")]
        return not bad

    try:
        until(healthy, timeout_s, "a healthy installation")
    except AssertionError as e:
        raise AssertionError(f"{e}: {bad}") from None


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_real_cluster_is_healthy_and_each_broken_part_is_named(scene: Scene) -> None:
    wait_for_health(scene, 120)
    assert scene.controller is not None

    scene.controller.send_signal(signal.SIGSTOP)
    try:
        until(lambda: "controller" in wrong(ask(scene)[1]), 90, "the stuck controller to be found")
    finally:
        scene.controller.send_signal(signal.SIGCONT)
    wait_for_health(scene, 60)

    scene.stop_controller()
    assert "no controller runs" in wrong(ask(scene)[1])["controller"]
    scene.start_controller()

    plan = PATHS.plan(scene.topology_id)
    scene.write(plan, b'{"schema": 99}')
    assert "schema 99 is newer" in wrong(ask(scene)[1])["znodes"]
    scene.zookeeper.client.delete(plan)

    lost = scene.cluster.supervisor_ids[-1]
    before: Any = scene.read(PATHS.cluster)
    scene.write(PATHS.cluster, before.replace(f'"{lost}"'.encode(), b'"nobody"'))
    try:
        assert f"supervisors {lost} missing" in wrong(ask(scene)[1])["plug-in"]
    finally:
        scene.write(PATHS.cluster, before)
    wait_for_health(scene, 60)
