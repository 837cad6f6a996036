"""Answer of a verb: before, after, and a sentence."""

from __future__ import annotations

from typing import Any

import msgspec


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Change by a verb, made or with `dry_run` only described.

    `before` and `after` are JSON values (None: nothing there); `changed` is False when all is as asked already.
    `danger` is a sentence where a person should be asked first, else empty. `request_id` names the request that the
    leading controller carries out: see `outcome`.
    """

    verb: str
    target: str
    before: Any
    after: Any
    text: str
    changed: bool = True
    danger: str = ""
    dry_run: bool = False
    request_id: str = ""
