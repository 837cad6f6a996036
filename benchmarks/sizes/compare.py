"""Allocations and mappings side by side: slots, the rate that a plan supports, CPU and memory of its slots."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx

from benchmarks.sizes.dags import Dag
from stormpilot.sizing.allocation import Method, allocate
from stormpilot.sizing.performance import Performance, Point
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.prediction import cores_of, predict, threads_of
from stormpilot.sizing.problem import Problem, Slot, parse
from stormpilot.sizing.rates import input_gains

PAIRS: tuple[tuple[Method, str], ...] = (("lsa", "dsm"), ("lsa", "rsm"), ("mba", "dsm"), ("mba", "rsm"), ("mba", "sam"))
"""The five pairs of the paper; `PAIRS[1]` is what it compares the last one with."""
TASKS = ("xml", "pi", "file", "blob", "table")


@dataclass(frozen=True)
class Models:
    """Performance models by task, and the slot that they hold for; `cores` of it."""

    by_task: dict[str, Performance]
    slot: Slot
    cores: float = 1.0


def published_models(example: Path) -> Models:
    """Models of the paper."""
    problem = parse(example.read_text(), str(example))
    return Models(dict(zip(TASKS, problem.models, strict=True)), problem.slot)


def measured_models(profile: Path) -> Models | None:
    """Models that `make bench-profile` measured: of several repetitions the first; None where there are none.

    Memory is what processes held, by that of a slot.
    """
    if not profile.exists():
        return None
    profiles = {task: r[0] for task, r in json.loads(profile.read_text())["profiles"].items() if r}
    if not profiles:
        return None
    size = next(iter(profiles.values()))["slot"]
    slot = Slot(cpu_mhz=round(size["cores"] * size["mhz"], 1), memory_mb=size["memory_mb"])
    models = {
        task: Performance(
            name=task,
            points=[
                Point(
                    threads=p["threads"],
                    rate_tps=p["rate_tps"],
                    cpu_share=min(p["cpu_share"], 1.0),
                    memory_share=min(p["memory_mb"] / slot.memory_mb, 1.0),
                )
                for p in found["points"]
            ],
        )
        for task, found in profiles.items()
    }
    return Models(models, slot, size["cores"])


def row(problem: Problem, rate_tps: float, method: Method, mapping: str) -> dict[str, Any]:
    """One pair at one rate. Loads of slots are at that rate, or at what the plan supports where that is less."""
    sized = allocate(problem, rate_tps, method)
    answer = place(problem, sized, mapping)
    found: dict[str, Any] = {
        "dag": problem.name,
        "rateTps": rate_tps,
        "allocation": method,
        "mapping": mapping,
        "threads": {a.component: a.threads for a in sized.allotments},
        "estimatedSlots": sized.slots,
    }
    if not isinstance(answer, Placed):
        return found | {"infeasible": answer.text}
    threads, cores = threads_of(problem, answer.model, answer.plan), cores_of(problem, answer.model)
    limit = predict(problem, threads, cores)
    at_tps = min(rate_tps, limit.supported_tps or rate_tps)
    loads = predict(problem, threads, cores, at_tps)
    return found | {
        "slots": answer.slots,
        "supportedTps": limit.supported_tps,
        "unskewedTps": limit.unskewed_tps,
        "limiting": None if limit.bottleneck is None else limit.bottleneck.limiting,
        "loadsAtTps": at_tps,
        "slotLoads": [[round(s.cpu_share, 4), round(s.memory_share, 4)] for s in loads.slots],
    }


def local_first_tps(problem: Problem, placement: Mapping[str, Mapping[str, int]]) -> float:
    """Rate of the source that a placement supports if tuples stay in their slot where the receiver has threads there.

    So does Storm 2's shuffle as long as these keep up; the prediction splits tuples evenly, as Storm 1's did.

    Parameters
    ----------
    placement
        Slot, one on each node -> component -> threads.
    """
    gain, part, limits = input_gains(problem), dict[str, dict[str, float]](), [math.inf]
    components = {c.id: c for c in problem.components}
    for name in nx.topological_sort(problem.graph()):
        c = components[name]
        here = {slot: held[name] for slot, held in placement.items() if held.get(name)}
        even = {slot: q / sum(here.values()) for slot, q in here.items()}
        part[name] = even if not c.inputs else dict.fromkeys(here, 0.0)
        total = sum(gain[s.component] * s.selectivity for s in c.inputs)
        for s in c.inputs:
            for slot, sent in part[s.component].items():
                came = sent * gain[s.component] * s.selectivity / total
                for to, share in ({slot: 1.0} if slot in here else even).items():
                    part[name][to] += came * share
        if c.static is None:
            peaks = {slot: problem.performance(c).at(q).rate_tps for slot, q in here.items()}
            limits += [peaks[slot] / (gain[name] * x) for slot, x in part[name].items() if x > 0]
    return min(limits)


def rows(dags: Sequence[Dag], models: Models) -> list[dict[str, Any]]:
    """Every pair on every dataflow at every rate."""
    return [
        row(dag.problem(models.by_task, models.slot), rate_tps, method, mapping)
        for dag in dags
        for rate_tps in dag.rates_tps
        for method, mapping in PAIRS
    ]
