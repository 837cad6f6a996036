"""Routes that only read. Topologies are given by name or id."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import msgspec
from litestar import Response, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from stormpilot.api.guard import needs
from stormpilot.api.problems import READING, ProblemError, described
from stormpilot.api.source import Source
from stormpilot.api.tokens import Role
from stormpilot.config.secrets import described_openly
from stormpilot.decide.gates import GateState, gates
from stormpilot.decide.remedies import remedy
from stormpilot.errors import RefusedError
from stormpilot.messages.casing import camel
from stormpilot.messages.core import PlanMessage
from stormpilot.messages.settings import AuditRecord
from stormpilot.model.values import Model
from stormpilot.operate import (
    HistoryStep,
    Remaining,
    RolloutView,
    audit,
    draining,
    history,
    outcome,
    plans,
    rollout,
)
from stormpilot.operate.explanation import NodeOverLimit, explained
from stormpilot.operate.topology_ref import UnknownTopologyError

From = NamedDependency[Source]
READS = (needs(Role.viewer),)


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan; `proposal` where nobody applies it, because the mode is `advise` or it waits for approval."""

    proposal: bool
    plan: PlanMessage


class Move(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An executor whose slot differs: `now` and `plan` are `supervisor:port`, null for nowhere."""

    component: str
    start: int
    end: int
    now: str | None
    plan: str | None


class DiffAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Moves of a plan against where executors run now."""

    proposal: bool
    plan: str
    moves: list[Move]


class GateAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question that every plan is asked; `state` is open, CLOSED or not asked."""

    question: str
    state: GateState


class ExplainAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a topology is as it is: the row of `status` with the last decision, and what the newest plan would do.

    `before` and `after` are the metrics of that plan; `no_plan` says why there is none. `gates` tells how far the
    decision came, `remedy` what an operator can do about it. `executors` is there when asked for, from the controller
    that leads, while all of them run, judged by `traffic` (flow or measured), with the nodes that they fill beyond
    B(n).
    """

    topology: dict[str, Any]
    reason: str = ""
    proposal: bool = False
    plan: str | None = None
    planner: str | None = None
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    moves: list[Move] = []
    no_plan: str = ""
    gates: list[GateAnswer] = []
    remedy: str = ""
    traffic: str | None = None
    executors: list[dict[str, Any]] = []
    nodes_over_limit: list[NodeOverLimit] = []


class PlannerAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A planner with its parameters and their defaults."""

    name: str
    summary: str
    source: str
    params: dict[str, Any]


@get("/status", sync_to_thread=True)
def status(source: From) -> dict[str, Any]:
    """The controller, the scheduler plug-in and every topology: what `stormpilot status -f json` prints."""
    return source.status()


@get("/topologies", sync_to_thread=True)
def topologies(source: From) -> list[dict[str, Any]]:
    """Every topology with its mode, plan, state, traffic and the last decision."""
    return list(source.status()["topologies"])


@get("/topologies/{topology:str}", sync_to_thread=True)
def topology(source: From, topology: FromPath[str]) -> dict[str, Any]:
    """One topology."""
    return _row(source, topology)


@get("/topologies/{topology:str}/plan", sync_to_thread=True)
def plan(source: From, topology: FromPath[str]) -> PlanAnswer:
    """The plan that is published, or the proposal where that is newer: what `plan show` prints."""
    found = plans.published_plan(source.zookeeper, source.paths, topology)
    return PlanAnswer(proposal=found.proposal, plan=found.plan)


@get("/topologies/{topology:str}/plan/diff", sync_to_thread=True)
def plan_diff(source: From, topology: FromPath[str]) -> DiffAnswer:
    """Moves of the plan, as `plan diff` prints them."""
    found = plans.published_plan(source.zookeeper, source.paths, topology)
    return DiffAnswer(proposal=found.proposal, plan=found.plan.plan_id, moves=_moves(found))


@get("/topologies/{topology:str}/explain", sync_to_thread=True)
def explain(
    source: From,
    topology: FromPath[str],
    executors: Annotated[bool, QueryParameter(description="Also why each executor is where it is.")] = False,
) -> ExplainAnswer:
    """Why it is as it is: the last decision, gate by gate, with the number that decided, and what the plan changes."""
    row = _row(source, topology)
    decision = row["decision"]
    answer = ExplainAnswer(topology=row)
    if decision is not None:
        passed = [GateAnswer(question=g.question, state=g.state) for g in gates(decision["action"], decision["reason"])]
        reason = f"{decision['action']} {decision['reason']}: {decision['text']}"
        step = remedy(decision["action"], decision["reason"], row["name"])
        answer = msgspec.structs.replace(answer, reason=reason, gates=passed, remedy=step)
    if executors:
        found_now = explained(source.model(), row["id"], source.config)
        if found_now is not None:
            answer = msgspec.structs.replace(
                answer,
                traffic=found_now.traffic,
                executors=[camel(e) for e in found_now.executors],
                nodes_over_limit=found_now.over_limit,
            )
    try:
        found = plans.published_plan(source.zookeeper, source.paths, row["id"])
    except RefusedError as e:
        return msgspec.structs.replace(answer, no_plan=str(e))
    return msgspec.structs.replace(
        answer,
        proposal=found.proposal,
        plan=found.plan.plan_id,
        planner=found.plan.planner,
        before=found.plan.expected.before,
        after=found.plan.expected.after,
        moves=_moves(found),
    )


@get("/topologies/{topology:str}/history", sync_to_thread=True)
def topology_history(source: From, topology: FromPath[str]) -> list[HistoryStep]:
    """The plans that were published, newest first, each with the decision that led to it; `back` is for rollback."""
    operator = source.operator()
    return history(operator, operator.topology(topology).id)


@get("/topologies/{topology:str}/rollout", sync_to_thread=True)
def topology_rollout(source: From, topology: FromPath[str]) -> RolloutView:
    """Progress of the rollout, or how the last one ended; 404 where there was none."""
    found = rollout(source.operator(), topology)
    if found is None:
        raise ProblemError(404, "NO_ROLLOUT", f"{topology} had no rollout")
    return found


@get("/audit", sync_to_thread=True)
def audit_records(
    source: From,
    since_ms: Annotated[int, QueryParameter(name="sinceMs", ge=0, description="Milliseconds since the epoch.")] = 0,
    limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 200,
    operators: Annotated[bool, QueryParameter(description="Without what a controller did on its own.")] = False,
) -> list[AuditRecord]:
    """Audit records, newest first."""
    found = audit(source.operator(), since_ms)
    return [r for r in reversed(found) if not (operators and r.who == r.carried_out_by)][:limit]


@get("/requests/{request_id:str}", sync_to_thread=True)
def request_outcome(source: From, request_id: FromPath[str]) -> AuditRecord:
    """Outcome of a request (approve, discard, rollback, replan); 404 while nobody has acted on it."""
    found = outcome(source.operator(), request_id)
    if found is None:
        raise ProblemError(404, "PENDING", f"nobody has acted on {request_id} yet, or it was never asked for")
    return found


@get("/hosts/{host:str}/remaining", sync_to_thread=True)
def remaining(source: From, host: FromPath[str]) -> Remaining:
    """Executors that still run on a host: the progress of a drain."""
    return draining(source.operator(), host)


@get("/planners", sync_to_thread=True)
def planners() -> list[PlannerAnswer]:
    """The planners with their parameters."""
    from stormpilot.planner import PLANNERS

    return [
        PlannerAnswer(
            name=p.name,
            summary=p.summary,
            source=p.source,
            params={f.name: f.default for f in dataclasses.fields(p.params)},
        )
        for p in PLANNERS.values()
    ]


@get("/config", sync_to_thread=False)
def config(source: From) -> dict[str, Any]:
    """Every setting with the value in force; of what may hold a secret only that it is set."""
    return described_openly(source.config)


@get("/model", sync_to_thread=True)
def model(source: From) -> Response[Model]:
    """The model of now, with the rates measured, as `stormpilot plan compute --model` reads it. Of the leader only."""
    return Response(source.model())


def router() -> Router:
    """All of them."""
    handlers = [
        *(status, topologies, topology, plan, plan_diff, explain, topology_history, topology_rollout),
        *(audit_records, request_outcome, remaining, planners, config, model),
    ]
    known = [described(h, *READING) for h in handlers]
    return Router("/api/v1", route_handlers=known, guards=list(READS), tags=["reading"], security=[{"token": []}])


def _row(source: Source, topology: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = source.status()["topologies"]
    try:
        topology_id = source.operator().topology(topology).id
    except UnknownTopologyError:
        found = next((r for r in rows if r["id"] == topology), None)  # its snapshot cannot be read
        if found is None:
            raise
        return found
    found = next((r for r in rows if r["id"] == topology_id), None)
    if found is None:
        raise UnknownTopologyError(f"{topology_id} was launched after the status was read")
    return found


def _moves(found: plans.PublishedPlan) -> list[Move]:
    return [Move(**m) for m in plans.moved(found)]
