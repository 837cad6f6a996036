"""Commands that steer a running controller: settings (pause, mode, drain, pin...) and requests (approve, rollback...).

Each shows what is before and after; `--dry-run` stops there. What is dangerous asks, unless `--yes`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from stormpilot.cli.steer import OUTCOME_S, CommonOptions, ask, do, verb, wait_until_empty
from stormpilot.errors import UsageError

WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help=f"Wait for the controller's answer, at most {OUTCOME_S:.0f} s.")
]
AnyTopology = Annotated[str | None, typer.Argument(help="Name of a topology. [default: everything]")]
ATopology = Annotated[str, typer.Argument(help="Name or id of a running topology.")]
TheTopology = Annotated[str | None, typer.Option("--topology", "-t", help="Only of this topology (name).")]
TheComponent = Annotated[str | None, typer.Option("--component", "-c", help="Only of this component of the topology.")]
WhatArgument = Annotated[str, typer.Argument(metavar="COMPONENT[/TASK]", help="A component, or one of its tasks.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for command in (mode, pause, resume, approve, discard, rollback, drain, undrain, pin, unpin, exclude, include):
        app.command()(command)


# --- settings ---------------------------------------------------------------------------------------------------------


@verb(asks=True)
def mode(
    how: CommonOptions,
    mode: Annotated[str, typer.Argument(help="off, advise or act; `default` takes the setting back.")],
    topology: Annotated[str | None, typer.Argument(help="Name of a topology, which need not run now.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all that have no mode of their own.")] = False,
) -> None:
    """Set what the controller may do with a topology, or with all."""
    from stormpilot import operate

    if (topology is None) != everything:
        raise UsageError("name a topology, or say --all")
    operate.check_mode(mode)
    do(how, lambda o: operate.mode(o, mode, topology))


@verb()
def pause(how: CommonOptions, topology: AnyTopology = None) -> None:
    """Publish and apply nothing new, until `resume`; what runs goes on."""
    from stormpilot import operate

    do(how, lambda o: operate.pause(o, topology))


@verb()
def resume(how: CommonOptions, topology: AnyTopology = None) -> None:
    """End a pause."""
    from stormpilot import operate

    do(how, lambda o: operate.resume(o, topology))


@verb(asks=True)
def drain(
    how: CommonOptions,
    host: Annotated[str, typer.Argument(help="Host of one or more supervisors.")],
    wait: Annotated[bool, typer.Option("--wait", help="Until it is empty; tells what is left.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="With --wait: give up after so many seconds (exit code 1).")
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Even if no supervisor is there now.")] = False,
) -> None:
    """Move executors away from a host, one topology after the other, and keep it empty until `undrain`."""
    from stormpilot import operate

    do(how, lambda o: operate.drain(o, host, anyway=anyway))
    if wait and not how.dry_run:
        wait_until_empty(how, host, timeout)


@verb()
def undrain(how: CommonOptions, host: Annotated[str, typer.Argument(help="A drained host.")]) -> None:
    """Let executors come to a host again; nothing moves there for that alone."""
    from stormpilot import operate

    do(how, lambda o: operate.undrain(o, host))


@verb(asks=True)
def pin(
    how: CommonOptions,
    topology: Annotated[str, typer.Argument(help="Name of the topology.")],
    what: WhatArgument,
    supervisor: Annotated[str, typer.Argument(help="Id of a supervisor, or its host if it is the only one there.")],
) -> None:
    """Bind a component, or the executor of one task, to a supervisor; it moves there if it runs elsewhere."""
    from stormpilot import operate

    component, task = _component(what)
    do(how, lambda o: operate.pin(o, topology, component, supervisor, task=task))


@verb()
def unpin(
    how: CommonOptions, topology: Annotated[str, typer.Argument(help="Name of the topology.")], what: WhatArgument
) -> None:
    """Let it run anywhere again; nothing moves for that alone."""
    from stormpilot import operate

    component, task = _component(what)
    do(how, lambda o: operate.unpin(o, topology, component, task=task))


@verb(asks=True)
def exclude(
    how: CommonOptions,
    where: Annotated[str, typer.Argument(help="A host, or the id of a supervisor.")],
    topology: TheTopology = None,
    component: TheComponent = None,
) -> None:
    """Let nothing (of a topology, of a component) run there; what runs there moves away."""
    from stormpilot import operate

    do(how, lambda o: operate.exclude(o, where, topology=topology, component=component))


@verb()
def include(
    how: CommonOptions,
    where: Annotated[str, typer.Argument(help="A host, or the id of a supervisor.")],
    topology: TheTopology = None,
    component: TheComponent = None,
) -> None:
    """Take an exclusion back, as it was given; nothing moves for that alone."""
    from stormpilot import operate

    do(how, lambda o: operate.include(o, where, topology=topology, component=component))


# --- requests ---------------------------------------------------------------------------------------------------------


@verb(asks=True)
def approve(how: CommonOptions, topology: ATopology, wait: WaitOption = True) -> None:
    """Publish exactly the plan that is proposed now, if it still fits what runs."""
    from stormpilot import operate

    ask(how, wait, lambda o: operate.approve(o, topology))


@verb()
def discard(how: CommonOptions, topology: ATopology, wait: WaitOption = True) -> None:
    """Drop the plan that is proposed now, and leave the topology alone for `decide.discard_hold_s`."""
    from stormpilot import operate

    ask(how, wait, lambda o: operate.discard(o, topology))


@verb(asks=True)
def rollback(
    how: CommonOptions,
    topology: ATopology,
    steps: Annotated[int, typer.Argument(min=1, help="How far back: see `stormpilot history`.")] = 1,
    wait: WaitOption = True,
) -> None:
    """Go back to an earlier plan, if it still fits, and stay there for `decide.rollback_hold_s`."""
    from stormpilot import operate

    ask(how, wait, lambda o: operate.rollback(o, topology, steps))


@verb(asks=True)
def plan_now(how: CommonOptions, topology: ATopology, wait: WaitOption = True) -> None:
    """Plan a topology at once, whatever cool-down, hold, or smallness of the gain."""
    from stormpilot import operate

    ask(how, wait, lambda o: operate.plan_now(o, topology))


def _component(what: str) -> tuple[str, int | None]:
    component, slash, task = what.rpartition("/")
    if not slash:
        return what, None
    if not task.isdigit():
        raise UsageError(f"{what!r}: expected COMPONENT or COMPONENT/TASK, with the number of a task")
    return component, int(task)
