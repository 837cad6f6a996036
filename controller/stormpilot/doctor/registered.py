"""Nimbuses as Storm registers them in ZooKeeper: the znode `nimbuses/HOST`, whose Thrift value has the port."""

from __future__ import annotations

import struct

from streamparse import thrift as storm
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TException
from thriftpy2.utils import deserialize

from stormpilot.messages.limits import unpacked
from stormpilot.nimbus import Address

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 64 * 1024
_OTHER_KIND = (struct.error, ValueError, TypeError, EOFError, OverflowError, MemoryError, SystemError)
"""Raised by thriftpy2 on what is no such value; `SystemError` on a negative length."""


def registered_address(name: str, data: bytes) -> str:
    """The `host:port` of a registered Nimbus; `name` of its znode where the value is of another kind.

    Storm writes it with `storm.meta.serialization.delegate`, by default Thrift that is compressed.
    """
    try:
        text = unpacked(data, _MOST_BYTES) if data.startswith(_GZIP) else data
        summary = deserialize(storm.NimbusSummary(), text, TBinaryProtocolFactory())  # type: ignore[no-untyped-call]
    except (*_OTHER_KIND, TException):
        return name
    if not summary.host or not summary.port:
        return name
    return str(Address(summary.host, summary.port))
