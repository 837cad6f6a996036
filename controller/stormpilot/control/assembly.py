"""Assembly of a cycle: the only place that knows which collaborator needs which."""

from __future__ import annotations

from collections.abc import Callable

from stormpilot.control.audit_records import AuditRecords
from stormpilot.control.current_config import CurrentConfig
from stormpilot.control.cycle import Cycle
from stormpilot.control.drains import DrainProposer
from stormpilot.control.evictions import EvictionProposer
from stormpilot.control.improvements import ImprovementProposer
from stormpilot.control.last_plans import MAX_SKIPS, LastPlans
from stormpilot.control.move_tracker import MoveTracker
from stormpilot.control.otd_loop import OtdLoop
from stormpilot.control.outbox import Outbox
from stormpilot.control.partners import Partners
from stormpilot.control.plan_dispatcher import PlanDispatcher
from stormpilot.control.planner_client import Compute, PlannerClient
from stormpilot.control.request_handler import RequestHandler
from stormpilot.control.rollbacks import RollbackProposer
from stormpilot.control.rollout_gates import waiting_for_rollouts
from stormpilot.control.rollout_runner import RolloutRunner
from stormpilot.control.sizing_advisor import SizingAdvisor
from stormpilot.control.status_log import StatusLog
from stormpilot.observe.observer import Observer
from stormpilot.publish.publisher import Publisher


def cycle_of(
    observer: Observer,
    publisher: Publisher,
    current: CurrentConfig,
    compute: Compute,
    *,
    new_id: Callable[[], str],
    clock_ms: Callable[[], int],
    name: str,
    max_skips: int = MAX_SKIPS,
) -> Cycle:
    """The cycle of one leadership.

    `new_id` makes unique ids, `name` is the controller's; `max_skips` bounds the cycles in a row that do not ask the
    planner because nothing changed.
    """
    outbox = Outbox()
    planners = PlannerClient(current, compute)
    records = AuditRecords(publisher, name, new_id)
    evictions = EvictionProposer(planners, publisher)
    partners = Partners(publisher)
    requests = RequestHandler(publisher, records, evictions, partners)
    tracker = MoveTracker(current, publisher, outbox)
    rollouts = RolloutRunner(current, publisher, name, new_id, observer, outbox)
    otd = OtdLoop(current, publisher)
    improvements = ImprovementProposer(planners, otd, LastPlans(max_skips), publisher, partners)
    return Cycle(
        observer=observer,
        publisher=publisher,
        current=current,
        status_log=StatusLog(outbox),
        move_tracker=tracker,
        request_handler=requests,
        proposers=(
            requests.propose,
            waiting_for_rollouts,
            DrainProposer(planners, publisher, max_skips, clock_ms).propose,
            RollbackProposer(tracker).propose,
            evictions.propose,
            improvements.propose,
        ),
        dispatcher=PlanDispatcher(publisher, records, rollouts, name, new_id, clock_ms),
        rollout_runner=rollouts,
        otd=otd,
        sizing=SizingAdvisor(current),
        outbox=outbox,
    )
