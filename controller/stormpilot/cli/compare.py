"""`stormpilot plan compare`: every planner on one model, side by side."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from stormpilot.cli.compute import SeedOption
from stormpilot.cli.figures import metric_text, rate_text
from stormpilot.cli.files import ModelOption, check_outputs, compiled_model, left_out, write
from stormpilot.cli.output import Format, FormatOption, note, print_json, print_table, say
from stormpilot.cli.stdout import print_and_write
from stormpilot.cli.traffic import Traffic, TrafficOption, flow_metrics, flow_of
from stormpilot.errors import StormpilotError
from stormpilot.messages.casing import camel
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.model.compiled import Compiled
    from stormpilot.model.flow.model import FlowModel
    from stormpilot.model.values import Infeasible, Model, Plan
    from stormpilot.planner.placement.problem import LeftS

PRESENT = "present"
COST = "inter_node_tps"
FLOW_COST = "flow_inter_node_tps"
COLUMNS = {
    FLOW_COST: "by flow\ntuples/s",
    COST: "inter-node\ntuples/s",
    "inter_worker_tps": "inter-worker\ntuples/s",
    "network_cost_tps": "network\ncost",
    "ras_network_metric": "RAS\nmetric",
    "workers": "work-\ners",
    "nodes": "\nnodes",
    "max_load_ratio": "max\nload",
    "latency_ms": "lat.\nms",
    "carried_ratio": "max\nrate",
    "moved_executors": "moved\nexec.",
    "restarted_workers": "re-\nstarts",
}
NOT_BY_FLOW = ("inter_worker_tps", "ras_network_metric")
"""Columns that make room for the flow's; they are in the JSON."""
NEAR = 1e-5
"""Relative: a plan may be so much below a bound by the tolerances of limits and of programming."""
State = Literal["planned", "infeasible", "failed"]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One planner with one seed; `text` says why there is no plan, `time_s` what planning took."""

    planner: str
    seed: int
    state: State
    time_s: float
    metrics: dict[str, float] = {}
    notes: list[str] = []
    text: str = ""
    violations: list[str] = []
    left_out: list[str] = []


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The reference of inter-node traffic, tuples/s; `kind` says whether it is proved, `metric` which traffic."""

    kind: Literal["proved optimum", "proved bound", "least found"]
    inter_node_tps: float
    by: str
    metric: str = COST


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A planner: medians over its seeds; `gap`: how far its inter-node traffic is above the bound, as a part of it."""

    planner: str
    state: State
    seeds: int
    planned: int
    time_s: float | None = None
    metrics: dict[str, float] = {}
    gap: float | None = None
    text: str = ""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All planners on one model."""

    model: str
    budget_s: float | None
    traffic: Traffic = "measured"
    bound: Bound | None
    rows: list[Row]
    runs: list[Run]


