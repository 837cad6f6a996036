"""`stormpilot size` and `predict`: from performance models to threads, slots and VMs, and from plans to rates."""

from __future__ import annotations

import enum
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot.cli import files
from stormpilot.cli.compute import SeedOption
from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.cli.stdout import print_and_write
from stormpilot.errors import RefusedError, UsageError
from stormpilot.printable import counted
from stormpilot.user_files import PROBLEM_BYTES

if TYPE_CHECKING:
    from stormpilot.model.values import Infeasible, Model
    from stormpilot.sizing.allocation import Allocation, Allotment
    from stormpilot.sizing.placement import Placed
    from stormpilot.sizing.prediction import Prediction
    from stormpilot.sizing.problem import Problem


MOST_ROWS = 40  # of slots and VMs in a table


class Method(enum.StrEnum):
    """Method by which threads are allocated."""

    lsa = "lsa"
    mba = "mba"


class Mapping(enum.StrEnum):
    """The planners that S17 compares."""

    dsm = "dsm"
    rsm = "rsm"
    sam = "sam"


FileArgument = Annotated[Path, typer.Argument(help="Topology, performance models, VMs: YAML or JSON.")]
RateOption = Annotated[
    float | None, typer.Option("--rate", help="Tuples/s of each source; default: the file's rate_tps.")
]


def size(
    file: FileArgument,
    rate: RateOption = None,
    allocation: Annotated[Method | None, typer.Option(help="Only this allocation.")] = None,
    placement: Annotated[Mapping | None, typer.Option(help="Only this placement.")] = None,
    format: FormatOption = Format.table,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the model (mba unless --allocation) for `plan compute`."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Write the plan (mba, sam unless asked otherwise) for `predict`.")
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Size a topology for a rate: threads, slots and VMs, and where they go.

    Exit code 1: it fits nowhere.
    """
    from stormpilot.model.cost import evaluate
    from stormpilot.sizing.allocation import allocate
    from stormpilot.sizing.deployment import with_traffic
    from stormpilot.sizing.placement import Placed, place

    files.check_outputs({"--output": output, "--plan": plan}, {"FILE": file})
    problem = read_problem(file)
    at = _source_rate("--rate", rate) or problem.rate_tps
    methods = [allocation] if allocation else list(Method)
    mappings = [placement] if placement else list(Mapping)
    allocations = [allocate(problem, at, m.value) for m in methods]
    answers = [(a, m.value, place(problem, a, m.value, seed=seed)) for a in allocations for m in mappings]
    chosen = _chosen(answers, allocation or Method.mba, placement or Mapping.sam)

    def show() -> None:
        if format is Format.json:
            print_json(_document(problem, at, allocations, answers))
            return
        _print_allocations(problem, at, allocations)
        _print_placements(problem, answers)
        if isinstance(chosen, Placed):
            _print_slots(problem, chosen)

    if not isinstance(chosen, Placed):
        show()
        raise RefusedError(f"{placement or Mapping.sam}: no plan ({chosen.constraint}): {chosen.text}")
    then = []
    if output is not None or plan is not None:
        sent: Model | None = None
        try:
            sent = with_traffic(problem, chosen.allocation, chosen.model)
        except RefusedError:
            if output is not None:
                raise
        if output is not None:
            then.append(partial(files.write, output, sent, "model"))
        if plan is not None:
            metrics = {} if sent is None else evaluate(sent, chosen.plan)
            then.append(partial(files.write, plan, msgspec.structs.replace(chosen.plan, metrics=metrics), "plan"))
    print_and_write(show, *then)


def predict(
    file: FileArgument,
    plan: Annotated[Path, typer.Option("--plan", help="The plan: of `size --plan` or `plan compute -o`.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="The plan's model; default: what `size` makes of the file."),
    ] = None,
    rate: RateOption = None,
    allocation: Annotated[Method, typer.Option(help="Without --model: what `size` was asked for.")] = Method.mba,
    at: Annotated[
        float | None, typer.Option("--at", help="Show loads at this source rate, not at the supported one.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Predict the rate that a plan supports, the load of its slots and VMs, and its bottleneck."""
    from stormpilot.model.subset import with_plans
    from stormpilot.sizing import prediction
    from stormpilot.sizing.allocation import allocate
    from stormpilot.sizing.deployment import model_of

    problem = read_problem(file)
    source_tps, at_tps = _source_rate("--rate", rate), _source_rate("--at", at)
    planned = files.read_plan(plan)
    if model is not None:
        of = files.read_model(model)
    else:
        sized = allocate(problem, source_tps or problem.rate_tps, allocation.value)
        of = model_of(problem, sized, max(sized.slots, sum(len(t.workers) for t in planned.topologies)))
    try:
        threads = prediction.threads_of(problem, of, planned)
        cores = prediction.cores_of(problem, with_plans(of, {p.id: p for p in planned.topologies}))
        found = prediction.predict(problem, threads, cores, at_tps)
    except UsageError as e:
        hint = (
            ""
            if model
            else "; the model was made from the file: was `size` asked for this rate and allocation? else give --model"
        )
        raise UsageError(f"{plan}: {e}{hint}") from e
    if format is Format.json:
        print_json(found)
    else:
        _print_prediction(problem, found)


