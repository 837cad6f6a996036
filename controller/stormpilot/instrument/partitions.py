"""Key -> logical partition, as the groupings of the worker's jar do it: `floorMod(deepHashCode(keys), partitions)`.

Keys are JSON values as Storm's multilang reads them from a Python component: a whole number is an Integer where it
fits, else a Long, else a BigInteger; a number with a point or an exponent is a Double, or a BigDecimal where its text
is longer than 18 characters. Storm before 2.6 reads a Long where a later one reads an Integer, and a negative Long has
another hash; it reads no BigDecimal. That a Java component emits a small Long or a long Double as a key, nothing that
reaches Python tells.
`tests/contract/vectors/partitions.json` holds both sides to it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

PARTITIONS_PER_TASK = 64
"""As in `messages/routes.py`."""
_MASK = 0xFFFFFFFF
_LONGEST_DOUBLE = 18
"""Characters of a number's text of which json-smart, the JSON parser of Storm since 2.6, makes a Double."""
_LONGEST_CACHED = 64
"""Characters of a text whose hash is kept: longer ones would hold memory in the process of each task."""


def reads_longs(storm_conf: Mapping[str, Any]) -> bool:
    """Whether the Storm that a component runs in, by its configuration, reads every whole number as a Long.

    Its version is not in what a component gets, defaults are: 2.6.0 took the JSON parser of before out, and Exhibitor's
    keys, and gave the UI a title. A `storm.yaml` that grew older than its Storm may still have the former.
    """
    return "storm.exhibitor.port" in storm_conf and "ui.title" not in storm_conf


def partition_of(keys: Sequence[Any], partitions: int, *, longs: bool = False) -> int:
    """The partition, 0 to `partitions` - 1, of the values of the key fields in the order of the grouping.

    `longs`: as Storm before 2.6 reads numbers (`reads_longs`).
    """
    if isinstance(keys, str):  # a sequence too, of other keys
        raise TypeError(f"keys are {keys!r}, expected a list with the value of each key field")
    return _signed(_list_hash(keys, longs)) % partitions


def _list_hash(values: Sequence[Any], longs: bool) -> int:
    hashed = 1
    for value in values:
        hashed = (31 * hashed + _hash(value, longs)) & _MASK
    return hashed


def _hash(value: Any, longs: bool) -> int:
    """`hashCode()` of the Java object that a JSON value becomes, as an unsigned number."""
    if isinstance(value, str):
        return _cached_string_hash(value) if len(value) <= _LONGEST_CACHED else _string_hash(value)
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        return _int_hash(value, longs)
    if isinstance(value, float):
        return _float_hash(value, longs)
    if isinstance(value, Mapping):
        return sum(_hash(k, longs) ^ _hash(v, longs) for k, v in value.items()) & _MASK
    if isinstance(value, Sequence):
        return _list_hash(value, longs)
    raise TypeError(f"a key of type {type(value).__name__}: expected what JSON has")


def _string_hash(text: str) -> int:
    hashed = 0
    if text.isascii():
        for byte in text.encode():
            hashed = (31 * hashed + byte) & _MASK
        return hashed
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & _MASK
    return hashed


_cached_string_hash = lru_cache(maxsize=65_536)(_string_hash)


def _int_hash(value: int, longs: bool) -> int:
    if not longs and -(1 << 31) <= value < 1 << 31:
        return value & _MASK
    if -(1 << 63) <= value < 1 << 63:
        bits = value & 0xFFFFFFFFFFFFFFFF
        return (bits ^ (bits >> 32)) & _MASK
    return _big_integer_hash(value)


def _big_integer_hash(value: int) -> int:
    magnitude, hashed = abs(value), 0
    for shift in range((magnitude.bit_length() - 1) // 32 * 32, -1, -32):
        hashed = (31 * hashed + (magnitude >> shift & _MASK)) & _MASK
    return hashed if value > 0 else -hashed & _MASK


def _float_hash(value: float, longs: bool) -> int:
    text = float.__repr__(value)
    if not longs and len(text) > _LONGEST_DOUBLE:
        sign, digits, exponent = Decimal(text).as_tuple()
        unscaled = int("".join(map(str, digits)))
        return (31 * _big_integer_hash(-unscaled if sign else unscaled) - int(exponent)) & _MASK
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return int(bits ^ (bits >> 32)) & _MASK


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits
