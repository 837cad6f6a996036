"""`stormpilot doctor` as a program against real servers; docker/test_compose.py asks it of a whole, healthy cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.local.zookeeper import LocalZooKeeper

ID = "flights-1-1763690000"
STORMPILOT = Path(sys.executable).with_name("stormpilot")
CONTROLLER = """\
zookeeper: {{hosts: '{hosts}'}}
cycle: {{period_s: 1, poll_s: 0.5}}
load: {{window_s: 5}}
planner: {{name: online}}
decide: {{mode: advise}}
traffic_log: {{dir: null}}
api: {{enabled: false}}
"""


def doctor(*arguments: str | Path) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings."""
    done = subprocess.run(
        [STORMPILOT, "doctor", "-f", "json", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def wrong(found: list[dict[str, str]]) -> dict[str, str]:
    """check -> text of what is wrong; each says how to fix it."""
    failed = [f for f in found if f["level"] == "fail"]
    assert all(f["fix"] for f in failed)
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
    client.start(timeout=300)
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
        client.delete("/stormpilot/v1/settings")
        client.create("/stormpilot/v1/plans", acl=[make_digest_acl("third", "secret", all=True)])
        code, found = doctor("--config", tmp_path / "c.yaml")
        assert code == 1, "ZooKeeper answers, so this is not 3"
        assert "/stormpilot/v1/plans: its access list is not shown to us" in wrong(found)["access"]
    finally:
        client.stop()
        client.close()


# --- a controller beside the double of the plug-in --------------------------------------------------------------------


@pytest.fixture
def shim(zookeeper: LocalZooKeeper) -> Iterator[ShimDouble]:
    """The plug-in and a topology that reports, with the names that Storm itself keeps in ZooKeeper."""
    made = ShimDouble(
        zookeeper.hosts, msgspec.structs.replace(cluster("a", "b"), written_at_ms=int(time.time() * 1000))
    )
    made.submit(topology(everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)})))
    for name in ("supervisors/a", "supervisors/b", f"storms/{ID}"):
        made.client.ensure_path(f"/storm/{name}")
    yield made
    made.close()


@pytest.mark.zookeeper
@pytest.mark.timeout(1800)
def test_each_part_of_an_installation_that_breaks_is_named(
    zookeeper: LocalZooKeeper, shim: ShimDouble, tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONTROLLER.format(hosts=zookeeper.hosts))
    with (tmp_path / "log").open("wb") as log:
        controller = subprocess.Popen([STORMPILOT, "run", config], stdout=log, stderr=log)

    def says(check: str) -> str:
        return wrong(doctor("--config", config)[1]).get(check, "")

    try:
        until(lambda: not says("controller") and not says("plug-in"), "controller and plug-in to be found")

        shim.client.ensure_path("/storm/supervisors/c")
        assert "supervisors c missing" in says("plug-in")
        shim.client.delete("/storm/supervisors/c")
        assert not says("plug-in")

        shim.client.create(shim.paths.plan(ID), b'{"schema": 99}', makepath=True)
        assert "schema 99 is newer" in says("znodes")
        shim.client.delete(shim.paths.plan(ID))
        assert not says("znodes")

        controller.send_signal(signal.SIGTERM)
        controller.wait(300)
        assert "no controller runs" in says("controller")
    finally:
        if controller.poll() is None:
            controller.kill()
        controller.wait(300)
