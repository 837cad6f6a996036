"""Limits of a message that is read: checked on its bytes and its text, before anything is built of it.

Whoever can write a znode, a file or a request can write anything. Each kind of message has limits near what an honest
one needs: bytes packed and unpacked, depth of nesting, number of values. This file imports the standard library alone,
for workers read messages too.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GZIP_MAGIC = b"\x1f\x8b"
LARGEST_INT = 2**63 - 1
"""Whole numbers are 64 bits wide in Java, and in the arrays that a model is made of."""
_GZIP = 31
_PIECE = 256 * KIB
_NOT_VALUES = bytes(set(range(256)) - set(b",[{"))
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NOT_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_ALL_SQUARE = bytes.maketrans(b"{}", b"[]")
_ALL_ZERO = bytes.maketrans(b"123456789", b"000000000")
_ZEROS, _NOT_ZERO = b"0" * 19, re.compile(rb"[^0]")
_LONG_INT = re.compile(rb"(?<![\d.])\d{19,}(?![\d.eE])")


class LimitError(ValueError):
    """A message that is larger, deeper or of more values than its kind may be, or is not packed right."""


@dataclass(frozen=True)
class Limits:
    """Limits of one message; `values` counts commas and opening brackets, those inside of texts too.

    `gzip_above_bytes` is no limit: what is longer is written compressed.
    """

    packed_bytes: int
    unpacked_bytes: int
    depth: int
    values: int
    gzip_above_bytes: int = 64 * KIB


SETTING = Limits(64 * KIB, 64 * KIB, 16, 1_000)
"""Limits of settings of operators and statuses of the plug-in: a few fields and sentences."""
ROUTES = Limits(MIB, 2 * MIB, 32, 500_000)
"""Limits of messages that workers read, or write for a hand-over."""
PLAN = Limits(MIB, 8 * MIB, 32, 1_000_000)
"""A plan of 100,000 executors has 3 MB and 400,000 values."""
HISTORY = Limits(MIB, 16 * MIB, 32, 2_000_000)
"""Limits of messages with several plans, or a row per topology."""
LOAD = Limits(MIB, 16 * MIB, 16, 1_000_000, gzip_above_bytes=KIB)
"""A report of 200,000 pairs has 3 MB and 400,000 values, twice that in schema 1. Nearly all bytes in ZooKeeper are
reports."""
SNAPSHOT = Limits(MIB, 24 * MIB, 32, 1_000_000)
"""A snapshot of 100,000 executors has 13 MB and 600,000 values."""
LIMITS: dict[str, Limits] = {
    **dict.fromkeys(("PauseSetting", "ModeSetting", "DrainSetting", "PinSetting", "ExcludeSetting"), SETTING),
    **dict.fromkeys(("ThresholdSetting", "Hold", "StatusMessage", "OwnerMessage"), SETTING),
    **dict.fromkeys(("Routes", "KeyedTask"), ROUTES),
    **dict.fromkeys(("PlanMessage", "Request"), PLAN),
    **dict.fromkeys(("HistoryEntry", "MoveState", "Rollout", "AuditRecord", "ControllerState"), HISTORY),
    "LoadReport": LOAD,
    **dict.fromkeys(("TopologySnapshot", "ClusterSnapshot", "Thresholds", "Profile"), SNAPSHOT),
}
"""By the name of the message's class."""


def limits_of(kind: type) -> Limits:
    """The limits of a kind of message; those of a plan for one that is not listed."""
    return LIMITS.get(kind.__name__, PLAN)


def text_within(data: bytes, limits: Limits) -> bytes:
    """The JSON text of a message, unpacked and within its limits; `LimitError` says which one it breaks.

    Never more than `unpacked_bytes` of it are unpacked.
    """
    if len(data) > limits.packed_bytes:
        raise LimitError(f"it has {len(data)} bytes, at most {limits.packed_bytes} are read")
    text = unpacked(data, limits.unpacked_bytes) if data[:2] == GZIP_MAGIC else data
    if len(text) > limits.unpacked_bytes:
        raise LimitError(f"it has {len(text)} bytes, at most {limits.unpacked_bytes} are read")
    values = len(text.translate(None, _NOT_VALUES))
    if values > limits.values:
        raise LimitError(f"it has {values} values, at most {limits.values} are read")
    check_shape(text, limits.depth)
    return text


def unpacked(data: bytes, most_bytes: int) -> bytes:
    """Content of a gzip stream; `LimitError` where that is more than `most_bytes`, or the stream is broken."""
    stream = zlib.decompressobj(_GZIP)
    try:
        text = stream.decompress(data, most_bytes + 1)
    except zlib.error as e:
        raise LimitError(f"it is not valid gzip: {e}") from e
    if len(text) > most_bytes:
        raise LimitError(f"it unpacks to more than {most_bytes} bytes")
    if not stream.eof:
        raise LimitError("it is not valid gzip: it ends too early")
    if stream.unused_data:
        raise LimitError("it is not valid gzip: there is more after its end")
    return text


def check_shape(text: bytes, most_depth: int) -> None:
    """`LimitError` for JSON that is nested deeper than this, or has a whole number of more than 64 bits."""
    plain = _unescaped(text)
    marks = plain.translate(_ALL_SQUARE, _NOT_MARKS).replace(b'""', b"")  # a text that holds no bracket is such a pair
    brackets = marks if b'"' not in marks else _outside_texts(marks).translate(None, _NOT_BRACKETS)
    for _ in range(most_depth):  # the innermost of each go
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    if b"[]" in brackets or brackets.count(b"[") > most_depth:
        raise LimitError(f"it is nested deeper than {most_depth}")
    if not _may_have_long_int(plain):
        return
    for number in _LONG_INT.finditer(_outside_texts(plain)):
        if len(number[0]) > 19 or int(number[0]) > LARGEST_INT:
            raise LimitError(f"it has a whole number of {len(number[0])} digits, at most 64 bits are read")


def _may_have_long_int(text: bytes) -> bool:
    """Whether 19 digits stand together other than behind a decimal point."""
    zeros = text.translate(_ALL_ZERO)
    at = zeros.find(_ZEROS)
    while at >= 0:
        if text[at - 1 : at] != b".":
            return True
        end = _NOT_ZERO.search(zeros, at)
        at = -1 if end is None else zeros.find(_ZEROS, end.start())
    return False


def _unescaped(text: bytes) -> bytes:
    """JSON in which every quotation mark begins or ends a text."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _outside_texts(text: bytes) -> bytes:
    """JSON without what stands between quotation marks; piece by piece, for a text of such marks alone has many."""
    outside, inside = [], 0
    for begin in range(0, len(text), _PIECE):
        parts = text[begin : begin + _PIECE].split(b'"')
        outside.append(b"".join(parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2
    return b"".join(outside)
