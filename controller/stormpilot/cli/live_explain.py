"""`stormpilot explain TOPOLOGY`: which gate holds it and by which number, and why each executor is where it is."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot import clock
from stormpilot.cli.live import Live, live_command
from stormpilot.cli.output import print_table, say
from stormpilot.cli.what_if import measured_model
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.messages.controller_state import TopologyView
    from stormpilot.messages.core import PlanMessage, TopologySnapshot
    from stormpilot.observe.reader import StoreSnapshot
    from stormpilot.operate.explanation import Explained
    from stormpilot.planner.explain.explain import Explanation

SHOWN = 40


@live_command
def explain(
    live: Live,
    topology: Annotated[str, typer.Argument(help="Name or id of a running topology.")],
    measure: Annotated[
        float, typer.Option(min=0, help="Seconds to measure for the executors; 0 leaves them out.")
    ] = 15.0,
    everything: Annotated[
        bool, typer.Option("--all", help=f"All executors, not the {SHOWN} that matter most.")
    ] = False,
) -> None:
    """Explain the last decision for a topology gate by gate, and the placement executor by executor.

    Executors are judged as the controller judges its plans: where shuffles follow the placement,
    by the traffic that they will send (planner.traffic of --config; flow by default). The newest
    proposed plan is explained where it is not applied, else the present placement.
    """
    from stormpilot.decide.gates import gates
    from stormpilot.decide.remedies import remedy
    from stormpilot.operate.explanation import explained
    from stormpilot.operate.pauses import mode_of
    from stormpilot.operate.plans import proposed
    from stormpilot.operate.status import controller as controller_shown
    from stormpilot.operate.topology_ref import topology_ref

    with live.reading() as (_, seen):
        i = topology_ref(seen.topologies, topology, seen.unreadable_topologies).id
    planned: PlanMessage | None = None
    found: Explained | None = None
    unmeasured = ""
    if measure:
        belief = measured_model(live, measure)
        readiness = belief.readiness.get(i)
        unmeasured = "" if readiness is None or readiness.ready else readiness.text
        with live.reading() as (_, seen):  # there may have been a cycle meanwhile
            i = topology_ref(seen.topologies, i, seen.unreadable_topologies).id
        with live.operator() as operator:
            planned = proposed(operator.zookeeper, operator.paths, i)
        found = explained(belief.model, i, live.judging_settings, planned)
        found, unmeasured = judgeable(found, unmeasured, measure)
    now_ms = clock.now_ms()
    controller = controller_shown(live.where.paths, seen, now_ms)
    view = None if seen.controller is None else next((v for v in seen.controller.topologies if v.id == i), None)
    if view is not None:  # an operator's mode holds from when it is set, not from the next cycle on
        mode, mode_from = mode_of(seen, view.name, i)
        view = msgspec.structs.replace(view, mode=mode, mode_from=mode_from)
    placed = why_placed(seen, i, now_ms)
    passed = [] if view is None else gates(view.action, view.reason)
    answer = {
        "topology": i,
        "controller": {"up": controller["up"], "text": controller["text"]},
        "decision": view,
        "gates": [{"question": g.question, "state": g.state} for g in passed],
        "remedy": remedy(view.action, view.reason, view.name) if view is not None else "",
        "published": placed,
        "plan": None if planned is None else planned.plan_id,
        "traffic": None if found is None else found.traffic,
        "executors": [] if found is None else found.executors,
        "nodesOverLimit": [] if found is None else found.over_limit,
        "unmeasured": unmeasured,
    }

    def table() -> None:
        if view is None:
            say(f"{topology}: no controller has decided about it yet (stormpilot status)")
        else:
            if not controller["up"]:
                say(f"controller: {controller['text']}; what it decided last:")
            _decision(view, placed, now_ms)
            print_table(["gate", ""], [[g.question, g.state] for g in passed])
        _routes(seen.topologies.get(i))
        if unmeasured:
            say(f"not fully measured: {unmeasured}")
        if found is not None and found.executors:
            say("")
            now = {} if planned is None else {e.start: (e.supervisor, e.port) for e in seen.topologies[i].executors}
            _placement(found, planned, live.judging_settings.decide.fill_ratio, everything, now)

    live.answer(answer, table)


def judgeable(found: Explained | None, unmeasured: str, measure_s: float) -> tuple[Explained | None, str]:
    """The explanation and the gaps of its measurement; None without any traffic: then CPU is a guess."""
    if found is None or not unmeasured or any(e.traffic_tps for e in found.executors):
        return found, unmeasured
    return None, f"{unmeasured}; the placement cannot be judged by that: --measure {2 * measure_s:g} takes longer"


def why_placed(seen: StoreSnapshot, topology_id: str, now_ms: int) -> str:
    """The sentence on the plan that placed a topology last, with its reason and age."""
    from stormpilot.printable import age

    plan = seen.plans.get(topology_id)
    if plan is None or plan.message is None:
        return "" if plan is not None else "none yet"
    p = plan.message
    name = seen.topologies[topology_id].name if topology_id in seen.topologies else topology_id
    when = f"{age((now_ms - plan.since_ms) / 1000)} ago"
    return (
        f"{p.plan_id}, published {when}: {p.reason or 'no reason is known'} (`stormpilot plan history {quote(name)}`)"
    )


def _decision(view: TopologyView, placed: str = "", now_ms: int | None = None) -> None:
    from stormpilot.decide.remedies import UNITS, remedy
    from stormpilot.printable import age

    say(f"{view.name}: mode {view.mode}" + (f", set by {view.mode_from}" if view.mode_from else ""))
    unit = UNITS.get(view.reason, "")
    against = "" if view.threshold is None else f" against {_number(view.threshold, unit)}"
    of = "" if unit == "ratio" else f" {unit}"
    number = f" ({_number(view.value, unit)}{against}{of})" if unit and view.value is not None else ""
    opens_s = 0.0 if now_ms is None or view.next_at_ms is None else (view.next_at_ms - now_ms) / 1000
    later = f" (expected to change in {age(opens_s)})" if opens_s > 0 else ""
    say(f"{view.action}: {view.reason}: {view.text}{number}{later}")
    if step := remedy(view.action, view.reason, view.name):
        say(f"what you can do: {step}")
    if placed:
        say(f"published plan: {placed}")
    if view.threshold_from:
        say(f"the threshold is not as configured: {view.threshold_from}")
    if view.move_strategy:
        if_it_moved = " if it moved" if view.action == "skip" else ""
        say(f"move strategy{if_it_moved}: {view.move_strategy}")
        held_up = view.held_up_by_restarts + view.held_up_by_steps
        by = "restarts" if view.held_up_by_restarts else "rolling moves"
        say(f"that {'would hold' if if_it_moved else 'holds'} up {held_up:,.0f} tuples by {by}")
    if view.trade_off:
        say(f"trade-off: {view.trade_off}")
    if view.expectation:
        say(f"expected: {view.expectation}")
    for what in view.not_emptied:
        say(f"not routed around: {what}")
    if view.effect:
        say(f"last move: {view.effect}")
    if view.sources:
        say(f"sources: {view.sources}")
    if view.size:
        say(f"size: {view.size}")
    if view.recommendation:
        say(view.recommendation)
    if view.memory:
        say(f"memory: {view.memory}")
    say("")
    if view.thresholds:
        print_table(
            ["threshold", "of", "value", "from", "why"],
            [[c.name, " ".join(c.of) or "-", f"{c.value:g}", c.source, c.text or "-"] for c in view.thresholds],
        )
        say("")


def _number(x: float, unit: str) -> str:
    if unit == "ratio":
        return f"{100 * x:.3g}%"
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


def _placement(
    found: Explained,
    planned: PlanMessage | None,
    fill_ratio: float,
    everything: bool,
    now: Mapping[int, tuple[str | None, int | None]],
) -> None:
    if planned is not None:
        say(f"as the proposed plan {planned.plan_id} places it, which is not applied:")
    if found.traffic == "flow":
        say("traffic and CPU are what shuffles will make of them under this placement (planner.traffic: flow)")
    if fill_ratio < 1:
        say(f"plans for a gain fill a node to {fill_ratio:.0%} of B(n) at most (decide.fill_ratio)")
    for n in found.over_limit:
        say(f"{n.host} is over its limit: {n.load_mhz:,.0f} MHz, {n.ratio:.0%} of B(n), {n.limit_mhz:,.0f} MHz")
    _executors(found.executors, everything, now)


def _executors(found: list[Explanation], everything: bool, now: Mapping[int, tuple[str | None, int | None]]) -> None:
    """Those with something better first, then by traffic; `now`: where each runs, where another placement is shown."""

    def where(e: Explanation) -> str:
        supervisor, port = now.get(e.start, (e.supervisor, e.port))
        moves = (supervisor, port) != (e.supervisor, e.port)
        return f"{e.host} {e.port}" + (f", from {supervisor} {port}" if moves else "")

    order = sorted(found, key=lambda e: (e.verdict not in ("blocked", "improvable"), -e.traffic_tps, e.start))
    shown = order if everything else order[:SHOWN]
    print_table(
        ["executor", "where", "kept tps", "leaving tps", "MHz", "by place", "why there"],
        [
            [
                f"{e.component} [{e.start},{e.end}]",
                where(e),
                e.in_worker_tps + e.in_node_tps,
                e.leaving_tps,
                e.cpu_mhz,
                e.places_mhz,
                _why(e),
            ]
            for e in shown
        ],
    )
    if len(shown) < len(found):
        say(f"{len(shown)} of {counted(len(found), 'executor')}; --all shows the others")


def _why(e: Explanation) -> str:
    from stormpilot.planner.explain.explain import VERDICTS

    better: Any = e.better
    if better is None:
        return VERDICTS[e.verdict]
    saved = f"{better.host} would take {-better.inter_node_delta_tps:,.0f} tps off the network"
    if better.obstacles:
        return f"{saved}, but {better.obstacles[0].constraint}: {better.obstacles[0].text}"
    return f"{saved}, and is allowed"
