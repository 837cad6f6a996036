"""Storm's daemons and workers with a ZooKeeper that they ask by TLS alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from java_topologies import PROJECT, java_jar
from secure_zookeeper import PASSWORD, SecureZooKeeper, secure_zookeeper
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import ClusterSpec
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import PlanMessage, StatusMessage, decode
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()


@dataclass(frozen=True)
class Secure:
    """The cluster, its ZooKeeper, a client of that, and what commands need to get in."""

    cluster: LocalCluster
    zookeeper: ZooKeeper
    folder: Path
    jar: Path

    @property
    def config(self) -> Path:
        return self.folder / "controller.yaml"

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([STORMPILOT, *map(str, words)], capture_output=True, text=True, timeout=900, check=False)

    def submit(self) -> str:
        options = ("topology.workers=2", "topology.acker.executors=1", "bench.phases=[[36000, 20]]")
        project = ("--project", PROJECT, "--jar", self.jar, "--no-instrument")
        to_nimbus = ("--nimbus", str(self.cluster.nimbus_address))
        said = self.run("submit", "java_only", *project, *to_nimbus, *(w for o in options for w in ("-O", o)))
        assert said.returncode == 0, said.stdout + said.stderr
        until(lambda: bool(self.zookeeper.children([PATHS.topology()])[0]), "Nimbus to have it")
        ((topology_id,),) = self.zookeeper.children([PATHS.topology()])
        return topology_id

    def message(self, path: str, kind: type[Any]) -> Any:
        (node,) = self.zookeeper.read([path])
        return None if node is None else decode(node.data, kind, path)

    def applied(self, t: str) -> bool:
        plan: PlanMessage | None = self.message(PATHS.plan(t), PlanMessage)
        status: StatusMessage | None = self.message(PATHS.status(t), StatusMessage)
        if plan is None or status is None:
            return False
        return (status.state, status.plan_id) == ("applied", plan.plan_id)

    def measured(self, t: str) -> bool:
        """Whether the controller has reports of all tasks."""
        state: ControllerState | None = self.message(PATHS.controller, ControllerState)
        views = [] if state is None else state.topologies
        return any(v.id == t and v.missing == 0 and v.total_tps for v in views)

    @contextmanager
    def controller(self) -> Iterator[None]:
        with (self.folder / "controller.log").open("ab") as log:
            controller = subprocess.Popen([STORMPILOT, "run", self.config], stdout=log, stderr=log)
            try:
                yield
            finally:
                controller.terminate()
                controller.wait(300)


def by_tls(server: SecureZooKeeper) -> dict[str, Any]:
    """What storm.yaml says of it."""
    made = server.certificates
    return {
        "storm.zookeeper.servers": ["localhost"],
        "storm.zookeeper.port": server.port,
        "storm.zookeeper.ssl.enable": True,
        "storm.zookeeper.ssl.hostnameVerification": True,
        "storm.zookeeper.ssl.keystore.path": str(made.keystore),
        "storm.zookeeper.ssl.keystore.password": PASSWORD,
        "storm.zookeeper.ssl.truststore.path": str(made.truststore),
        "storm.zookeeper.ssl.truststore.password": PASSWORD,
    }


@contextmanager
def secured(folder: Path) -> Iterator[Secure]:
    with secure_zookeeper(folder) as server:
        made = server.certificates
        zookeeper = ZooKeeper(server.hosts, login=Login(tls=made.tls))
        zookeeper.start()
        assert zookeeper.wait_connected(300)
        (folder / "controller.yaml").write_text(
            f"zookeeper:\n  {{hosts: 'localhost:{server.port}', ca_file: {made.ca}, cert_file: {made.cert},\n"
            f"   key_file: {made.key}}}\n"
            "cycle: {period_s: 2, poll_s: 1}\n"
            "load: {window_s: 10, settle_s: 5}\n"
            "planner: {budget_s: 2}\n"
            "decide: {mode: act}\n"
            "api: {enabled: false}\n"
        )
        spec = ClusterSpec(name=f"tls-{os.getpid()}", supervisors=2, hook=True, conf=by_tls(server))
        cluster = LocalCluster.up(spec)
        try:
            yield Secure(cluster, zookeeper, folder, java_jar(folder))
        finally:
            zookeeper.stop()
            cluster.down()
            shutil.move(cluster.layout.logs, folder / "storm")
            cluster.down(purge=True)


def test_plans_and_reports_go_by_tls(tmp_path: Path) -> None:
    with secured(tmp_path) as secure, secure.controller():
        t = secure.submit()
        until(lambda: secure.applied(t), "the first plan to be in force")
        until(lambda: secure.measured(t), "reports of all tasks")
