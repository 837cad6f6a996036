"""Sizes to carry out on a cluster: dataflows of measured tasks at three rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.sizes.compare import TASKS, Models
from benchmarks.sizes.dags import APPLICATIONS, MICRO, Dag, linear_of
from stormpilot.model.values import Infeasible
from stormpilot.sizing.allocation import Method, allocate
from stormpilot.sizing.placement import Placed, place
from stormpilot.sizing.prediction import threads_of
from stormpilot.sizing.problem import Problem, Shuffle, Static, VmSize
from stormpilot.sizing.rates import input_gains

NODES = 5
RATE_PARTS = (0.45, 0.9, 1.35)
"""Rates, by what one slot of the task that is full first sustains."""
SOURCE_NEEDS = Static(threads=1, cpu_share=0.08, memory_share=0.02)
"""A Python source that sends some ten tuples/s, beside other components in its worker.

22 slots with one used so much more (the median, of a slot of 1,038 MHz and 1,024 MB) than was predicted without it,
when 25% and 19% were declared.
"""
PAIRS: tuple[tuple[Method, str], ...] = (("mba", "sam"), ("lsa", "rsm"))


@dataclass(frozen=True)
class Case:
    """A dataflow, sized for its rate by one pair of allocation and mapping."""

    problem: Problem
    method: Method
    mapping: str

    @property
    def name(self) -> str:
        """Of its files: `linear-15.7-even-mba-sam`."""
        return f"{self.problem.name}-{self.problem.rate_tps:g}-{self.problem.shuffle}-{self.method}-{self.mapping}"

    @property
    def threads(self) -> Mapping[str, int]:
        """Threads by component."""
        return {a.component: a.threads for a in allocate(self.problem, self.problem.rate_tps, self.method).allotments}

    @property
    def slots(self) -> int | None:
        """Slots until everything fits; None where it fits nowhere."""
        placed = self.placed()
        return placed.slots if isinstance(placed, Placed) else None

    def places(self, placement: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether these threads by slot are its own, whichever slots they are."""
        placed = self.placed()
        if not isinstance(placed, Placed):
            return False
        own = threads_of(self.problem, placed.model, placed.plan).values()
        return _alike(own) == _alike(placement.values())

    def placed(self) -> Placed | Infeasible:
        """Its threads on as few slots as hold them, or why none do."""
        return place(self.problem, allocate(self.problem, self.problem.rate_tps, self.method), self.mapping)


def _alike(slots: Iterable[Mapping[str, int]]) -> list[list[tuple[str, int]]]:
    return sorted(sorted(threads.items()) for threads in slots)


def cases(models: Models, tasks: Sequence[str]) -> list[Case]:
    """All cases for which the nodes are enough under both pairs.

    The line of measured `tasks` comes first; the paper's micro DAGs follow at every rate and its applications at the
    middle one, where all of its tasks are measured; last the line under the shuffle of Storm 2, at the lowest: it draws
    among threads, and at the middle rate all of blob's have to take turns to keep up (profile: 23 tuples/s; drawn 17).
    """
    line = linear_of(tasks, RATE_PARTS)
    found = [*_at(line, models, "even", RATE_PARTS)]
    if set(TASKS) <= set(tasks):
        found += [case for dag in MICRO[1:] for case in _at(dag, models, "even", RATE_PARTS)]
        found += [case for dag in APPLICATIONS for case in _at(dag, models, "even", RATE_PARTS[1:2])]
    return [*found, *_at(line, models, "local", RATE_PARTS[:1])]


def problem_of(dag: Dag, models: Models, shuffle: Shuffle, part: float) -> Problem:
    """The dataflow on the measured models, at a part of what a slot of the task that is full first sustains."""
    problem = dag.problem(models.by_task, models.slot)
    gains = input_gains(problem)
    best = {model.name: model.best.rate_tps for model in problem.models}
    rate_tps = round(part * min(best[c.model] / gains[c.id] for c in problem.components if c.model), 1)
    return msgspec.structs.replace(
        problem,
        rate_tps=rate_tps,
        vms=[VmSize(name="node", slots=1)],
        components=dag.components(models.by_task, SOURCE_NEEDS),
        shuffle=shuffle,
    )


def _at(dag: Dag, models: Models, shuffle: Shuffle, parts: Sequence[float]) -> Iterator[Case]:
    for part in parts:
        problem = problem_of(dag, models, shuffle, part)
        pairs = [Case(problem, method, mapping) for method, mapping in PAIRS]
        if all(case.slots is not None and case.slots <= NODES for case in pairs):
            yield from pairs
