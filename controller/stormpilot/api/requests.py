"""A request whose body may be anything."""

from __future__ import annotations

from typing import Any

from litestar import Request
from litestar.exceptions import SerializationException


class HostileRequest(Request[Any, Any, Any]):
    """A request; a body that is not UTF-8 or nested too deeply is as wrong as one that is no JSON."""

    async def json(self) -> Any:
        """The body as JSON; the framework itself catches only what the JSON reader raises as its own error."""
        try:
            return await super().json()
        except (UnicodeDecodeError, RecursionError) as e:
            raise SerializationException(f"the body is no JSON: {e}") from e
