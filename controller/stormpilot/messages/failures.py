"""Every way in which a text of somebody else can fail to be a value, as one `UsageError` that names where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from stormpilot.errors import UsageError

MOST_CHARACTERS = 300
"""Of a failure: one that repeats what it found could be as long as that."""
LAST_MS = 253_402_300_799_999
"""The end of the year 9999: no calendar goes further."""
FAILURES = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError, MemoryError)


@contextmanager
def failures_named(where: str, what: str) -> Iterator[None]:
    """Turn what goes wrong inside into `UsageError`: `<where>: not a valid <what>: <why>`."""
    try:
        yield
    except FAILURES as e:
        why = str(e) or type(e).__name__
        if len(why) > MOST_CHARACTERS:
            why = f"{why[:MOST_CHARACTERS]}..."
        raise UsageError(f"{where}: not a valid {what}: {why}") from e


def check_times(message: msgspec.Struct) -> None:
    """`ValueError` for a time (a field `..._ms`) of a message or of one of its parts that no calendar has."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, msgspec.Struct):
            check_times(value)
        elif isinstance(value, int) and name.endswith("_ms") and abs(value) > LAST_MS:
            raise ValueError(f"{name} is {value}, expected milliseconds since 1970")
