"""A real ZooKeeper that asks for TLS with a certificate, and for SASL digest; certificates and JAAS files for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stormpilot.local.ports import Reservation
from stormpilot.local.zookeeper import LocalZooKeeper, sasl
from stormpilot.logins.jaas import SaslLogin
from stormpilot.zookeeper.login import Tls

PASSWORD = "changeit"
USER, SECRET = "storm", "sasl-secret"
_SHADE = "org.apache.storm.shade."
_DIGEST_MODULE = f"{_SHADE}org.apache.zookeeper.server.auth.DigestLoginModule"


@dataclass(frozen=True)
class Certificates:
    """An authority and a certificate for localhost by it; as PEM files, and as the stores that Java reads."""

    ca: Path
    cert: Path
    key: Path
    keystore: Path
    truststore: Path

    @property
    def tls(self) -> Tls:
        return Tls(str(self.ca), str(self.cert), str(self.key))


def make_certificates(folder: Path) -> Certificates:
    """An authority of its own, and a certificate for localhost."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        n: folder / n for n in ("ca.pem", "ca.key", "cert.pem", "cert.key", "request", "ext", "key.p12", "trust.p12")
    }
    files["ext"].write_text("subjectAltName=DNS:localhost\n")

    def openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)

    new_key = ("-newkey", "rsa:2048", "-nodes")
    openssl(
        "req", "-x509", *new_key, "-subj", "/CN=tests", "-days", 2, "-keyout", files["ca.key"], "-out", files["ca.pem"]
    )
    openssl("req", *new_key, "-subj", "/CN=localhost", "-keyout", files["cert.key"], "-out", files["request"])
    signed_by = ("-CA", files["ca.pem"], "-CAkey", files["ca.key"], "-CAcreateserial", "-days", 2)
    openssl("x509", "-req", "-in", files["request"], *signed_by, "-extfile", files["ext"], "-out", files["cert.pem"])
    into = ("-out", files["key.p12"], "-passout", f"pass:{PASSWORD}")
    openssl(
        "pkcs12", "-export", "-in", files["cert.pem"], "-inkey", files["cert.key"], "-certfile", files["ca.pem"], *into
    )
    store = ("-keystore", str(files["trust.p12"]), "-storepass", PASSWORD, "-storetype", "PKCS12")
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(files["ca.pem"]), *store],
        check=True,
        capture_output=True,
    )
    return Certificates(files["ca.pem"], files["cert.pem"], files["cert.key"], files["key.p12"], files["trust.p12"])


def write_jaas(file: Path, users: dict[str, str], login: SaslLogin) -> Path:
    """A JAAS file of ZooKeeper and Storm: who may log in, and as whom Storm's daemons do."""
    accounts = "\n".join(f'  user_{user}="{password}"' for user, password in users.items())
    own = f'  username="{login.user}"\n  password="{login.password}"'
    file.write_text(
        f"""// who may log in
Server {{
  {_DIGEST_MODULE} required
{accounts};
}};
StormServer {{
  {_DIGEST_MODULE} required
{accounts};
}};
/* as whom Storm's daemons log in: to ZooKeeper, and to Nimbus */
Client {{
  {_DIGEST_MODULE} required
{own};
}};
StormClient {{
  {_DIGEST_MODULE} required
{own};
}};
"""
    )
    return file


@dataclass(frozen=True)
class SecureZooKeeper:
    """`hosts` is by TLS; `plain_hosts` is the same server without."""

    server: LocalZooKeeper
    port: int
    certificates: Certificates
    jaas: Path

    @property
    def hosts(self) -> str:
        return f"localhost:{self.port}"

    @property
    def plain_hosts(self) -> str:
        return self.server.hosts


@contextmanager
def secure_zookeeper(folder: Path) -> Iterator[SecureZooKeeper]:
    """A server for `with`; clients must show a certificate, and may log in by SASL."""
    certificates = make_certificates(folder / "certificates")
    users = {USER: SECRET, "other": "other-secret"}
    jaas = write_jaas(folder / "jaas.conf", users, SaslLogin(USER, SECRET))
    ports = Reservation()
    port = ports.take()[0]
    server = LocalZooKeeper(
        folder / "zookeeper",
        settings=[
            f"secureClientPort={port}",
            "secureClientPortAddress=127.0.0.1",
            f"serverCnxnFactory={_SHADE}org.apache.zookeeper.server.NettyServerCnxnFactory",
            *sasl(jaas)[0],
            f"ssl.keyStore.location={certificates.keystore}",
            f"ssl.keyStore.password={PASSWORD}",
            f"ssl.trustStore.location={certificates.truststore}",
            f"ssl.trustStore.password={PASSWORD}",
            "ssl.clientAuth=need",
        ],
        options=sasl(jaas)[1],
    )
    try:
        server.start()
        yield SecureZooKeeper(server, port, certificates, jaas)
    finally:
        server.close()
        ports.close()
