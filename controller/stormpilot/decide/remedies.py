"""Remedies: next steps of an operator who wants a topology to move all the same, by the reason that it does not.

`explain` shows that of the last decision, `docs/reference/reasons.md` all. A test asks for one for each reason.
"""

from __future__ import annotations

from shlex import quote

REMEDIES = {
    "NO_TOPOLOGY": "submit one",
    "CLUSTER_UNKNOWN": (
        "`stormpilot doctor` says what is missing: `storm.scheduler` in Nimbus's storm.yaml, a restart of "
        "Nimbus, or one root in `stormpilot.zookeeper.root` and `zookeeper.root`"
    ),
    "MODE_OFF": "`stormpilot mode advise TOPOLOGY` for proposals, `stormpilot mode act TOPOLOGY` for moves",
    "EXCLUDED": "change `decide.include` or `decide.exclude` in controller.yaml, and reload it",
    "PAUSED": "`stormpilot resume TOPOLOGY`; where all are paused, `stormpilot resume`",
    "SETTING_UNREADABLE": "remove the setting that the text names, e.g. by `stormpilot unpin`, and set it again",
    "UNSUPPORTED_SETTING": (
        "take the key out of the topology or of storm.yaml; or list it in `decide.ignored_storm_keys`, and "
        "plans may break it"
    ),
    "MASS_FAILURE": (
        "bring the supervisors back; one that stays away counts as gone after "
        "`decide.lost_supervisor_grace_s`. A topology whose workers crash again and again puts its hosts on "
        "the blacklist"
    ),
    "HIGHER_PRIORITY_WAITS": (
        "make room for the topology that the text names: add a supervisor, or name others in `decide.evict`"
    ),
    "BLACKOUT": (
        "wait for the end of the window; `stormpilot approve TOPOLOGY` and `stormpilot rollback TOPOLOGY` work in it"
    ),
    "OPERATOR_HOLD": "wait, or `stormpilot replan TOPOLOGY`",
    "ROLLOUT_IN_PROGRESS": (
        "`stormpilot rollout status TOPOLOGY` shows the progress, `stormpilot rollout abort TOPOLOGY` ends it"
    ),
    "PLAN_MOVING": "wait; where it lasts, the text and `stormpilot status` say what the scheduler plug-in waits for",
    "PLAN_REJECTED": (
        "wait for the next plan; where each is rejected, look up the code of the scheduler plug-in that the text names"
    ),
    "COOL_DOWN": "wait, or `stormpilot replan TOPOLOGY`",
    "MOVE_BEING_EVALUATED": (
        "wait, or `stormpilot replan TOPOLOGY`; where tasks stay without a report, `worker.log` says why, and "
        "`stormpilot rollback TOPOLOGY` undoes the move; where the plug-in does not answer, see `stormpilot doctor`"
    ),
    "BACK_OFF": "wait, or `stormpilot replan TOPOLOGY`; `stormpilot rollback TOPOLOGY` undoes the last move",
    "WAITING_FOR_REPAIR": "wait a minute; where it lasts, bring the supervisor back or free slots",
    "NOT_INSTRUMENTED": "after its start wait a minute; later submit it with `stormpilot submit`, or install the hook",
    "INSUFFICIENT_METRICS": (
        "after a start or a move wait for one window (`load.window_s`); later `stormpilot status` names the "
        "silent tasks"
    ),
    "REPORTS_OVER_LIMIT": "run it in fewer and larger workers, or as several topologies",
    "WORKERS_STARTING": "wait half a minute",
    "WAITING_FOR_DRAIN": "wait: topologies are planned, and leave, one after the other",
    "PLANNER_FAILED": "the controller's log has the cause; name another planner (`planner.name`), and report it",
    "CONSTRAINT_BROKEN": "name another planner (`planner.name`), and report it: it is a fault of the planner",
    "INFEASIBLE": "the text names the constraint: remove a pin, a drain or an exclusion, or add a supervisor",
    "THROUGHPUT_WOULD_FALL": "add CPU; `stormpilot what-if` shows what another node would bring",
    "NO_BETTER_PLAN": (
        "nothing: the placement is good; `stormpilot explain TOPOLOGY` says why each executor is where it is"
    ),
    "GAIN_BELOW_THRESHOLD": (
        "nothing, or `stormpilot replan TOPOLOGY`, or a lower threshold by `stormpilot thresholds set`"
    ),
    "GAIN_BELOW_COST": (
        "nothing, or `stormpilot replan TOPOLOGY`; a topology that is submitted with `--routable` moves "
        "without restarts"
    ),
    "RATE_WOULD_RISE": "add a supervisor, or raise `decide.cpu_limit_ratio`",
    "GAIN_NOT_SUSTAINED": "wait for the next cycles, or `stormpilot replan TOPOLOGY`",
    "SLOT_OCCUPIED": "wait until the other topology may move, or add a supervisor",
    "INSUFFICIENT_CPU": "wait until the others may move, add a supervisor, or raise `decide.cpu_limit_ratio`",
    "INSUFFICIENT_RESOURCES": "wait until the others may move, or add a supervisor",
    "HEADROOM": (
        "add a supervisor, or raise `decide.fill_ratio`; where executors would come back, wait, or "
        "`stormpilot replan TOPOLOGY`"
    ),
    "MOVE_BUDGET": "wait, or raise the limits in section `budget` of controller.yaml",
    "RESTART_NOT_ALLOWED": (
        "set `decide.move_strategy: auto`, which allows restarts; `stormpilot explain TOPOLOGY` names the "
        "executors that need one"
    ),
    "APPROVAL_NEEDED": "`stormpilot approve TOPOLOGY`, or `stormpilot discard TOPOLOGY`",
    "NOT_PUBLISHED": "do what the text names; else nothing: the next cycle plans it again",
}
"""Sentences by code; TOPOLOGY stands for the name of the topology."""

UNITS = {
    "COOL_DOWN": "s",
    "EVICTED": "s",
    "GAIN": "ratio",
    "GAIN_BELOW_COST": "tuples",
    "GAIN_BELOW_THRESHOLD": "ratio",
    "GAIN_NOT_SUSTAINED": "cycles",
    "MASS_FAILURE": "ratio",
    "NEW_SUPERVISOR": "ratio",
    "RATE_WOULD_RISE": "MHz",
    "REBALANCED": "ratio",
    "ROLLOUT_IN_PROGRESS": "steps",
    "THROUGHPUT_WOULD_FALL": "tuples/s",
}
"""Units of the number that decided and of its threshold, by code; without one the text alone says what is counted."""

_PROPOSED = (
    "`stormpilot approve TOPOLOGY` carries this plan out, `stormpilot mode act TOPOLOGY` lets the controller act"
)

_LEFT_BY_OTD = (
    "nothing, or lower thresholds in section `otd` of controller.yaml; `stormpilot replan TOPOLOGY` asks for a whole "
    "plan"
)


def remedy(action: str, code: str, topology: str) -> str:
    """The remedy for the last decision about a topology of this name; empty where a plan was published."""
    text = REMEDIES.get(code) or (_PROPOSED if action == "advise" else "")
    if (action, code) == ("skip", "OTD"):
        text = _LEFT_BY_OTD
    return text.replace("TOPOLOGY", quote(topology))
