"""Verbs of operators, once, for the command line and for HTTP alike: each verb is a function of an `Operator`.

    Operator(zookeeper, Paths(), who="ops", why="new disk", dry_run=True)
    change = drain(operator, "node-7")            # Change(before, after, text, ...)

A verb reads the present state, tells what it changes (`Change`), and unless `dry_run` writes the change and its audit
record in one transaction. It never waits: what only the leading controller may do (approve, discard, rollback, replan)
becomes a request in ZooKeeper, and `outcome` has its result. Errors are `stormpilot.errors`.

- `verbs.py`: the table of all verbs. `parameters.py`: the types of what they take.
- `operator.py`: who acts, where; how a change is written. `change.py`: the answer of a verb.
- `pauses.py` (pause, resume, mode), `places.py` (drain, pin, exclude and back): settings.
- `routes.py`: shift, activate, deactivate: which tasks get tuples. `rollouts.py`: status, pause, resume, abort.
- `thresholds.py`: thresholds set, frozen, unset; which hold. (Not imported here: it needs the configuration.)
- `requests.py`: approve, discard, rollback, replan, and their outcome.
- `resizing.py`, `switching.py`: a size carried out by a rebalance, or by executors on standby; `nodes.py`: their nodes,
  `limits.py`: where on them its executors may be.
- `views.py`: history, audit, progress of a drain: reading only. `status.py`: the state of the whole system,
  `shown_settings.py`: what operators have set of it.
"""

from __future__ import annotations

from stormpilot.messages.load import idle
from stormpilot.messages.settings import AuditRecord, Request
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.pauses import check_mode, mode, pause, resume
from stormpilot.operate.places import drain, exclude, include, pin, undrain, unpin
from stormpilot.operate.requests import approve, discard, outcome, replan, rollback
from stormpilot.operate.rollouts import (
    RolloutView,
    abort_rollout,
    pause_rollout,
    resume_rollout,
    rollout,
)
from stormpilot.operate.routes import (
    RouteView,
    activate_task,
    deactivate_task,
    loads,
    readings,
    reset_routes,
    routes,
    settle,
    shift_route,
    unfinished,
)
from stormpilot.operate.views import HistoryStep, Remaining, audit, draining, history

__all__ = [
    "AuditRecord",
    "Change",
    "HistoryStep",
    "Operator",
    "Remaining",
    "Request",
    "RolloutView",
    "RouteView",
    "abort_rollout",
    "activate_task",
    "approve",
    "audit",
    "check_mode",
    "deactivate_task",
    "discard",
    "drain",
    "draining",
    "exclude",
    "history",
    "idle",
    "include",
    "loads",
    "mode",
    "outcome",
    "pause",
    "pause_rollout",
    "pin",
    "readings",
    "replan",
    "reset_routes",
    "resume",
    "resume_rollout",
    "rollback",
    "rollout",
    "routes",
    "settle",
    "shift_route",
    "undrain",
    "unfinished",
    "unpin",
]
