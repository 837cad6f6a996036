"""What is larger, deeper or of more values than an honest message is refused before anything is built of it."""

from __future__ import annotations

import functools
import gzip
import importlib
import json
import pkgutil
import tracemalloc
import zlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormpilot import messages
from stormpilot.errors import UsageError
from stormpilot.messages.core import (
    Message,
    PlanMessage,
    TopologySnapshot,
    decode,
    encode,
)
from stormpilot.messages.limits import LIMITS, SETTING, LimitError, Limits, check_shape, text_within
from stormpilot.messages.load import LoadReport
from stormpilot.messages.settings import ModeSetting

ROOMY = Limits(10**6, 10**6, 32, 10**6)
BROKEN = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + bytes(range(40, 80))


@functools.cache
def bomb() -> bytes:
    """60 MB of an array, packed."""
    return gzip.compress(b"[" + b"0," * 30_000_000 + b"0]", mtime=0)


def kinds() -> list[type[Message]]:
    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"stormpilot.messages.{module.name}")
    found, pending = [], [Message]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending += kind.__subclasses__()
    return found[1:]


def test_every_kind_of_message_has_limits_of_its_own() -> None:
    assert {k.__name__ for k in kinds() if k.__module__.startswith("stormpilot.")} == set(LIMITS)


@pytest.mark.parametrize("kind", [ModeSetting, PlanMessage, LoadReport, TopologySnapshot])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (BROKEN, "not valid gzip: Error"),
        (BROKEN[:12], "not valid gzip"),
        (gzip.compress(b'{"schema":1}', mtime=0)[:-3], "it ends too early"),
        (gzip.compress(b'{"schema":1}', mtime=0) + b"more", "there is more after its end"),
        (bomb, "unpacks to more than|packed|bytes, at most"),
        (b'{"schema":1,"x":' + b"[" * 900 + b"]" * 900 + b"}", "nested deeper than"),
        (b"[" * 100_000, "nested deeper than|values, at most|bytes, at most"),
        (b'{"schema":1,"x":\xff\xfe}', "malformed|UTF-8|utf-8|missing required"),
        (b'{"schema":1,"x":"\xff"}', "malformed|UTF-8|utf-8|missing required"),
        (b'{"schema":1,"x":NaN}', "malformed|UTF-8|utf-8|missing required"),
        (b'{"schema":1,"x":1e999}', "malformed|UTF-8|utf-8|missing required"),
        (b'{"schema":1' + b"0" * 6_000 + b"}", "whole number of 6001 digits"),
        (b'{"schema":9223372036854775808}', "whole number of 19 digits"),
        (b'{"schema":1,"x":[' + b"1," * 600_000 + b"1]}", "values, at most|bytes, at most|missing required"),
        (b"x" * 2_000_000, "2000000 bytes, at most"),
    ],
)
def test_every_kind_of_failure_is_one_error_that_names_the_znode(
    kind: type[Message], data: bytes | Callable[[], bytes], why: str
) -> None:
    with pytest.raises(UsageError, match=rf"^/x/here: not a valid {kind.__name__}: .*({why})"):
        decode(data() if callable(data) else data, kind, "/x/here")


def test_a_value_that_is_repeated_in_an_error_is_cut() -> None:
    with pytest.raises(UsageError) as e:
        decode(json.dumps({"schema": 1, "mode": "x" * 50_000}).encode(), ModeSetting, "/x")
    assert len(str(e.value)) < 400


def test_a_bomb_is_unpacked_no_further_than_its_limit() -> None:
    assert len(bomb()) < 100_000 < SETTING.unpacked_bytes * 500
    tracemalloc.start()
    with pytest.raises(LimitError, match="unpacks to more than 65536 bytes"):
        text_within(bomb(), SETTING if len(bomb()) < SETTING.packed_bytes else Limits(10**6, 65536, 16, 10))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000


def test_a_text_of_quotation_marks_alone_takes_no_more_than_a_few_times_its_size() -> None:
    text = b'"' * 8_000_000
    tracemalloc.start()
    check_shape(text, 32)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * len(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":"' + b"[" * 500 + b'"}',
        b'{"a":"\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\\"}',
        b'{"a":"12345678901234567890123"}',
        b'{"a":0.00012345678901234567}',
        b'{"a":[' + b"[]," * 300 + b"[]]}",
        b'{"a":-9223372036854775807}',
    ],
)
def test_what_is_honest_passes(text: bytes) -> None:
    assert text_within(text, ROOMY) == text


@given(
    st.recursive(
        st.none() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4),
        max_leaves=30,
    )
)
def test_depth_is_counted_as_the_value_has_it(value: object) -> None:
    def depth(x: object) -> int:
        below = x.values() if isinstance(x, dict) else x if isinstance(x, list) else ()
        return 1 + max(map(depth, below), default=0) if isinstance(x, dict | list) else 0

    text = msgspec.json.encode(value)
    check_shape(text, depth(value))
    if depth(value):
        with pytest.raises(LimitError, match="nested deeper"):
            check_shape(text, depth(value) - 1)


def test_nothing_is_written_that_would_not_be_read() -> None:
    with pytest.raises(UsageError, match="ModeSetting is 70054 bytes unpacked, over the limit of 65536 bytes"):
        encode(ModeSetting(mode="act", why="x" * 70_000))


def test_deflate_without_gzip_is_not_unpacked() -> None:
    with pytest.raises(UsageError, match="not a valid ModeSetting"):
        decode(zlib.compress(encode(ModeSetting(mode="act"))), ModeSetting, "/x")


@pytest.mark.parametrize("text", [b"{}", b'{"mode":"off"}', b'{"why":"\\"schema\\":1"}', b'{"mode":{"schema":1}}'])
def test_a_message_that_does_not_say_its_schema_is_refused_though_all_of_its_fields_have_defaults(text: bytes) -> None:
    with pytest.raises(UsageError, match="schema"):
        decode(text, ModeSetting, "/x")
    assert decode(b'{"mode":"off","schema":1}', ModeSetting, "/x").mode == "off"


def test_a_text_that_is_no_utf_8_is_an_error_of_its_own() -> None:
    """As an argument of a command may be."""
    with pytest.raises(UsageError, match=r"ModeSetting: .*is no text in UTF-8"):
        encode(ModeSetting(mode="act", why="\udcff"))
