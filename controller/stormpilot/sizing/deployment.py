"""An allocation on acquired VMs as a planning model (`model.json`): what planners place and `plan compute` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.model.values import Component, Edge, Executor, Input, Model, Supervisor, Topology
from stormpilot.sizing.acquisition import acquire
from stormpilot.sizing.allocation import Allocation
from stormpilot.sizing.problem import Problem

FIRST_PORT = 6700
FIRST_TASK = 1
MOST_PAIRS = 2_000_000


def model_of(problem: Problem, allocation: Allocation, slots: int) -> Model:
    """A topology of `slots` workers on the VMs that hold so many slots, without traffic (`with_traffic` adds it).

    A VM is a supervisor `vm<number>-<size>` with a core and a slot's memory for each slot. Executors are numbered in
    the order of the file, those of full bundles first; each has an equal part of its bundle's CPU and memory, so the
    threads of an MBA bundle together have a whole slot. `Component.bundle` carries the full bundle to `sam`.
    """
    supervisors = []
    for i, size in enumerate(acquire(slots, problem.vms)):
        name = f"vm{i + 1:04d}-{size.name}"
        supervisors.append(
            Supervisor(
                id=name,
                host=name,
                slots=[FIRST_PORT + i for i in range(size.slots)],
                cores=float(size.slots),
                mhz=problem.slot.cpu_mhz,
                memory_mb=size.slots * problem.slot.memory_mb,
            )
        )
    first = FIRST_TASK
    ranges = {}
    for allotment in allocation.allotments:
        ranges[allotment.component] = [(task, task) for task in range(first, first + allotment.threads)]
        first += allotment.threads
    topology = Topology(
        id=problem.name,
        name=problem.name,
        workers=slots,
        components=components_of(problem, allocation),
        executors=executors_of(problem, allocation, ranges),
    )
    return Model(supervisors=supervisors, topologies=[topology])


def components_of(problem: Problem, allocation: Allocation) -> list[Component]:
    """The components with their full bundles."""
    return [
        Component(
            id=c.id,
            kind="bolt" if c.inputs else "spout",
            inputs=[Input(component=s.component, stream=s.stream, grouping=s.grouping) for s in c.inputs],
            bundle=allocation.of(c.id).full_bundle,
        )
        for c in problem.components
    ]


def executors_of(
    problem: Problem, allocation: Allocation, ranges: Mapping[str, Sequence[tuple[int, int]]]
) -> list[Executor]:
    """The threads with their needs: `ranges` has first and last task of as many executors as there are threads."""
    made = []
    for allotment in allocation.allotments:
        bundles = [b for b in allotment.bundles for _ in range(b.threads)]
        for (start, end), bundle in zip(ranges[allotment.component], bundles, strict=True):
            made.append(
                Executor(
                    start=start,
                    end=end,
                    component=allotment.component,
                    cpu_mhz=bundle.cpu_share / bundle.threads * problem.slot.cpu_mhz,
                    memory_mb=bundle.memory_share / bundle.threads * problem.slot.memory_mb,
                    measured=False,
                )
            )
    return made


def with_traffic(problem: Problem, allocation: Allocation, model: Model) -> Model:
    """The model with every stream split evenly over the pairs of threads; refused above `MOST_PAIRS` pairs."""
    (topology,) = model.topologies
    tasks: dict[str, list[int]] = {}
    for e in topology.executors:
        tasks.setdefault(e.component, []).append(e.start)
    streams = [(s, c.id) for c in problem.components for s in c.inputs]
    pairs = sum(len(tasks[s.component]) * len(tasks[receiver]) for s, receiver in streams)
    if pairs > MOST_PAIRS:
        raise RefusedError(f"{problem.name}: {pairs:,} pairs of threads exchange tuples, a model holds {MOST_PAIRS:,}")
    edges = []
    for s, receiver in streams:
        senders, receivers = tasks[s.component], tasks[receiver]
        rate = allocation.of(s.component).rate_tps * s.selectivity / (len(senders) * len(receivers))
        edges += [
            Edge(topology=topology.id, from_=a, to=b, rate=rate, stream=s.stream) for a in senders for b in receivers
        ]
    return msgspec.structs.replace(model, traffic=edges)
