"""Options of a settings class: name, default, unit, range and meaning, read from the class itself.

The one source is the class: `alpha: Annotated[float, Meta(ge=0, le=1, description="...", extra={"unit": "s"})] = 0.0`,
for msgspec structs (the configuration) and dataclasses (parameters of planners) alike. A field without a description
takes the sentence "`name`: meaning" of the class's docstring.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import types
import typing
from typing import Any

import msgspec

from stormpilot.config.section import FORMS

UNITS = {
    "_tps": "tuples/s",
    "_s": "s",
    "_ms": "ms",
    "_mhz": "MHz",
    "_mb": "MB",
    "_days": "days",
    "_cores": "cores",
    "_cycles": "cycles",
    "_tuples": "tuples",
    "_us_per_tuple": "us/tuple",
    "_per_hour": "per hour",
}
"""The unit is in the name where no other is given."""
KINDS = {
    type(None): "none",
    str: "text",
    bool: "true, false",
    float: "number",
    int: "whole number",
    list: "list",
    tuple: "list",
    dict: "map",
    typing.Literal: "word",
}
"""Kinds of values in words."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option; `type` and `range` are words for people: `whole number or none`, `0 to 1`, `""` where there is none.

    `advanced`: few installations change it.
    """

    name: str
    type: str
    default: Any
    unit: str
    range: str
    meaning: str
    advanced: bool = False


def options_of(kind: type[Any]) -> list[Option]:
    """The options of a dataclass or msgspec struct, in the order of its fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [_option(kind, name, default, hints[name]) for name, default in _fields(kind)]


def broken_range(kind: type[Any], name: str, value: Any) -> str | None:
    """The expected range, when the value (of the right type) is outside of it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for meta in _metas(typing.get_type_hints(kind, include_extras=True)[name]):
        for bound, holds in (
            (meta.ge, operator.ge),
            (meta.gt, operator.gt),
            (meta.le, operator.le),
            (meta.lt, operator.lt),
        ):
            if bound is not None and not holds(value, bound):
                return _range([meta], _plain(typing.get_type_hints(kind)[name]))
    return None


def _fields(kind: type[Any]) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(kind):
        return [
            (f.name, f.default if f.default_factory is dataclasses.MISSING else f.default_factory())
            for f in dataclasses.fields(kind)
        ]
    return [
        (f.name, f.default if f.default_factory is msgspec.NODEFAULT else f.default_factory())
        for f in msgspec.structs.fields(kind)
    ]


def _option(kind: type[Any], name: str, default: Any, hint: Any) -> Option:
    metas = _metas(hint)
    said = next((m.description for m in metas if m.description), None)
    unit = next((str(m.extra["unit"]) for m in metas if m.extra and "unit" in m.extra), None)
    if unit is None:
        unit = next((u for suffix, u in UNITS.items() if name.endswith(suffix)), "")
    plain = _plain(typing.get_type_hints(kind)[name])
    return Option(
        name=name,
        type=_words(plain),
        default=default,
        unit=unit,
        range=_range(metas, plain),
        meaning=said or _from_docstring(kind, name),
        advanced=any(m.extra and m.extra.get("advanced") for m in metas),
    )


def _metas(hint: Any) -> list[msgspec.Meta]:
    """Every `Meta` of a type, also those inside a union."""
    found = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    if hasattr(hint, "__metadata__"):
        return found + _metas(hint.__origin__)
    return [m for part in _parts(hint) for m in _metas(part)]


def _parts(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()


def _plain(hint: Any) -> list[Any]:
    """The types that a value may have."""
    return [p for part in _parts(hint) for p in _plain(part)] or [hint]


def _words(plain: list[Any]) -> str:
    kinds = [typing.get_origin(kind) or kind for kind in plain]
    return " or ".join(dict.fromkeys(KINDS.get(kind, kind.__name__) for kind in kinds))


def _range(metas: list[msgspec.Meta], plain: list[Any]) -> str:
    words = [str(w) for kind in plain if typing.get_origin(kind) is typing.Literal for w in typing.get_args(kind)]
    if words:
        return ", ".join(words)
    items = [i for kind in plain if typing.get_origin(kind) in (list, tuple) for i in typing.get_args(kind)]
    if some := next((i for i in items if typing.get_origin(i) is typing.Literal), None):
        return f"any of {', '.join(map(str, typing.get_args(some)))}"
    low = next((b for m in metas for b in (m.ge, m.gt) if b is not None), None)
    high = next((b for m in metas for b in (m.le, m.lt) if b is not None), None)
    above = any(m.gt is not None for m in metas)
    below = any(m.lt is not None for m in metas)
    if low is None and high is None:
        return next((FORMS[m.pattern] for m in metas if m.pattern), "")
    if high is None:
        return f"above {low:g}" if above else f"at least {low:g}"
    if low is None:
        return f"below {high:g}" if below else f"at most {high:g}"
    if above:
        return f"above {low:g}, {'below' if below else 'at most'} {high:g}"
    return f"{low:g} to below {high:g}" if below else f"{low:g} to {_large(high)}"


def _large(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _from_docstring(kind: type[Any], name: str) -> str:
    text = " ".join((kind.__doc__ or "").split())
    found = re.search(rf"`{name}`: (.*?)(?=\.? `\w+`:|\.(?: [A-Z]| `\w+`|$)|$)", text)
    return "" if found is None else found[1].rstrip(".")
