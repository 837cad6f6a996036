"""Errors as problem JSON (RFC 9457): `type`, `title`, `status`, `detail`, and our `code` and `field`."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec

from stormpilot.errors import RefusedError, StormpilotError, UnreachableError, UsageError
from stormpilot.operate.operator import UncertainError
from stormpilot.operate.topology_ref import UnknownTopologyError
from stormpilot.printable import printable_lines
from stormpilot.zookeeper.client import ConflictError

log = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """API error: `code` for programs, `detail` for people, `field` where one field of the request is to blame."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, status: int, code: str, detail: str, *, field: str | None = None, headers: dict[str, str] = {}):  # noqa: B006 (never changed)
        super().__init__(detail)
        self.status, self.code, self.detail, self.field, self.headers = status, code, detail, field, headers


TITLES = {
    400: "The request is not understood",
    401: "Who are you?",
    403: "Not allowed",
    404: "There is no such thing",
    405: "That cannot be done with it",
    409: "Refused",
    413: "The request is too large",
    415: "The kind of content is not understood",
    500: "An error of ours",
    503: "Not now",
}
READING = (400, 401, 403, 404, 409, 500, 503)
"""Error statuses of a route that only reads."""
WRITING = (*READING, 413, 415)
CODES = {400: "INVALID", 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 405: "METHOD", 413: "TOO_LARGE"}
_OURS: tuple[tuple[type[StormpilotError], int, str], ...] = (
    (UnknownTopologyError, 404, "UNKNOWN_TOPOLOGY"),
    (ConflictError, 409, "CONFLICT"),
    (RefusedError, 409, "REFUSED"),
    (UsageError, 400, "INVALID"),
    (UncertainError, 503, "UNCERTAIN"),
    (UnreachableError, 503, "UNREACHABLE"),
)


def described(handler: HTTPRouteHandler, *statuses: int) -> HTTPRouteHandler:
    """The route, whose description lists these problems beside its answer."""
    problems = {
        status: ResponseSpec(Problem, generate_examples=False, description=TITLES[status], media_type=MEDIA_TYPE)
        for status in statuses
    }
    handler.responses = {**(handler.responses or {}), **problems}
    return handler


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The problem for whatever a handler raised; what nobody expected is logged and says nothing to the outside."""
    headers: dict[str, str] = {}
    field = None
    if isinstance(error, ProblemError):
        status, code, detail, field, headers = error.status, error.code, error.detail, error.field, error.headers
    elif isinstance(error, StormpilotError):
        status, code = next(((s, c) for kind, s, c in _OURS if isinstance(error, kind)), (409, "REFUSED"))
        detail = str(error)
    elif isinstance(error, HTTPException):
        status, detail = error.status_code, error.detail
        code = CODES.get(status, f"HTTP_{status}")
        headers = {k: v for k, v in (error.headers or {}).items() if k.lower() in ("allow", "www-authenticate")}
        if isinstance(error, ValidationException):
            field, detail = _first(error)
    else:
        log.error("a request failed", path=request.url.path, exc_info=error)
        status, code, detail = 500, "INTERNAL", "the controller's log has the details"
    title = TITLES.get(status, "Error")
    problem = Problem(title=title, status=status, detail=printable_lines(detail), code=code, field=field)
    return Response(problem, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _first(error: ValidationException) -> tuple[str | None, str]:
    """The first wrong field and what was expected."""
    for wrong in error.extra if isinstance(error.extra, list) else []:
        if isinstance(wrong, dict) and "message" in wrong:
            return wrong.get("key"), str(wrong["message"])
    return None, error.detail
