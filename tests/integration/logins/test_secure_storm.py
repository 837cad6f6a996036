"""Storm's daemons and workers with a ZooKeeper that they ask by TLS alone, and with SASL digest for all."""

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
from secure_zookeeper import PASSWORD, SECRET, USER, SecureZooKeeper, secure_zookeeper, write_jaas
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.logins.jaas import SaslLogin
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import PlanMessage, StatusMessage, decode
from stormpilot.zookeeper.client import DeniedError, ZooKeeper
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

STORMPILOT = Path(sys.executable).with_name("stormpilot")
PATHS = Paths()
CONTROLLER = """
cycle: {period_s: 2, poll_s: 1}
load: {window_s: 10, settle_s: 5}
planner: {budget_s: 2}
decide: {mode: act}
api: {enabled: false}
"""


@dataclass(frozen=True)
class Secure:
    """The cluster, its ZooKeeper, a client of that, and what commands need to get in."""

    cluster: LocalCluster
    zookeeper: ZooKeeper
    folder: Path
    jar: Path
    jaas: Path | None = None

    @property
    def to_nimbus(self) -> tuple[object, ...]:
        return "--nimbus", str(self.cluster.nimbus_address), *(("--nimbus-jaas", self.jaas) if self.jaas else ())

    @property
    def config(self) -> Path:
        return self.folder / "controller.yaml"

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([STORMPILOT, *map(str, words)], capture_output=True, text=True, timeout=900, check=False)

    @property
    def submission(self) -> tuple[object, ...]:
        options = ("topology.workers=2", "topology.acker.executors=1", "bench.phases=[[36000, 20]]")
        project = ("--project", PROJECT, "--jar", self.jar, "--no-instrument")
        return "submit", "java_only", *project, *(w for o in options for w in ("-O", o))

    def submit(self) -> str:
        said = self.run(*self.submission, *self.to_nimbus)
        assert said.returncode == 0, said.stdout + said.stderr
        until(self.ids, "Nimbus to have it")
        (topology_id,) = self.ids()
        return topology_id

    def ids(self) -> list[str]:
        return [t for t in self.zookeeper.children([PATHS.topology()])[0] or () if t.startswith("java_only-")]

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
                until(lambda: self.message(PATHS.controller, ControllerState), "it to lead")
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
            f"   key_file: {made.key}}}{CONTROLLER}"
        )
        spec = ClusterSpec(name=f"tls-{os.getpid()}", supervisors=2, hook=True, conf=by_tls(server))
        cluster = LocalCluster.up(spec)
        try:
            yield Secure(cluster, zookeeper, folder, java_jar(folder))
        finally:
            zookeeper.stop()
            end(cluster, folder)


def end(cluster: LocalCluster, folder: Path) -> None:
    """No cluster is left, but its logs in the folder."""
    cluster.down()
    shutil.move(cluster.layout.logs, folder / "storm")
    cluster.down(purge=True)


@contextmanager
def with_logins(folder: Path) -> Iterator[Secure]:
    """Everybody logs in by SASL digest, to Nimbus and to ZooKeeper; `other` may, and owns nothing."""
    jaas = write_jaas(folder / "jaas.conf", {USER: SECRET, "other": "other-secret"}, SaslLogin(USER, SECRET))
    spec = ClusterSpec(name=f"sasl-{os.getpid()}", supervisors=2, hook=True, jaas_file=jaas, conf=PATIENT)
    cluster = LocalCluster.up(spec)
    try:
        zookeeper = logged_in(cluster, SaslLogin(USER, SECRET))
        (folder / "controller.yaml").write_text(
            f"zookeeper: {{hosts: '{cluster.zookeeper_hosts}', jaas_file: {jaas}}}{CONTROLLER}"
        )
        try:
            yield Secure(cluster, zookeeper, folder, java_jar(folder), jaas)
        finally:
            zookeeper.stop()
    finally:
        end(cluster, folder)


def logged_in(cluster: LocalCluster, login: SaslLogin) -> ZooKeeper:
    zookeeper = ZooKeeper(cluster.zookeeper_hosts, login=Login(sasl=login))
    zookeeper.start()
    assert zookeeper.wait_connected(300)
    return zookeeper


def test_plans_and_reports_go_by_tls(tmp_path: Path) -> None:
    with secured(tmp_path) as secure, secure.controller():
        t = secure.submit()
        until(lambda: secure.applied(t), "the first plan to be in force")
        until(lambda: secure.measured(t), "reports of all tasks")


def test_plans_and_reports_go_with_sasl_to_nimbus_and_zookeeper(tmp_path: Path) -> None:
    with with_logins(tmp_path) as secure:
        wrong = write_jaas(tmp_path / "wrong.conf", {}, SaslLogin(USER, "wrong"))
        nimbus = str(secure.cluster.nimbus_address)
        for login, why in (
            ((), "it asks for SASL digest: name a JAAS file"),
            (("--nimbus-jaas", wrong), f"refuses the SASL login of {USER}"),
        ):
            for command in (secure.submission, ("assess",), ("doctor", "--config", secure.config)):
                said = secure.run(*command, "--nimbus", nimbus, *login)
                assert said.returncode != 0
                assert why in " ".join((said.stdout + said.stderr).split()), command
        profiled = secure.run(*("profile", "io.stormpilot.worker.topology.RelayBolt", "--jar", secure.jar),
                              *("--fields", "x", "--outputs", "x", "--max-threads", 1, "--max-rate", 10, "--slope", 1),
                              *("--settle", 3, "--warm-up", 1, "--trial", 3, "-o", tmp_path / "relay.json"),
                              *secure.to_nimbus, "--config", secure.config)  # fmt: skip
        assert profiled.returncode == 0, profiled.stdout + profiled.stderr

        with secure.controller():
            t = secure.submit()
            until(lambda: secure.applied(t), "the first plan to be in force")
            until(lambda: secure.measured(t), "reports of all tasks")
            for command in (("assess",), ("doctor", "--config", secure.config)):
                said = secure.run(*command, *secure.to_nimbus)
                assert said.returncode == 0, said.stdout + said.stderr
        other = logged_in(secure.cluster, SaslLogin("other", "other-secret"))
        for path in (PATHS.plan(t), PATHS.status(t), PATHS.controller):
            with pytest.raises(DeniedError):
                other.put(path, b"{}")
        other.stop()