def read_problem(path: Path) -> Problem:
    """Read the input file; `UsageError` names the file, the line, the field and what was expected."""
    from stormpilot.sizing.problem import read_problem as read

    return read(path, _text)


def _text(path: Path) -> str:
    try:
        return files.read(path, "topology to size", PROBLEM_BYTES).decode("utf-8")
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}: not UTF-8 text: {e.reason} at byte {e.start}") from e


def _source_rate(option: str, rate_tps: float | None) -> float | None:
    """The option's rate; `UsageError` for what the file would not take either (nan, inf)."""
    if rate_tps is not None and not 0 < rate_tps <= 1e9:
        raise UsageError(f"{option} is {rate_tps}, expected tuples/s above 0, at most 1e9")
    return rate_tps


def _chosen(answers: list[Any], method: Method, mapping: Mapping) -> Placed | Infeasible:
    found: Placed | Infeasible = next(x for a, m, x in answers if a.method == method.value and m == mapping.value)
    return found


def _print_even_shuffle(problem: Problem, placed: Placed, supported_tps: float) -> None:
    """Rate that the same placement supports where shuffles split evenly, if theirs do not and that is more."""
    even_tps = _predicted(msgspec.structs.replace(problem, shuffle="even"), placed).supported_tps
    if problem.shuffle == "local" and even_tps is not None and even_tps > supported_tps * (1 + 1e-9):
        say(
            f"it supports {_rate(even_tps)}/s with `topology.disable.loadaware.messaging: true` in the topology's "
            "configuration (then `shuffle: even` in this file)"
        )


def _predicted(problem: Problem, placed: Placed) -> Prediction:
    from stormpilot.sizing import prediction

    threads = prediction.threads_of(problem, placed.model, placed.plan)
    return prediction.predict(problem, threads, prediction.cores_of(problem, placed.model))


def _print_allocations(problem: Problem, rate_tps: float, allocations: list[Allocation]) -> None:
    columns, rows = ["component", "tuples/s"], [[c.id] for c in problem.components]
    for row, first in zip(rows, allocations[0].allotments, strict=True):
        row.append(_rate(first.rate_tps))
    last: list[str] = ["all", ""]
    for a in allocations:
        columns += [f"{a.method}: threads", "CPU", "memory"]
        for row, x in zip(rows, a.allotments, strict=True):
            row += [_threads(x), _percent(x.cpu_share), _percent(x.memory_share)]
        last += [str(sum(x.threads for x in a.allotments)), _percent(a.cpu_share), _percent(a.memory_share)]
    print_table(columns, [*rows, last], title=f"{problem.name} at {_rate(rate_tps)}/s of each source; 100% = one slot")
    for a in allocations:
        say(f"{a.method}: {a.slots} slot{'' if a.slots == 1 else 's'}, {_vms(problem, a.slots)}")


def _print_placements(problem: Problem, answers: list[Any]) -> None:
    from stormpilot.sizing.placement import Placed

    rows: list[list[Any]] = []
    for a, mapping, x in answers:
        if not isinstance(x, Placed):
            rows.append([f"{a.method}+{mapping}", None, None, f"no plan: {x.text}", None, None, None])
            continue
        p = _predicted(problem, x)
        rows.append(
            [
                f"{a.method}+{mapping}",
                str(x.slots),
                str(x.extra_slots),
                _vms(problem, x.slots),
                _rate(p.supported_tps),
                _rate(p.unskewed_tps),
                "nothing" if p.bottleneck is None else p.bottleneck.limiting,
            ]
        )
    columns = ["plan", "slots", "extra", "VMs", "supports/s", "unskewed/s", "limited by"]
    say("")
    print_table(columns, rows, title="placements (extra: slots added until it fitted)")


def _print_slots(problem: Problem, placed: Placed) -> None:
    name = f"{placed.allocation.method}+{placed.planner}"
    p = _predicted(problem, placed)
    asked = placed.allocation.rate_tps
    if p.supported_tps is not None and p.supported_tps < asked * (1 - 1e-9):
        why = (
            f"{_split(problem)}, and not every slot sustains what it gets"
            if p.unskewed_tps is not None and p.unskewed_tps >= asked * (1 - 1e-9)
            else "threads that share a slot sustain less than each would alone"
        )
        say(f"{name} supports {_rate(p.supported_tps)}/s of the {_rate(asked)}/s asked for: {why}")
        _print_even_shuffle(problem, placed, p.supported_tps)
    _print_used_up(p)
    _print_notes(p)
    say("")
    _print_loads(p, f"{name} at {_rate(p.at_tps)}/s of each source; 100% = one slot")


