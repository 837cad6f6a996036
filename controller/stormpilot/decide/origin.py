"""Origin of a plan: the controller itself, or an operator's request that it answers."""

from __future__ import annotations

from dataclasses import dataclass

from stormpilot.decide.requests import RequestOutcome
from stormpilot.messages.settings import Request


@dataclass(frozen=True)
class AnsweredRequest:
    """An operator's request with its outcome; `request` is None when it cannot be read."""

    request: Request | None
    outcome: RequestOutcome

    @property
    def verb(self) -> str | None:
        """The verb of the request."""
        return None if self.request is None else self.request.verb

    @property
    def wants_plan(self) -> bool:
        """Whether a plan is to be made now for this request."""
        return self.verb == "replan" and not self.outcome.done and self.outcome.decision is None


@dataclass(frozen=True)
class PlanOrigin:
    """The origin of one topology's plan.

    `plan_id` is the id that an approved plan keeps (None: it gets a new one), `approver` the operator who asked for
    it, `workers` the number of workers for which it was made (0: that of now). `request` is closed in the transaction
    that publishes the plan.
    """

    plan_id: str | None = None
    approver: str = ""
    request: AnsweredRequest | None = None
    workers: int = 0


def origin_of(request: AnsweredRequest | None) -> PlanOrigin:
    """The origin of a plan for a topology with this request."""
    if request is None:
        return PlanOrigin()
    asked = request.request
    approved = asked is not None and asked.verb == "approve" and request.outcome.plan is not None
    by = "" if asked is None else asked.by
    if not approved or asked is None or asked.entry is None:
        return PlanOrigin(None, by, request)
    plan = asked.entry.plan
    return PlanOrigin(plan.plan_id, by, request, plan.based_on.workers)
