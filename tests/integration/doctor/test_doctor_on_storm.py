"""`stormpilot doctor` beside a real Nimbus that lacks our jar, our line, its access lists or its ZooKeeper, in turn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import yaml
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from integration.local.words import stormpilot, wait_until
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.zookeeper.client import connect
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]
PATHS = Paths()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    running = LocalCluster.up(ClusterSpec(name=f"doctor-{os.getpid()}", supervisors=1, slots=2))
    try:
        yield running
    finally:
        running.down(purge=True)


def told(cluster: LocalCluster, *more: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code, and the first finding of each check, by what the doctor prints for programs."""
    more = more or ("--nimbus", str(cluster.nimbus_address))
    done = stormpilot("doctor", "-f", "json", "--zookeeper", cluster.zookeeper_hosts, *more)
    assert "Traceback" not in done.stderr, done.stderr
    found: dict[str, dict[str, str]] = {}
    for f in json.loads(done.stdout)["findings"]:
        found.setdefault(f["check"], f)
    return done.returncode, found


def test_what_is_wrong_with_a_nimbus_is_told_apart(cluster: LocalCluster) -> None:
    wait_until(lambda: told(cluster)[1]["plug-in"]["level"] == "ok", "the plug-in to be found")
    found = told(cluster)[1]
    assert {found[c]["level"] for c in ("zookeeper", "nimbus", "retries", "access", "plug-in")} == {"ok"}
    assert "no controller has run" in found["controller"]["text"]
    by_itself = told(cluster, "--root", PATHS.root)[1]["nimbus"]  # at a port that only its znode tells
    assert (by_itself["level"], str(cluster.nimbus_address) in by_itself["text"]) == ("ok", True)

    (jar,) = cluster.layout.extlib_daemon.glob("*.jar")
    configured = cluster.layout.conf / "nimbus.yaml"
    lines = configured.read_text()
    jar.rename(jar.with_suffix(".away"))
    cluster.kill_nimbus()
    with pytest.raises(UnreachableError):
        cluster.start_daemon("nimbus", timeout_s=0)
    # What the doctor says to look for is what Storm says; a Nimbus that ends is started again, as in production.
    why = "ClassNotFoundException: io.stormpilot.PilotScheduler"
    wait_until(lambda: why in cluster.log_file("nimbus").read_text(), "Nimbus to end for want of its scheduler")
    wait_until(lambda: "no Nimbus runs" in told(cluster)[1]["nimbus"]["text"], "the dead Nimbus's session to expire")
    found = told(cluster)[1]
    assert "extlib-daemon" in found["nimbus"]["fix"]
    assert found["plug-in"]["level"] == "skipped"

    configured.write_text(yaml.safe_dump({k: v for k, v in yaml.safe_load(lines).items() if k != "storm.scheduler"}))
    wait_until(lambda: "schedules with" in told(cluster)[1]["nimbus"]["text"], "Nimbus to come back without it")
    code, found = told(cluster)
    assert code == 1
    assert "PilotScheduler" not in found["nimbus"]["text"]
    assert "storm.scheduler: io.stormpilot.PilotScheduler" in found["nimbus"]["fix"]

    jar.with_suffix(".away").rename(jar)
    configured.write_text(lines)
    cluster.kill_nimbus()
    cluster.start_nimbus()
    assert told(cluster)[1]["nimbus"]["level"] == "ok"

    zookeeper = connect(cluster.zookeeper_hosts, login=Login("other:secret"))
    try:
        zookeeper.client.ensure_path(PATHS.plan())
        zookeeper.client.set_acls(PATHS.plan(), [make_digest_acl("other", "secret", all=True), *READ_ACL_UNSAFE])
        code, found = told(cluster)
        assert code == 1
        assert f"{PATHS.plan()} belongs to digest:other" in found["access"]["text"]
        zookeeper.client.set_acls(PATHS.plan(), OPEN_ACL_UNSAFE)
        assert told(cluster)[1]["access"]["level"] == "ok"
    finally:
        zookeeper.stop()

    cluster.stop_zookeeper()
    code, found = told(cluster)
    assert code == 3
    assert "does not serve" in found["zookeeper"]["text"]
    cluster.start_zookeeper()