def _print_prediction(problem: Problem, p: Prediction) -> None:
    if p.supported_tps is None:
        say(f"{problem.name}: no component has a performance model that limits it")
    else:
        say(
            f"{problem.name} supports {_rate(p.supported_tps)}/s of each source where {_split(problem)}, "
            f"{_rate(p.unskewed_tps)}/s if every slot got what it can take"
        )
    if p.bottleneck is not None:
        b = p.bottleneck
        part = next(x for x in b.parts if x.component == b.limiting)
        say(
            f"bottleneck: slot {b.supervisor}:{b.port}, {counted(part.threads, 'thread')} of {part.component}, which "
            f"sustain {_rate(part.peak_tps)}/s together"
        )
    _print_used_up(p)
    _print_notes(p)
    say("")
    _print_loads(p, f"loads at {_rate(p.at_tps)}/s of each source; 100% = one slot")


def _split(problem: Problem) -> str:
    return (
        "shuffles prefer threads near the sender"
        if problem.shuffle == "local"
        else "shuffles split evenly over threads"
    )


def _print_used_up(p: Prediction) -> None:
    if p.resources is not None:
        say(f"before that, at {_rate(p.resources_tps)}/s, this is used up: {p.resources}")


def _print_notes(p: Prediction) -> None:
    for note in p.notes:
        say(f"note: {note}")


def _print_loads(p: Prediction, title: str) -> None:
    """Slots and VMs, those that limit first; alike ones in one row."""
    rows: dict[tuple[str | None, ...], list[str]] = {}
    for s in sorted(p.slots, key=lambda s: math.inf if s.supports_tps is None else s.supports_tps):
        key = (
            ", ".join(f"{x.component} {x.threads}" for x in s.parts),
            _percent(s.cpu_share),
            _percent(s.memory_share),
            _rate(s.supports_tps),
            s.limiting,
        )
        rows.setdefault(key, []).append(f"{s.supervisor}:{s.port}")
    shown = [[str(len(names)), _names(names), *key] for key, names in list(rows.items())[:MOST_ROWS]]
    print_table(["slots", "which", "threads", "CPU", "memory", "full at/s", "limited by"], shown, title=title)
    if len(rows) > MOST_ROWS:
        say(f"and {len(rows) - MOST_ROWS} more, full at higher rates; all are in the output of -f json")
    alike: dict[tuple[str, ...], list[str]] = {}
    for v in p.vms:
        alike.setdefault((f"{v.cores:g}", _percent(v.cpu_share), _percent(v.memory_share)), []).append(v.supervisor)
    say("")
    vms = [[str(len(names)), _names(names), *key] for key, names in list(alike.items())[:MOST_ROWS]]
    print_table(["VMs", "which", "cores", "CPU", "memory"], vms)


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"


def _document(problem: Problem, rate_tps: float, allocations: list[Allocation], answers: list[Any]) -> dict[str, Any]:
    from stormpilot.sizing.acquisition import acquire
    from stormpilot.sizing.placement import Placed

    def vms(slots: int) -> dict[str, int]:
        return dict(Counter(v.name for v in acquire(slots, problem.vms)))

    return {
        "name": problem.name,
        "rateTps": rate_tps,
        "allocations": {
            a.method: {
                "slots": a.slots,
                "vms": vms(a.slots),
                "cpuShare": a.cpu_share,
                "memoryShare": a.memory_share,
                "components": [
                    {
                        "component": x.component,
                        "rateTps": x.rate_tps,
                        "threads": x.threads,
                        "cpuShare": x.cpu_share,
                        "memoryShare": x.memory_share,
                        "bundles": [b.threads for b in x.bundles],
                        "fullBundle": x.full_bundle,
                    }
                    for x in a.allotments
                ],
            }
            for a in allocations
        },
        "placements": [
            {
                "allocation": a.method,
                "placement": mapping,
                "slots": x.slots,
                "extraSlots": x.extra_slots,
                "vms": vms(x.slots),
                "predicted": _predicted(problem, x),
            }
            if isinstance(x, Placed)
            else {"allocation": a.method, "placement": mapping, "infeasible": x}
            for a, mapping, x in answers
        ],
    }


def _vms(problem: Problem, slots: int) -> str:
    from stormpilot.sizing.acquisition import acquire

    return " + ".join(f"{n} {name}" for name, n in Counter(v.name for v in acquire(slots, problem.vms)).items())


def _threads(allotment: Allotment) -> str:
    """Threads, and where there are full bundles of several threads which, e.g. `170 = 3x50 + 20`."""
    runs = Counter((b.threads, b.full) for b in allotment.bundles)
    parts = [f"{n}x{threads}" if full and n * threads > 1 else str(n * threads) for (threads, full), n in runs.items()]
    return f"{allotment.threads} = {' + '.join(parts)}" if any("x" in p for p in parts) else f"{allotment.threads}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def _rate(tps: float | None) -> str:
    from stormpilot.sizing.performance import rate_text

    return "-" if tps is None else rate_text(tps)
