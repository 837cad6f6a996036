"""`stormpilot plan compute` and `planners`: plan a model file with any planner, without a cluster."""

from __future__ import annotations

import math
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import stormpilot
from stormpilot.cli.figures import metric_text
from stormpilot.cli.files import ModelOption, check_outputs, compiled_model, without, write
from stormpilot.cli.machine_code import NOT_KEPT, forget
from stormpilot.cli.output import Format, FormatOption, console, note, print_document, print_json, print_table, say
from stormpilot.cli.stdout import print_and_write
from stormpilot.cli.traffic import PREDICTED, Traffic, flow_metrics
from stormpilot.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from stormpilot.config.options import Option
    from stormpilot.planner import Planner

SHOWN = (
    "inter_node_tps",
    "inter_node_share",
    "inter_worker_tps",
    "network_cost_tps",
    "ras_network_metric",
    "workers",
    "nodes",
    "max_load_ratio",
    "carried_ratio",
    "latency_ms",
    "moved_executors",
    "restarted_workers",
)
CHECKED_S, CHECKED_EXECUTOR_S = 0.2, 4e-5  # what checking, writing and describing a plan take, and per executor
MOST_BESIDES = 0.15  # of a budget, that may go to the start of the process and to what comes after planning
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", min=0, max=2**63 - 1, help="Seed of the random generator; the same seed gives the same result."
    ),
]


