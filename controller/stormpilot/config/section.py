"""Base class of all sections."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Mode = Literal["off", "advise", "act"]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrZero = Annotated[float, Meta(ge=0, le=86_400)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


ADVANCED = {"advanced": True}
"""`Meta.extra` of a setting that few installations change: marked so, and left out of the example file."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections."""
