"""`stormpilot explain TOPOLOGY`: which gate holds it and by which number, and why each executor is where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place
from stormpilot.cli.output import Format, FormatOption, console_err, print_json, print_table, say

if TYPE_CHECKING:
    from stormpilot.messages.core import PlanMessage, TopologySnapshot, TopologyView
    from stormpilot.planner.explain.explain import Explanation

SHOWN = 40


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    app.command()(explain)


def explain(
    topology: Annotated[str, typer.Argument(help="Name or id of a running topology.")],
    measure: Annotated[
        float, typer.Option(min=0, help="Seconds to measure for the executors; 0 leaves them out.")
    ] = 15.0,
    everything: Annotated[
        bool, typer.Option("--all", help=f"All executors, not the {SHOWN} that matter most.")
    ] = False,
    output: FormatOption = Format.table,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
) -> None:
    """Say what was decided for a topology and why: gate by gate, then executor by executor."""
    from stormpilot.cli.steer import user
    from stormpilot.config import Config, load
    from stormpilot.decide.gates import gates
    from stormpilot.model.subset import with_headroom
    from stormpilot.observe.reader import Reader
    from stormpilot.operate import Operator
    from stormpilot.operate.live import CPU_LIMIT_RATIO, live_model
    from stormpilot.operate.plans import explained, proposed
    from stormpilot.operate.topology_ref import topology_ref

    settings = None if config is None else load(config)
    where = place(zookeeper, root, config)
    with connected(where) as connection:
        seen = Reader(connection, where.paths).read()
        i = topology_ref(seen.topologies, topology).id
        view = None if seen.controller is None else next((v for v in seen.controller.topologies if v.id == i), None)
        executors: list[Explanation] = []
        planned: PlanMessage | None = None
        unmeasured = ""
        fill_ratio = 1.0
        if measure:
            if output is Format.table:
                console_err.print(f"measuring for {measure:g} s", highlight=False)
            ratio = CPU_LIMIT_RATIO if settings is None else settings.decide.cpu_limit_ratio
            operator = Operator(connection, where.paths, user())
            used = settings or Config()
            belief = live_model(operator, measure, used.load, ratio, config=used)
            readiness = belief.readiness.get(i)
            unmeasured = "" if readiness is None or readiness.ready else readiness.text
            planned = proposed(connection, where.paths, i)
            fill_ratio = used.decide.fill_ratio
            executors = explained(with_headroom(belief.model, fill_ratio), i, planned)
    found = [] if view is None else gates(view.action, view.reason)
    if output is Format.json:
        print_json(
            {
                "topology": i,
                "decision": view,
                "gates": [{"question": g.question, "state": g.state} for g in found],
                "plan": None if planned is None else planned.plan_id,
                "executors": executors,
                "unmeasured": unmeasured,
            }
        )
        return
    if view is None:
        say(f"{topology}: no controller has decided about it yet (stormpilot status)")
    else:
        _decision(view)
        print_table(["gate", ""], [[g.question, g.state] for g in found])
    _routes(seen.topologies.get(i))
    if unmeasured:
        say(f"not fully measured: {unmeasured}")
    if executors:
        say("")
        now = {}
        if planned is not None:
            say(f"as plan {planned.plan_id} wants it, which is proposal and not applied:")
            now = {e.start: (e.supervisor, e.port) for e in seen.topologies[i].executors}
        if fill_ratio < 1:
            say(f"moved by choice, executors fill a node to {fill_ratio:.0%} of B(n) at most (decide.fill_ratio)")
        _executors(executors, everything, now)


def _decision(view: TopologyView) -> None:
    say(f"{view.name}: mode {view.mode}" + (f", set by {view.mode_from}" if view.mode_from else ""))
    against = "" if view.threshold is None else f" against {_number(view.threshold)}"
    number = "" if view.value is None else f" ({_number(view.value)}{against})"
    say(f"{view.action}: {view.reason}: {view.text}{number}")
    if view.threshold_from:
        say(f"the threshold is not as configured: {view.threshold_from}")
    if view.move_strategy:
        say(f"how: {view.move_strategy}")
        held_up = view.held_up_by_restarts + view.held_up_by_steps
        by = "restarts" if view.held_up_by_restarts else "steps without restarts"
        say(f"that holds up {held_up:,.0f} tuples by {by}")
    for what in view.not_emptied:
        say(f"not routed around: {what}")
    if view.effect:
        say(f"last move: {view.effect}")
    if view.recommendation:
        say(view.recommendation)
    say("")
    if view.thresholds:
        print_table(
            ["threshold", "of", "value", "from", "why"],
            [[c.name, " ".join(c.of) or "-", f"{c.value:g}", c.source, c.text or "-"] for c in view.thresholds],
        )
        say("")


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def _routes(snapshot: TopologySnapshot | None) -> None:
    """Where a part of the topology can be routed: which part cannot, and why."""
    from stormpilot.messages.routable import why_not_routable

    parts = [] if snapshot is None else [(c.id, why_not_routable(c)) for c in snapshot.components]
    if all(why for _, why in parts):
        return
    for component, why in parts:
        if why:
            say(f"{component} cannot be moved without a restart: {why}")


def _executors(found: list[Explanation], everything: bool, now: Mapping[int, tuple[str | None, int | None]]) -> None:
    """`now` is where they run, by start task, where that is not what is explained."""

    def where(e: Explanation) -> str:
        supervisor, port = now.get(e.start, (e.supervisor, e.port))
        moves = (supervisor, port) != (e.supervisor, e.port)
        return f"{e.host} {e.port}" + (f", from {supervisor} {port}" if moves else "")

    order = sorted(found, key=lambda e: (e.verdict not in ("blocked", "improvable"), -e.traffic_tps, e.start))
    shown = order if everything else order[:SHOWN]
    print_table(
        ["executor", "where", "kept tps", "leaving tps", "why there"],
        [
            [
                f"{e.component} [{e.start},{e.end}]",
                where(e),
                e.in_worker_tps + e.in_node_tps,
                e.leaving_tps,
                _why(e),
            ]
            for e in shown
        ],
    )
    if len(shown) < len(found):
        say(f"{len(shown)} of {len(found)} executors; --all shows the others")


def _why(e: Explanation) -> str:
    from stormpilot.planner.explain.explain import VERDICTS

    better: Any = e.better
    if better is None:
        return VERDICTS[e.verdict]
    saved = f"{better.host} would take {-better.inter_node_delta_tps:,.0f} tps off the network"
    if better.obstacles:
        return f"{saved}, but {better.obstacles[0].constraint}: {better.obstacles[0].text}"
    return f"{saved}, and is allowed"
