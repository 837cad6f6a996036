"""Commands `stormpilot model ...`: check, make and look at model files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot.cli.compute import SeedOption
from stormpilot.cli.figures import metric_text
from stormpilot.cli.files import (
    DEEPEST,
    STDIN,
    check_kind,
    check_outputs,
    compiled_model,
    line_of,
    malformed,
    read,
    read_model,
    write,
)
from stormpilot.cli.output import Format, FormatOption, print_document, print_json, print_table, say
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.limits import LimitError, check_shape
from stormpilot.printable import counted, first_few, whole

if TYPE_CHECKING:
    import numpy as np

    from stormpilot.model.compiled import Compiled
    from stormpilot.model.values import Model, Plan

FileArgument = Annotated[Path, typer.Argument(help="model.json, or - for stdin.", metavar="MODEL")]


def validate(
    model: FileArgument,
    everything: Annotated[
        bool, typer.Option("--all", help="List every problem, also hundreds that are alike.")
    ] = False,
    format: FormatOption = Format.table,
) -> None:
    """Check a model file: every problem, field by field.

    Errors keep a model from being planned, and end with exit code 2. A model with warnings is
    planned; they are probably mistakes.
    """
    from stormpilot.model.validate import shortened
    from stormpilot.model.validate import validate as checked

    data = read(model, "model")
    try:
        check_shape(data, DEEPEST)
        document = msgspec.json.decode(data)
    except LimitError as e:
        raise UsageError(f"{model}: {e}") from e
    except UnicodeDecodeError as e:
        raise UsageError(f"{model}: not UTF-8: {e.reason}") from e
    except msgspec.DecodeError as e:
        raise UsageError(f"{model}:{line_of(data, e)}: {malformed(data, e)}") from e
    check_kind(model, data, "a model (model.json)")
    found, problems = checked(document)
    errors = sum(p.level == "error" for p in problems)
    warnings = len(problems) - errors
    if format is Format.json:
        print_json({"valid": not errors, "errors": errors, "warnings": warnings, "problems": problems})
    else:
        for p in sorted(problems if everything else shortened(problems), key=lambda p: p.level):
            say(f"{p.level}: {model}: {p.field}: {p.text}")
        if not errors and found is not None:
            warned = f", {_count(warnings, 'warning')}" if warnings else ""
            say(f"{model}: valid{warned}: {_size(found)}")
    if errors:
        raise UsageError(f"{model}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")


def generate(
    kind: Annotated[str | None, typer.Argument(help="small, loaded, unlike, planted or production.")] = None,
    executors: Annotated[
        int | None,
        typer.Option("--executors", min=1, help="Number of executors of all topologies together (small: at most)."),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", min=1, help="Number of supervisors (small: at most).")] = None,
    racks: Annotated[int | None, typer.Option("--racks", min=1, help="Number of racks, of equal size.")] = None,
    topologies: Annotated[int | None, typer.Option("--topologies", min=1, help="Number of topologies.")] = None,
    load: Annotated[float | None, typer.Option("--load", help="CPU demand as a part of what the nodes have.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="Only topologies of this shape; may be repeated.")
    ] = None,
    spread: Annotated[
        float | None, typer.Option("--spread", help="Unlike nodes: CPU of the largest / that of the smallest.")
    ] = None,
    slots: Annotated[
        list[int] | None, typer.Option("--slots", min=1, help="Unlike nodes: slots of one; may be repeated.")
    ] = None,
    memory_load: Annotated[
        float | None, typer.Option("--memory-load", help="Unlike nodes: memory demand as a part of what they have.")
    ] = None,
    sites: Annotated[
        int | None, typer.Option("--sites", min=0, help="Unlike nodes: sites with a component that must run there.")
    ] = None,
    structure: Annotated[Path | None, typer.Option("--from", help="A model whose traffic is made up anew.")] = None,
    place: Annotated[
        str | None, typer.Option("--place", help="A planner, e.g. default: its plan is the present assignment.")
    ] = None,
    seed: SeedOption = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it here, not to stdout.")] = None,
    hidden: Annotated[Path | None, typer.Option("--hidden", help="Write the hidden plan of `planted` here.")] = None,
    list_kinds: Annotated[bool, typer.Option("--list", help="List kinds and shapes of topologies, and exit.")] = False,
) -> None:
    """Generate a model file: same kind, sizes and seed give the same model.

    Rates between executors follow the groupings (SHUFFLE evenly, FIELDS by skewed keys, and so
    on), CPU follows the rates.
    """
    if list_kinds:
        _kinds()
        return
    if kind is None:
        raise UsageError("expected a kind: small, loaded, unlike, planted or production (--list says more)")
    if hidden is not None and kind != "planted":
        raise UsageError(f"--hidden: only planted has a hidden plan, not {kind}")
    check_outputs({"--output": output, "--hidden": hidden}, {"--from": structure})
    import numpy as np

    from stormpilot.generate.models.clusters import Asked
    from stormpilot.generate.models.clusters import generate as made

    asked = Asked(
        executors=executors,
        nodes=nodes,
        racks=racks,
        topologies=topologies,
        load=load,
        shapes=tuple(shape or ()),
        structure=read_model(structure) if structure else None,
        spread=spread,
        slots=tuple(slots or ()),
        memory_load=memory_load,
        sites=sites,
    )
    model, plan = made(kind, asked, np.random.default_rng(seed))
    if place is not None:
        model = _placed(model, place, seed)
    if hidden is not None and plan is not None:
        write(hidden, _with_metrics(model, plan), "plan")
    if output is None:
        print_document(model)
        return
    write(output, model, "model")
    say(f"{output}: {_size(model)}")


def show(model: FileArgument, format: FormatOption = Format.table) -> None:
    """Summarise a model file: supervisors, topologies, rates, load, and the cost of the present placement."""
    compiled = compiled_model(model)
    summary = _summary(compiled)
    if format is Format.json:
        print_json(summary)
        return
    say(f"{'stdin' if model == STDIN else model}: {_size(compiled.model)}")
    _show_supervisors(compiled)
    _show_topologies(compiled)
    now = summary["present"]
    say("")
    if now:
        from stormpilot.cli.compute import SHOWN
        from stormpilot.model.cost import METRICS

        of_placement = [m for m in SHOWN if m not in ("moved_executors", "restarted_workers")]
        print_table(
            ["present placement", "", "meaning"], [[m, metric_text(m, now[m]), METRICS[m]] for m in of_placement]
        )
    else:
        executors = counted(compiled.executors, "executor")
        say(f"present placement: {summary['unplacedExecutors']:,} of {executors} run nowhere")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _kinds() -> None:
    from stormpilot.generate.models.clusters import KINDS, TAKES, option
    from stormpilot.generate.models.shapes import SHAPES

    print_table(["kind", "what it is"], list(KINDS.items()))
    say("")
    for kind, takes in TAKES.items():
        say(f"{kind} takes {', '.join(map(option, takes))}")
    say("")
    rows = []
    for s in SHAPES.values():
        groupings = Counter(stream.grouping for stream in s.streams)
        rows.append([s.name, " ".join(s.share), ", ".join(f"{g} {n}" for g, n in sorted(groupings.items()))])
    print_table(["shape", "components", "groupings"], rows)


def _placed(model: Model, planner: str, seed: int) -> Model:
    from stormpilot.model.subset import with_plans
    from stormpilot.model.values import Infeasible
    from stormpilot.planner import compute

    answer = compute(model, planner, {}, seed=seed)
    if isinstance(answer, Infeasible):
        raise RefusedError(f"--place {planner}: {answer.text}")
    return with_plans(model, {t.id: t for t in answer.topologies})


def _with_metrics(model: Model, plan: Plan) -> Plan:
    from stormpilot.model.cost import evaluate

    return msgspec.structs.replace(plan, metrics=evaluate(model, plan))


def _size(model: Model) -> str:
    executors = sum(len(t.executors) for t in model.topologies)
    racks, slots = len({s.rack for s in model.supervisors}), sum(len(s.slots) for s in model.supervisors)
    return (
        f"{counted(len(model.topologies), 'topology', 'topologies')}, {counted(executors, 'executor')}, "
        f"{counted(len(model.traffic), 'rate')}, {counted(len(model.supervisors), 'supervisor')} in "
        f"{counted(racks, 'rack')}, {counted(slots, 'slot')}"
    )


def _summary(c: Compiled) -> dict[str, Any]:
    from stormpilot.model.cost import metrics

    placed = bool((c.current >= 0).all()) and c.executors > 0
    return {
        "supervisors": len(c.model.supervisors),
        "racks": len({s.rack for s in c.model.supervisors}),
        "slots": c.slots,
        "topologies": c.topologies,
        "executors": c.executors,
        "communicatingPairs": len(c.pair_tps),
        "totalTps": c.total_tps,
        "cpuDemandMhz": float(c.cpu_mhz.sum()),
        "cpuLimitMhz": float(c.node_limit_mhz.sum()),
        "unplacedExecutors": int((c.current < 0).sum()),
        "present": metrics(c, c.current) if placed else {},
    }


def _show_supervisors(c: Compiled) -> None:
    from stormpilot.model.cost import node_load_mhz, node_memory_mb

    load, memory = node_load_mhz(c, c.current), node_memory_mb(c, c.current)
    groups: dict[tuple[float, float, float, float, int, str], list[int]] = {}
    for n, s in enumerate(c.supervisors):
        groups.setdefault((s.cores, s.mhz, s.limit_mhz, s.memory_mb, len(s.slots), s.site or "-"), []).append(n)
    rows = []
    for (cores, mhz, limit, mb, slots, site), nodes in groups.items():
        rows.append(
            [
                len(nodes),
                _few([c.node_ids[n] for n in nodes]),
                f"{cores:g}",
                whole(mhz),
                whole(limit),
                whole(mb) if mb else "no limit",
                slots,
                site,
                _most(load[nodes] / c.node_limit_mhz[nodes]) if limit else "-",
                _most(memory[nodes] / c.node_memory_mb[nodes]) if mb else "-",
            ]
        )
    say("")
    heads = ["supervisors", "", "cores", "MHz/core", "MHz to fill", "MB", "slots", "site", "load now", "memory now"]
    print_table(heads, rows[:20], gap=1)
    if len(rows) > 20:
        say(f"and {len(rows) - 20} other sizes")
    demand, have = float(c.cpu_mhz.sum()), float(c.node_limit_mhz.sum())
    say(f"CPU: executors need {whole(demand)} MHz of {whole(have)} MHz that may be filled ({_part(demand, have)})")


def _show_topologies(c: Compiled) -> None:
    import numpy as np

    own = np.bincount(c.topology[c.pair_a], c.pair_tps, c.topologies) if len(c.pair_a) else np.zeros(c.topologies)
    rows = []
    for t, topology in enumerate(c.model.topologies):
        mine = c.topology == t
        members = Counter(e.component for e in topology.executors)
        unmeasured = sum(not e.measured for e in topology.executors)
        rows.append(
            [
                topology.id,
                int(c.workers[t]),
                int(mine.sum()),
                whole(own[t]),
                whole(c.cpu_mhz[mine].sum()),
                unmeasured or None,
                _components(members),
            ]
        )
    say("")
    heads = ["topology", "workers", "executors", "tuples/s", "MHz", "unmeasured", "components"]
    print_table(heads, rows[:30], gap=1)
    if len(rows) > 30:
        say(f"and {counted(len(rows) - 30, 'topology', 'topologies')} more")


def _components(members: Counter[str], most: int = 3) -> str:
    return first_few([f"{c} {n}" for c, n in members.items()], most)


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 2 else f"{names[0]} .. {names[-1]}"


def _most(parts: np.ndarray) -> str:
    return f"{parts.max():.0%}" if len(parts) == 1 else f"{parts.min():.0%} to {parts.max():.0%}"


def _part(a: float, b: float) -> str:
    return f"{a / b:.0%}" if b else "there is none"
