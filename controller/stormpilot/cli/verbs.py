"""Commands that steer a running controller: settings (pause, mode, drain, pin...) and requests (approve, rollback...).

Each shows what is before and after; `--dry-run` stops there. What is dangerous asks, unless `--yes`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.live import ConfigOption, Place, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, say
from stormpilot.errors import RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from stormpilot.operate import Change, Operator

OUTCOME_S = 60.0
"""How long a command waits for the leading controller to act on a request."""
LOOK_S = 0.5
MANY = 4

WhyOption = Annotated[str, typer.Option("--why", help="Goes into the audit, and is said in `status`.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help=f"Wait for the controller's answer, at most {OUTCOME_S:.0f} s.")
]
AnyTopology = Annotated[str | None, typer.Argument(help="Name of a topology. [default: everything]")]
ATopology = Annotated[str, typer.Argument(help="Name or id of a running topology.")]
TheTopology = Annotated[str | None, typer.Option("--topology", "-t", help="Only of this topology (name).")]
TheComponent = Annotated[str | None, typer.Option("--component", "-c", help="Only of this component of the topology.")]
WhatArgument = Annotated[str, typer.Argument(metavar="COMPONENT[/TASK]", help="A component, or one of its tasks.")]


@dataclass(frozen=True)
class How:
    """The options that every verb has."""

    where: Place
    why: str
    dry_run: bool
    yes: bool
    output: Format


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    for command in (mode, pause, resume, approve, discard, rollback, drain, undrain, pin, unpin, exclude, include):
        app.command()(command)


# --- settings ---------------------------------------------------------------------------------------------------------


def mode(
    mode: Annotated[str, typer.Argument(help="off, advise or act; `default` takes the setting back.")],
    topology: Annotated[str | None, typer.Argument(help="Name of a topology, which need not run now.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all that have no mode of their own.")] = False,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Set what the controller may do with a topology, or with all."""
    from stormpilot import operate

    if (topology is None) != everything:
        raise UsageError("name a topology, or say --all")
    operate.check_mode(mode)
    _checked(topology)
    how = _how(zookeeper, root, config, why, dry_run, yes, output)
    _do(how, lambda o: operate.mode(o, mode, topology))


