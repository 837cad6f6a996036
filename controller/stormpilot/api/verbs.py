"""Routes that change something: the verbs of `stormpilot.operate`, each with `why`, `dry_run`, and before and after.

Where the command line asks a person first, `confirm` must be true; without it the answer is 409 and says what to mind.
A wrong field is refused: a `dryrun` that is ignored would do what was only to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from stormpilot import operate
from stormpilot.api.guard import caller_of, needs, require
from stormpilot.api.problems import ProblemError
from stormpilot.api.source import Source
from stormpilot.api.tokens import Role
from stormpilot.operate import Change, Operator

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every verb takes: `why` goes into the audit; `dry_run` only says what would change."""

    why: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    dry_run: bool = False
    confirm: bool = False


class ForAnyTopology(Body, frozen=True, kw_only=True):
    """`topology` is a name; null is for everything."""

    topology: Name | None = None


class ForTopology(Body, frozen=True, kw_only=True):
    """`topology` is a name or id."""

    topology: Name


class ModeBody(ForAnyTopology, frozen=True, kw_only=True):
    """`default` takes the setting back."""

    mode: Literal["off", "advise", "act", "default"]


class RollbackBody(ForTopology, frozen=True, kw_only=True):
    """`steps` back in the history."""

    steps: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1


class HostBody(Body, frozen=True, kw_only=True):
    """The name of a host."""

    host: Name


class DrainBody(HostBody, frozen=True, kw_only=True):
    """`anyway`: even if the host has no supervisor now."""

    anyway: bool = False


class UnpinBody(ForTopology, frozen=True, kw_only=True):
    """A component, or the executor of one of its tasks."""

    component: Name
    task: int | None = None


class PinBody(UnpinBody, frozen=True, kw_only=True):
    """To a supervisor, given by id, or by host if it has one only."""

    supervisor: Name


class WhereBody(ForAnyTopology, frozen=True, kw_only=True):
    """`where` is a host or a supervisor; of everything, of a topology, or of one of its components."""

    where: Name
    component: Name | None = None


class ThresholdBody(ForAnyTopology, frozen=True, kw_only=True):
    """`name` is that of a setting, e.g. decide.overload_s; `of` a supervisor, for what has one per node."""

    name: Name
    of: Name | None = None


class SetThresholdBody(ThresholdBody, frozen=True, kw_only=True):
    """In the unit of the setting."""

    value: float


class FreezeBody(ForTopology, frozen=True, kw_only=True):
    """As in `ThresholdBody`, of one topology."""

    name: Name
    of: Name | None = None


From = NamedDependency[Source]
Answer = Response[Change]
Asked = Request[Any, Any, Any]


@post("/pause", sync_to_thread=True)
def pause(request: Asked, source: From, data: JSONBody[ForAnyTopology]) -> Answer:
    """Publish and apply nothing new, until `resume`; what runs goes on."""
    return _do(request, source, data, lambda o: operate.pause(o, data.topology))


@post("/resume", sync_to_thread=True)
def resume(request: Asked, source: From, data: JSONBody[ForAnyTopology]) -> Answer:
    """End a pause."""
    return _do(request, source, data, lambda o: operate.resume(o, data.topology))


@post("/mode", sync_to_thread=True)
def mode(request: Asked, source: From, data: JSONBody[ModeBody]) -> Answer:
    """Set what the controller may do with a topology."""
    return _do(request, source, data, lambda o: operate.mode(o, data.mode, data.topology))


