"""`stormpilot plan explain`: why executors are where a plan has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.figures import rate_text
from stormpilot.cli.files import ModelOption, compiled_model, left_out, placement
from stormpilot.cli.output import Format, FormatOption, note, print_json, print_table, say
from stormpilot.cli.traffic import TrafficOption, flow_of
from stormpilot.errors import RefusedError, UsageError
from stormpilot.printable import counted, first_few

if TYPE_CHECKING:
    import numpy as np

    from stormpilot.model.compiled import Compiled
    from stormpilot.planner.explain.explain import Choice, Explanation

TOP = 20
FORESEEN_HERE = "what shuffles will make of them under this placement"


def explain(
    model: ModelOption,
    topology: Annotated[str | None, typer.Argument(help="Only this topology of the model (name or id).")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", "-p", help="plan.json. [default: the present assignment]")
    ] = None,
    executor: Annotated[
        list[int] | None,
        typer.Option("--executor", "-e", help="First task of an executor; may be repeated. More detail of each."),
    ] = None,
    component: Annotated[
        str | None, typer.Option("--component", "-c", help="Only executors of this component.")
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, help="Number of executors shown, those with most traffic first.")
    ] = TOP,
    everything: Annotated[bool, typer.Option("--all", help="Show all executors.")] = False,
    traffic: TrafficOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Explain for each executor of a model file why it is where the plan has it.

    What it keeps local and with whom; what the second choice (the cheapest other supervisor
    that is allowed) would cost; and, where another supervisor would be better, which
    constraint forbids it. Each executor is judged alone, the others staying where they are;
    with --traffic flow by what all shuffles would send then. A wish for a site that the plan
    does not keep forbids nothing. Topologies that a partial plan
    leaves out are named.
    """
    from stormpilot.planner.explain.explain import explain as explained
    from stormpilot.planner.registry import without_broken

    compiled = compiled_model(model)
    lacking: list[str] = []
    if plan is None:
        where = compiled.current
        if (missing := (where < 0).nonzero()[0]).size:
            lost = counted(len(missing), "executor runs", "executors run")
            raise UsageError(f"{model}: {lost} nowhere now ({compiled.describe(missing)}); give --plan")
    else:
        given, compiled, where = placement(compiled, plan)
        lacking = left_out(given)
    compiled = without_broken(compiled, where)
    flow = flow_of(compiled, traffic)
    chosen = _chosen(compiled, topology, component, executor or [])
    order = chosen[(-_traffic(compiled)[chosen]).argsort(kind="stable")]
    shown = order if everything or executor else order[:top]
    found = explained(compiled, where, shown.tolist(), neighbours=8 if executor else 3, flow=flow)
    if format is Format.json:
        for line in lacking:
            note(line)
        print_json(found)
        return
    for line in lacking:
        say(line)
    if flow is not None:
        say(f"traffic and CPU are {FORESEEN_HERE}; --traffic measured takes the measured pairs")
    if executor:
        for i, e in enumerate(found):
            if i:
                say("")
            _whole(e)
        return
    _table(found)
    if len(shown) < len(chosen):
        say(f"{len(shown)} of {counted(len(chosen), 'executor')}, those with most traffic; --all shows the others")
    say("--executor TASK tells more of one: its neighbours, and every number that forbids better")


def _chosen(c: Compiled, topology: str | None, component: str | None, starts: list[int]) -> np.ndarray:
    import numpy as np

    keep = np.ones(c.executors, dtype=np.bool_)
    if topology is not None:
        of = [i for i, t in enumerate(c.model.topologies) if topology in (t.id, t.name)]
        if not of:
            raise UsageError(
                f"TOPOLOGY: no topology {topology!r}; there are: {_some(t.name for t in c.model.topologies)}"
            )
        keep &= np.isin(c.topology, of)
    if component is not None:
        ids = [i for i, (_, name) in enumerate(c.component_names) if name == component]
        if not ids:
            names = _some(sorted({name for _, name in c.component_names}))
            raise UsageError(f"--component: no component {component!r}; there are: {names}")
        keep &= np.isin(c.component, ids)
    if starts:
        if missing := sorted(set(starts) - set(c.start[keep].tolist())):
            raise UsageError(
                f"--executor: no executor starts at task {missing[0]} (a task inside of one does not count)"
            )
        keep &= np.isin(c.start, starts)
    if not keep.any():
        raise RefusedError("no executor is left after these filters")
    return np.flatnonzero(keep)


