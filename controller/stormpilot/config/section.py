"""Base class of all sections."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Meta(ge=0, le=86_400)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


TIME_OF_DAY = r"^([01]\d|2[0-3]):[0-5]\d$"
ZNODE = r"^(/(?!\.{1,2}(/|$))[^/\s]+)+$"
ACCESS = r"^(digest:[^\s:]+:[^\s:]+|sasl:\S+)$"
HOST = r"^[^\s/\[\]]+$"
URL = r"^https?://[^\s/]\S*$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
FORMS = {
    TIME_OF_DAY: "HH:MM, 00:00 to 23:59",
    ZNODE: "a path such as /stormpilot",
    ACCESS: "digest:user:hash or sasl:user",
    HOST: "a host name or an IP address",
    URL: "an address that begins with http:// or https://",
    NAME: "letters, digits, dots, dashes and underscores; a letter or digit first",
}
"""Patterns of texts, in words."""

ADVANCED = {"advanced": True}
"""`Meta.extra` of a setting that few installations change: marked so, and left out of the example file."""


KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "names with values (name: value)",
    "null": "nothing",
}
"""Kinds of values as msgspec names them, in words."""


def in_words(expected: str) -> str:
    """msgspec's sentence on a value of another kind or form, in words; any other stays."""
    _, found, pattern = expected.partition(" matching regex ")
    for form, words in FORMS.items():
        if found and pattern == repr(form):
            return f"expected {words}"
    if not expected.startswith("Expected `"):
        return expected
    kinds = re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", lambda m: " or ".join(map(_kind, m[1].split(" | "))), expected)
    return kinds.replace("Expected", "expected", 1)


def _kind(name: str) -> str:
    return KINDS.get(name, f"`{name}`")


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""
