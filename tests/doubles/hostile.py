"""What somebody writes who may write anything: broken, endless, deep, huge, and messages that are nearly honest."""

from __future__ import annotations

import copy
import functools
import gzip
import json
import random
import zlib
from typing import Any

NUMBERS = (
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63) + 1, 10**18, 0.5, -0.0, 1e308, -1e308, 5e-324),
    *(6700, 65_536, 253_402_300_799_999, -253_402_300_799_999),
)
TEXTS = (
    "",
    "_all",
    "_cluster",
    "..",
    "/",
    "x" * 5_000,
    "\u0000",
    "\ud7ff\U0010ffff",
    "a,b,c",
    "[red]",
    "\x1b[2J",
    "act",
)
MOST_DEPTH = 200_000


@functools.cache
def bombs() -> dict[str, bytes]:
    """Bytes that are no message at all, by what they are."""
    return {
        "empty": b"",
        "broken gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(range(40, 80)),
        "truncated gzip": gzip.compress(b'{"schema":1}')[:-5],
        "compressed bomb": gzip.compress(b'{"schema":1,"x":[' + b"0," * 9_000_000 + b"0]}", 9),
        "deep list": b'{"schema":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "deep object": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
        "only brackets": b"[" * MOST_DEPTH,
        "not UTF-8": b'{"schema":1,"mode":"\xff\xfe"}',
        "huge number": b'{"schema":' + b"9" * 5_000 + b"}",
        "NaN": b'{"schema":NaN}',
        "quotation marks": b'"' * 900_000,
        "backslashes": b'{"a":"' + b"\\" * 900_001,
        "many values": b'{"schema":1,"x":[' + b"1," * 400_000 + b"1]}",
        "newer": b'{"schema":99}',
        "a list": b"[]",
        "nothing": b"null",
    }


def mutated(message: Any, chance: random.Random, times: int = 1) -> Any:
    """A JSON value with `times` places changed: other numbers and texts, twice, gone, of another type."""
    found = copy.deepcopy(message)
    for _ in range(times):
        holder, key = _place(found, chance)
        if holder is None:
            break
        old = holder[key]
        if isinstance(old, bool) or old is None:
            holder[key] = chance.choice((True, False, None, 0, "x"))
        elif isinstance(old, int | float):
            holder[key] = chance.choice(NUMBERS)
        elif isinstance(old, str):
            holder[key] = chance.choice((*TEXTS, old + "x"))
        elif isinstance(old, list) and old:
            holder[key] = chance.choice((old * 2, old[1:], [], [*old, old[0]], old * 200))
        elif isinstance(old, dict) and old:
            gone = chance.choice(sorted(old))
            holder[key] = {k: v for k, v in old.items() if k != gone}
        else:
            holder[key] = chance.choice((None, [], {}, 1, "x"))
    return found


def _place(value: Any, chance: random.Random) -> tuple[Any, Any]:
    """A place somewhere in the value: what holds it, and its key."""
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        x = pending.pop()
        keys = list(x) if isinstance(x, dict) else list(range(len(x))) if isinstance(x, list) else []
        places += [(x, k) for k in keys]
        pending += [x[k] for k in keys]
    return chance.choice(places) if places else (None, None)


def mangled(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some of them changed, cut, or packed."""
    how = chance.randrange(4)
    if how == 0 and data:
        data = data[: chance.randrange(len(data))]
    elif how == 1 and data:
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    elif how == 2:
        data = gzip.compress(data, mtime=0)
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    else:
        data = data + data
    return data


def hostile(data: bytes, chance: random.Random) -> bytes:
    """Something to lie where `data` lies: nearly the same message, the same bytes broken, or no message at all."""
    how = chance.random()
    if how < 0.75:
        try:
            value = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except (ValueError, OSError, EOFError, zlib.error, RecursionError):
            return mangled(data, chance)
        return json.dumps(mutated(value, chance, chance.randint(1, 3))).encode()
    if how < 0.98:
        return mangled(data, chance)
    return chance.choice(list(bombs().values()))
