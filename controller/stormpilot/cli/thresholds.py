"""Commands `stormpilot thresholds ...`: which numbers a topology is judged by, where they come from, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.cli.steer import CommonOptions, do, verb
from stormpilot.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from stormpilot.messages.thresholds import Thresholds

app = typer.Typer(no_args_is_help=True, help="Thresholds: which hold for a topology, where they come from, others.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As in controller.yaml: decide.overload_s.")]
OfOption = Annotated[str | None, typer.Option("--of", help="Of this supervisor (id), for what has one per node.")]
AnyTopology = Annotated[str, typer.Argument(help="Name of a topology; `_all` for every one.")]


@app.command()
def show(
    topology: Annotated[str, typer.Argument(help="Name or id of a running topology.")],
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also what is known of its components and edges, and the recommendation's evidence."
        ),
    ] = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show which thresholds hold for a topology, and where each comes from.

    An operator's word is before the owner's, which is before what was mined, which is before
    controller.yaml.
    """
    from stormpilot.cli.steer import user
    from stormpilot.config import load
    from stormpilot.operate import Operator
    from stormpilot.operate.thresholds import shown_thresholds

    settings = None if config is None else load(config)
    where = place(zookeeper, root, config)
    with connected(where) as connection:
        rows, mined, recommendation = shown_thresholds(Operator(connection, where.paths, user()), topology, settings)
    if output is Format.json:
        print_json({"thresholds": rows, "mined": mined, "recommendation": recommendation})
        return
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
        say(f"\nnothing was mined of {topology} yet: stormpilot history mine")
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
        say(f"\nits evidence: {r.windows} steps, {r.text}")


@verb(asks=True)
def set_(
    how: CommonOptions,
    topology: AnyTopology,
    name: NameArgument,
    value: Annotated[float, typer.Argument(help="The number, in the unit of the setting.")],
    of: OfOption = None,
) -> None:
    """Set a threshold of a topology, whatever is mined, until `unset`."""
    from stormpilot import operate

    do(how, lambda o: operate.set_threshold(o, _name(topology), name, value, of))


@verb()
def freeze(
    how: CommonOptions,
    topology: Annotated[str, typer.Argument(help="Name of a topology.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="[default: all that were mined]")] = None,
    of: OfOption = None,
) -> None:
    """Keep what was mined of a threshold as it is, whatever is mined later, until `unset`."""
    from stormpilot.operate import Operator, freeze_threshold
    from stormpilot.operate.thresholds import mined_entries

    if name is not None:
        do(how, lambda o: freeze_threshold(o, topology, name, of))
        return
    with connected(how.where) as connection:
        entries = mined_entries(Operator(connection, how.where.paths, ""), topology)
    if not entries:
        raise RefusedError(f"{topology}: no threshold was mined, there is nothing to freeze")
    for e in entries:
        do(how, lambda o, e=e: freeze_threshold(o, topology, e.name, e.of[0] if e.of else None))  # type: ignore[misc]


@verb()
def unset(how: CommonOptions, topology: AnyTopology, name: NameArgument, of: OfOption = None) -> None:
    """Take back what was set or frozen: what is mined holds again, else what is configured."""
    from stormpilot import operate

    do(how, lambda o: operate.unset_threshold(o, _name(topology), name, of))


app.command("set")(set_)
app.command()(freeze)
app.command()(unset)


def _name(topology: str) -> str | None:
    if not topology:
        raise UsageError("name a topology, or _all")
    return None if topology == "_all" else topology
