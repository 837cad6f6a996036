"""What an operator does, once, for the command line and for HTTP alike: each verb is a function, told by an `Operator`.

    Operator(zookeeper, Paths(), who="ops", why="new disk", dry_run=True)
    change = drain(operator, "node-7")            # Change(before, after, text, ...)

A verb reads what is there, says what it changes (`Change`), and unless `dry_run` writes the change and its audit record
in one transaction. It never waits: what only the leading controller may do (approve, discard, rollback, plan) becomes a
request in ZooKeeper, and `outcome` tells what became of it. Errors are `stormpilot.errors`.

- `operator.py`: who acts, where; how a change is written. `change.py`: what a verb answers.
- `pauses.py` (pause, resume, mode), `places.py` (drain, pin, exclude and back): settings.
- `routes.py`: move, set aside, bring back: which tasks get tuples.
- `rollouts.py`: a plan that is carried out step by step: look, pause, resume, abort.
- `thresholds.py`: thresholds set, frozen, unset; which hold.
- `requests.py`: approve, discard, rollback, plan now, and their outcome.
- `views.py`: history, audit, what is drained and how far: reading only.
"""

from __future__ import annotations

from stormpilot.messages.load import idle
from stormpilot.messages.settings import AuditRecord, Request
from stormpilot.operate.change import Change
from stormpilot.operate.operator import Operator
from stormpilot.operate.pauses import check_mode, mode, pause, resume
from stormpilot.operate.places import drain, exclude, include, pin, undrain, unpin
from stormpilot.operate.requests import approve, discard, outcome, plan_now, rollback
from stormpilot.operate.rollouts import (
    RolloutView,
    abort_rollout,
    pause_rollout,
    resume_rollout,
    rollout,
)
from stormpilot.operate.routes import (
    RouteView,
    bring_back,
    keyed_tasks,
    loads,
    move,
    routes,
    set_aside,
    settle,
    still_open,
    unfinished,
    unroute,
)
from stormpilot.operate.thresholds import freeze_threshold, set_threshold, unset_threshold
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
    "approve",
    "audit",
    "bring_back",
    "check_mode",
    "discard",
    "drain",
    "draining",
    "exclude",
    "freeze_threshold",
    "history",
    "idle",
    "include",
    "keyed_tasks",
    "loads",
    "mode",
    "move",
    "outcome",
    "pause",
    "pause_rollout",
    "pin",
    "plan_now",
    "resume",
    "resume_rollout",
    "rollback",
    "rollout",
    "routes",
    "set_aside",
    "set_threshold",
    "settle",
    "still_open",
    "undrain",
    "unfinished",
    "unpin",
    "unroute",
    "unset_threshold",
]
