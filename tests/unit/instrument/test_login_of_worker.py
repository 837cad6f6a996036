"""How a worker's Python connects to ZooKeeper, by the configuration that Storm gives it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, ClassVar

import pytest
from streamparse import Bolt

from multilang import handshake, heartbeat, log_lines, run, tuple_message
from secure_zookeeper import PASSWORD, make_certificates, write_jaas
from stormpilot.instrument.collector import LoadCollector
from stormpilot.instrument.keyed import KeyedState
from stormpilot.logins import jaas
from stormpilot.logins.jaas import SaslLogin
from stormpilot.zookeeper.login import Login, Tls, login_of_worker

STORE = {
    "storm.zookeeper.ssl.enable": True,
    "storm.zookeeper.ssl.truststore.path": "/etc/trust.jks",
    "storm.zookeeper.ssl.keystore.path": "/etc/key.jks",
}
JAAS = "java.security.auth.login.config"
DIGEST = {"storm.zookeeper.topology.auth.scheme": "digest", "storm.zookeeper.topology.auth.payload": "a:b"}
KERBEROS = "Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };"


class Keeps(KeyedState, Bolt):  # type: ignore[misc]
    outputs: ClassVar[list[str]] = []

    def process(self, tup: Any) -> None: ...

    def on_drain(self, partitions: list[int]) -> dict[int, Any]:
        return {}


def test_without_any_key_nobody_logs_in_and_nothing_is_encrypted() -> None:
    assert login_of_worker({"storm.zookeeper.ssl.enable": False}) == Login()


def test_a_topology_logs_in_with_its_own_digest() -> None:
    assert login_of_worker(DIGEST) == Login("a:b")


def test_tls_with_stores_of_java_asks_for_pem_files_by_the_name_of_their_keys() -> None:
    with pytest.raises(ValueError, match=r"Python cannot read /etc/trust\.jks: set stormpilot\.zookeeper\.ssl\.ca"):
        login_of_worker(STORE)


def test_tls_uses_our_pem_files_and_storms_verification(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    own = {
        "stormpilot.zookeeper.ssl.ca": str(made.ca),
        "stormpilot.zookeeper.ssl.cert": str(made.cert),
        "stormpilot.zookeeper.ssl.key": str(made.key),
    }
    assert login_of_worker(STORE | own).tls == Tls(str(made.ca), str(made.cert), str(made.key), None, True)
    lax = login_of_worker(own | {"storm.zookeeper.ssl.hostnameVerification": False}).tls
    assert lax is not None
    assert not lax.verify_hostname


def test_storms_own_stores_serve_where_they_are_pem(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    both = tmp_path / "both.pem"
    both.write_text(made.key.read_text() + made.cert.read_text())
    conf = {
        "storm.zookeeper.ssl.enable": "true",
        "storm.zookeeper.ssl.truststore.path": str(made.ca),
        "storm.zookeeper.ssl.keystore.path": str(both),
        "storm.zookeeper.ssl.keystore.password": PASSWORD,
    }
    assert login_of_worker(conf).tls == Tls(str(made.ca), str(both), str(both), PASSWORD, True)


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ValueError, match=r"ca\.pem \(stormpilot\.zookeeper\.ssl\.\*\): not usable"):
        login_of_worker({"stormpilot.zookeeper.ssl.ca": str(tmp_path / "ca.pem")})


def test_sasl_is_the_section_client_of_storms_jaas_file_if_it_has_one(tmp_path: Path) -> None:
    jaas = write_jaas(tmp_path / "jaas", {"storm": "x"}, SaslLogin("storm", "x"))
    assert login_of_worker({JAAS: str(jaas)}).sasl == SaslLogin("storm", "x")
    (tmp_path / "nimbus").write_text('StormClient { m required username="a" password="b"; };')
    assert login_of_worker({JAAS: str(tmp_path / "nimbus")}) == Login()
    assert login_of_worker({JAAS: "/on/nimbus/only"}) == Login()
    with pytest.raises(ValueError, match="no section Client"):
        login_of_worker({"stormpilot.zookeeper.jaas": str(tmp_path / "nimbus")})


def test_kerberos_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "jaas").write_text(KERBEROS)
    with pytest.raises(ValueError, match="logs in with Kerberos") as e:
        login_of_worker({JAAS: str(tmp_path / "jaas")})
    assert "\n" not in str(e.value)


def test_storms_own_jaas_file_for_kerberos_leaves_a_topology_its_digest(tmp_path: Path) -> None:
    (tmp_path / "jaas").write_text(KERBEROS)
    assert login_of_worker({**DIGEST, JAAS: str(tmp_path / "jaas")}) == Login("a:b")
    with pytest.raises(ValueError, match="logs in with Kerberos"):
        login_of_worker({**DIGEST, "stormpilot.zookeeper.jaas": str(tmp_path / "jaas")})


def test_storms_own_jaas_file_that_only_its_daemons_may_read_leaves_a_topology_its_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(jaas, "read_text", refuse)
    assert login_of_worker({**DIGEST, JAAS: "/closed/jaas"}) == Login("a:b")
    with pytest.raises(ValueError, match=r"/closed/jaas \(java\.security.*cannot read it: Permission denied"):
        login_of_worker({JAAS: "/closed/jaas"})


@pytest.mark.parametrize("component_class", [LoadCollector, Keeps])
def test_whatever_is_wrong_with_the_configuration_the_component_goes_on(
    tmp_path: Path, component_class: type[Bolt]
) -> None:
    conf = {"storm.id": "t-1", "storm.zookeeper.servers": ["127.0.0.1"], "storm.zookeeper.port": [2181]}
    first = handshake(tmp_path, conf, component="count", streams=[])
    sent, _ = run(component_class, first, [tuple_message("1", ["{"]), heartbeat()])
    assert any("stormpilot: " in line and "list" in line for line in log_lines(sent))
    assert {"command": "ack", "id": "1"} in sent
