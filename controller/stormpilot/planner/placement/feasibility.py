"""Reasons for which no plan can exist, found without searching. Each answer is a proof."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stormpilot.model.compiled import Bools, Compiled, Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.placement.layout import Frame
from stormpilot.planner.placement.problem import fewest_workers

SLACK = 1 + 1e-9


def refuted(frame: Frame, *, exact_workers: bool) -> Infeasible | None:
    """The first constraint that no placement can meet, or None where none of the simple reasons applies."""
    return next(_reasons(frame, exact_workers), None)


def surplus_fixed(c: Compiled) -> Infeasible | None:
    """A topology with more fixed workers than it wants, which have no numbers in a frame."""
    for t, topology in enumerate(c.model.topologies):
        if (fixed := len(set(topology.fixed_workers))) > c.workers[t]:
            text = f"{topology.name}: {fixed} fixed workers and {c.workers[t]} workers wanted"
            return proof(c, "workers", text, np.flatnonzero(c.topology == t))
    return None


def proof(compiled: Compiled, constraint: str, text: str, executors: Ints) -> Infeasible:
    """A proved Infeasible that names executors."""
    return Infeasible(
        constraint=constraint, text=text, executors=[compiled.name(int(e)) for e in executors], proved=True
    )


def _reasons(frame: Frame, exact_workers: bool) -> Iterator[Infeasible]:
    c = frame.compiled
    everyone = np.arange(c.executors)
    fewest = int(fewest_workers(c, c.sharing.most_executors).sum()) + int(frame.fixed.sum())
    needed = int(c.workers.sum()) if exact_workers else fewest
    if needed > c.slots:
        yield proof(c, "slots", f"{needed} workers are needed and the cluster has {c.slots} slots", everyone)
    if (surplus := surplus_fixed(c)) is not None:
        yield surplus
    free = ~c.fixed
    for k, mask in enumerate(c.allowed):
        mine = everyone[(c.klass == k) & free]
        if len(mine) and not (mask & (c.slots_per_node() > 0)).any():
            yield proof(c, _why(c, int(mine[0])), f"no live supervisor may run {_wish(c, mine)}", mine)
            continue
        for constraint, unit, need, limit in _resources(c):
            most = float(limit[mask].max(initial=0.0))
            big = mine[need[mine] > most * SLACK]
            if len(big):
                yield proof(
                    c,
                    constraint,
                    f"{c.describe(big[:1])} needs {need[big[0]]:.0f} {unit}, more than the {most:.0f} {unit} of the "
                    "largest supervisor that may run it",
                    big,
                )
    yield from _unshared(frame)
    for constraint, unit, need, limit in _resources(c):
        for mask in np.vstack([c.allowed, np.ones((1, c.nodes), dtype=np.bool_)]):
            yield from _too_much(c, constraint, unit, need, limit, mask)
        yield from _too_few_workers(c, constraint, unit, need, limit)


def _unshared(frame: Frame) -> Iterator[Infeasible]:
    """Rules on who shares a worker or a node that not all executors of a topology can keep.

    Fixed workers are as they are: only the others have to keep rules on workers.
    """
    c, s = frame.compiled, frame.compiled.sharing
    fixed_workers = np.bincount(frame.topology[frame.fixed], minlength=c.topologies)
    for t, topology in enumerate(c.model.topologies):
        mine = np.flatnonzero((c.topology == t) & ~c.fixed)
        w = int(c.workers[t] - fixed_workers[t])
        which = f"{w} workers that are not fixed" if fixed_workers[t] else f"{w} workers"
        if len(mine) > w * s.most_executors[t]:
            text = f"{topology.name}: {len(mine)} executors, at most {s.most_executors[t]} in each of {which}"
            yield proof(c, "workers", text, mine)
        if w and s.heap_mb[mine].sum() > w * s.most_heap_mb[t] * SLACK:
            text = f"{s.heap_mb[mine].sum():.0f} MB of heap in {which} of {s.most_heap_mb[t]:.0f} MB each"
            yield proof(c, "worker-heap", f"{topology.name}: {text}", mine)
    for r, name in enumerate(s.names):
        takers = np.flatnonzero((s.kind >= 0) & (s.demand[s.kind, r] > 0)) if len(s.demand) else np.zeros(0, np.int64)
        asked, have = float(s.demand[s.kind[takers], r].sum()), float(s.room[r].sum())
        if asked > have * SLACK:
            text = f"{c.describe(takers)} take {asked:g} of {name}, the supervisors have {have:g}"
            yield proof(c, "resource", text, takers)


def _resources(c: Compiled) -> list[tuple[str, str, Floats, Floats]]:
    return [("cpu", "MHz", c.cpu_mhz, c.node_limit_mhz), ("memory", "MB", c.memory_mb, c.node_memory_mb)]


def _too_much(
    c: Compiled, constraint: str, unit: str, need: Floats, limit: Floats, mask: Bools
) -> Iterator[Infeasible]:
    """All executors that are confined to a set of nodes need more than these nodes have."""
    inside = np.logical_not((c.allowed & ~mask).any(axis=1))
    mine = np.flatnonzero(np.where(c.fixed, mask[c.slot_node[c.current]], np.asarray(inside)[c.klass]))
    have = float(limit[mask].sum())
    if need[mine].sum() > have * SLACK:
        where = "all supervisors together" if mask.all() else f"supervisors {', '.join(_names(c, mask))}"
        yield proof(
            c,
            constraint,
            f"{len(mine)} executors need {need[mine].sum():.0f} {unit} and {where} have {have:.0f} {unit}",
            mine,
        )


def _too_few_workers(c: Compiled, constraint: str, unit: str, need: Floats, limit: Floats) -> Iterator[Infeasible]:
    """A topology needs more than the largest nodes that its workers could be on have."""
    largest = np.sort(limit)[::-1]
    for t, topology in enumerate(c.model.topologies):
        mine = np.flatnonzero(c.topology == t)
        have = float(largest[: c.workers[t]].sum())
        if need[mine].sum() > have * SLACK:
            yield proof(
                c,
                "workers",
                f"{topology.name} needs {need[mine].sum():.0f} {unit}; its {c.workers[t]} workers reach at most "
                f"{have:.0f} {unit}",
                mine,
            )


def _why(c: Compiled, e: int) -> str:
    topology = c.model.topologies[int(c.topology[e])]
    name = c.component_names[int(c.component[e])][1]
    executor = next(x for x in topology.executors if x.start == c.start[e])
    if executor.pin is not None:
        return "pin"
    return "site" if any(x.id == name and x.site is not None for x in topology.components) else "exclusion"


def _wish(c: Compiled, executors: Ints) -> str:
    e = int(executors[0])
    topology = c.model.topologies[int(c.topology[e])]
    component = next(x for x in topology.components if x.id == c.component_names[int(c.component[e])][1])
    pin = next(x.pin for x in topology.executors if x.start == c.start[e])
    asks = f" (pinned to {pin})" if pin else f" (site {component.site})" if component.site else ""
    return c.describe(executors) + asks


def _names(c: Compiled, mask: Bools, limit: int = 4) -> list[str]:
    names = [c.node_ids[n] for n in np.flatnonzero(mask)]
    return names if len(names) <= limit else [*names[:limit], f"{len(names) - limit} more"]
