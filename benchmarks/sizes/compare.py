"""Allocations and mappings side by side: slots, the rate that a plan supports, CPU and memory of its slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.sizes.dags import Dag
from stormpilot.sizing.allocation import Method, allocate
from stormpilot.sizing.performance import Light, Performance, Point
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.prediction import Prediction, SlotLoad, Threads, cores_of, predict, threads_of
from stormpilot.sizing.problem import Problem, Slot, parse
from stormpilot.sizing.profiling import base_of

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

    Memory is what processes held, by that of a slot. CPU without tuples is known where the profile has it (`base`).
    """
    if not profile.exists():
        return None
    profiles = {task: r[0] for task, r in json.loads(profile.read_text())["profiles"].items() if r}
    if not profiles:
        return None
    size = next(iter(profiles.values()))["slot"]
    slot = Slot(cpu_mhz=round(size["cores"] * size["mhz"], 1), memory_mb=size["memory_mb"])
    models = {task: _measured(task, found, slot.memory_mb) for task, found in profiles.items()}
    return Models(models, slot, size["cores"])


def _measured(task: str, found: dict[str, Any], memory_mb: float) -> Performance:
    points = [
        Point(
            threads=p["threads"],
            rate_tps=p["rate_tps"],
            cpu_share=min(p["cpu_share"], 1.0),
            memory_share=min(p["memory_mb"] / memory_mb, 1.0),
        )
        for p in found["points"]
    ]
    base = base_of(points)
    if base is None or not found.get("base"):
        return Performance(name=task, points=points, base=base)
    cpu = {key: found["base"].get(key, 0.0) for key in ("cpu_share", "thread_cpu_share")}
    light = [Light(**trial) for trial in found.get("light", [])]
    return Performance(name=task, points=points, base=msgspec.structs.replace(base, **cpu), light=light)


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


def with_predictions(problem: Problem, one: dict[str, Any]) -> dict[str, Any]:
    """A pair that was carried out, with what its placement should support and its slots use at the measured rate.

    `evenTps` is the prediction with tuples split evenly over threads, `proportional` the CPU of a slot in proportion to
    its tuples, both as the paper has them.
    """
    threads = {(name.rpartition(":")[0], int(name.rpartition(":")[2])): t for name, t in one["placement"].items()}
    cores = dict.fromkeys({supervisor for supervisor, _ in threads}, 1.0)
    limit = predict(problem, threads, cores)
    slots = _slots(problem, threads, cores, one["actualTps"])
    plain = [msgspec.structs.replace(m, base=None, light=[]) for m in problem.models]
    proportional = _slots(msgspec.structs.replace(problem, models=plain), threads, cores, one["actualTps"])
    return one | {
        "predictedTps": _carried(limit),
        "evenTps": _carried(predict(msgspec.structs.replace(problem, shuffle="even"), threads, cores)),
        "unskewedTps": limit.unskewed_tps,
        "slotLoads": [
            {
                **load,
                "predicted": [round(slots[load["slot"]].cpu_share, 4), round(slots[load["slot"]].memory_share, 4)],
                "proportional": round(proportional[load["slot"]].cpu_share, 4),
            }
            for load in one["slotLoads"]
        ],
    }


def _carried(limit: Prediction) -> float | None:
    """The rate at which the first slot is full, or the CPU of its node or its memory is used up, whichever is less."""
    return min((x for x in (limit.supported_tps, limit.resources_tps) if x is not None), default=None)


def _slots(problem: Problem, threads: Threads, cores: Mapping[str, float], at_tps: float) -> dict[str, SlotLoad]:
    return {f"{s.supervisor}:{s.port}": s for s in predict(problem, threads, cores, at_tps).slots}


def rows(dags: Sequence[Dag], models: Models) -> list[dict[str, Any]]:
    """Every pair on every dataflow at every rate."""
    return [
        row(dag.problem(models.by_task, models.slot), rate_tps, method, mapping)
        for dag in dags
        for rate_tps in dag.rates_tps
        for method, mapping in PAIRS
    ]
