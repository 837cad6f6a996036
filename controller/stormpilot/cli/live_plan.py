"""`stormpilot plan show` and `plan diff` of a running topology: what the controller wants, and what that would move."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, place, published_plan
from stormpilot.cli.output import Format, FormatOption, console, print_json, print_table

if TYPE_CHECKING:
    from stormpilot.model.values import Model
    from stormpilot.operate.plans import PublishedPlan

TopologyOption = Annotated[str, typer.Option("--topology", "-t", help="Name or id of a running topology.")]


def show(
    topology: TopologyOption,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the plan that is published for a topology, or the proposal where its mode is `advise`."""
    found = published_plan(place(zookeeper, root, config), topology)
    if output is Format.json:
        print_json({"proposal": found.proposal, "plan": found.plan})
        return
    _head(found)
    components, hosts = _components(found.model), _hosts(found.model)
    rows = []
    for w in sorted(found.plan.workers, key=lambda w: (hosts.get(w.supervisor, ""), w.supervisor, w.port)):
        held = Counter(components.get(start, "?") for start, _ in w.executors)
        what = ", ".join(f"{c} {n}" if n > 1 else c for c, n in sorted(held.items()))
        rows.append([hosts.get(w.supervisor, "gone"), w.supervisor, str(w.port), len(w.executors), what])
    print_table(["host", "supervisor", "port", "executors", "components"], rows)


def diff(
    topology: TopologyOption,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Show what a topology's plan moves against where its executors run now."""
    from stormpilot.operate.plans import moved

    found = published_plan(place(zookeeper, root, config), topology)
    moves = moved(found)
    if output is Format.json:
        print_json({"proposal": found.proposal, "plan": found.plan.plan_id, "moves": moves})
        return
    _head(found)
    if not moves:
        console.print("every executor runs where the plan wants it", highlight=False)
        return
    print_table(
        ["component", "executor", "now", "plan"],
        [[m["component"], f"{m['start']}-{m['end']}", m["now"] or "nowhere", m["plan"] or "left out"] for m in moves],
        title=f"{len(moves)} of {len(found.model.topologies[0].executors)} executors move",
    )


def _head(found: PublishedPlan) -> None:
    p = found.plan
    age_s = time.time() - p.created_at_ms / 1000
    kind = "proposal, nobody applies it" if found.proposal else "published"
    console.print(
        f"{p.plan_id} ({kind}) of planner {p.planner}, {age_s:.0f} s old, epoch {p.epoch}: {p.reason}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    for name in sorted({*p.expected.before, *p.expected.after}):
        before, after = p.expected.before.get(name), p.expected.after.get(name)
        words = ["?" if v is None else f"{v:,.0f}" for v in (before, after)]
        console.print(f"{name}: {words[0]} -> {words[1]}", highlight=False)


def _components(model: Model) -> dict[int, str]:
    return {e.start: e.component for e in model.topologies[0].executors}


def _hosts(model: Model) -> dict[str, str]:
    return {s.id: s.host for s in model.supervisors}
