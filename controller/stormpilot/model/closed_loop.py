"""Closed loops: topologies whose sources are held, so that their rate and CPU follow the placement.

A source with `topology.max.spout.pending` tuples in flight, or one stopped by backpressure, emits when a tuple is done
and not when one arrives. A better placement makes tuples faster, and so the sources too: what was measured is not what
the next placement has to carry. That is the demand, where it is known: the rate that the topology had while nothing
held its sources, or that its profile has at this hour. Else the rate that it will reach is not known before; what
bounds it is: an executor is one thread, and the nodes have so much CPU. Plans for a closed loop have to fit at that
rate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from stormpilot.model.subset import with_cpu
from stormpilot.model.values import Model, Topology

MOST_GROWTH = 4.0
"""No topology is planned for more than so many times its rate: CPU is no multiple of the rate over a wider range."""


@dataclass(frozen=True)
class Sources:
    """The sources of a topology: `held` by the topology itself, or free (False); None: nothing measured tells."""

    held: bool | None = None
    text: str = ""


@dataclass(frozen=True)
class Demand:
    """Demand on a topology whose sources are held: `ratio` times what gets through now, `text` says whence."""

    ratio: float
    text: str


def growth(model: Model, held: Collection[str], demand: Mapping[str, Demand] | None = None) -> dict[str, float]:
    """Factor by which these topologies (ids) may run faster in the model's room, where that is more than now.

    All of them grow by one factor until the CPU of all nodes is used, or until their busiest executor fills a core; one
    whose demand (by topology id) is known, and is more than now, to no more than that.
    """
    core_mhz = {s.id: s.mhz for s in model.supervisors}
    total_mhz = {t.id: sum(e.cpu_mhz for e in t.executors if e.measured) for t in model.topologies}
    held_mhz = sum(total_mhz[t] for t in total_mhz if t in held)
    if held_mhz <= 0:
        return {}
    all_mhz = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    room_mhz = sum(s.limit_mhz for s in model.supervisors) - (all_mhz - held_mhz)
    by_room = min(MOST_GROWTH, room_mhz / held_mhz)
    found = {t.id: min(by_room, _by_thread(t, core_mhz)) for t in model.topologies if t.id in held}
    for t, wants in (demand or {}).items():
        if t in found and wants.ratio > 1:
            found[t] = min(found[t], wants.ratio)
    return {t: by for t, by in found.items() if by > 1}


def grown(model: Model, by: Mapping[str, float]) -> Model:
    """The model with the CPU of these topologies (ids) at so many times their rate; the same object without any."""
    if not by:
        return model
    return msgspec.structs.replace(
        model,
        topologies=[
            with_cpu(t, {e.start: e.cpu_mhz * by[t.id] for e in t.executors if e.measured}) if t.id in by else t
            for t in model.topologies
        ],
    )


def _by_thread(topology: Topology, core_mhz: Mapping[str, float]) -> float:
    """By how much the busiest executor may still grow."""
    at = {a.start: a.supervisor for a in topology.assignment}
    ratios = [
        e.lanes * core_mhz[at[e.start]] / e.cpu_mhz
        for e in topology.executors
        if e.measured and e.cpu_mhz > 0 and at.get(e.start) in core_mhz
    ]
    return min(ratios, default=1.0)
