"""Where a plan comes from: by itself, or from an operator's request that it answers."""

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
        """What the operator asked for."""
        return None if self.request is None else self.request.verb

    @property
    def wants_plan(self) -> bool:
        """Whether a plan is to be made now for this request."""
        return self.verb == "plan" and not self.outcome.done and self.outcome.decision is None


@dataclass(frozen=True)
class PlanOrigin:
    """The origin of one topology's plan.

    `plan_id` is the id that an approved plan keeps (None: it gets a new one), `approver` who asked for it, `request` is
    closed in the transaction that publishes the plan.
    """

    plan_id: str | None = None
    approver: str = ""
    request: AnsweredRequest | None = None


def origin_of(request: AnsweredRequest | None) -> PlanOrigin:
    """The origin of a plan for a topology with this request."""
    if request is None:
        return PlanOrigin()
    asked = request.request
    approved = asked is not None and asked.verb == "approve" and request.outcome.plan is not None
    plan_id = asked.entry.plan.plan_id if approved and asked is not None and asked.entry is not None else None
    return PlanOrigin(plan_id, "" if asked is None else asked.by, request)
