"""Commands `stormpilot routes ...`: shift traffic between running tasks without a restart."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stormpilot.cli.live import Live, connected, live_command, user
from stormpilot.cli.output import print_table, say
from stormpilot.cli.progress import progress
from stormpilot.cli.steer import LOOK_S, Steering, do, steering

DRAIN_TIMEOUT_S = 10.0

Topology = Annotated[str, typer.Argument(help="Name or id of a running topology.")]
Component = Annotated[str, typer.Argument(help="A bolt whose inputs follow routes.")]
Task = Annotated[int, typer.Argument(help="Id of one of its tasks.")]
DrainOption = Annotated[
    float, typer.Option("--drain-timeout", min=2, help="Seconds until a task without a route counts as drained.")
]


@live_command
def show(live: Live, topology: Topology) -> None:
    """Show which tasks of a topology get tuples, which are standby, and what cannot be routed and why."""
    from stormpilot import operate

    with live.operator() as operator:
        views = operate.routes(operator, topology)
    columns = ["component", "active", "draining", "standby", "partitions", "hand-overs", "not routable"]
    rows = [
        [
            v.component,
            _listed(v.active),
            _listed(v.draining),
            _listed(v.standby),
            ", ".join(f"{t}: {n}" for t, n in v.partitions.items()),
            ", ".join(v.handovers),
            v.why_not,
        ]
        for v in views
    ]
    live.answer(views, lambda: print_table(columns, rows))


@steering("routes shift")
def shift(
    how: Steering,
    topology: Topology,
    component: Component,
    from_: Annotated[int, typer.Option("--from", help="The task that gets no more tuples.")],
    to: Annotated[int, typer.Option("--to", help="The task that gets them instead, standby or active.")],
    drain_timeout: DrainOption = DRAIN_TIMEOUT_S,
) -> None:
    """Returns when the first task is drained and its keyed state has moved."""
    from stormpilot import operate

    do(how, lambda o: operate.shift_route(o, topology, component, from_, to, drain_timeout_s=drain_timeout))
    _drain(how, topology, from_, drain_timeout)


@steering("routes deactivate")
def deactivate(
    how: Steering,
    topology: Topology,
    component: Component,
    task: Task,
    drain_timeout: DrainOption = DRAIN_TIMEOUT_S,
) -> None:
    """Returns when the task is drained and its keyed state has moved."""
    from stormpilot import operate

    do(how, lambda o: operate.deactivate_task(o, topology, component, task, drain_timeout_s=drain_timeout))
    _drain(how, topology, task, drain_timeout)


@steering("routes activate")
def activate(how: Steering, topology: Topology, component: Component, task: Task) -> None:
    """Returns when keyed state has moved, where there is any."""
    from stormpilot import operate

    do(how, lambda o: operate.activate_task(o, topology, component, task))
    if not how.dry_run:
        drive(how, topology, None, DRAIN_TIMEOUT_S)


def _drain(how: Steering, topology: str, task: int, timeout_s: float) -> None:
    """Wait until a task without a route is idle, at most so long, and its keyed state has moved."""
    if how.dry_run:
        return
    idle, took_s = drive(how, topology, task, timeout_s)
    if how.as_table:
        took = f"after {took_s:.1f} s"
        say(
            f"task {task} is idle {took}" if idle else f"task {task} was not seen idle {took}: it has no route any more"
        )


def drive(how: Steering, topology: str, task: int | None, timeout_s: float) -> tuple[bool, float]:
    """Drive what a shift left open to its end; whether `task` was seen idle, and the seconds that it took."""
    from stormpilot import operate
    from stormpilot.errors import RefusedError
    from stormpilot.rollout.idle import IdleTracker

    begun = time.monotonic()
    idle = False
    said: list[str] = []
    with connected(how.where) as connection, progress(topology) as shown:
        tracker: IdleTracker | None = None
        while left := operate.unfinished(operate.Operator(connection, how.where.paths, user()), topology):
            waits_s = max(0.0, timeout_s - (time.monotonic() - begun))
            if shown.live:
                shown.update(f"{'; '.join(left)}, at most {waits_s:.0f} s until it counts as drained")
            operator = operate.Operator(connection, how.where.paths, user(), how.why)
            if task is not None:
                now = {r: load for r, load in operate.readings(operator, topology).items() if r[0] == task}
                tracker = tracker or IdleTracker(task, now)
                tracker.take(now)
                idle = task in tracker.idle_tasks()
            try:
                change = operate.settle(operator, topology, [task] if idle and task else [], int(timeout_s * 1000))
            except RefusedError:  # somebody else drives as well, or the topology is gone: the next look tells
                change = None
            if change is not None:
                said += [text for text in change.text.split("; ") if " partitions, task " in text]
            time.sleep(LOOK_S)
    if how.as_table:
        for text in said:
            say(text)
    return idle, time.monotonic() - begun


def _listed(tasks: list[int]) -> str:
    return ", ".join(map(str, tasks))