@post("/approve", sync_to_thread=True)
def approve(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """Ask the leading controller to publish the plan that is proposed now."""
    return _do(request, source, data, lambda o: operate.approve(o, data.topology))


@post("/discard", sync_to_thread=True)
def discard(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """Ask the leading controller to drop the plan that is proposed now."""
    return _do(request, source, data, lambda o: operate.discard(o, data.topology))


@post("/rollback", sync_to_thread=True)
def rollback(request: Asked, source: From, data: JSONBody[RollbackBody]) -> Answer:
    """Ask the leading controller to go back to an earlier plan."""
    return _do(request, source, data, lambda o: operate.rollback(o, data.topology, data.steps))


@post("/plan", sync_to_thread=True)
def plan_now(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """Ask the leading controller to plan a topology at once."""
    return _do(request, source, data, lambda o: operate.plan_now(o, data.topology))


@post("/drain", sync_to_thread=True)
def drain(request: Asked, source: From, data: JSONBody[DrainBody]) -> Answer:
    """Move executors away from a host, one topology after the other, and keep it empty."""
    return _do(request, source, data, lambda o: operate.drain(o, data.host, anyway=data.anyway))


@post("/undrain", sync_to_thread=True)
def undrain(request: Asked, source: From, data: JSONBody[HostBody]) -> Answer:
    """Let executors come to a host again."""
    return _do(request, source, data, lambda o: operate.undrain(o, data.host))


@post("/pin", sync_to_thread=True)
def pin(request: Asked, source: From, data: JSONBody[PinBody]) -> Answer:
    """Bind a component, or the executor of one of its tasks, to a supervisor."""
    return _do(
        request, source, data, lambda o: operate.pin(o, data.topology, data.component, data.supervisor, task=data.task)
    )


@post("/unpin", sync_to_thread=True)
def unpin(request: Asked, source: From, data: JSONBody[UnpinBody]) -> Answer:
    """Let it run anywhere again."""
    return _do(request, source, data, lambda o: operate.unpin(o, data.topology, data.component, task=data.task))


@post("/exclude", sync_to_thread=True)
def exclude(request: Asked, source: From, data: JSONBody[WhereBody]) -> Answer:
    """Keep a component, a topology, or (admin only) everything off a host or a supervisor."""
    if data.topology is None:
        require(caller_of(request), Role.admin)
    return _do(
        request,
        source,
        data,
        lambda o: operate.exclude(o, data.where, topology=data.topology, component=data.component),
    )


@post("/include", sync_to_thread=True)
def include(request: Asked, source: From, data: JSONBody[WhereBody]) -> Answer:
    """Take an exclusion back."""
    if data.topology is None:
        require(caller_of(request), Role.admin)
    return _do(
        request,
        source,
        data,
        lambda o: operate.include(o, data.where, topology=data.topology, component=data.component),
    )


@post("/thresholds/set", sync_to_thread=True)
def threshold_set(request: Asked, source: From, data: JSONBody[SetThresholdBody]) -> Answer:
    """Set a threshold of a topology, or (admin only) of all, whatever is mined."""
    if data.topology is None:
        require(caller_of(request), Role.admin)
    return _do(request, source, data, lambda o: operate.set_threshold(o, data.topology, data.name, data.value, data.of))


@post("/thresholds/freeze", sync_to_thread=True)
def threshold_freeze(request: Asked, source: From, data: JSONBody[FreezeBody]) -> Answer:
    """Keep what was mined of a threshold, whatever is mined later."""
    return _do(request, source, data, lambda o: operate.freeze_threshold(o, data.topology, data.name, data.of))


@post("/thresholds/unset", sync_to_thread=True)
def threshold_unset(request: Asked, source: From, data: JSONBody[ThresholdBody]) -> Answer:
    """Take back what was set or frozen."""
    if data.topology is None:
        require(caller_of(request), Role.admin)
    return _do(request, source, data, lambda o: operate.unset_threshold(o, data.topology, data.name, data.of))


@post("/rollout/pause", sync_to_thread=True)
def rollout_pause(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """Begin no further step of the plan that is carried out step by step; a step that moves comes to its end."""
    return _do(request, source, data, lambda o: operate.pause_rollout(o, data.topology))


@post("/rollout/resume", sync_to_thread=True)
def rollout_resume(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """Go on with it."""
    return _do(request, source, data, lambda o: operate.resume_rollout(o, data.topology))


@post("/rollout/abort", sync_to_thread=True)
def rollout_abort(request: Asked, source: From, data: JSONBody[ForTopology]) -> Answer:
    """End it: all tasks get tuples again, and executors stay where they are then."""
    return _do(request, source, data, lambda o: operate.abort_rollout(o, data.topology))


@post("/config/reload", sync_to_thread=True, guards=[needs(Role.admin)], status_code=202)
def config_reload(source: From, data: JSONBody[Body]) -> dict[str, str]:
    """Read controller.yaml anew, as SIGHUP does; the log says what changed or why not. Admin only."""
    if source.reload is None:
        raise ProblemError(409, "REFUSED", "this controller cannot read its configuration anew: restart it")
    if not data.dry_run:
        source.reload()
    return {"text": "the configuration is read anew; the log says what changed, or why the old one stays"}


def router() -> Router:
    """All of them."""
    handlers = [
        *(pause, resume, mode, approve, discard, rollback, plan_now),
        *(drain, undrain, pin, unpin, exclude, include, config_reload),
        *(threshold_set, threshold_freeze, threshold_unset),
        *(rollout_pause, rollout_resume, rollout_abort),
    ]
    return Router(
        "/api/v1",
        route_handlers=handlers,
        guards=[needs(Role.operator)],
        tags=["changing"],
        security=[{"token": []}],
    )


def _do(request: Asked, source: Source, body: Body, verb: Callable[[Operator], Change]) -> Answer:
    """Look first; do it when nothing is to be minded, or that was said to be minded."""
    who = caller_of(request).name
    change = verb(source.operator(who, body.why, dry_run=True))
    if not body.dry_run:
        if change.danger and not body.confirm:
            raise ProblemError(409, "CONFIRM", f"{change.danger}: send confirm: true to do it", field="confirm")
        change = verb(source.operator(who, body.why))
        source.forget()
    return Response(change, status_code=202 if change.request_id else 200)