def pause(
    topology: AnyTopology = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Publish and apply nothing new, until `resume`; what runs goes on."""
    from stormpilot import operate

    _checked(topology)
    how = _how(zookeeper, root, config, why, dry_run, True, output)
    _do(how, lambda o: operate.pause(o, topology))


def resume(
    topology: AnyTopology = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """End a pause."""
    from stormpilot import operate

    _checked(topology)
    how = _how(zookeeper, root, config, why, dry_run, True, output)
    _do(how, lambda o: operate.resume(o, topology))


def drain(
    host: Annotated[str, typer.Argument(help="Host of one or more supervisors.")],
    wait: Annotated[bool, typer.Option("--wait", help="Until it is empty; tells what is left.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="With --wait: give up after so many seconds (exit code 1).")
    ] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Even if no supervisor is there now.")] = False,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Move executors away from a host, one topology after the other, and keep it empty until `undrain`."""
    from stormpilot import operate

    how = _how(zookeeper, root, config, why, dry_run, yes, output)
    _do(how, lambda o: operate.drain(o, host, anyway=anyway))
    if wait and not dry_run:
        _wait_until_empty(how, host, timeout)


def undrain(
    host: Annotated[str, typer.Argument(help="A drained host.")],
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Let executors come to a host again; nothing moves there for that alone."""
    from stormpilot import operate

    _do(_how(zookeeper, root, config, why, dry_run, True, output), lambda o: operate.undrain(o, host))


def pin(
    topology: Annotated[str, typer.Argument(help="Name of the topology.")],
    what: WhatArgument,
    supervisor: Annotated[str, typer.Argument(help="Id of a supervisor, or its host if it is the only one there.")],
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Bind a component, or the executor of one task, to a supervisor; it moves there if it runs elsewhere."""
    from stormpilot import operate

    component, task = _component(what)
    how = _how(zookeeper, root, config, why, dry_run, True, output)
    _do(how, lambda o: operate.pin(o, topology, component, supervisor, task=task))


def unpin(
    topology: Annotated[str, typer.Argument(help="Name of the topology.")],
    what: WhatArgument,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Let it run anywhere again; nothing moves for that alone."""
    from stormpilot import operate

    component, task = _component(what)
    how = _how(zookeeper, root, config, why, dry_run, True, output)
    _do(how, lambda o: operate.unpin(o, topology, component, task=task))


def exclude(
    where: Annotated[str, typer.Argument(help="A host, or the id of a supervisor.")],
    topology: TheTopology = None,
    component: TheComponent = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Let nothing (of a topology, of a component) run there; what runs there moves away."""
    from stormpilot import operate

    how = _how(zookeeper, root, config, why, dry_run, yes, output)
    _do(how, lambda o: operate.exclude(o, where, topology=topology, component=component))


def include(
    where: Annotated[str, typer.Argument(help="A host, or the id of a supervisor.")],
    topology: TheTopology = None,
    component: TheComponent = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Take an exclusion back, as it was given; nothing moves for that alone."""
    from stormpilot import operate

    how = _how(zookeeper, root, config, why, dry_run, True, output)
    _do(how, lambda o: operate.include(o, where, topology=topology, component=component))


# --- requests ---------------------------------------------------------------------------------------------------------


def approve(
    topology: ATopology,
    wait: WaitOption = True,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Publish exactly the plan that is advised now, if it still fits what runs."""
    from stormpilot import operate

    _ask(_how(zookeeper, root, config, why, dry_run, yes, output), wait, lambda o: operate.approve(o, topology))


def discard(
    topology: ATopology,
    wait: WaitOption = True,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Drop the plan that is advised now, and leave the topology alone for `decide.discard_hold_s`."""
    from stormpilot import operate

    _ask(_how(zookeeper, root, config, why, dry_run, True, output), wait, lambda o: operate.discard(o, topology))


def rollback(
    topology: ATopology,
    steps: Annotated[int, typer.Argument(min=1, help="How far back: see `stormpilot history`.")] = 1,
    wait: WaitOption = True,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Go back to an earlier plan, if it still fits, and stay there for `decide.rollback_hold_s`."""
    from stormpilot import operate

    how = _how(zookeeper, root, config, why, dry_run, yes, output)
    _ask(how, wait, lambda o: operate.rollback(o, topology, steps))


def plan_now(
    topology: ATopology,
    wait: WaitOption = True,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Plan a topology at once, whatever cool-down, hold, or smallness of the gain."""
    from stormpilot import operate

    _ask(_how(zookeeper, root, config, why, dry_run, True, output), wait, lambda o: operate.plan_now(o, topology))


# --- how verbs are run ------------------------------------------------------------------------------------------------


def _how(
    zookeeper: str | None, root: str | None, config: Path | None, why: str, dry_run: bool, yes: bool, output: Format
) -> How:
    return How(place(zookeeper, root, config), why, dry_run, yes, output)


def _do(how: How, verb: Callable[[Operator], Change]) -> None:
    """Look, ask, act, show."""
    with connected(how.where) as connection:
        _act(how, connection, verb, show=True)


def _ask(how: How, wait: bool, verb: Callable[[Operator], Change]) -> None:
    """The same for what the leading controller carries out; waits for its answer."""
    from stormpilot.operate import Operator, outcome

    with connected(how.where) as connection:
        change = _act(how, connection, verb, show=how.output is Format.table or not wait or how.dry_run)
        if change.dry_run or not wait:
            return
        operator = Operator(connection, how.where.paths, user())
        if not connection.children([how.where.paths.leader])[0]:
            raise UnreachableError("no controller leads now: the request waits for one (decide.request_max_age_s)")
        deadline = time.monotonic() + OUTCOME_S
        while (found := outcome(operator, change.request_id)) is None:
            if time.monotonic() > deadline:
                raise UnreachableError(f"no answer within {OUTCOME_S:.0f} s; see `stormpilot status` and `audit`")
            time.sleep(LOOK_S)
    if how.output is Format.json:
        print_json({"change": change, "outcome": found})
    if found.result.startswith("refused"):
        raise RefusedError(f"{change.target}: {found.result}")
    if how.output is Format.table:
        say(f"{change.target}: {found.result}")


def _act(how: How, connection: Any, verb: Callable[[Operator], Change], *, show: bool) -> Change:
    from stormpilot.operate import Operator

    def operator(dry_run: bool) -> Operator:
        return Operator(connection, how.where.paths, user(), how.why, dry_run)

    if how.dry_run:
        change = verb(operator(True))
        _show(change, how.output)
        return change
    if not how.yes:
        looked = verb(operator(True))
        if looked.danger:
            _confirm(looked)
    change = verb(operator(False))
    if show:
        _show(change, how.output)
    return change


def _confirm(change: Change) -> None:
    if not sys.stdin.isatty():
        raise RefusedError(f"{change.danger}: add --yes if you mean it (or --dry-run)")
    for line in lines_of(change):
        console_err.print(line, markup=False, highlight=False, soft_wrap=True)
    if not typer.confirm(f"{change.danger}. Go on?", err=True):
        raise RefusedError("nothing was changed")


def _show(change: Change, output: Format) -> None:
    if output is Format.json:
        print_json(change)
        return
    for line in lines_of(change):
        say(line)


def lines_of(change: Change) -> list[str]:
    """A change as text: the sentence, then before and after where they differ."""
    lines = [change.text]
    if change.changed and change.before != change.after:
        lines += [f"  before  {_words(change.before)}", f"  after   {_words(change.after)}"]
    if change.dry_run:
        lines.append("dry run: nothing was changed")
    return lines


def _words(value: Any) -> str:
    """A setting or a plan in one line, without what says nothing."""
    if value is None:
        return "nothing"
    if not isinstance(value, dict):
        return str(value)
    left_out = ("schema", "sinceMs", "createdAtMs")
    parts = [f"{k}={_value(v)}" for k, v in value.items() if k not in left_out and v not in (None, "", {}, [])]
    return " ".join(parts) or "set"


def _value(value: Any) -> str:
    if isinstance(value, dict) and set(value) <= {"before", "after"}:
        names = sorted({*value.get("before", {}), *value.get("after", {})})
        sides = [(n, value.get("before", {}).get(n), value.get("after", {}).get(n)) for n in names]
        return ",".join(f"{n}:{_number(a)}->{_number(b)}" for n, a, b in sides)
    text = str(value)
    return f'"{text}"' if " " in text else text


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _wait_until_empty(how: How, host: str, timeout_s: float | None) -> None:
    """Tell what is left on a host whenever that changes."""
    from stormpilot.operate import Operator, draining

    said = None
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with connected(how.where) as connection:
        while True:
            left = draining(Operator(connection, how.where.paths, user()), host)
            if left.total == 0:
                break
            now = (left.executors, left.decisions)
            if now != said:
                for topology, n in sorted(left.executors.items()):
                    decision = left.decisions.get(topology, "")
                    text = f"{host}: {n} executors of {topology} left" + (f" ({decision})" if decision else "")
                    console_err.print(text, markup=False, highlight=False, soft_wrap=True)
            said = now
            if deadline is not None and time.monotonic() > deadline:
                raise RefusedError(f"{host}: {left.total} executors left after {timeout_s:g} s; it stays drained")
            time.sleep(LOOK_S)
    if how.output is Format.table:
        say(f"{host}: is empty")


def _component(what: str) -> tuple[str, int | None]:
    component, slash, task = what.rpartition("/")
    if not slash:
        return what, None
    if not task.isdigit():
        raise UsageError(f"{what!r}: expected COMPONENT or COMPONENT/TASK, with the number of a task")
    return component, int(task)


def _checked(topology: str | None) -> None:
    from stormpilot.operate import topology_name

    topology_name(topology)


def user() -> str:
    """Who types this, for the audit."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
