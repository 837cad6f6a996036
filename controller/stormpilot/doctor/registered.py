"""Where Nimbuses are, as Storm registers them: the znode `nimbuses/HOST`, whose Thrift value has the port."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

from stormpilot.errors import UsageError
from stormpilot.logins.jaas import SaslLogin
from stormpilot.messages.limits import unpacked
from stormpilot.nimbus import Address

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 64 * 1024
_HOST, _PORT = 1, 2
"""Fields of a `NimbusSummary`."""
_STRING, _I32 = 11, 8
_BYTES = {2: 1, 3: 1, 4: 8, 6: 2, _I32: 4, 10: 8}
"""Of a value by its type in Thrift's binary protocol; a string says its own length."""


def registered_address(name: str, data: bytes) -> str:
    """The `host:port` of a registered Nimbus; `name` of its znode where the value is of another kind.

    Storm writes it with `storm.meta.serialization.delegate`, by default Thrift that is compressed.
    """
    try:
        host, port = _host_and_port(unpacked(data, _MOST_BYTES) if data.startswith(_GZIP) else data)
    except (struct.error, ValueError):
        return name
    return str(Address(host, port)) if host and port else name


def nimbus_addresses(
    given: str | None, registered: Sequence[str], plug_in_host: str | None, login: SaslLogin | None = None
) -> list[Address]:
    """Where Nimbus may be: as given, as registered (`host:port`), or a guess; `UsageError` for a wrong one.

    A Storm with another root than the usual one registers elsewhere: the plug-in's own host comes first.
    """
    if given:
        return [Address.parse(given, "--nimbus", login)]
    found = sorted(parsed_addresses(registered, login), key=lambda a: a.host != plug_in_host)
    if plug_in_host and not any(a.host == plug_in_host for a in found):
        found.insert(0, Address(plug_in_host, login=login))
    return found


def parsed_addresses(registered: Sequence[str], login: SaslLogin | None = None) -> list[Address]:
    """Those that are addresses, in the order of their texts."""
    found = []
    for name in sorted(registered):
        with contextlib.suppress(UsageError):
            found.append(Address.parse(name, name, login))
    return found


def _host_and_port(data: bytes) -> tuple[str, int]:
    """Read here and not by thriftpy2, which makes room for as many bytes as a value says it has: up to 2 GiB."""
    host, port, at = "", 0, 0
    while not (host and port):
        kind, field = struct.unpack_from(">bh", data, at)  # (the end, a byte 0, is too short)
        at += 3
        size = _BYTES.get(kind)
        if kind == _STRING:
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
        if size is None or not 0 <= size <= len(data) - at:
            raise ValueError("not a NimbusSummary")
        if (field, kind) == (_HOST, _STRING):
            host = data[at : at + size].decode()
        elif (field, kind) == (_PORT, _I32):
            (port,) = struct.unpack_from(">i", data, at)
        at += size
    return host, port
