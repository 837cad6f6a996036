"""Command `stormpilot rollout status`: progress of plans that are carried out by rolling moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot import clock
from stormpilot.cli.live import Live, connected, live_command, user
from stormpilot.cli.output import print_table, say
from stormpilot.cli.progress import progress
from stormpilot.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from stormpilot.operate import RolloutView

LOOK_S = 1.0


@live_command
def status(
    live: Live,
    topology: Annotated[str | None, typer.Argument(help="Name or id of a running topology. [default: all]")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the topology's rollout ends (exit code 1: not completed).")
    ] = False,
) -> None:
    """Show the progress of rollouts, or how the last ones ended."""
    from stormpilot import operate

    if wait and topology is None:
        raise UsageError("--wait: name a topology")
    if wait and topology is not None:
        _wait(live, topology)
    with live.operator() as operator:
        names = sorted(s.id for s in operator.topologies().values()) if topology is None else [topology]
        views = [v for n in names if (v := operate.rollout(operator, n)) is not None]
    live.answer(views, lambda: _show(views))
    if wait and any(v.outcome != "DONE" for v in views):
        raise RefusedError(f"{topology}: the rollout was not completed: {views[0].outcome} {views[0].text}".strip())


def _wait(live: Live, topology: str) -> None:
    from stormpilot.operate import Operator, rollout

    with connected(live.where) as connection, progress(topology) as shown:
        while (v := rollout(Operator(connection, live.where.paths, user()), topology)) is not None and v.running:
            shown.update(f"step {v.step} of {v.steps}, {_phase(v)}", v.step - 1, v.steps)
            time.sleep(LOOK_S)


def _show(views: list[RolloutView]) -> None:
    from stormpilot.printable import age

    if not views:
        say("no rollout yet")
        return
    now_ms = clock.now_ms()
    print_table(
        ["topology", "plan", "step", "phase", "since", "left", "without tuples", ""],
        [
            [
                v.topology,
                v.plan_id,
                f"{v.step} of {v.steps}",
                _phase(v),
                f"{age((now_ms - v.since_ms) / 1000)} ago",
                "-" if v.left_s is None else f"about {age(v.left_s)}",
                ", ".join(map(str, v.away)),
                f"to be aborted by {v.abort_by}" if v.abort_by else v.text,
            ]
            for v in views
        ],
    )


def _phase(v: RolloutView) -> str:
    how = v.phase if v.running else f"{v.phase} {v.outcome}"
    return f"{how} (paused)" if v.paused_by else how