def compare(
    model: ModelOption,
    planner: Annotated[
        list[str] | None, typer.Option("--planner", "-p", help="May be repeated. [default: all planners]")
    ] = None,
    seed: SeedOption = 0,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of seeds, from --seed on; medians are shown.")
    ] = 1,
    budget: Annotated[float, typer.Option("--budget", min=0.1, help="Seconds for each planner and seed.")] = 10.0,
    partial: Annotated[
        bool, typer.Option("--partial", help="Where not all topologies fit, plan those that do and name the others.")
    ] = False,
    traffic: TrafficOption = None,
    format: FormatOption = Format.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the JSON of -f json to this file.")
    ] = None,
) -> None:
    """Compare planners on one model file: metrics, moves, time and gap to the best bound.

    The bound is of inter-node traffic: what `exact` proves where it can do the model, or semidefinite programming where
    that proves more, else the least traffic found, and is called so. It holds for every plan that keeps the hard
    constraints, whatever is wished for. With --traffic flow (the
    default where anything is shuffled) best and partition minimise what shuffles will send, and
    the gap is in that; nothing is proved of it, and a plan by whose flows a node lacks CPU has none.
    A planner that finds no plan, or fails, is a row that says why. The exit code is 0 then too. Ctrl-C
    ends the planner that runs with its best plan, and the comparison with those that ran.
    """
    from stormpilot.cli.planning_time import planning_time
    from stormpilot.planner import PLANNERS, planner_named

    names = list(dict.fromkeys(planner or PLANNERS))
    for name in names:
        planner_named(name)
    check_outputs({"--output": output}, {"--model": model})
    compiled = compiled_model(model)
    flow = flow_of(compiled, traffic)
    by: Traffic = "measured" if flow is None else "flow"
    _warm_up(names, by)
    runs, proofs = [], []
    asked = [(name, s) for name in names for s in range(seed, seed + seeds)]
    interrupted = False
    for name, s in asked:
        began_s = time.monotonic()
        with planning_time(began_s, began_s + budget, f"{name}, seed {s}") as clock:
            run, proof = run_one(compiled.model, name, s, clock.left_s, by, partial=partial)
        runs.append(run)
        proofs += [] if proof is None else [proof]
        note(_progress(run))
        interrupted = clock.interrupted
        if interrupted:
            break
    if left := asked[len(runs) :]:
        note(f"not compared: {', '.join(f'{name}, seed {s}' for name, s in left)}")
    if flow is None and not interrupted and any(r.state == "planned" for r in runs):
        began_s = time.monotonic()
        with planning_time(began_s, began_s + budget, "bound", sought="bound") as clock:
            proofs += relaxed(compiled.model, proofs, clock.left_s)
    proof = max(proofs, key=_strength, default=None)
    found = summed_up(str(model), budget, compiled, runs, proof, flow)

    def keep() -> None:
        if output is not None:
            write(output, camel(found), "comparison")

    print_and_write(lambda: print_json(found) if format is Format.json else _show(found, seed, seeds), keep)


def run_one(
    model: Model, name: str, seed: int, left_s: LeftS, traffic: Traffic = "measured", *, partial: bool = False
) -> tuple[Run, Bound | None]:
    """One planner, one seed; nothing that it does wrong ends the comparison. `exact` returns what it proved too.

    `left_s`: seconds that are left for it.
    """
    from stormpilot.model.values import Infeasible
    from stormpilot.model.violations import violations

    started = time.monotonic()
    proof: Bound | None = None
    try:
        answer, proof = _planned(model, name, seed, left_s, traffic, partial)
    except StormpilotError as e:
        return Run(planner=name, seed=seed, state="failed", time_s=time.monotonic() - started, text=str(e)), None
    except Exception as e:  # noqa: BLE001 (whatever a planner does wrong is its row)
        text = f"it raised {type(e).__name__}: {e}"
        return Run(planner=name, seed=seed, state="failed", time_s=time.monotonic() - started, text=text), None
    took_s = time.monotonic() - started
    if isinstance(answer, Infeasible):
        known = "no plan exists" if answer.proved else "no plan was found"
        text = f"{known} ({answer.constraint}): {answer.text}"
        return Run(planner=name, seed=seed, state="infeasible", time_s=took_s, text=text), None
    wrong = [str(v) for v in violations(model, answer, left_out=answer.left_out)]
    return Run(
        planner=name,
        seed=seed,
        state="failed" if wrong else "planned",
        time_s=took_s,
        metrics=answer.metrics,
        notes=answer.notes,
        text=f"its plan breaks a hard constraint: {wrong[0]}" if wrong else "; ".join(left_out(answer)),
        violations=wrong,
        left_out=sorted(answer.left_out),
    ), None if answer.left_out else proof


def _planned(
    model: Model, name: str, seed: int, left_s: LeftS, traffic: Traffic, partial: bool
) -> tuple[Plan | Infeasible, Bound | None]:
    from stormpilot.model.values import Infeasible
    from stormpilot.planner import compute, planner_named
    from stormpilot.planner.bounds.limits import hard_limits, within
    from stormpilot.planner.methods import exact
    from stormpilot.planner.placement.result import Result

    limits = hard_limits(model)
    bounds: list[float] = []

    def place(frame: Any, params: Any, rng: Any, left_s: Any) -> Any:
        answer = exact.solve(frame, params, rng, left_s)
        if not isinstance(answer, tuple):
            return answer
        layout, found = answer
        if limits is not None and within(frame.compiled, limits):
            bounds.append(found.bound)
        kind = "proved optimum" if found.proved else "proved bound"
        scope = exact.scope_of(frame.compiled.model)
        return Result(layout, (f"{kind}: {found.bound:,.6g} tuples/s between nodes{scope}",))

    planner = planner_named(name)
    if name == "exact":
        planner = dataclasses.replace(planner, place=place)
    answer = compute(model, planner, seed=seed, left_s=left_s, partial=partial, traffic=traffic)
    if not bounds or isinstance(answer, Infeasible):
        return answer, None
    bound = max(bounds)
    reached = answer.metrics[COST] <= bound + exact.NEAR * abs(bound) + 1e-9
    return answer, Bound(kind="proved optimum" if reached else "proved bound", inter_node_tps=bound, by="exact")


