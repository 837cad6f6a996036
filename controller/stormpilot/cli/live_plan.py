"""`stormpilot plan show` and `plan diff` of a running topology: what the controller wants, and what that would move."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.live import Live, connected, live_command
from stormpilot.cli.output import note, print_table, say
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.model.values import Model
    from stormpilot.operate.plans import PublishedPlan

TopologyArgument = Annotated[str, typer.Argument(help="Name or id of a running topology.")]


@live_command
def show(live: Live, topology: TopologyArgument) -> None:
    """Show the plan that is published for a topology, or the newer proposed plan."""
    found = published_plan(live, topology)
    live.answer({"proposal": found.proposal, "plan": found.plan}, lambda: _show(found))


def _show(found: PublishedPlan) -> None:
    _head(found)
    components, hosts = _components(found.model), _hosts(found.model)
    rows = []
    for w in sorted(found.plan.workers, key=lambda w: (hosts.get(w.supervisor, ""), w.supervisor, w.port)):
        held = Counter(components.get(start, "?") for start, _ in w.executors)
        what = ", ".join(f"{c} {n}" if n > 1 else c for c, n in sorted(held.items()))
        rows.append([hosts.get(w.supervisor, "gone"), w.supervisor, str(w.port), len(w.executors), what])
    print_table(["host", "supervisor", "port", "executors", "components"], rows)


def diff(live: Live, topology: str) -> None:
    """Show what a topology's plan moves against where its executors run now."""
    from stormpilot.operate.plans import moved

    found = published_plan(live, topology)
    moves = moved(found)
    shown = {"proposal": found.proposal, "plan": found.plan.plan_id, "moves": moves}

    def table() -> None:
        _head(found)
        if not moves:
            say("every executor runs where the plan wants it")
            return
        print_table(
            ["component", "executor", "now", "plan"],
            [
                [m["component"], f"{m['start']}-{m['end']}", m["now"] or "nowhere", m["plan"] or "left out"]
                for m in moves
            ],
            title=f"{len(moves)} of {counted(len(found.model.topologies[0].executors), 'executor')} "
            + ("moves" if len(moves) == 1 else "move"),
        )

    live.answer(shown, table)


def published_plan(live: Live, topology: str) -> PublishedPlan:
    """The newest plan of a topology (published, or else proposed) with the model of what runs."""
    from stormpilot.operate import plans

    with connected(live.where) as zookeeper:
        return plans.published_plan(zookeeper, live.where.paths, topology)


def _head(found: PublishedPlan) -> None:
    from stormpilot.printable import age

    if found.unread:
        note(found.unread)
    p = found.plan
    old = age(time.time() - p.created_at_ms / 1000)
    kind = "proposed, not applied" if found.proposal else "published"
    say(f"{p.plan_id} ({kind}) of planner {p.planner}, {old} old, epoch {p.epoch}: {p.reason}")
    for name in sorted({*p.expected.before, *p.expected.after}):
        before, after = p.expected.before.get(name), p.expected.after.get(name)
        words = ["?" if v is None else f"{v:,.{1 if name.endswith('_ms') else 0}f}" for v in (before, after)]
        say(f"{name}: {words[0]} -> {words[1]}")


def _components(model: Model) -> dict[int, str]:
    return {e.start: e.component for e in model.topologies[0].executors}


def _hosts(model: Model) -> dict[str, str]:
    return {s.id: s.host for s in model.supervisors}
