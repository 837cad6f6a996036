"""Commands that move traffic between running tasks without a restart: `routes`, `move`, `set-aside`, `bring-back`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table, say
from stormpilot.cli.steer import CommonOptions, do, looking, user, verb

if TYPE_CHECKING:
    from stormpilot.messages.load import TaskLoad

DRAIN_AT_MOST_S = 10.0
LOOK_S = 0.5

Topology = Annotated[str, typer.Argument(help="Name or id of a running topology.")]
Component = Annotated[str, typer.Argument(help="A bolt whose inputs follow routes.")]
Task = Annotated[int, typer.Argument(help="Id of one of its tasks.")]
DrainOption = Annotated[
    float, typer.Option("--drain-at-most", min=2, help="Seconds that the task that was left may still have tuples.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command("routes")(routes)
    app.command("unroute")(unroute)
    app.command("move")(move)
    app.command("set-aside")(set_aside)
    app.command("bring-back")(bring_back)


def routes(
    topology: Topology,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show which tasks of a topology get tuples, which stand by, and what cannot be routed and why."""
    from stormpilot import operate

    with looking(zookeeper, root, config) as operator:
        views = operate.routes(operator, topology)
    if output is Format.json:
        print_json(views)
        return
    print_table(
        ["component", "active", "draining", "standby", "partitions", "hand-overs", "not routable"],
        [
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
        ],
    )


@verb(asks=True)
def unroute(how: CommonOptions, topology: Topology) -> None:
    """Take the routes of a topology away: tuples go as Storm's own groupings send them."""
    from stormpilot import operate

    do(how, lambda o: operate.unroute(o, topology))


@verb()
def move(
    how: CommonOptions,
    topology: Topology,
    component: Component,
    from_: Annotated[int, typer.Option("--from", help="The task that is to get no more tuples.")],
    to: Annotated[int, typer.Option("--to", help="The task that gets them instead: standing by, or active.")],
    drain_at_most: DrainOption = DRAIN_AT_MOST_S,
) -> None:
    """Send what one task gets to another, at once and without a restart; wait until the first is empty."""
    from stormpilot import operate

    do(how, lambda o: operate.move(o, topology, component, from_, to))
    _drain(how, topology, from_, drain_at_most)


@verb()
def set_aside(
    how: CommonOptions,
    topology: Topology,
    component: Component,
    task: Task,
    drain_at_most: DrainOption = DRAIN_AT_MOST_S,
) -> None:
    """Send a task no more tuples, the others take its share; wait until it is empty."""
    from stormpilot import operate

    do(how, lambda o: operate.set_aside(o, topology, component, task))
    _drain(how, topology, task, drain_at_most)


@verb()
def bring_back(how: CommonOptions, topology: Topology, component: Component, task: Task) -> None:
    """Send a task tuples again; it takes its share from the others, and the state of its keys where that is kept."""
    from stormpilot import operate

    do(how, lambda o: operate.bring_back(o, topology, component, task))
    _hand_over(how, topology)


def _drain(how: CommonOptions, topology: str, task: int, at_most_s: float) -> None:
    """Wait until a task that was left does nothing any more, at most so long, and its keyed state has moved."""
    if how.dry_run:
        return
    idle, took_s = _drive(how, topology, task, at_most_s)
    if how.output is Format.table:
        took = f"after {took_s:.1f} s"
        say(
            f"task {task} is idle {took}" if idle else f"task {task} was not seen idle {took}: it has no route any more"
        )


def _hand_over(how: CommonOptions, topology: str) -> None:
    """Wait until keyed state has moved, where there is any."""
    if not how.dry_run:
        _drive(how, topology, None, DRAIN_AT_MOST_S)


def _drive(how: CommonOptions, topology: str, task: int | None, at_most_s: float) -> tuple[bool, float]:
    """Drive what a move left open to its end; whether `task` was seen idle, and the seconds that it took."""
    from stormpilot import operate
    from stormpilot.errors import RefusedError

    begun = time.monotonic()
    idle = False
    said: list[str] = []
    with connected(how.where) as connection, console_err.status("looks at the routes") as status:
        before: TaskLoad | None = None
        while left := operate.unfinished(operate.Operator(connection, how.where.paths, user()), topology):
            status.update(f"{'; '.join(left)} ({time.monotonic() - begun:.0f} s)")
            operator = operate.Operator(connection, how.where.paths, user(), how.why)
            now = None if task is None else operate.loads(operator, topology).get(task)
            if now is not None and before is not None and now.seq > before.seq:
                idle = operate.idle(before, now)
            before = now
            try:
                change = operate.settle(operator, topology, [task] if idle and task else [], int(at_most_s * 1000))
            except RefusedError:  # somebody else drives as well, or the topology is gone: the next look tells
                change = None
            if change is not None:
                said += [text for text in change.text.split("; ") if " partitions, task " in text]
            time.sleep(LOOK_S)
    if how.output is Format.table:
        for text in said:
            say(text)
    return idle, time.monotonic() - begun


def _listed(tasks: list[int]) -> str:
    return ", ".join(map(str, tasks))
