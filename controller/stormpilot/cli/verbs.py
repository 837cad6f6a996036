"""Commands of verbs that have more than the verb's parameters: mode, drain, pin, unpin.

The others are made from `stormpilot.operate.verbs.VERBS` alone (`steer.command_of`).
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stormpilot.cli.live import connected, user
from stormpilot.cli.output import say
from stormpilot.cli.progress import progress
from stormpilot.cli.steer import LOOK_S, Steering, do, steering
from stormpilot.errors import RefusedError, UsageError
from stormpilot.printable import counted

TopologyArgument = Annotated[str, typer.Argument(help="Name of the topology.")]
WhatArgument = Annotated[str, typer.Argument(metavar="COMPONENT[/TASK]", help="A component, or one of its tasks.")]


@steering("mode")
def mode(
    how: Steering,
    mode: Annotated[str, typer.Argument(help="off, advise or act; `default` takes the setting back.")],
    topology: Annotated[str | None, typer.Argument(help="Name of a topology, which need not run now.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All topologies that no other mode names.")] = False,
) -> None:
    """Mode act may move executors at once: it asks first, with their number."""
    from stormpilot import operate
    from stormpilot.operate.topology_ref import check_reference

    if (topology is None) != everything:
        raise UsageError("name a topology, or give --all")
    operate.check_mode(mode)
    check_reference(topology)
    do(how, lambda o: operate.mode(o, mode, topology))  # type: ignore[arg-type]


@steering("drain")
def drain(
    how: Steering,
    host: Annotated[str, typer.Argument(help="Host of one or more supervisors.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is empty; shows what is left.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="With --wait: seconds until it gives up (exit code 1).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if the host has no supervisor now.")] = False,
) -> None:
    """The host stays drained when waiting is given up."""
    from stormpilot import operate

    do(how, lambda o: operate.drain(o, host, force=force))
    if wait and not how.dry_run:
        wait_until_empty(how, host, timeout)


@steering("pin")
def pin(
    how: Steering,
    topology: TopologyArgument,
    what: WhatArgument,
    supervisor: Annotated[str, typer.Argument(help="Id of a supervisor, or its host if it is the only one there.")],
) -> None:
    """Topology and component need not run now."""
    from stormpilot import operate

    component, task = _component(what)
    do(how, lambda o: operate.pin(o, topology, component, supervisor, task=task))


@steering("unpin")
def unpin(how: Steering, topology: TopologyArgument, what: WhatArgument) -> None:
    """The pin is named as it was made."""
    from stormpilot import operate

    component, task = _component(what)
    do(how, lambda o: operate.unpin(o, topology, component, task=task))


def _component(what: str) -> tuple[str, int | None]:
    component, slash, task = what.rpartition("/")
    if not slash:
        return what, None
    if not task.isdecimal():
        raise UsageError(f"{what!r}: expected COMPONENT or COMPONENT/TASK, with the number of a task")
    return component, int(task)


def wait_until_empty(how: Steering, host: str, timeout_s: float | None) -> None:
    """Show what is left on a host whenever that changes."""
    from stormpilot.operate import Operator, draining

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with connected(how.where) as connection, progress(host) as shown:
        whole = 0
        while True:
            left = draining(Operator(connection, how.where.paths, user()), host)
            if left.total == 0 and not left.unread:
                break
            whole = max(whole, left.total)
            of_each = [
                f"{counted(n, 'executor')} of {topology} left"
                + (f" ({left.decisions[topology]})" if topology in left.decisions else "")
                for topology, n in sorted(left.executors.items())
            ]
            if left.unread:
                of_each.append(f"not known to be empty: {left.unread}")
            if not connection.children([how.where.paths.leader])[0]:
                of_each.append("no controller leads: nothing moves (stormpilot status)")
            shown.update("; ".join(of_each), whole - left.total, whole)
            if deadline is not None and time.monotonic() > deadline:
                rest = f"{counted(left.total, 'executor')} left"
                rest = rest if left.total else f"not known to be empty ({left.unread})"
                raise RefusedError(f"{host}: {rest} after {timeout_s:g} s; it stays drained")
            time.sleep(LOOK_S)
    if how.as_table:
        missing = "" if left.there else ", no supervisor is on a host of that name now"
        say(f"{host}: is empty{missing}")
