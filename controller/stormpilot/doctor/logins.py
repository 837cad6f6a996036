"""Checks of how ZooKeeper and Nimbus are asked: TLS, as whom, and whether Python components can do the same."""

from __future__ import annotations

from collections.abc import Iterator

from stormpilot.doctor.evidence import Evidence
from stormpilot.doctor.finding import Finding, Level
from stormpilot.zookeeper.login import OWN_SSL_KEY, SSL_KEY


def logins(e: Evidence) -> Iterator[Finding]:
    """Our login at ZooKeeper, and whether Storm's daemons and components use the same."""
    conf = e.nimbus.conf if e.nimbus is not None and not e.nimbus.error else {}
    by_tls = conf.get(f"{SSL_KEY}.enable") is True
    if by_tls and not e.tls:
        yield Finding(
            "login",
            Level.warn,
            "Storm asks ZooKeeper by TLS, this command in plain text",
            "set zookeeper.ca_file (and .cert_file, .key_file), and zookeeper.hosts to the secure port",
        )
    trusted = str(conf.get(f"{SSL_KEY}.truststore.path") or "")
    if by_tls and not conf.get(f"{OWN_SSL_KEY}.ca") and not trusted.endswith(".pem"):
        yield Finding(
            "login",
            Level.warn,
            f"components in Python cannot report: they cannot read {trusted or 'the trust store'}, a Java key store",
            f"set {OWN_SSL_KEY}.ca (and .cert, .key) to PEM files of the worker hosts in every storm.yaml",
        )
    if e.error or (not e.tls and not e.ids):
        return
    who = " and ".join(f"{i.partition(':')[0]} ({scheme})" for scheme, i in e.ids) or "nobody"
    yield Finding("login", Level.ok, f"ZooKeeper is asked {'by TLS' if e.tls else 'in plain text'}, as {who}")
