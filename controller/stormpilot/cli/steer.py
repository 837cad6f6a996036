"""Commands that change a running system: the options that all have, look, ask, act, show.

`command_of` makes a command of a verb with nothing of its own; `verbs.py` and `routes.py` have those with more.
"""

from __future__ import annotations

import inspect
import sys
import time
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from stormpilot.cli.live import (
    ConfigOption,
    Live,
    RootOption,
    ZooKeeperOption,
    connected,
    joined,
    parameters_of,
    place,
    user,
)
from stormpilot.cli.output import Format, FormatOption, note, print_json, say
from stormpilot.cli.progress import progress
from stormpilot.errors import RefusedError, UnreachableError
from stormpilot.operate.topology_ref import check_reference
from stormpilot.operate.verbs import Parameter, Verb, verb_named

if TYPE_CHECKING:
    from stormpilot.operate import Change, Operator

Own = ParamSpec("Own")

OUTCOME_S = 60.0
"""Time that a command waits for the leading controller to act on a request."""
LOOK_S = 0.5
PENDING = "stays pending, and is void after decide.request_max_age_s; `stormpilot audit` has the answer"
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help=f"Wait for the controller's answer, at most {OUTCOME_S:.0f} s.")
]


@dataclass(frozen=True)
class Steering(Live):
    """A running system, and how to change it."""

    why: str
    dry_run: bool
    yes: bool