def relaxed(model: Model, proofs: Sequence[Bound], left_s: LeftS) -> list[Bound]:
    """The bound by semidefinite and integer programming within such a time, where no optimum was proved."""
    from stormpilot.planner.bounds.groups import proved_bound
    from stormpilot.planner.bounds.limits import hard_limits

    if any(p.kind == "proved optimum" for p in proofs):
        return []
    if (limits := hard_limits(model)) is None:
        return []
    tps = proved_bound(limits, left_s)
    return [Bound(kind="proved bound", inter_node_tps=tps, by="semidefinite programming")]


def summed_up(
    model: str,
    budget_s: float | None,
    compiled: Compiled,
    runs: list[Run],
    proof: Bound | None,
    flow: FlowModel | None = None,
) -> Comparison:
    """Medians by planner, the present placement as a row of its own, and every gap.

    The present placement takes part in the bound only where it keeps every hard constraint, a plan only where it leaves
    no topology out, and either only where no node lacks CPU by its flows. A proved bound of 0 that is not the optimum
    says nothing, and is not used; nor is a bound of measured pairs where plans are judged by flows, or one above what
    was found, which cannot be.
    """
    from stormpilot.model.cost import metrics
    from stormpilot.model.violations import violations

    rows = []
    if len(compiled.current) and (compiled.current >= 0).all():
        wrong = violations(compiled.model, compiled.plan_of(compiled.current))
        rows.append(
            Row(
                planner=PRESENT,
                state="infeasible" if wrong else "planned",
                seeds=0,
                planned=0,
                metrics=metrics(compiled, compiled.current) | flow_metrics(flow, compiled.current),
                text=f"it breaks a hard constraint now: {wrong[0]}" if wrong else "",
            )
        )
    rows += [_row(name, [r for r in runs if r.planner == name]) for name in dict.fromkeys(r.planner for r in runs)]
    bound = _least(rows, runs, COST if flow is None else FLOW_COST)
    if flow is None and proof is not None and (proof.inter_node_tps > 0 or proof.kind == "proved optimum"):
        bound = proof if bound is None or _holds(proof, bound) else bound
    if bound is not None:
        short = {r.planner for r in runs if r.left_out}
        rows = [r if r.planner in short else msgspec.structs.replace(r, gap=gap(r.metrics, bound)) for r in rows]
    by: Traffic = "measured" if flow is None else "flow"
    return Comparison(model=model, budget_s=budget_s, traffic=by, bound=bound, rows=rows, runs=runs)


def gap(metrics: dict[str, float], bound: Bound) -> float | None:
    """(traffic - bound) / bound.

    None without a plan, where a node lacks CPU by its flows, or where the bound is 0 and the plan is not there.
    """
    value = metrics.get(bound.metric)
    if value is None or not _fits_by_flow(metrics):
        return None
    over = value - bound.inter_node_tps
    if over <= 1e-9 * max(value, 1.0):
        return 0.0
    return over / bound.inter_node_tps if bound.inter_node_tps > 0 else None


def _row(name: str, runs: list[Run]) -> Row:
    good = [r for r in runs if r.state == "planned"]
    bad = [r for r in runs if r.state != "planned"]
    metrics = {m: statistics.median(r.metrics[m] for r in good) for m in good[0].metrics} if good else {}
    text = next((r.text for r in good if r.left_out), "")
    if bad:
        text = bad[0].text if not good else f"{len(bad)} of {counted(len(runs), 'seed')} gave no plan: {bad[0].text}"
    return Row(
        planner=name,
        state="planned" if good else bad[0].state,
        seeds=len(runs),
        planned=len(good),
        time_s=statistics.median(r.time_s for r in runs),
        metrics=metrics,
        text=text,
    )


