"""`stormpilot plan diff`: what a plan moves, of plan files or of a running topology."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stormpilot.cli import live_plan
from stormpilot.cli.figures import change_text, metric_text
from stormpilot.cli.files import compiled_model, left_out, placement
from stormpilot.cli.live import Live, live_command
from stormpilot.cli.output import Format, note, print_json, print_table, say
from stormpilot.cli.traffic import Traffic, TrafficOption, flow_metrics, flow_of
from stormpilot.errors import UsageError
from stormpilot.printable import counted

if TYPE_CHECKING:
    from stormpilot.model.diff import Difference

METRICS_SHOWN = (
    "inter_node_tps",
    "inter_worker_tps",
    "network_cost_tps",
    "ras_network_metric",
    "workers",
    "nodes",
    "max_load_ratio",
    "carried_ratio",
    "latency_ms",
    "overload_mhz",
)
TOP = 30


@live_command
def diff(
    live: Live,
    what: Annotated[
        list[str],
        typer.Argument(metavar="TOPOLOGY | [A.json] B.json", help="A running topology; with --model: plan files."),
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The model of the plan files: model.json, or - for stdin.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List every move, not only the first.")] = False,
    traffic: TrafficOption = None,
) -> None:
    """Show which executors a plan moves.

    Of a running topology: `plan diff NAME`, from where its executors run now to the plan that is
    published or proposed. Of files: `plan diff --model model.json A.json B.json` from plan A to
    plan B, and without A from the present assignment of the model; no cluster is asked. The
    metrics of files are those on measured pairs, and rows flow_... for what shuffles will send;
    what a partial plan leaves out is named.
    """
    if model is None:
        if len(what) != 1 or what[0].endswith(".json"):
            raise UsageError("plan diff: expected one running topology, or --model model.json [A.json] B.json (files)")
        live_plan.diff(live, what[0])
        return
    if len(what) > 2:
        raise UsageError(f"plan diff: expected one or two plans, not {len(what)}")
    _files(model, [Path(name) for name in what], everything, traffic, live.format)


def _files(model: Path, plans: list[Path], everything: bool, traffic: Traffic | None, output: Format) -> None:
    from stormpilot.model.diff import difference

    whole = compiled_model(model)
    plan, compiled, after = placement(whole, plans[-1])
    lacking = [f"{plans[-1]}: {line}" for line in left_out(plan)]
    before = compiled.current
    if len(plans) > 1:
        first = placement(whole, plans[0])[0]
        before = compiled.slots_of(first)
        lacking += [f"{plans[0]}: {line}" for line in left_out(first)]
    found = difference(compiled, before, after)
    flow = flow_of(compiled, traffic)
    found = msgspec.structs.replace(
        found,
        before=found.before | flow_metrics(flow, before),
        after=found.after | flow_metrics(flow, after),
    )
    for line in lacking:
        (note if output is Format.json else say)(line)
    if output is Format.json:
        print_json(found)
        return
    say(f"from {'the present assignment' if len(plans) == 1 else plans[0]} to {plans[-1]}")
    if not found.moves:
        say("every executor stays where it is")
        return
    in_them = sum(r.executors for r in found.restarts)
    move = "moves" if len(found.moves) == 1 else "move"
    say(
        f"{len(found.moves)} of {counted(compiled.executors, 'executor')} {move}; "
        f"{counted(len(found.restarts), 'worker starts or restarts', 'workers start or restart')} "
        f"({counted(in_them, 'executor')} in them), {counted(found.stopped_workers, 'stops', 'stop')}"
    )
    _metrics(found)
    _moves(found, everything)


def _metrics(found: Difference) -> None:
    from stormpilot.planner.flow.planning import PREFIX

    rows = []
    for name in (*METRICS_SHOWN, *(PREFIX + n for n in METRICS_SHOWN if PREFIX + n in found.after)):
        a, b = found.before.get(name), found.after[name]
        rows.append([name, metric_text(name, a), metric_text(name, b), change_text(a, b)])
    print_table(["metric", "before", "after", "change"], rows)


def _moves(found: Difference, everything: bool) -> None:
    shown = found.moves if everything else found.moves[:TOP]
    several = len({m.topology for m in found.moves}) > 1
    rows = []
    for m in shown:
        name = f"{m.component} [{m.start},{m.end}]"
        rows.append([f"{m.topology}: {name}" if several else name, m.before or "nowhere", m.after or "nowhere"])
    print_table(["executor", "before", "after"], rows)
    if len(shown) < len(found.moves):
        by = Counter(m.component for m in found.moves)
        most = ", ".join(f"{c} {n}" for c, n in by.most_common(6))
        say(f"{len(shown)} of {len(found.moves)} moves; --all lists the others. Most are of: {most}")
