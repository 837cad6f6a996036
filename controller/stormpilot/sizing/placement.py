"""An allocation placed by a planner: on the slots that it adds up to, then on one more until it fits [S17 8.4]."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.model.compiled import Floats
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.registry import Value
from stormpilot.sizing.allocation import Allocation
from stormpilot.sizing.deployment import model_of
from stormpilot.sizing.problem import Problem

SLACK = 1 + 1e-9
MOST_ALIKE = 8
"""Threads of one kind in a slot up to which the bound of slots counts them whole."""
NEARLY = 1e-6


@dataclass(frozen=True)
class Placed:
    """The plan of one planner on `slots` slots, `extra_slots` of them beyond what the allocation adds up to.

    None of these planners looks at traffic: the model has none, and the plan no metrics of it.
    """

    planner: str
    allocation: Allocation
    slots: int
    extra_slots: int
    model: Model
    plan: Plan


def place(problem: Problem, allocation: Allocation, planner: str, *, seed: int = 0) -> Placed | Infeasible:
    """Plan on rho slots, then with one more at a time; infeasible when even a slot for each thread is not enough.

    `rsm` and `sam` are held to what a slot has (a worker's memory; a bundle in one slot), as in the paper. `dsm` looks
    at slots alone, as Storm does: it is given threads that need nothing, so its plan may ask a VM for more than it has.
    """
    threads = sum(a.threads for a in allocation.allotments)
    slots = min(allocation.slots, threads)
    if planner != "dsm":
        slots = min(max(slots, _least_slots(problem, model_of(problem, allocation, slots))), threads)
    while True:
        model = model_of(problem, allocation, slots)
        needs = _without_needs(model) if planner == "dsm" else model
        answer = compute(needs, planner, params_of(problem, planner), seed=seed)
        if isinstance(answer, Plan) and keeps_to_slots(problem, planner, model, answer):
            return Placed(planner, allocation, slots, slots - allocation.slots, model, answer)
        if slots >= threads:
            text = f"{planner} fits {allocation.method} in no number of slots"
            return answer if isinstance(answer, Infeasible) else Infeasible(constraint="memory", text=text)
        slots += 1


def keeps_to_slots(problem: Problem, planner: str, model: Model, plan: Plan) -> bool:
    """Whether no slot gets more memory than it has; of `dsm`, which knows slots alone, nobody asks that."""
    return planner == "dsm" or not over_memory(problem, model, plan)


def over_memory(problem: Problem, model: Model, plan: Plan) -> list[tuple[str, int]]:
    """Slots whose executors need more memory than one slot has."""
    memory_mb = {(t.id, e.start): e.memory_mb for t in model.topologies for e in t.executors}
    held: defaultdict[tuple[str, int], float] = defaultdict(float)
    for tp in plan.topologies:
        for w in tp.workers:
            held[w.supervisor, w.port] += sum(memory_mb[tp.id, start] for start, _ in w.executors)
    return [slot for slot, mb in held.items() if mb > problem.slot.memory_mb * SLACK]


def _least_slots(problem: Problem, model: Model) -> int:
    """A lower bound of slots, by what the threads need: what does not fit there need not be tried.

    The bound by dual feasible functions u(k) for the packing of bins [Fekete and Schepers 1998]: it knows that three
    threads of 0.3 fill a slot.
    """
    (topology,) = model.topologies
    share = np.array([e.memory_mb for e in topology.executors]) / (problem.slot.memory_mb * SLACK)
    least = 0.0
    for k in range(1, MOST_ALIKE + 1):
        parts = np.floor((k + 1) * share)
        whole = (k + 1) * share - parts < NEARLY
        least = max(least, float(np.where(whole, share, parts / k).sum()))
    if all(vm.slots == 1 for vm in problem.vms):  # elsewhere the slots of a VM share its CPU
        cpu = np.array([e.cpu_mhz for e in topology.executors]) / (problem.slot.cpu_mhz * SLACK)
        least = max(least, _least_with_large(np.stack([cpu, share], axis=1)))
    return math.ceil(least - NEARLY)


def _least_with_large(shares: Floats) -> float:
    """A lower bound of slots where large threads leave room for few of the others; `shares` (E x 2): CPU and memory.

    Threads of more than half of a slot have one each. What does not fit beside them fills slots of its own.
    """
    least = 0.0
    for share in shares.T:
        large = share > 0.5 + NEARLY
        beside = 1.0 - shares[large]
        for kind in np.unique(shares[~large], axis=0):
            if not kind.any():
                continue
            count = int((~large & (shares >= kind).all(axis=1)).sum())
            alone = max(float(_fitting(np.ones((1, 2)), kind)[0]), 1.0)
            own = max(count - float(_fitting(beside, kind).sum()), 0.0) / alone
            least = max(least, float(large.sum()) + own)
    return least


def _fitting(room: Floats, kind: Floats) -> Floats:
    """S -> how many threads that need `kind` (2) fit in the `room` (S x 2) of a slot."""
    needed = kind > 0
    return np.asarray(np.floor((np.maximum(room[:, needed], 0.0) / kind[needed]).min(axis=1) + NEARLY))


def _without_needs(model: Model) -> Model:
    """The same model with executors that need no CPU and no memory."""
    (topology,) = model.topologies
    free = [msgspec.structs.replace(e, cpu_mhz=0.0, memory_mb=0.0) for e in topology.executors]
    return msgspec.structs.replace(model, topologies=[msgspec.structs.replace(topology, executors=free)])


def params_of(problem: Problem, planner: str) -> dict[str, Value]:
    """Parameters that hold a mapping to what a slot has."""
    given: dict[str, dict[str, Value]] = {
        "rsm": {"worker_memory_mb": problem.slot.memory_mb},
        "sam": {"spill": False},
    }
    return given.get(planner, {})
