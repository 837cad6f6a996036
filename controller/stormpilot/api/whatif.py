"""`what-if` over HTTP: planned in a process of its own, one at a time, so that no cycle is slower for it."""

from __future__ import annotations

import threading
import time
from typing import Annotated

import msgspec
from litestar import Router, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from stormpilot.api.guard import needs
from stormpilot.api.problems import WRITING, ProblemError, described
from stormpilot.api.source import Source
from stormpilot.api.tokens import Role
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.what_if import Changes, NewNode, changed
from stormpilot.operate.whatif import WhatIf
from stormpilot.operate.whatif import what_if as compare
from stormpilot.planner import compute, compute_on_flows
from stormpilot.planner_process import PlannerProcess

BODY_BYTES = 16 * 1024 * 1024
"""A model of new topologies may be large."""
_one = threading.Lock()


class WhatIfBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to the model; `remove_nodes` are ids or hosts, `scale_rates` is a factor per topology name or id.

    `budget_s` is for each of the two plans: of what is there, and of what would be.
    """

    add_nodes: list[NewNode] = []
    remove_nodes: list[str] = []
    scale_rates: dict[str, float] = {}
    new_topologies: Model | None = None
    planner: str = "best"
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    budget_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 10.0


@post("/what-if", sync_to_thread=True, status_code=200)
def what_if(source: NamedDependency[Source], data: JSONBody[WhatIfBody]) -> WhatIf:
    """Plan on a changed model, beside what runs; nothing is touched. Of the leader only, one at a time."""
    changes = Changes(
        add_nodes=tuple(data.add_nodes),
        remove_nodes=tuple(data.remove_nodes),
        scale_rates=tuple(data.scale_rates.items()),
        new_topologies=data.new_topologies,
    )
    model = source.model()
    if not _one.acquire(blocking=False):
        raise ProblemError(503, "BUSY", "another what-if is being planned: ask again when it is over")
    traffic = source.config.planner.traffic
    process = PlannerProcess(compute_on_flows if traffic == "flow" else compute)

    def plan_one(m: Model) -> Plan | Infeasible:
        deadline_s = time.monotonic() + data.budget_s
        return process(m, data.planner, {}, seed=data.seed, left_s=lambda: deadline_s - time.monotonic())

    try:
        return compare(model, changed(model, changes), plan_one, traffic)
    finally:
        process.close()
        _one.release()


def router() -> Router:
    """The route; it changes nothing, but it costs CPU: for operators."""
    return Router(
        "/api/v1",
        route_handlers=[described(what_if, *WRITING)],
        guards=[needs(Role.operator)],
        request_max_body_size=BODY_BYTES,
        tags=["reading"],
        security=[{"token": []}],
    )
