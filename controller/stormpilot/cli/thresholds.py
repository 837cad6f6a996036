"""Commands `stormpilot thresholds ...`: the numbers that a topology is judged by, and their sources."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.live import Live, connected, live_command
from stormpilot.cli.output import print_table, say
from stormpilot.cli.steer import Steering, do, do_each, steering
from stormpilot.errors import RefusedError, UsageError
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.messages.thresholds import Thresholds

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As in controller.yaml: decide.overload_s.")]
OfOption = Annotated[
    str | None, typer.Option("--of", help="Id of the supervisor, for a threshold that exists once per node.")
]
AnyTopology = Annotated[str, typer.Argument(help="Name of a topology; `_all` for every one.")]


@live_command
def show(
    live: Live,
    topology: Annotated[str, typer.Argument(help="Name or id of a running topology.")],
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also what was mined of components and edges, and the recommendation's evidence."),
    ] = False,
) -> None:
    """Show which thresholds hold for a topology, and where each comes from.

    An operator's setting wins over the owner's, which wins over what was mined, which wins over
    controller.yaml.
    """
    from stormpilot.operate.thresholds import shown_thresholds

    with live.operator() as operator:
        rows, mined, recommendation = shown_thresholds(operator, topology, live.settings)
    found = {"thresholds": rows, "mined": mined, "recommendation": recommendation}
    live.answer(found, lambda: _show(topology, rows, mined, recommendation, everything))


def _show(topology: str, rows: list[Any], mined: Thresholds | None, recommendation: str, everything: bool) -> None:
    print_table(
        ["threshold", "of", "value", "from", "why"],
        [
            [r.name, " ".join(r.of) or "-", "-" if r.value is None else f"{r.value:g}", r.source, r.text or "-"]
            for r in rows
        ],
    )
    if any(r.value is None for r in rows):
        say("\n-: as in controller.yaml; --config shows the numbers")
    if recommendation:
        say(f"\n{recommendation}")
    if mined is None:
        say(f"\nnothing was mined of {topology} yet: stormpilot trafficlog mine")
    elif everything:
        _all(mined)


def _all(mined: Thresholds) -> None:
    from stormpilot.messages.thresholds import CONTROLS

    found = [e for e in mined.entries if e.name not in CONTROLS]
    if found:
        say("")
        print_table(
            ["found", "of", "value", "unit", "rows", "text"],
            [
                [e.name, " ".join(e.of) or "-", "-" if e.value is None else f"{e.value:.4g}", e.unit, e.rows, e.text]
                for e in found
            ],
        )
    if (r := mined.recommendation) is not None:
        say(f"\nits evidence: {counted(r.windows, 'step')}, {r.text}")


@steering("thresholds set")
def set_(
    how: Steering,
    topology: AnyTopology,
    name: NameArgument,
    value: Annotated[float, typer.Argument(help="The number, in the unit of the setting.")],
    of: OfOption = None,
) -> None:
    """A value outside of the usual range asks for confirmation."""
    from stormpilot.operate.thresholds import set_threshold

    do(how, lambda o: set_threshold(o, _name(topology), name, value, of))


@steering("thresholds freeze")
def freeze(
    how: Steering,
    topology: Annotated[str, typer.Argument(help="Name of a topology.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="[default: all that were mined]")] = None,
    of: OfOption = None,
) -> None:
    """Without a name: every threshold that was mined, of this supervisor with --of."""
    from stormpilot.operate import Operator
    from stormpilot.operate.thresholds import freeze_threshold, mined_entries

    if name is not None:
        do(how, lambda o: freeze_threshold(o, topology, name, of))
        return
    with connected(how.where) as connection:
        entries = mined_entries(Operator(connection, how.where.paths, ""), topology, of=of)
    if not entries:
        where = "" if of is None else f" of supervisor {of}"
        raise RefusedError(f"{topology}: no threshold was mined{where}, there is nothing to freeze")
    wanted = [(e.name, e.of[0] if e.of else None) for e in entries]
    do_each(how, [partial(freeze_threshold, topology=topology, name=name, of=one) for name, one in wanted])


@steering("thresholds unset")
def unset(how: Steering, topology: AnyTopology, name: NameArgument, of: OfOption = None) -> None:
    """Name it as it was set."""
    from stormpilot.operate.thresholds import unset_threshold

    do(how, lambda o: unset_threshold(o, _name(topology), name, of))


def _name(topology: str) -> str | None:
    if not topology:
        raise UsageError("name a topology, or _all")
    return None if topology == "_all" else topology
