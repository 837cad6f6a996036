"""ZooKeeper's servers one by one: the four-letter word `srvr`, which every server answers by default."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import msgspec

TIMEOUT_S = 3.0
DEFAULT_PORT = 2181


class Server(msgspec.Struct, frozen=True):
    """What a server said; `error` is why it said nothing, `version` is empty where `srvr` is not allowed."""

    address: str
    version: str = ""
    mode: str = ""
    error: str = ""


def ask(hosts: str) -> list[Server]:
    """Every server of a connection string (`host:port,host:port`), in its order, all asked at once."""
    addresses = [a.strip() for a in hosts.partition("/")[0].split(",") if a.strip()]
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        return list(pool.map(_ask, addresses))


def _ask(address: str) -> Server:
    host, colon, port = address.rpartition(":")
    if not colon:
        host, port = address, str(DEFAULT_PORT)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            said = b""
            while block := connection.recv(4096):
                said += block
    except (OSError, ValueError) as e:
        return Server(address, error=str(e) or type(e).__name__)
    text = said.decode(errors="replace")
    version = re.search(r"version: (\d+(?:\.\d+)*)", text)
    mode = re.search(r"^Mode: (\w+)", text, re.MULTILINE)
    if mode is None and "not currently serving" in text:
        return Server(address, error="it is up, but in no quorum")
    return Server(address, version[1] if version else "", mode[1] if mode else "")
