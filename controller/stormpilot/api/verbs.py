"""Routes that change something: made from `stormpilot.operate.verbs.VERBS`, each with before and after.

Where the command line asks a person first, `confirm` must be true; without it the answer is 409 with what to consider.
An unknown field is refused: a `dryrun` that is ignored would do what was only to be looked at.
"""

from __future__ import annotations

import functools
import typing
from typing import Annotated, Any

import msgspec
import structlog
from litestar import Request, Response, Router, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from stormpilot.api.guard import caller_of, needs, require
from stormpilot.api.problems import WRITING, ProblemError, described
from stormpilot.api.source import Source
from stormpilot.api.tokens import Role
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.operate import Change
from stormpilot.operate.verbs import VERBS, Parameter, Verb


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields that every verb takes: `why` is recorded in the audit log, `dryRun` only shows what would change."""

    why: Annotated[str, msgspec.Meta(max_length=2000, description="Reason, recorded in the audit log.")] = ""
    dry_run: Annotated[bool, msgspec.Meta(description="Only show what would change.")] = False
    confirm: Annotated[bool, msgspec.Meta(description="Confirmed, where the verb is dangerous.")] = False


From = NamedDependency[Source]
Answer = Response[Change]
log = structlog.get_logger(__name__)
Asked = Request[Any, Any, Any]


def bodies() -> list[type[Body]]:
    """The bodies of all routes."""
    return [Body, *(body_of(v) for v in VERBS if v.over_http)]


@functools.cache
def body_of(verb: Verb) -> type[Body]:
    """The body of a verb's request: a field for each of its parameters, and those that all verbs take."""
    name = "".join(word.capitalize() for word in verb.name.split()) + "Body"
    fields = [_field(p) for p in verb.parameters]
    made = msgspec.defstruct(name, fields, bases=(Body,), namespace={"__doc__": verb.help}, frozen=True, kw_only=True)
    return typing.cast(type[Body], made)


def _field(p: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    if p.default is not p.REQUIRED:
        return p.name, p.kind, p.default
    return (p.name, p.kind, None) if p.optional else (p.name, p.kind)


def route_of(verb: Verb) -> HTTPRouteHandler:
    """The route of a verb."""
    names = [p.name for p in verb.parameters]

    def handle(request: Any, source: Any, data: Any) -> Any:
        given = {n: getattr(data, n) for n in names}
        if verb.admin_for_all and given["topology"] is None:
            require(caller_of(request), Role.admin)
        return _do(request, source, data, verb, given)

    handle.__name__ = verb.name.replace(" ", "_")
    handle.__doc__ = verb.help
    handle.__annotations__ = {"request": Asked, "source": From, "data": JSONBody[body_of(verb)], "return": Answer}  # type: ignore[misc]
    later = {202: ResponseSpec(Change, generate_examples=False, description="Asked of the leading controller")}
    path = f"/{verb.name.replace(' ', '/')}"
    responses = later if verb.request else None
    return post(path, sync_to_thread=True, status_code=200, responses=responses)(handle)


class ReloadAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of controller.yaml that changed: used from the next cycle on, or after a restart only."""

    text: str
    used: list[str] = []
    need_restart: list[str] = []


@post("/config/reload", sync_to_thread=True, guards=[needs(Role.admin)], status_code=202)
def config_reload(request: Asked, source: From, data: JSONBody[Body]) -> ReloadAnswer:
    """Reload controller.yaml, as SIGHUP does, and say what changed (with `dryRun`: what would).

    400 for a file that is wrong. Admin only.
    """
    if source.reload is None:
        raise ProblemError(409, "REFUSED", "this controller cannot reload its configuration: restart it")
    done = source.reload(data.dry_run)
    read = "is right, and would change" if data.dry_run else "is read anew, changed"
    text = f"controller.yaml {read}: {', '.join(done.used) or 'nothing'}"
    if done.need_restart:
        text += f"; after a restart: {', '.join(done.need_restart)}"
    if data.dry_run:
        return ReloadAnswer(text=text, used=done.used, need_restart=done.need_restart)
    asked = Change(verb="config reload", target="controller.yaml", before=None, after=None, text=text)
    try:
        source.operator(caller_of(request).name, data.why).write([], asked)
    except (RefusedError, UnreachableError) as e:
        log.warning("a reload is not in the audit", who=caller_of(request).name, why=str(e))
    return ReloadAnswer(text=text, used=done.used, need_restart=done.need_restart)


def router() -> Router:
    """All of them."""
    handlers = [*(route_of(v) for v in VERBS if v.over_http), config_reload]
    return Router(
        "/api/v1",
        route_handlers=[described(h, *WRITING) for h in handlers],
        guards=[needs(Role.operator)],
        tags=["changing"],
        security=[{"token": []}],
    )


def _do(request: Asked, source: Source, body: Body, verb: Verb, given: dict[str, Any]) -> Answer:
    """Look first; act when there is no danger, or the danger was confirmed."""
    who = caller_of(request).name
    change = verb.do(source.operator(who, body.why, dry_run=True), **given)
    if not body.dry_run:
        if change.danger and not body.confirm:
            raise ProblemError(409, "CONFIRM", f"{change.danger}: send confirm: true to do it", field="confirm")
        try:
            change = verb.do(source.operator(who, body.why), **given)
        finally:
            source.forget()
    return Response(change, status_code=202 if change.request_id else 200)
