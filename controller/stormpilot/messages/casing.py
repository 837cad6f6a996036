"""Field names in JSON for programs: camelCase, as in every message; keys of maps are names and stay as they are."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

DOCUMENTS = ("stormpilot.model.values", "stormpilot.sizing.problem")
"""The modules of models, plans and topologies to size: what other commands read stands as in its file."""


def camel(value: Any) -> Any:
    """A value with the fields of structs and dataclasses in camelCase, documents aside."""
    if isinstance(value, msgspec.Struct) and type(value).__module__ not in DOCUMENTS:
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {camel_name(encoded): camel(getattr(value, name)) for name, encoded in names}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel_name(f.name): camel(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {k: camel(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [camel(v) for v in value]
    return value


def camel_name(name: str) -> str:
    """`left_s` as `leftS`."""
    first, *rest = name.strip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
