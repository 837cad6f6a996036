"""The model for the hour that comes: measured rates, moved along the profile that was mined of a week.

What is measured now counts; the profile only says by how much each edge changes from now until then. CPU follows the
tuples by the law that was mined of the component (intercept + MHz per tuple/s, algorithms.md section 9); without one it
grows in proportion and never falls. A topology whose profile is missing, untested or too inexact stays as measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from stormpilot.model.thresholds import CPU_MHZ_PER_TPS, HOURS_OF_WEEK, EdgeProfile, Profile, Thresholds, hour_of_week
from stormpilot.model.values import Edge, Executor, Model, Topology

HOUR_MS = 3_600_000
LARGEST_CHANGE = 10.0
"""No edge is taken to change by more than this factor."""


@dataclass(frozen=True)
class Foreseen:
    """The model for then; `said` by topology id: by how much its tuples change, or why it stays as measured."""

    model: Model
    said: Mapping[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()


def foresee(
    model: Model,
    profiles: Mapping[str, Profile],
    thresholds: Mapping[str, Thresholds],
    now_ms: int,
    lead_s: float,
    max_error_ratio: float,
) -> Foreseen:
    """Move every topology that has a good profile `lead_s` ahead; `profiles` and `thresholds` are by topology id."""
    said: dict[str, str] = {}
    topologies, traffic = [], []
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for e in model.traffic:
        edges[e.topology].append(e)
    for topology in model.topologies:
        profile, own = profiles.get(topology.id), edges[topology.id]
        why = _unusable(profile, max_error_ratio)
        if profile is None or why:
            said[topology.id] = why
            topologies.append(topology)
            traffic += own
            continue
        then = _edges_then(topology, own, profile, now_ms, now_ms + int(lead_s * 1000))
        mined = thresholds.get(topology.id)
        topologies.append(_topology_then(topology, own, then, {} if mined is None else _laws(mined)))
        traffic += then
        before, after = sum(e.rate for e in own), sum(e.rate for e in then)
        change = (after - before) / before if before else 0.0
        said[topology.id] = (
            f"planned for the rates in {lead_s / 60:.0f} min: {change:+.0%} tuples/s by the profile "
            f"(tested error {profile.forecast_error_ratio:.0%})"
        )
    moved = frozenset(t for t in said if not _unusable(profiles.get(t), max_error_ratio))
    return Foreseen(msgspec.structs.replace(model, topologies=topologies, traffic=traffic), said, moved)


def rate_at(profile: EdgeProfile, at_ms: int) -> float | None:
    """Rate of an edge at a time: between the middles of two hours on a line; None where one of them is not known."""
    middle_ms = at_ms - HOUR_MS // 2
    first = hour_of_week(middle_ms)
    a, b = profile.rate_tps[first], profile.rate_tps[(first + 1) % HOURS_OF_WEEK]
    if a is None or b is None:
        return profile.rate_tps[hour_of_week(at_ms)]
    part = (middle_ms % HOUR_MS) / HOUR_MS
    return a + (b - a) * part


def _unusable(profile: Profile | None, max_error_ratio: float) -> str:
    if profile is None:
        return "no profile was mined"
    if profile.forecast_error_ratio is None:
        return "the profile was never tested"
    if profile.forecast_error_ratio > max_error_ratio:
        return f"the profile's error is {profile.forecast_error_ratio:.0%}, over {max_error_ratio:.0%}"
    return ""


def _edges_then(topology: Topology, edges: list[Edge], profile: Profile, now_ms: int, then_ms: int) -> list[Edge]:
    """Every edge by the factor of its two components, others (ackers) by that of all tuples."""
    component = {e.start: e.component for e in topology.executors}
    factors: dict[tuple[str, str, str], float] = {}
    now_tps = then_tps = 0.0
    for p in profile.edges:
        a, b = rate_at(p, now_ms), rate_at(p, then_ms)
        if a and b is not None:
            factors[p.from_, p.stream, p.to] = min(max(b / a, 1 / LARGEST_CHANGE), LARGEST_CHANGE)
            now_tps, then_tps = now_tps + a, then_tps + b
    whole = min(max(then_tps / now_tps, 1 / LARGEST_CHANGE), LARGEST_CHANGE) if now_tps else 1.0
    return [
        msgspec.structs.replace(
            e, rate=e.rate * factors.get((component[e.from_], e.stream or "default", component[e.to]), whole)
        )
        for e in edges
    ]


def _laws(mined: Thresholds) -> dict[str, float]:
    """MHz per tuple/s by component."""
    found = [e for e in mined.entries if e.name == CPU_MHZ_PER_TPS and e.of and e.source == "mined"]
    return {e.of[0]: e.value for e in found if e.value}


def _topology_then(topology: Topology, before: list[Edge], after: list[Edge], laws: Mapping[str, float]) -> Topology:
    spouts = {c.id for c in topology.components if c.kind == "spout"}
    sources = {e.start for e in topology.executors if e.component in spouts}

    def taken(edges: list[Edge]) -> defaultdict[int, float]:
        tps: defaultdict[int, float] = defaultdict(float)
        for e in edges:
            if not (e.stream or "").startswith("__ack"):
                tps[e.to] += e.rate
                if e.from_ in sources:
                    tps[e.from_] += e.rate
        return tps

    now, then = taken(before), taken(after)

    def cpu_mhz(e: Executor) -> float:
        if e.component in laws:
            return max(0.0, e.cpu_mhz + laws[e.component] * (then[e.start] - now[e.start]))
        return e.cpu_mhz * max(1.0, then[e.start] / now[e.start]) if now[e.start] else e.cpu_mhz

    executors = [msgspec.structs.replace(e, cpu_mhz=cpu_mhz(e)) for e in topology.executors]
    return msgspec.structs.replace(topology, executors=executors)
