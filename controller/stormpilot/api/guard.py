"""Authentication and permissions of a request, before anything of it is read."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from stormpilot.api.problems import ProblemError
from stormpilot.api.tokens import Role, TokenFile
from stormpilot.config import ApiSection, is_loopback

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], None]
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="stormpilot"'}


@dataclass(frozen=True)
class Caller:
    """The authenticated client; `name` stands in the audit."""

    name: str
    role: Role


class Doorkeeper:
    """Knows callers by their token, or, where the configuration says so, by coming from this machine.

    Without a tokens file reading is open to whoever reaches the address, and nothing may be changed unless
    `allow_loopback_mutations`. Who comes without a token must have asked for this machine by a name of its own: a web
    page elsewhere, whose name was made to point here, did not.
    """

    def __init__(self, section: ApiSection, tokens: TokenFile | None):
        self._section = section
        self._tokens = tokens

    def caller(self, connection: Connection) -> Caller:
        """The caller of a request; `ProblemError` 401 or 403 when it is nobody we let in."""
        given = connection.headers.get("authorization")
        if given is not None:
            return self._bearer(given)
        if self._trusted(connection):
            return Caller(f"anonymous@{connection.client.host if connection.client else 'loopback'}", Role.admin)
        if self._tokens is not None:
            raise ProblemError(401, "UNAUTHENTICATED", "send Authorization: Bearer TOKEN", headers=CHALLENGE)
        if is_loopback(self._section.host) and not self._named(connection):  # else it may have any name
            asked = _asked_for(connection) or "nothing"
            raise ProblemError(403, "HOST", f"without a token, ask for localhost, not for {asked}")
        return Caller("anonymous", Role.viewer)

    def wants_token(self, connection: Connection) -> bool:
        """Whether who comes without a token is turned away for that."""
        return self._tokens is not None and not self._trusted(connection)

    def _bearer(self, given: str) -> Caller:
        scheme, _, token = given.partition(" ")
        found = None
        if scheme.lower() == "bearer" and self._tokens is not None:
            found = self._tokens.holder(token.strip())
        if found is None:
            why = "the token is not known" if self._tokens else "no tokens are known here: api.tokens_file is not set"
            raise ProblemError(401, "UNAUTHENTICATED", why, headers=CHALLENGE)
        return Caller(found.name, found.role)

    def _trusted(self, connection: Connection) -> bool:
        """Whether it may do everything without a token."""
        return self._section.allow_loopback_mutations and self._loopback(connection) and self._named(connection)

    def _named(self, connection: Connection) -> bool:
        """Whether it asked for this machine, by a name that nobody else can make point here."""
        host = _asked_for(connection)
        return host in ("localhost", self._section.host) or is_loopback(host)

    @staticmethod
    def _loopback(connection: Connection) -> bool:
        try:
            return connection.client is not None and ipaddress.ip_address(connection.client.host).is_loopback
        except ValueError:
            return False


def _asked_for(connection: Connection) -> str:
    """The name in the header `Host`."""
    host = connection.headers.get("host", "")
    with contextlib.suppress(ValueError):  # it is no name: not ours either
        return urlsplit(f"//{host}").hostname or ""
    return host


def needs(role: Role) -> Guard:
    """A guard: who asks has this role at least; `caller_of` tells them afterwards."""

    def guard(connection: Connection, _: BaseRouteHandler) -> None:
        caller = connection.app.state.doorkeeper.caller(connection)
        connection.scope["user"] = caller
        require(caller, role)
        if connection.scope.get("method") == "POST":
            kind = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":  # what a form of a web page elsewhere cannot send
                raise ProblemError(415, "CONTENT_TYPE", "send Content-Type: application/json")

    return guard


def require(caller: Caller, role: Role) -> None:
    """`ProblemError` 403 for a caller with less than that role."""
    if caller.role < role:
        raise ProblemError(403, "FORBIDDEN", f"{caller.name} is {caller.role.name}; this needs the role {role.name}")


def caller_of(connection: Connection) -> Caller:
    """The caller that the guard let in."""
    caller = connection.scope["user"]
    assert isinstance(caller, Caller)
    return caller
