"""Client of the planner process: plans by a planner's name, within a budget; an error of a planner is a reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from stormpilot.control.current_config import CurrentConfig
from stormpilot.decide.reasons import Reason
from stormpilot.model.subset import with_survivors_fixed
from stormpilot.model.values import (
    Infeasible,
    Model,
    Plan,
)
from stormpilot.model.violations import violations
from stormpilot.planner.search.warm import TINY
from stormpilot.planner_process import PlannerClosedError, PlannerLostError
from stormpilot.tuning.recommendation import Choice

log = structlog.get_logger(__name__)

PlanOne = Callable[[Model], "Plan | tuple[Reason, str]"]
"""A plan of every topology of a model, or the reason for which there is none."""
Params = Mapping[str, float | int | str | bool | None]


class Compute(Protocol):
    """A planner by name: `stormpilot.planner.compute`."""

    def __call__(
        self,
        model: Model,
        planner: str,
        params: Params,
        *,
        seed: int,
        left_s: Callable[[], float],
    ) -> Plan | Infeasible:
        """Plan every topology of the model."""


@dataclass
class PlannerClient:
    """Asks the planner of the configuration in force, and another one for first plans.

    `blamed`: topologies whose executors the planner named in its last refusal.
    """

    current: CurrentConfig
    compute: Compute
    blamed: frozenset[str] = frozenset()
    _failure: str = ""
    _lost: bool = False

    def plan(self, model: Model, *, first: bool = False, choice: Choice | None = None) -> Plan | tuple[Reason, str]:
        """A plan of every topology of the model that breaks no constraint, or why there is none.

        By `choice` where one is given; a first plan only where that is of the planner of first plans.
        """
        current = self.current
        settings, planner = current.config.planner, current.first_planner if first else current.planner
        params = {} if first else settings.params
        if choice is not None and (not first or choice.planner == planner):
            planner, params = choice.planner, dict(choice.params)
        deadline_s = time.monotonic() + settings.budget_s
        self._lost = False
        try:
            plan = self.compute(
                model,
                planner,
                params,
                seed=settings.seed,
                left_s=lambda: deadline_s - time.monotonic(),
            )
        except Exception as e:
            text = f"{planner}: {type(e).__name__}: {e}"
            if text != self._failure and not isinstance(e, PlannerClosedError):
                # with its trace once; every cycle says the text anyway
                log.exception("planner failed", planner=planner)
            self._failure = text
            self._lost = isinstance(e, PlannerLostError)
            return Reason.PLANNER_FAILED, text
        self.blamed = frozenset(t for t, _ in plan.executors) if isinstance(plan, Infeasible) else frozenset()
        if isinstance(plan, Infeasible):
            return Reason.INFEASIBLE, f"{planner}: {plan.constraint}: {plan.text}"
        wrong = violations(model, plan)
        if wrong:
            return Reason.CONSTRAINT_BROKEN, f"{planner}: {wrong[0]}"
        return plan

    def has_room(self, model: Model) -> bool:
        """Whether the order in which the ResourceAwareScheduler fills nodes finds room for all of the model.

        That scheduler makes as many workers as executors need.
        """
        slots = sum(len(s.slots) for s in model.supervisors)
        many = [msgspec.structs.replace(t, workers=min(len(t.executors), max(slots, 1))) for t in model.topologies]
        model = msgspec.structs.replace(model, topologies=many)
        deadline_s = time.monotonic() + self.current.config.planner.budget_s
        try:
            answer = self.compute(model, "ras-order", {}, seed=0, left_s=lambda: deadline_s - time.monotonic())
        except PlannerClosedError:
            return False
        except Exception:
            log.exception("planner failed", planner="ras-order")
            return False
        return isinstance(answer, Plan) and not violations(model, answer)

    def plan_with_room(
        self, roomy: Model, whole: Model, *, first: bool, choice: Choice | None = None
    ) -> tuple[Plan | tuple[Reason, str], Model]:
        """A plan within the room for voluntary plans or, where there is none, with all of B(n); and its model.

        What lost its place is placed with every worker that runs kept as it is, if that can be. Where a recommended
        planner finds no plan it is made as configured.
        """
        models = [whole] if roomy is whole else [roomy, whole]
        kept = [fixed for m in models if (fixed := with_survivors_fixed(m)) is not m]
        for model in kept + models:
            answer = self.plan(model, first=first, choice=choice)
            if isinstance(answer, Plan) or self._lost or (answer[0] is Reason.PLANNER_FAILED and not kept):
                break  # one that hangs has taken its time, and more
        chosen = choice is not None and (not first or choice.planner == self.current.first_planner)
        if chosen and not isinstance(answer, Plan):
            return self.plan_with_room(roomy, whole, first=first)
        return answer, model


def warm_up(
    compute: Compute, planners: Iterable[str], params: Mapping[str, Params], wanted: Callable[[], bool]
) -> None:
    """Plan something tiny: what planners compile at their first use must not delay a first plan.

    `params` by planner, where it has any. Says nothing more once it is not `wanted`: the controller ends.
    """
    names = sorted(planners)
    if names:
        log.info("preparing planners; takes minutes where they are not compiled, no cycle before", planners=names)
    started_s, failed = time.monotonic(), False
    for planner in names:
        try:
            compute(TINY, planner, params.get(planner, {}), seed=0, left_s=lambda: 1.0)
        except Exception:
            failed = True
            if wanted():
                log.exception("planner failed on a tiny model", planner=planner)
        if not wanted():
            return
    if (took_s := time.monotonic() - started_s) > 1 and not failed:
        log.info("planners are ready", took_s=round(took_s, 1))