def _some(names: object, most: int = 12) -> str:
    return first_few([str(n) for n in names], most)  # type: ignore[attr-defined]


def _traffic(c: Compiled) -> np.ndarray:
    import numpy as np

    return np.bincount(c.pair_a, c.pair_tps, c.executors) + np.bincount(c.pair_b, c.pair_tps, c.executors)


def _table(found: list[Explanation]) -> None:
    several = len({e.topology for e in found}) > 1
    rows = []
    for e in found:
        name = f"{e.component} [{e.start},{e.end}]"
        rows.append(
            [
                f"{e.topology}: {name}" if several else name,
                f"{e.supervisor}:{e.port}",
                rate_text(e.in_worker_tps + e.in_node_tps),
                rate_text(e.leaving_tps),
                "-" if e.second is None else f"{e.second.supervisor} {e.second.inter_node_delta_tps:+,.0f}",
                _why(e),
            ]
        )
    say("tuples/s kept on the host and leaving it; second choice: the cheapest other supervisor, what it adds")
    print_table(["executor", "where", "kept", "leaving", "second choice", "why not elsewhere"], rows)


def _why(e: Explanation) -> str:
    if e.verdict == "blocked" and e.better is not None:
        what = "+".join(o.constraint for o in e.better.obstacles)
        return f"{what} forbids {e.better.supervisor} ({_delta(e.better)})"
    if e.verdict == "improvable" and e.better is not None:
        return f"{e.better.supervisor} would be better ({_delta(e.better)})"
    return {"least": "least traffic here", "tie": "others do as well", "fixed": "fixed worker"}[e.verdict]


def _delta(choice: Choice) -> str:
    if abs(choice.inter_node_delta_tps) >= 0.5:
        return f"{choice.inter_node_delta_tps:+,.0f}"
    return f"{choice.inter_worker_delta_tps:+,.0f} between workers"


def _whole(e: Explanation) -> None:
    from stormpilot.planner.explain.explain import VERDICTS

    say(
        f"{e.topology}: {e.component} [{e.start},{e.end}] on {e.supervisor} ({e.host}) port {e.port}, "
        f"{e.cpu_mhz:,.0f} MHz" + (f", {e.places_mhz:,.0f} of them by its place" if e.places_mhz else "")
    )
    say(
        f"  traffic: {e.in_worker_tps:,.1f} tuples/s in its worker, {e.in_node_tps:,.1f} to other workers of the host, "
        f"{e.leaving_tps:,.1f} to other hosts"
    )
    words = {"worker": "same worker", "node": "same host", "network": "over the network"}
    for n in e.neighbours:
        say(f"    {n.rate_tps:>12,.1f}  {n.component} [{n.start},{n.end}]  {words[n.near]} ({n.supervisor})")
    if e.neighbour_count > len(e.neighbours):
        say(f"    and {counted(e.neighbour_count - len(e.neighbours), 'neighbour')} more with less")
    say(f"  {e.verdict}: {VERDICTS[e.verdict]}")
    if e.better is not None:
        say(f"  better: {_choice(e.better)}")
        for o in e.better.obstacles:
            say(f"    forbidden by {o.constraint}: {o.text}")
    if e.second is None:
        say("  second choice: none, no other supervisor is allowed")
    elif e.second != e.better:
        say(f"  second choice: {_choice(e.second)}")


def _choice(c: Choice) -> str:
    worker = "in a new worker" if c.new_worker else "in a worker that runs there"
    return (
        f"{c.supervisor} ({c.host}) {worker}: {c.inter_node_delta_tps:+,.1f} tuples/s between nodes, "
        f"{c.inter_worker_delta_tps:+,.1f} between workers"
    )
