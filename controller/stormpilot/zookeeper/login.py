"""Login and TLS of ZooKeeper connections. Runs inside workers: standard library only."""

from __future__ import annotations

import base64
import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormpilot.errors import UsageError, cause
from stormpilot.logins.jaas import ZOOKEEPER_SECTION, NoSectionError, SaslLogin, digest_login
from stormpilot.user_files import PEM_BYTES, read_bytes

DEFAULT_PORT = "2181"
SSL_KEY = "storm.zookeeper.ssl"
OWN_SSL_KEY = "stormpilot.zookeeper.ssl"
OWN_JAAS_KEY = "stormpilot.zookeeper.jaas"
JAAS_KEY = "java.security.auth.login.config"


@dataclass(frozen=True)
class Tls:
    """PEM files: `ca` of whom to trust beside the system's, `cert` and `key` of ours where ZooKeeper asks for them."""

    ca: str
    cert: str | None = None
    key: str | None = None
    key_password: str | None = None
    verify_hostname: bool = True


@dataclass(frozen=True)
class Login:
    """As whom to connect; `Login()` is nobody, in plain text.

    `digest` is `user:password` of the scheme `digest`, `sasl` a login by SASL's DIGEST-MD5. `readers` (scheme, id) may
    read and remove what we create.
    """

    digest: str | None = None
    sasl: SaslLogin | None = None
    tls: Tls | None = None
    readers: tuple[tuple[str, str], ...] = ()

    @property
    def ids(self) -> list[tuple[str, str]]:
        """(scheme, id) of us as access lists have it."""
        found = []
        if self.digest:
            hashed = hashlib.sha1(self.digest.encode(), usedforsecurity=False).digest()  # as ZooKeeper's scheme does
            found.append(("digest", f"{self.digest.partition(':')[0]}:{base64.b64encode(hashed).decode()}"))
        if self.sasl:
            found.append(("sasl", self.sasl.user))
        return found

    def of_kazoo(self) -> dict[str, Any]:
        """Arguments of `KazooClient`."""
        given: dict[str, Any] = {}
        if self.digest:
            given["auth_data"] = [("digest", self.digest)]
        if self.sasl:
            given["sasl_options"] = {
                "mechanism": "DIGEST-MD5",
                "username": self.sasl.user,
                "password": self.sasl.password,
            }
        if self.tls:
            given |= {
                "use_ssl": True,
                "ca": self.tls.ca,
                "certfile": self.tls.cert,
                "keyfile": self.tls.key,
                "keyfile_password": self.tls.key_password,
                "check_hostname": self.tls.verify_hostname,
            }
        return given


def addresses(hosts: str) -> list[tuple[str, str]]:
    """Host and port of each server of `host:port,host:port`, in its order; ports as written."""
    found = []
    for address in filter(None, (part.strip() for part in hosts.partition("/")[0].split(","))):
        host, colon, port = address.rpartition(":")
        if not colon or port.endswith("]"):  # the colon is one of an IPv6 address
            host, port = address, DEFAULT_PORT
        found.append((host.strip("[]"), port))
    return found


def tls_context(tls: Tls, where: str) -> ssl.SSLContext:
    """TLS context as kazoo makes it; `UsageError` for a file that cannot be used, `where` is the setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_hostname
    try:
        read_bytes(Path(tls.ca), PEM_BYTES)  # (OpenSSL would wait for a pipe, and read a device without end)
        context.load_verify_locations(tls.ca)
    except (OSError, ssl.SSLError) as e:
        raise UsageError(f"{tls.ca} ({where}): not usable as PEM certificates: {cause(e)}") from e
    if tls.cert:
        try:
            for file in (tls.cert, tls.key or tls.cert):
                read_bytes(Path(file), PEM_BYTES)
            context.load_cert_chain(tls.cert, tls.key, tls.key_password or "")
        except (OSError, ssl.SSLError) as e:
            raise UsageError(f"{tls.cert}, {tls.key} ({where}): not usable as certificate and key: {cause(e)}") from e
    return context


def login_of_worker(storm_conf: Mapping[str, Any]) -> Login:
    """Login from the configuration that a worker gets; the twin of what Storm does for its JVM.

    TLS where `storm.zookeeper.ssl.enable` is true, or `stormpilot.zookeeper.ssl.ca` is set; its PEM files are
    `stormpilot.zookeeper.ssl.ca`, `.cert` and `.key`, or Storm's own trust store and key store where those are PEM.
    SASL where the JAAS file of `stormpilot.zookeeper.jaas` has a section `Client`, or that of Storm's own key has one
    with a password. Storm's own may be for its daemons alone: with a digest, one that is no use here is left out.

    Raises
    ------
    ValueError
        ZooKeeper is to be asked by TLS, and no PEM file says whom to trust; or the files cannot be used.
    """
    scheme = storm_conf.get("storm.zookeeper.topology.auth.scheme")
    payload = storm_conf.get("storm.zookeeper.topology.auth.payload")
    digest = str(payload) if scheme == "digest" and payload else None
    try:
        return Login(digest, _sasl_of_worker(storm_conf, digest), _tls_of_worker(storm_conf))
    except UsageError as e:
        raise ValueError(str(e)) from e


def _sasl_of_worker(storm_conf: Mapping[str, Any], digest: str | None) -> SaslLogin | None:
    own = storm_conf.get(OWN_JAAS_KEY)
    if own:
        return digest_login(Path(str(own)), ZOOKEEPER_SECTION, OWN_JAAS_KEY)
    storms = storm_conf.get(JAAS_KEY)
    if not storms:
        return None
    try:
        return digest_login(Path(str(storms)), ZOOKEEPER_SECTION, JAAS_KEY)
    except NoSectionError:  # for Nimbus only
        return None
    except UsageError as e:
        if digest or isinstance(e.__cause__, FileNotFoundError):
            return None
        raise


def _tls_of_worker(storm_conf: Mapping[str, Any]) -> Tls | None:
    ca = storm_conf.get(f"{OWN_SSL_KEY}.ca")
    if not ca and str(storm_conf.get(f"{SSL_KEY}.enable")).lower() != "true":
        return None
    trusted, kept = (str(storm_conf.get(f"{SSL_KEY}.{store}.path") or "") for store in ("truststore", "keystore"))
    if not ca and trusted.endswith(".pem"):
        ca = trusted
    if not ca:
        raise UsageError(
            f"{SSL_KEY}.enable is true, and Python cannot read {trusted or 'a Java trust store'}: "
            f"set {OWN_SSL_KEY}.ca (and .cert, .key) to PEM files on worker hosts"
        )
    cert, key, password = storm_conf.get(f"{OWN_SSL_KEY}.cert"), storm_conf.get(f"{OWN_SSL_KEY}.key"), None
    if not cert and kept.endswith(".pem"):
        cert = key = kept
        password = storm_conf.get(f"{SSL_KEY}.keystore.password")
    verified = str(storm_conf.get(f"{SSL_KEY}.hostnameVerification", "true")).lower() != "false"
    tls = Tls(str(ca), str(cert) if cert else None, str(key) if key else None, password, verified)
    tls_context(tls, f"{OWN_SSL_KEY}.*")
    return tls
