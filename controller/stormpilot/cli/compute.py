"""`stormpilot plan compute` and `planners`: plan a model file with any planner, without a cluster."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stormpilot.cli.output import Format, FormatOption, print_json, print_table
from stormpilot.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from stormpilot.model.values import Model

SHOWN = (
    "inter_node_tps",
    "inter_node_share",
    "inter_worker_tps",
    "network_cost_tps",
    "ras_network_metric",
    "workers",
    "nodes",
    "max_load_ratio",
    "moved_executors",
    "restarted_workers",
)


def compute(
    model: Annotated[Path, typer.Option("--model", "-m", help="The model: model.json.")],
    planner: Annotated[str, typer.Option("--planner", "-p", help="See `stormpilot planners`.")] = "best",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the only source of chance.")] = 0,
    budget: Annotated[
        float | None, typer.Option("--budget", min=0.1, help="Seconds that planning may take; default: until done.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option("--param", help="name=value, see `stormpilot planners`.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan here, not to stdout.")] = None,
) -> None:
    """Plan a model. Exit code 1: no plan keeps every hard constraint, or none was found; the text says which."""
    started = time.monotonic()
    from stormpilot.model.compiled import compile_model
    from stormpilot.model.cost import METRICS, metrics
    from stormpilot.model.values import Infeasible
    from stormpilot.planner import compute as plan_model
    from stormpilot.planner.check import violations

    read = read_model(model)
    deadline = started + (float("inf") if budget is None else budget)
    answer = plan_model(read, planner, _params(param or []), seed=seed, left_s=lambda: deadline - time.monotonic())
    if isinstance(answer, Infeasible):
        known = "no plan exists" if answer.proved else "no plan was found"
        raise RefusedError(f"{known} ({answer.constraint}): {answer.text}")
    wrong = violations(read, answer)
    if wrong:
        raise AssertionError(f"planner {planner} broke a hard constraint: {wrong[0]}")
    if output is None:
        print_json(answer)
        return
    try:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(answer), indent=1) + b"\n")
    except OSError as e:
        raise UsageError(f"{output}: cannot write the plan: {e.strerror}") from e
    compiled = compile_model(read)
    before = metrics(compiled, compiled.current) if (compiled.current >= 0).all() else {}
    print_table(
        ["metric", "now", "plan", "meaning"],
        [[name, before.get(name), answer.metrics[name], METRICS[name]] for name in SHOWN],
        title=f"{planner}, seed {seed}, {time.monotonic() - started:.2f} s: {output}",
    )
    for note in answer.notes:
        typer.echo(f"note: {note}")


def planners(
    format: FormatOption = Format.table,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile what planners compile at first use (kept), and end.")
    ] = False,
) -> None:
    """List the planners with their parameters and defaults."""
    from stormpilot.planner import PLANNERS
    from stormpilot.planner import compute as plan_model

    if compile:
        from stormpilot.daemon import TINY

        for name in PLANNERS:
            plan_model(TINY, name, {}, seed=0, left_s=lambda: 1.0)
        return
    listed = [
        {
            "name": p.name,
            "summary": p.summary,
            "source": p.source,
            "params": {f.name: f.default for f in dataclasses.fields(p.params)},
        }
        for p in PLANNERS.values()
    ]
    if format is Format.json:
        print_json(listed)
        return
    rows = []
    for p in PLANNERS.values():
        params = " ".join(f"{f.name}={f.default}" for f in dataclasses.fields(p.params))
        rows.append([p.name, p.summary, params, p.source])
    print_table(["planner", "what it does", "parameters", "source"], rows)


def read_model(path: Path) -> Model:
    """Read `model.json`; `UsageError` names the file, the line or the field, and what was expected."""
    from stormpilot.model.values import Model

    try:
        data = path.read_bytes()
    except OSError as e:
        raise UsageError(f"{path}: cannot read the model: {e.strerror}") from e
    try:
        model = msgspec.json.decode(data, type=Model)
    except msgspec.ValidationError as e:
        text, _, where = str(e).partition(" - at `")
        raise UsageError(f"{path}: {where.rstrip('`').removeprefix('$.') or 'the whole file'}: {text}") from e
    except msgspec.DecodeError as e:
        text, _, where = str(e).partition("(byte ")
        byte = int(where.rstrip(")")) if where else len(data)
        line = data.count(b"\n", 0, byte) + 1
        raise UsageError(f"{path}:{line}: {text.strip()}") from e
    if model.schema != 1:
        raise UsageError(f"{path}: schema: this version reads 1, the file has {model.schema}")
    return model


def _params(given: list[str]) -> dict[str, str]:
    params = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--param {text}: expected name=value")
        params[name] = value
    return params
