"""How commands that steer a controller are run: the options that all have, look, ask, act, show.

`verbs.py` has the commands.
"""

from __future__ import annotations

import inspect
import sys
import time
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from stormpilot.cli.live import ConfigOption, Place, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, say
from stormpilot.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from stormpilot.operate import Change, Operator

Own = ParamSpec("Own")

OUTCOME_S = 60.0
"""How long a command waits for the leading controller to act on a request."""
LOOK_S = 0.5


@dataclass(frozen=True)
class CommonOptions:
    """The options that every verb has."""

    where: Place
    why: str
    dry_run: bool
    yes: bool
    output: Format


def _common(
    why: Annotated[str, typer.Option("--why", help="Goes into the audit, and is said in `status`.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> CommonOptions:
    return CommonOptions(place(zookeeper, root, config), why, dry_run, yes, output)


def verb(*, asks: bool = False) -> Callable[[Callable[Concatenate[CommonOptions, Own], None]], Callable[..., None]]:
    """Make a command of a function: its own parameters, then those of `_common`, which it gets as `CommonOptions`.

    Without `asks` there is no `--yes`: nothing of it is dangerous.
    """

    def wrap(body: Callable[Concatenate[CommonOptions, Own], None]) -> Callable[..., None]:
        shared = _parameters(_common)
        if not asks:
            del shared["yes"]

        def command(**given: Any) -> None:
            options = {name: given.pop(name) for name in shared}
            body(_common(**({"yes": True} | options)), **given)  # type: ignore[call-arg]

        own = list(_parameters(body).values())[1:]
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in [*own, *shared.values()]]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        return command

    return wrap


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function with their annotations as objects."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {n: p.replace(annotation=hints[n]) for n, p in inspect.signature(function).parameters.items()}


@contextmanager
def looking(zookeeper: str | None, root: str | None, config: Path | None) -> Iterator[Operator]:
    """Who only looks, where these options say."""
    from stormpilot.operate import Operator

    where = place(zookeeper, root, config)
    with connected(where) as connection:
        yield Operator(connection, where.paths, user())


def do(how: CommonOptions, verb: Callable[[Operator], Change]) -> None:
    """Look, ask, act, show."""
    with connected(how.where) as connection:
        _act(how, connection, verb, show=True)


def ask(how: CommonOptions, wait: bool, verb: Callable[[Operator], Change]) -> None:
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


def _act(how: CommonOptions, connection: Any, verb: Callable[[Operator], Change], *, show: bool) -> Change:
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


def wait_until_empty(how: CommonOptions, host: str, timeout_s: float | None) -> None:
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


def user() -> str:
    """Who types this, for the audit."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
