"""Commands for a plan that is carried out step by step: `rollout show`, `pause`, `resume`, `abort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot import clock
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption
from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.cli.steer import CommonOptions, do, looking, verb

if TYPE_CHECKING:
    from stormpilot.operate import RolloutView

app = typer.Typer(no_args_is_help=True, help="Plans that are carried out without restarts, step by step.")

Topology = Annotated[str, typer.Argument(help="Name or id of a running topology.")]


def register(root: typer.Typer) -> None:
    """Add the commands to the root."""
    app.command("show")(show)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("abort")(abort)
    root.add_typer(app, name="rollout")


def show(
    topology: Annotated[str | None, typer.Argument(help="Name or id of a running topology. [default: all]")] = None,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show how far a plan is that is carried out without restarts, or how the last one ended."""
    from stormpilot import operate
    from stormpilot.operate.status import age

    with looking(zookeeper, root, config) as operator:
        names = sorted(operator.topologies()) if topology is None else [topology]
        views = [v for n in names if (v := operate.rollout(operator, n)) is not None]
    if output is Format.json:
        print_json(views)
        return
    if not views:
        say("no plan was carried out step by step")
        return
    now_ms = clock.now_ms()
    print_table(
        ["topology", "plan", "step", "phase", "since", "without tuples", ""],
        [
            [
                v.topology,
                v.plan_id,
                f"{v.step} of {v.steps}",
                _phase(v),
                f"{age((now_ms - v.since_ms) / 1000)} ago",
                ", ".join(map(str, v.away)),
                f"to be aborted by {v.abort_by}" if v.abort_by else v.text,
            ]
            for v in views
        ],
    )


def _phase(v: RolloutView) -> str:
    how = v.phase if v.running else f"{v.phase} {v.outcome}"
    return f"{how} (paused)" if v.paused_by else how


@verb()
def pause(how: CommonOptions, topology: Topology) -> None:
    """Begin no further step; what only drains gets tuples again, a step that moves comes to its end."""
    from stormpilot import operate

    do(how, lambda o: operate.pause_rollout(o, topology))


@verb()
def resume(how: CommonOptions, topology: Topology) -> None:
    """Go on with a rollout that was paused."""
    from stormpilot import operate

    do(how, lambda o: operate.resume_rollout(o, topology))


@verb(asks=True)
def abort(how: CommonOptions, topology: Topology) -> None:
    """End a rollout: all tasks get tuples again, and executors stay where they are then."""
    from stormpilot import operate

    do(how, lambda o: operate.abort_rollout(o, topology))
