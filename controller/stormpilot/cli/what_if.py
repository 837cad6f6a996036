"""`stormpilot what-if`: nodes added or gone, other rates, a topology more: what a planner would make of it."""

from __future__ import annotations

import difflib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot.cli.compute import SeedOption
from stormpilot.cli.figures import metric_text, rate_text
from stormpilot.cli.live import Live, connected, live_command, user
from stormpilot.cli.output import note, print_table, say
from stormpilot.cli.progress import progress
from stormpilot.cli.stdout import print_and_write
from stormpilot.cli.traffic import PREDICTED
from stormpilot.errors import UsageError

if TYPE_CHECKING:
    from stormpilot.model.values import Model
    from stormpilot.model.what_if import NewNode
    from stormpilot.observe.build import ModelWithReadiness
    from stormpilot.operate.whatif import WhatIf

LIVE = "live"
SHOWN = (
    "inter_node_tps",
    "inter_node_share",
    "inter_worker_tps",
    "network_cost_tps",
    "workers",
    "nodes",
    "max_load_ratio",
    "carried_ratio",
    "latency_ms",
    "moved_executors",
    "restarted_workers",
)
NODE = "cores=8,mhz=2500,slots=4[,count=2][,memory_mb=..][,host=..][,rack=..][,site=..]"


@live_command
def what_if(
    live: Live,
    model: Annotated[str, typer.Option("--model", "-m", help="A model.json, or `live`: what runs now.")] = LIVE,
    add_node: Annotated[list[str] | None, typer.Option(metavar=NODE, help="A supervisor more.")] = None,
    remove_node: Annotated[
        list[str] | None, typer.Option(metavar="ID|HOST", help="A supervisor, or a host, less.")
    ] = None,
    scale_rate: Annotated[
        list[str] | None, typer.Option(metavar="TOPOLOGY=FACTOR", help="Traffic, and its CPU, times this.")
    ] = None,
    new_topology: Annotated[
        Path | None, typer.Option(help="A model.json whose topologies and traffic are added.")
    ] = None,
    planner: Annotated[str, typer.Option("--planner", "-p", help="See `stormpilot planners`.")] = "best",
    seed: SeedOption = 1,
    budget: Annotated[float, typer.Option(min=0.1, help="Seconds for each of the two plans.")] = 10.0,
    measure: Annotated[float, typer.Option(min=0, help="Seconds to measure what runs (live).")] = 15.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan here; it is one of the changed model.")
    ] = None,
    changed_model: Annotated[
        Path | None,
        typer.Option(help="Write the changed model here: `plan diff` and `plan explain` read it with the plan."),
    ] = None,
) -> None:
    """Plan on a changed model and compare it with the present placement; nothing is applied.

    Exit code 1: there is no plan. Ctrl-C ends the search with the best plan so far.
    """
    from stormpilot.cli.files import check_outputs, compiled_model, write
    from stormpilot.cli.planning_time import planning_time
    from stormpilot.model.flow.model import depends_on_placement
    from stormpilot.model.values import Infeasible
    from stormpilot.model.what_if import Changes, changed
    from stormpilot.operate.whatif import what_if as compare
    from stormpilot.planner import compute, planner_named

    planner_named(planner)
    changes = Changes(
        add_nodes=tuple(_node(text) for text in add_node or []),
        remove_nodes=tuple(remove_node or []),
        scale_rates=tuple(_factor(text) for text in scale_rate or []),
        new_topologies=None if new_topology is None else compiled_model(new_topology).model,
    )
    if changes == Changes():
        raise UsageError("nothing is to be different: give --add-node, --remove-node, --scale-rate or --new-topology")
    given = None if model == LIVE else Path(model)
    check_outputs(
        {"--output": output, "--changed-model": changed_model}, {"--model": given, "--new-topology": new_topology}
    )
    read = _live(live, measure) if given is None else compiled_model(given).model
    traffic = live.judging_settings.planner.traffic

    interrupted = False

    def plan_one(m: Model) -> Any:
        nonlocal interrupted
        if interrupted:
            note("the model without the changes was not planned: `planned` is empty")
            return Infeasible(constraint="time", text="interrupted")
        began_s = time.monotonic()
        with planning_time(began_s, began_s + budget) as clock:
            answer = compute(m, planner, {}, seed=seed, left_s=clock.left_s, traffic=traffic)
        interrupted = clock.interrupted
        return answer

    other = changed(read, changes)
    found = compare(read, other, plan_one, traffic)
    print_and_write(
        lambda: live.answer(found, lambda: _show(found, planner, by_flow=depends_on_placement(other))),
        *([] if output is None else [partial(write, output, found.plan, "plan")]),
        *([] if changed_model is None else [partial(write, changed_model, other, "model")]),
    )


def _show(found: WhatIf, planner: str, *, by_flow: bool) -> None:
    from stormpilot.model.cost import METRICS
    from stormpilot.planner.flow.planning import PREFIX

    flows = {PREFIX + n: PREDICTED for n in SHOWN if by_flow and PREFIX + n in found.then}
    meanings = {n: METRICS[n] for n in SHOWN} | flows
    print_table(
        ["metric", "now", "planned", "what if", "meaning"],
        [
            [n, *(metric_text(n, of.get(n)) for of in (found.now, found.planned, found.then)), meaning]
            for n, meaning in meanings.items()
        ],
    )
    say(f"planned: what {planner} would make of what is there; what if: of what would be. Nothing was applied.")
    print_table(
        ["sources of", "send tps", "carried now", "planned", "what if", "then"],
        [
            [c.name, *(_rate(tps) for tps in (c.sent_tps, c.now_tps, c.planned_tps, c.then_tps)), c.bound]
            for c in found.carried
        ],
    )
    for text in found.plan.notes:
        say(f"note: {text}")


def _rate(tps: float | None) -> str | None:
    return None if tps is None else rate_text(tps)


def _live(live: Live, measure_s: float) -> Model:
    belief = measured_model(live, measure_s)
    for t in belief.model.topologies:
        r = belief.readiness[t.id]
        if not r.ready:
            note(f"{t.name}: {r.text}")
    return belief.model


def measured_model(live: Live, measure_s: float) -> ModelWithReadiness:
    """The model of what runs, measured for so many seconds, which are counted down."""
    from stormpilot.operate import Operator
    from stormpilot.operate.live import live_model

    with connected(live.where) as connection, progress("measuring") as shown:
        if measure_s:
            shown.update(f"{measure_s:g} s left")
        return live_model(
            Operator(connection, live.where.paths, user()),
            measure_s,
            live.judging_settings,
            (lambda left_s: shown.update(f"{left_s:.0f} s left")) if shown.live else lambda _: None,
        )


def _node(text: str) -> NewNode:
    from stormpilot.model.what_if import NewNode

    known = NewNode.__struct_fields__
    values: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign or name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected {NODE}"
            raise UsageError(f"--add-node {text}: {part!r}: {hint}")
        values[name] = value
    try:
        return msgspec.convert(values, NewNode, strict=False)
    except (msgspec.ValidationError, ValueError) as e:
        raise UsageError(f"--add-node {text}: {e}; expected {NODE}") from e


def _factor(text: str) -> tuple[str, float]:
    name, sign, value = text.rpartition("=")
    try:
        return name, float(value) if sign and name else float("")
    except ValueError as e:
        raise UsageError(f"--scale-rate {text}: expected TOPOLOGY=FACTOR, e.g. flights=1.5") from e
