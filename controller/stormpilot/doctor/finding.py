"""Finding of a check."""

from __future__ import annotations

import enum

import msgspec


class Level(enum.StrEnum):
    """Severity: `skipped` could not be looked at, `warn` works and will hurt, `fail` does not work."""

    ok = "ok"
    skipped = "skipped"
    warn = "warn"
    fail = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One sentence on one thing; `fix` says what to do, or of what is ok what may be done; empty: nothing."""

    check: str
    level: Level
    text: str
    fix: str = ""