def _least(rows: list[Row], runs: list[Run], metric: str) -> Bound | None:
    found = [(r.metrics, r.planner) for r in runs if r.state == "planned" and not r.left_out]
    found += [(r.metrics, r.planner) for r in rows if r.planner == PRESENT and r.state == "planned"]
    value, by = min(((m[metric], by) for m, by in found if _fits_by_flow(m)), default=(None, ""))
    if value is None:
        return None
    return Bound(kind="least found", inter_node_tps=value, by=by, metric=metric)


def _fits_by_flow(metrics: Mapping[str, float]) -> bool:
    """Whether no node needs more CPU than it may be filled with, for what shuffles will send; for pairs: yes."""
    from stormpilot.planner.flow.places_check import OVERLOADED_RATIO
    from stormpilot.planner.flow.planning import PREFIX

    return metrics.get(f"{PREFIX}max_load_ratio", 0.0) <= OVERLOADED_RATIO


def _holds(proof: Bound, found: Bound) -> bool:
    """Whether nothing was found below what is proved to be the least, but for rounding."""
    return proof.inter_node_tps <= found.inter_node_tps * (1 + NEAR) + 1e-9


def _strength(bound: Bound) -> tuple[bool, float]:
    return bound.kind == "proved optimum", bound.inter_node_tps


def _warm_up(names: list[str], traffic: Traffic) -> None:
    """Compilation at first use, which is no part of a planner's time."""
    from stormpilot.planner import compute
    from stormpilot.planner.search.warm import TINY

    for name in names:
        try:
            compute(TINY, name, {}, seed=0, left_s=lambda: 1.0, traffic=traffic)
        except Exception:  # noqa: BLE001 (its row will say so)
            continue


def _progress(run: Run) -> str:
    traffic = run.metrics.get(FLOW_COST, run.metrics.get(COST, 0.0))
    what = f"{rate_text(traffic)} tuples/s between nodes" if run.state == "planned" else run.state
    return f"{run.planner}, seed {run.seed}: {what}, {run.time_s:.1f} s"


def _show(found: Comparison, seed: int, seeds: int) -> None:
    total = next((r.metrics["total_tps"] for r in found.rows if r.metrics), None)
    said = f"{found.model}: {total:,.0f} tuples/s between executors; " if total is not None else f"{found.model}: "
    which = f"seed {seed}" if seeds == 1 else f"medians of seeds {seed} to {seed + seeds - 1}"
    say(f"{said}{which}, {found.budget_s:g} s each")
    hidden = NOT_BY_FLOW if found.traffic == "flow" else (FLOW_COST,)
    columns = {m: title for m, title in COLUMNS.items() if m not in hidden}
    rows = []
    for r in sorted(found.rows, key=_order):
        cells = [metric_text(m, r.metrics.get(m)) for m in columns] if r.metrics else [None] * len(columns)
        time_s = None if r.time_s is None else f"{r.time_s:.2f}"
        rows.append([r.planner, *cells, time_s, None if r.gap is None else f"{r.gap:.1%}"])
    print_table(["\nplanner", *columns.values(), "time\ns", "gap"], rows, gap=1)
    if found.bound is not None:
        b = found.bound
        which = "inter-node traffic by flow" if b.metric == FLOW_COST else "inter-node traffic"
        say(f"gap: {which} above the {b.kind}, {rate_text(b.inter_node_tps)} tuples/s ({b.by})")
    for r in found.rows:
        if r.text:
            say(f"{r.planner}: {r.text}")
    for text in dict.fromkeys(f"{r.planner}, seed {r.seed}: {n}" for r in found.runs for n in r.notes):
        say(f"note: {text}")


def _order(row: Row) -> tuple[int, float, float]:
    if row.planner == PRESENT:
        return 0, 0.0, 0.0
    m = row.metrics
    return (1, m.get(FLOW_COST, m[COST]), m[COST]) if m else (2, 0.0, 0.0)
