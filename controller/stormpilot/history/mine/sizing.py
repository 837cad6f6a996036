"""Input of `stormpilot size` from the findings of a topology. No Spark in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, get_args

import msgspec

from stormpilot.messages import thresholds as th
from stormpilot.messages.thresholds import PerformancePoint, Thresholds
from stormpilot.model.values import Component
from stormpilot.sizing.performance import Performance, Point
from stormpilot.sizing.problem import Component as Sized
from stormpilot.sizing.problem import Grouping, Problem, Slot, Stream, VmSize

Row = Mapping[str, Any]
EVEN = frozenset(get_args(Grouping))
AS_SHUFFLE = ("NONE", "CUSTOM")
"""Groupings that are taken to spread tuples evenly, which is said."""


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` is what `stormpilot size` reads; where it is null `notes` say why, else what was assumed."""

    problem: Problem | None
    notes: list[str] = []


class _NoneError(Exception):
    """Why a topology cannot be sized from its log."""


def sizing(mined: Thresholds, components: str | None, peaks: Sequence[Row], machines: Sequence[Row]) -> Sizing:
    """The topology at the rate that its sources had, with the points that were seen, on the nodes that there are.

    Parameters
    ----------
    mined
        Selectivities and performance points.
    components
        JSON: list of `Component`, as the log has it.
    peaks, machines
        Rows of `surroundings`: rate of each component of this topology, and nodes.
    """
    notes: list[str] = []
    try:
        return Sizing(problem=_problem(mined, components, peaks, machines, notes), notes=notes)
    except _NoneError as e:
        return Sizing(problem=None, notes=[str(e)])


def _problem(
    mined: Thresholds, text: str | None, peaks: Sequence[Row], machines: Sequence[Row], notes: list[str]
) -> Problem:
    if not text:
        raise _NoneError("the log does not know its components")
    known = [c for c in msgspec.json.decode(text, type=list[Component]) if not c.auxiliary]
    slot = _slot(machines)
    rates = {r["component"]: float(r["rate_tps"]) for r in peaks}
    sources = {c.id: rates.get(c.id, 0.0) for c in known if not c.inputs}
    if silent := [s for s, rate in sources.items() if rate <= 0]:
        raise _NoneError(f"nothing was seen of the source {', '.join(silent)}")
    if not sources:
        raise _NoneError("no component is a source")
    asked = max(sources.values())
    models = [_performance(c.id, [p for p in mined.performance if p.component == c.id], slot, notes) for c in known]
    sized = [
        Sized(
            id=c.id,
            model=c.id,
            source_share=1.0 if c.inputs else sources[c.id] / asked,
            inputs=[_stream(mined, c, i.component, i.stream, i.grouping, notes) for i in c.inputs],
        )
        for c in known
    ]
    try:
        return Problem(
            name=mined.topology_name, rate_tps=asked, components=sized, models=models, slot=slot, vms=_vms(machines)
        )
    except ValueError as e:
        raise _NoneError(str(e)) from e


def _slot(machines: Sequence[Row]) -> Slot:
    """A core and its memory; where nodes differ, those of the middle one."""
    mhz = median(m["mhz"] for m in machines)
    memory_mb = median((m["memory_mb"] or 0.0) / _cores(m) for m in machines)
    if mhz <= 0 or memory_mb <= 0:
        raise _NoneError("the log does not know the CPU or the memory of the nodes")
    return Slot(cpu_mhz=mhz, memory_mb=memory_mb)


def _cores(machine: Row) -> int:
    return max(int(machine["cores"]), 1)


def _vms(machines: Sequence[Row]) -> list[VmSize]:
    return [VmSize(name=f"node-{n}", slots=n) for n in sorted({_cores(m) for m in machines}, reverse=True)]


def _stream(mined: Thresholds, to: Component, from_: str, stream: str, grouping: str, notes: list[str]) -> Stream:
    if grouping in AS_SHUFFLE:
        notes.append(f"{from_} to {to.id}: grouping {grouping} is taken as SHUFFLE, evenly spread")
        grouping = "SHUFFLE"
    if grouping not in EVEN:
        raise _NoneError(f"{from_} to {to.id}: grouping {grouping} does not spread tuples evenly, which sizing needs")
    entry = mined.entry(th.SELECTIVITY, "edge", from_, stream, to.id)
    if entry is None:
        notes.append(f"{from_} to {to.id}: no tuple was seen on stream {stream}")
    elif entry.value is None:
        raise _NoneError(f"{from_} to {to.id}: {entry.text}")
    return Stream(
        component=from_,
        stream=stream,
        grouping=grouping,  # type: ignore[arg-type]
        selectivity=0.0 if entry is None or entry.value is None else entry.value,
    )


def _performance(component: str, points: Sequence[PerformancePoint], slot: Slot, notes: list[str]) -> Performance:
    """Points of a slot, by rising threads; the first is that of one thread."""
    if not points:
        raise _NoneError(f"{component}: too little was seen of it for a performance point")
    by_mined = {p.threads: p for p in points if p.by == "mined"}  # below the knee: sustained within its band
    points = list(({p.threads: p for p in points} | by_mined).values())
    few = min(points, key=lambda p: p.threads)
    if few.threads > 1:
        n = few.threads
        notes.append(f"{component}: never seen with one thread in a worker, which is taken as 1/{n} of {n}")
        one = msgspec.structs.replace(
            few, threads=1, rate_tps=few.rate_tps / n, cpu_mhz=few.cpu_mhz / n, memory_mb=few.memory_mb / n
        )
        points = [one, *points]
    found = []
    for p in sorted(points, key=lambda p: p.threads):
        if p.threads > 1 and p.cpu_mhz > slot.cpu_mhz:
            notes.append(f"{component}: {p.threads} threads used more than a core, which no slot has: left out")
            continue
        cpu, memory = min(p.cpu_mhz / slot.cpu_mhz, 1.0), min(p.memory_mb / slot.memory_mb, 1.0)
        found.append(Point(threads=p.threads, rate_tps=p.rate_tps, cpu_share=cpu, memory_share=memory))
    return Performance(name=component, points=found)
