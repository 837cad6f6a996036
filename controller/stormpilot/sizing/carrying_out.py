"""An allocation on the nodes of a real cluster: which thread goes into which slot [S17 7.4].

`placement.py` plans on VMs that are yet to be acquired; here nodes and executors are those of a running topology.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.model.values import Infeasible, Model, Plan, Supervisor, Topology
from stormpilot.planner import compute
from stormpilot.sizing.allocation import Allocation
from stormpilot.sizing.deployment import components_of, executors_of
from stormpilot.sizing.placement import keeps_to_slots, params_of
from stormpilot.sizing.problem import ALIKE, Problem

Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""Component -> its executors, as first and last task."""


def threads_by_tasks(tasks: Mapping[str, int], allocation: Allocation, auxiliary: Collection[str]) -> dict[str, int]:
    """Component -> threads of the allocation.

    Parameters
    ----------
    tasks
        Component -> tasks of the running topology.
    auxiliary
        Components of it that no size is of (`Component.auxiliary`).

    Raises
    ------
    RefusedError
        The topology lacks a component or has another one, or a component has fewer tasks than threads: Storm never
        adds tasks.
    """
    sized = [a.component for a in allocation.allotments]
    missing = [c for c in sized if c not in tasks]
    if missing:
        raise RefusedError(
            f"the running topology has no component {', '.join(missing)} (it has: {', '.join(sorted(tasks))})"
        )
    unknown = sorted(set(tasks) - {*sized, *auxiliary})
    if unknown:
        raise RefusedError(
            f"the file has no component {', '.join(unknown)}, which the running topology has: nobody knows what "
            "its threads need: add it, with a model or static needs"
        )
    few = [
        f"{a.component} has {tasks[a.component]} tasks and needs {a.threads} threads"
        for a in allocation.allotments
        if a.threads > tasks[a.component]
    ]
    if few:
        raise RefusedError(
            f"{'; '.join(few)}: Storm never adds tasks to a running topology, submit it anew with so many "
            "(topology.tasks of the component, or its parallelism)"
        )
    return {a.component: a.threads for a in allocation.allotments}


def ranges(tasks: Mapping[str, Sequence[int]], threads: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
    """Component -> executors as Storm makes them of its tasks: in order, the first ones a task larger."""
    found = {}
    for component, numbers in tasks.items():
        n = min(threads.get(component, len(numbers)), len(numbers))
        each, larger = divmod(len(numbers), n)
        ends = [each * i + min(i, larger) for i in range(n + 1)]
        found[component] = [(numbers[a], numbers[b - 1]) for a, b in pairwise(ends)]
    return found


def like_the_measured_slot(problem: Problem, supervisors: Sequence[Supervisor]) -> list[Supervisor]:
    """The supervisors as if every slot was the measured one: nobody knows what a larger one does with more threads.

    A little smaller slots are taken as like it too, and memory that nobody knows (0).

    Raises
    ------
    RefusedError
        A slot of a supervisor is smaller: what was measured does not hold there.
    """
    found = []
    for s in supervisors:
        slots = max(len(s.slots), 1)
        for what, has, needs, unit in (
            ("CPU", s.cpu_mhz / slots, problem.slot.cpu_mhz, "MHz"),
            ("memory", s.memory_mb / slots, problem.slot.memory_mb, "MB"),
        ):
            if has < needs * (1 - ALIKE) and not (what == "memory" and has == 0):
                raise RefusedError(
                    f"a slot of {s.id} has {has:,.0f} {unit} {what}, and models were measured on one of "
                    f"{needs:,.0f} {unit}: profile on such a slot"
                )
        mhz, memory_mb = problem.slot.cpu_mhz * slots / s.cores, problem.slot.memory_mb * slots
        found.append(msgspec.structs.replace(s, mhz=mhz, cpu_limit_mhz=None, memory_mb=memory_mb))
    return found


def placed(
    problem: Problem,
    allocation: Allocation,
    supervisors: Sequence[Supervisor],
    executors: Ranges,
    planner: str,
    *,
    seed: int = 0,
    bound: Callable[[Model], Model] = lambda model: model,
) -> tuple[Model, Plan] | Infeasible:
    """The model of sized executors and its plan, on as few slots as it takes; executors of nobody's size are left out.

    Parameters
    ----------
    supervisors
        With the slots that are free for this topology, as `like_the_measured_slot` returns them.
    executors
        As many of each component as the allocation has threads.
    bound
        Adds what holds for the running topology: sites, drains, pins, exclusions.
    """
    free = sum(len(s.slots) for s in supervisors)
    count = sum(a.threads for a in allocation.allotments)
    answer: Plan | Infeasible = Infeasible(constraint="slots", text=f"{allocation.slots} slots are needed, {free} free")
    for slots in range(min(allocation.slots, count), min(free, count) + 1):
        model = bound(_model(problem, allocation, supervisors, executors, slots))
        answer = compute(model, planner, params_of(problem, planner), seed=seed)
        if isinstance(answer, Plan) and keeps_to_slots(problem, planner, model, answer):
            return model, answer
    if isinstance(answer, Infeasible):
        return answer
    return Infeasible(constraint="memory", text=f"{planner} needs more memory in a slot than it has, with {free} free")


def _model(
    problem: Problem, allocation: Allocation, supervisors: Sequence[Supervisor], executors: Ranges, slots: int
) -> Model:
    topology = Topology(
        id=problem.name,
        name=problem.name,
        workers=slots,
        components=components_of(problem, allocation),
        executors=executors_of(problem, allocation, executors),
    )
    return Model(supervisors=list(supervisors), topologies=[topology])