def compute(
    model: ModelOption,
    planner: Annotated[str, typer.Option("--planner", "-p", help="See `stormpilot planners`.")] = "best",
    seed: SeedOption = 0,
    budget: Annotated[
        float | None, typer.Option("--budget", min=0.1, help="Seconds that planning may take; default: until done.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="See `stormpilot planners`.")
    ] = None,
    exact_workers: Annotated[
        bool, typer.Option("--exact-workers", help="Use exactly min(W, E) workers of every topology, not at most.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Where not all topologies fit, plan those that do and name the others.")
    ] = False,
    traffic: Annotated[
        Traffic | None,
        typer.Option(
            help="Minimise traffic on the measured pairs, or as shuffles will send it (the default if any do)."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan here, not to stdout.")] = None,
) -> None:
    """Plan a model file: model.json in, plan.json out.

    Same model, planner, parameters and seed give the same plan; only the clock (--budget) may
    cut it shorter, and the notes say so. Exit code 1: no plan keeps every hard constraint, or
    none was found; the text says which. 2: a wrong file or argument.

    Without --budget `best` takes seconds for up to some hundred executors, and minutes where
    planners are still to be compiled, or the machine is busy. Ctrl-C ends the search with the best
    plan so far (exit code 0, a line on stderr says it), a second one without a plan (130).
    """
    started = time.monotonic()
    from stormpilot.cli.planning_time import planning_time
    from stormpilot.model.cost import METRICS, metrics
    from stormpilot.model.flow.model import flow_model, follows_placement
    from stormpilot.model.values import Infeasible
    from stormpilot.model.violations import violations
    from stormpilot.planner import compute as plan_model
    from stormpilot.planner import planner_named
    from stormpilot.planner.flow.planning import PREFIX

    params = _params(param or [])
    if exact_workers:
        params |= _exact_workers(planner_named(planner))
    check_outputs({"--output": output}, {"--model": model})
    compiled = compiled_model(model)
    besides_s = started - stormpilot.STARTED_S + CHECKED_S + CHECKED_EXECUTOR_S * compiled.executors
    deadline = math.inf if budget is None else started + budget - min(besides_s, MOST_BESIDES * budget)
    follows = follows_placement(compiled.model)
    with planning_time(started, deadline) as clock:
        answer = plan_model(
            compiled.model,
            planner,
            params,
            seed=seed,
            left_s=clock.left_s,
            partial=partial,
            traffic=traffic or ("flow" if follows else "measured"),
            compiled=compiled,
        )
    if isinstance(answer, Infeasible):
        known = "no plan exists" if answer.proved else "no plan was found"
        raise RefusedError(f"{known} ({answer.constraint}): {answer.text}")
    wrong = violations(compiled.model, answer, left_out=answer.left_out)
    if wrong:
        raise AssertionError(f"planner {planner} broke a hard constraint: {wrong[0]}")
    if output is None:
        print_document(answer)
        for text in answer.notes:
            note(f"note: {text}")
        return
    part = without(compiled, answer.left_out)
    before = metrics(part, part.current) if (part.current >= 0).all() else {}
    after = answer.metrics
    rows = [
        [name, metric_text(name, before.get(name)), metric_text(name, after[name]), METRICS[name]] for name in SHOWN
    ]
    if follows:
        flow = flow_model(part.model, part)
        now, predicted = flow_metrics(flow, part.current), flow_metrics(flow, part.slots_of(answer))
        rows += [
            [name, metric_text(name, now.get(name)), metric_text(name, predicted[name]), PREDICTED]
            for name in (PREFIX + n for n in SHOWN)
            if name in predicted
        ]
    title = f"{planner}, seed {seed}, {time.monotonic() - started:.2f} s: {output}"

    def show() -> None:
        print_table(["metric", "now", "plan", "meaning"], rows, title=title)
        for text in answer.notes:
            say(f"note: {text}")

    print_and_write(show, lambda: write(output, answer, "plan"))


def planners(
    name: Annotated[str | None, typer.Argument(help="Only this planner.")] = None,
    format: FormatOption = Format.table,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile what planners compile at first use (kept), and exit.")
    ] = False,
) -> None:
    """List the planners with their parameters: default, range, unit and meaning."""
    from stormpilot.config.options import options_of
    from stormpilot.planner import PLANNERS, planner_named
    from stormpilot.planner import compute as plan_model

    if compile:
        from stormpilot.model import compiling
        from stormpilot.planner.search.warm import ROOMY, TINY

        if not compiling.kept():
            raise UsageError(f"there is no folder to keep what is compiled: {NOT_KEPT}")
        compiling.tell(None)
        forget()
        for each in PLANNERS.values():
            exact = [{"exact_workers": True}] if "exact_workers" in each.params.__dataclass_fields__ else []
            for given in ({}, *exact):  # what fills all workers has a search of its own inside the nodes
                for model in (TINY, ROOMY):
                    plan_model(model, each, given, seed=0, left_s=lambda: 1.0, traffic="flow")
        return
    shown = [planner_named(name)] if name is not None else list(PLANNERS.values())
    if format is Format.json:
        print_json(
            [{"name": p.name, "summary": p.summary, "source": p.source, "params": options_of(p.params)} for p in shown]
        )
        return
    for i, p in enumerate(shown):
        if i:
            say("")
        say(f"{p.name}: {p.summary} [{p.source}]")
        for o in options_of(p.params):
            _say_option(o)


def _say_option(o: Option) -> None:
    """Two lines or more: name=default with range and unit, then what it means."""
    width = min(console.width, 100)
    what = ", ".join(w for w in (o.range or o.type, o.unit) if w)
    say(f"  {o.name}={_default(o.default)}  ({what})")
    for line in textwrap.wrap(o.meaning, width - 6):
        say(f"      {line}")


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _exact_workers(planner: Planner) -> dict[str, str]:
    """The parameter that asks for exactly min(W, E) workers; nothing for a planner that always uses them."""
    from stormpilot.config.options import options_of

    if planner.exact_workers:
        return {}
    if "exact_workers" not in {o.name for o in options_of(planner.params)}:
        raise UsageError(f"--exact-workers: planner {planner.name} cannot be held to it")
    return {"exact_workers": "true"}


def _params(given: list[str]) -> dict[str, str]:
    params = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--param {text}: expected name=value")
        params[name] = value
    return params
