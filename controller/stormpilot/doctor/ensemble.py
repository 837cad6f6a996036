"""ZooKeeper's servers one by one: the four-letter word `srvr`, which every server answers by default."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import msgspec

from stormpilot.errors import UsageError, cause
from stormpilot.zookeeper.login import Tls, addresses
from stormpilot.zookeeper.probe import answer, connection

TIMEOUT_S = 3.0


class Server(msgspec.Struct, frozen=True):
    """Answer of a ZooKeeper server; `error` is why it said nothing, `version` is empty where `srvr` is not allowed."""

    address: str
    version: str = ""
    mode: str = ""
    error: str = ""


def ask(hosts: str, tls: Tls | None = None) -> list[Server]:
    """Every server of a connection string (`host:port,host:port`), in its order, all asked at once."""
    servers = addresses(hosts)
    with ThreadPoolExecutor(max(1, len(servers))) as pool:
        return list(pool.map(lambda server: _ask(server[0], server[1], tls), servers))


def _ask(host: str, port: str, tls: Tls | None) -> Server:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with connection(host, port, TIMEOUT_S, tls) as server:
            said = answer(server, b"srvr", TIMEOUT_S)
    except (OSError, ValueError, UsageError) as e:
        return Server(address, error=cause(e))
    text = said.decode(errors="replace")
    version = re.search(r"version: (\d+(?:\.\d+)*)", text)
    mode = re.search(r"^Mode: (\w+)", text, re.MULTILINE)
    if mode is None and "not currently serving" in text:
        return Server(address, error="it is up, but in no quorum")
    return Server(address, version[1] if version else "", mode[1] if mode else "")
