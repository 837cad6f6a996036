"""A real ZooKeeper that asks for TLS with a certificate, and whose clients log in by SASL digest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from secure_zookeeper import SECRET, USER, SecureZooKeeper, make_certificates, secure_zookeeper, write_jaas
from stormpilot.doctor import ensemble
from stormpilot.errors import RefusedError, StormpilotError
from stormpilot.instrument.worker_store import StoreUnavailable, WorkerStore
from stormpilot.local.zookeeper import LocalZooKeeper, sasl
from stormpilot.logins.jaas import SaslLogin
from stormpilot.zookeeper.client import DeniedError, ZooKeeper, connect
from stormpilot.zookeeper.login import Login, Tls
from waiting import until

pytestmark = pytest.mark.zookeeper

STORMPILOT = Path(sys.executable).with_name("stormpilot")
OURS = SaslLogin(USER, SECRET)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    with secure_zookeeper(tmp_path_factory.mktemp("secure")) as running:
        connect_patiently(running.hosts, Login(tls=running.certificates.tls)).stop()
        yield running


def connect_patiently(hosts: str, login: Login) -> ZooKeeper:
    zookeeper = ZooKeeper(hosts, login=login)
    zookeeper.start()
    assert zookeeper.wait_connected(300)
    return zookeeper


def refusal(hosts: str, login: Login) -> str:
    with pytest.raises(StormpilotError) as e:
        connect(hosts, login=login)
    return str(e.value)


def test_what_is_written_by_tls_and_sasl_belongs_to_that_login(secure: SecureZooKeeper) -> None:
    ours = connect_patiently(secure.hosts, Login(sasl=OURS, tls=secure.certificates.tls))
    ours.put("/ours/plan", b"1")
    assert ("sasl", USER) in {(a.id.scheme, a.id.id) for a in ours.client.get_acls("/ours/plan")[0]}
    for other in (Login(), Login(sasl=SaslLogin("other", "other-secret"))):
        theirs = connect_patiently(secure.plain_hosts, other)
        with pytest.raises(DeniedError, match="jaas_file"):
            theirs.put("/ours/plan", b"2")
        theirs.stop()
    without_tls = connect_patiently(secure.plain_hosts, Login(sasl=OURS))
    assert without_tls.read(["/ours/plan"])[0].data == b"1"
    assert ours.delete("/ours")
    for zookeeper in (ours, without_tls):
        zookeeper.stop()


def test_a_wrong_password_is_called_that(secure: SecureZooKeeper) -> None:
    said = refusal(secure.plain_hosts, Login(sasl=SaslLogin(USER, "wrong")))
    assert "refuses the login" in said


def test_a_login_that_was_refused_is_tried_again(secure: SecureZooKeeper) -> None:
    """A server that goes down in the middle of a login looks like one that refuses it."""
    zookeeper = ZooKeeper(secure.plain_hosts, login=Login(sasl=OURS))
    right = zookeeper.client._connection.sasl_options["password"]
    zookeeper.client._connection.sasl_options["password"] = "wrong"
    zookeeper.start()
    until(lambda: zookeeper.sessions_lost > 0, "the refusal")
    zookeeper.client._connection.sasl_options["password"] = right
    until(lambda: zookeeper.wait_connected(1), "the connection")
    zookeeper.stop()


def test_a_server_that_asks_everybody_for_a_login_is_called_that(tmp_path: Path) -> None:
    jaas = write_jaas(tmp_path / "jaas.conf", {USER: SECRET}, OURS)
    settings, options = sasl(jaas)
    asking = [*settings, "sessionRequireClientSASLAuth=true"]
    with LocalZooKeeper(tmp_path / "zookeeper", settings=asking, options=options) as server:
        connect_patiently(server.hosts, Login(sasl=OURS)).stop()
        nobody = connect_patiently(server.hosts, Login())
        with pytest.raises(RefusedError, match="serves nobody without a login that it asks for"):
            nobody.read(["/"])
        nobody.stop()
        said = subprocess.run(
            [STORMPILOT, "doctor", "--zookeeper", server.hosts], capture_output=True, text=True, check=False
        )
    assert "serves nobody without a login" in " ".join(said.stdout.split())
    assert said.stderr == ""


def test_why_there_is_no_tls_is_said(secure: SecureZooKeeper, tmp_path: Path) -> None:
    tls = secure.certificates.tls
    others = make_certificates(tmp_path)
    cases = (
        (secure.hosts, Login(), "zookeeper.ca_file"),
        (secure.plain_hosts, Login(tls=tls), "no TLS with it"),
        (secure.hosts, Login(tls=Tls(tls.ca)), "BAD_CERTIFICATE"),
        (secure.hosts, Login(tls=others.tls), "its certificate is not accepted"),
        (secure.hosts.replace("localhost", "127.0.0.1"), Login(tls=tls), "not valid for '127.0.0.1'"),
    )
    with ThreadPoolExecutor() as at_once:  # each waits for its time-out
        refusals = [at_once.submit(refusal, hosts, login) for hosts, login, _ in cases]
    for refused, (_, _, said) in zip(refusals, cases, strict=True):
        assert said in refused.result()


def test_doctor_asks_each_server_by_tls(secure: SecureZooKeeper) -> None:
    (server,) = ensemble.ask(secure.hosts, secure.certificates.tls)
    assert (server.error, server.mode) == ("", "standalone")


def test_a_topology_reports_by_tls_and_sasl(secure: SecureZooKeeper) -> None:
    host, port = secure.hosts.split(":")
    store = WorkerStore(
        {
            "storm.zookeeper.servers": [host],
            "storm.zookeeper.port": int(port),
            "storm.zookeeper.ssl.enable": True,
            "storm.zookeeper.ssl.truststore.path": str(secure.certificates.truststore),
            "stormpilot.zookeeper.ssl.ca": str(secure.certificates.ca),
            "stormpilot.zookeeper.ssl.cert": str(secure.certificates.cert),
            "stormpilot.zookeeper.ssl.key": str(secure.certificates.key),
            "java.security.auth.login.config": str(secure.jaas),
            "storm.zookeeper.topology.auth.scheme": "digest",
            "storm.zookeeper.topology.auth.payload": "topology:secret",
        },
        "t-1",
    )
    path = store.paths.load("t-1", "collector-1")
    stranger = connect_patiently(secure.plain_hosts, Login())
    with pytest.raises(StoreUnavailable, match="is missing: the scheduler plug-in on Nimbus makes it"):
        store.put(path, b"load")
    stranger.ensure([store.paths.base])
    store.put(path, b"load")
    reader = connect_patiently(secure.hosts, Login(sasl=OURS, tls=secure.certificates.tls))
    assert reader.read([path])[0].data == b"load"
    with pytest.raises(DeniedError):
        stranger.put(path, b"false")
    store.close()
    reader.delete("/stormpilot")
    for zookeeper in (reader, stranger):
        zookeeper.stop()


def test_the_configuration_names_the_files(secure: SecureZooKeeper, tmp_path: Path) -> None:
    config = tmp_path / "controller.yaml"
    made = secure.certificates
    config.write_text(
        f"zookeeper:\n  hosts: {secure.hosts}\n  jaas_file: {secure.jaas}\n  ca_file: {made.ca}\n"
        f"  cert_file: {made.cert}\n  key_file: {made.key}\n"
    )
    checked = subprocess.run([STORMPILOT, "config", "check", config], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    told = subprocess.run(
        [STORMPILOT, "doctor", "--config", config, "-f", "json"], capture_output=True, text=True, check=False
    )
    found = {f["check"]: f for f in json.loads(told.stdout)["findings"]}
    assert found["zookeeper"]["level"] == "ok"
    assert (found["login"]["level"], found["login"]["text"]) == ("ok", f"ZooKeeper is asked by TLS, as {USER} (sasl)")