def _steering(
    why: Annotated[str, typer.Option("--why", help="Reason, recorded in the audit log and shown by `status`.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    format: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> Steering:
    return Steering(place(zookeeper, root, config), format, config, why, dry_run, yes)


def steering(name: str) -> Callable[[Callable[Concatenate[Steering, Own], None]], Callable[..., None]]:
    """Make the command of a verb from a function: its own parameters, then those of `_steering`, as a `Steering`.

    The help is the verb's, then what the function's docstring adds. Without a danger there is no `--yes`.
    """
    verb = verb_named(name)

    def wrap(body: Callable[Concatenate[Steering, Own], None]) -> Callable[..., None]:
        own = list(parameters_of(body).values())[1:]
        doc = f"{verb.help}\n\n{inspect.getdoc(body) or ''}".strip()
        return joined(body.__name__, doc, own, _steering, body, {} if verb.asks else {"yes": True})

    return wrap


def command_of(verb: Verb) -> Callable[..., None]:
    """The command of a verb whose parameters are all there is to it."""

    def body(how: Steering, *, wait: bool = True, **given: Any) -> None:
        if "topology" in given:
            check_reference(given["topology"])  # a wrong name is refused before anybody is asked
        if verb.request:
            ask(how, wait, lambda o: verb.do(o, **given))
        else:
            do(how, lambda o: verb.do(o, **given))

    own = [_parameter(p) for p in verb.parameters]
    if verb.request:
        own.append(inspect.Parameter("wait", inspect.Parameter.KEYWORD_ONLY, default=True, annotation=WaitOption))
    return joined(verb.name, verb.help, own, _steering, body, {} if verb.asks else {"yes": True})


def _parameter(p: Parameter) -> inspect.Parameter:
    meta = p.meta
    kind = typing.get_args(p.kind.__origin__)[0].__origin__ | None if p.optional else p.kind.__origin__
    make = typer.Argument if p.positional else typer.Option
    option = make(help=meta.description, min=meta.ge, max=meta.le)
    default = None if p.optional else p.default
    return inspect.Parameter(
        p.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def do(how: Steering, verb: Callable[[Operator], Change]) -> None:
    """Look, ask, act, show."""
    with connected(how.where) as connection:
        _act(how, connection, verb, show=True)


def do_each(how: Steering, verbs: Sequence[Callable[[Operator], Change]]) -> None:
    """The same one after the other; what became of all is one answer."""
    with connected(how.where) as connection:
        changes = [_act(how, connection, verb, show=False) for verb in verbs]
    how.answer(changes, lambda: say("\n".join(line for c in changes for line in lines_of(c))))


def ask(how: Steering, wait: bool, verb: Callable[[Operator], Change]) -> None:
    """The same for what the leading controller carries out; waits for its answer."""
    from stormpilot.operate import Operator, outcome

    with connected(how.where) as connection:
        change = _act(how, connection, verb, show=how.as_table or not wait or how.dry_run)
        if change.dry_run or not wait:
            return
        operator = Operator(connection, how.where.paths, user())
        if not connection.children([how.where.paths.leader])[0]:
            raise UnreachableError(f"no controller leads: the request {PENDING}")
        deadline = time.monotonic() + OUTCOME_S
        with progress(f"{change.target}: waiting for the leading controller") as shown:
            while (found := outcome(operator, change.request_id)) is None:
                left_s = deadline - time.monotonic()
                if left_s < 0:
                    why = _held_by(operator, change.target)
                    raise UnreachableError(f"no answer within {OUTCOME_S:.0f} s{why}; the request {PENDING}")
                if shown.live:
                    shown.update(f"at most {left_s:.0f} s left")
                time.sleep(LOOK_S)
    if not how.as_table:
        print_json({"change": change, "outcome": found})
    if found.result.startswith("refused") or _could_not(found.result):
        raise RefusedError(f"{change.target}: {found.result}")
    if how.as_table:
        say(f"{change.target}: {found.result}")


def _could_not(result: str) -> bool:
    """Whether the leading controller was kept from planning; that nothing better was found is an answer."""
    from stormpilot.decide.reasons import NOTHING_BETTER

    code = result.removeprefix("skip: ").partition(":")[0]
    return result.startswith("skip: ") and code not in {str(r.value) for r in NOTHING_BETTER}


def _held_by(operator: Operator, topology: str) -> str:
    """The end of a sentence on a request that the leading controller has not acted on: its last decision."""
    from stormpilot.messages.controller_state import ControllerState

    state, _ = operator.read(operator.paths.controller, ControllerState)
    views = [] if state is None else [v for v in state.topologies if v.name == topology and v.action == "skip"]
    return f" ({views[0].sentence})" if views else ""


def _act(how: Steering, connection: Any, verb: Callable[[Operator], Change], *, show: bool) -> Change:
    from stormpilot.operate import Operator

    def operator(dry_run: bool) -> Operator:
        return Operator(connection, how.where.paths, user(), how.why, dry_run)

    if how.dry_run:
        change = verb(operator(True))
        if show:
            _show(change, how)
        return change
    if not how.yes:
        looked = verb(operator(True))
        if looked.danger:
            confirm(looked.danger, lines_of(looked, asked=True))
            _still(looked, verb(operator(True)))
    change = verb(operator(False))
    if show:
        _show(change, how)
    return change


def _still(looked: Change, now: Change) -> None:
    """`RefusedError` unless what was confirmed is what would be done now: another plan may be proposed by now."""
    if lines_of(looked, asked=True) != lines_of(now, asked=True) or looked.danger != now.danger:
        became = "; ".join([*(line.strip() for line in lines_of(now, asked=True)), *([now.danger] * bool(now.danger))])
        raise RefusedError(f"nothing was changed, for it is not what you looked at any more: {became}")


def confirm(danger: str, lines: Iterable[str] = ()) -> None:
    """Ask at the terminal; `RefusedError` without one, or where the answer is no."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise RefusedError(f"{danger}: confirm with --yes (or look with --dry-run)")
    for line in lines:
        note(line)
    try:
        confirmed = typer.confirm(f"{danger}. Continue?", err=True)
    except typer.Abort as e:
        if isinstance(e.__cause__ or e.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from e
        confirmed = False
    if not confirmed:
        raise RefusedError("nothing was changed")


def _show(change: Change, how: Steering) -> None:
    how.answer(change, lambda: say("\n".join(lines_of(change))))


def lines_of(change: Change, *, asked: bool = False) -> list[str]:
    """A change as text: the sentence, then before and after where they differ; `asked`: a question follows."""
    lines = [change.text]
    if change.changed and change.before != change.after:
        lines += [f"  before  {_words(change.before)}", f"  after   {_words(change.after)}"]
    if change.dry_run and not asked:
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
