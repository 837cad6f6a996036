"""The model for the hour that comes: measured rates, moved along the profile that was mined of a week.

What is measured now counts; the profile only says by how much each edge grows, to the most that it reaches until then.
Nothing falls: a plan is in force at once, so what is there now has to fit too. CPU follows the tuples by the law that
was mined of the component (intercept + MHz per tuple/s, docs/concepts/mining.md), without one in proportion. A topology
whose profile is missing, untested or too inexact stays as measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stormpilot.messages.thresholds import (
    CPU_MHZ_PER_TPS,
    HOURS_OF_WEEK,
    EdgeProfile,
    Profile,
    Thresholds,
    hour_of_week,
)
from stormpilot.model.closed_loop import Demand
from stormpilot.model.load import node_load_mhz
from stormpilot.model.subset import traffic_of_each, with_cpu
from stormpilot.model.values import Edge, Executor, Model, Topology
from stormpilot.printable import tuples

HOUR_MS = 3_600_000
SAMPLE_MS = HOUR_MS // 2
"""Time between two moments at which a profile is read."""
LARGEST_CHANGE = 10.0
"""No edge is taken to change by more than this factor."""


@dataclass(frozen=True)
class Forecast:
    """The model for the time that comes; `texts` by topology id: how much its tuples grow, or why it is as measured."""

    model: Model
    texts: Mapping[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()

    @property
    def overloaded(self) -> dict[str, float]:
        """Nodes that will have B(n) or more if nothing moves: load / B(n) by supervisor id; none without a forecast."""
        if not self.moved:
            return {}
        load_mhz = node_load_mhz(self.model)
        return {s.id: load_mhz[s.id] / s.limit_mhz for s in self.model.supervisors if 0 < s.limit_mhz <= load_mhz[s.id]}


def forecast_of(
    model: Model,
    profiles: Mapping[str, Profile],
    thresholds: Mapping[str, Thresholds],
    now_ms: int,
    lead_s: float,
    max_error_ratio: float,
    declared_cpu: bool = False,
) -> Forecast:
    """Take every topology that has a good profile at its most until `lead_s` from now; mappings are by topology id.

    With `declared_cpu` the CPU of the model is what owners declared: it follows no rate.
    """
    texts, moved = dict[str, str](), set[str]()
    topologies, traffic = [], []
    edges = traffic_of_each(model)
    for topology in model.topologies:
        profile, own = profiles.get(topology.id), edges[topology.id]
        why = _unusable(profile, max_error_ratio)
        if profile is None or why:
            texts[topology.id] = why
            topologies.append(topology)
            traffic += own
            continue
        moved.add(topology.id)
        then = _edges_then(topology, own, profile, now_ms, now_ms + int(lead_s * 1000))
        mined = thresholds.get(topology.id)
        laws = {} if mined is None else _laws(mined)
        topologies.append(topology if declared_cpu else _topology_then(topology, own, then, laws))
        traffic += then
        before, after = sum(e.rate for e in own), sum(e.rate for e in then)
        change = (after - before) / before if before else 0.0
        texts[topology.id] = (
            f"planned for the most of the next {lead_s / 60:.0f} min: {change:+.0%} tuples/s by the profile "
            f"(tested error {profile.forecast_error_ratio:.0%})"
        )
    return Forecast(msgspec.structs.replace(model, topologies=topologies, traffic=traffic), texts, frozenset(moved))


def rate_at(profile: EdgeProfile, at_ms: int) -> float | None:
    """Rate of an edge at a time: between the middles of two hours on a line; None where one of them is not known."""
    middle_ms = at_ms - HOUR_MS // 2
    first = hour_of_week(middle_ms)
    a, b = profile.rate_tps[first], profile.rate_tps[(first + 1) % HOURS_OF_WEEK]
    if a is None or b is None:
        return profile.rate_tps[hour_of_week(at_ms)]
    part = (middle_ms % HOUR_MS) / HOUR_MS
    return a + (b - a) * part


def demand_by_profile(profile: Profile, edges: Sequence[Edge], model: Model, now_ms: int) -> Demand | None:
    """Demand on a topology with held sources by the profile of this hour; None where that is no more than now.

    Edges that the profile does not know (ackers) are left out on both sides, and so are those of components that send
    and get nothing now: a topology of the same name may have had others.
    """
    component = {(t.id, e.start): e.component for t in model.topologies for e in t.executors}
    there = {component[e.topology, x] for e in edges for x in (e.from_, e.to)}
    known = {
        (p.from_, p.stream, p.to): tps
        for p in profile.edges
        if {p.from_, p.to} <= there and (tps := rate_at(p, now_ms))
    }
    through_tps = sum(
        e.rate
        for e in edges
        if (component[e.topology, e.from_], e.stream or "default", component[e.topology, e.to]) in known
    )
    wanted_tps = sum(known.values())
    if not through_tps or wanted_tps <= through_tps:
        return None
    text = f"{tuples(wanted_tps)} tuples/s are usual at this hour of the week, {tuples(through_tps)} get through"
    return Demand(wanted_tps / through_tps, text)


def _unusable(profile: Profile | None, max_error_ratio: float) -> str:
    if profile is None:
        return "no profile was mined"
    if profile.forecast_error_ratio is None:
        return "the profile was never tested"
    if profile.forecast_error_ratio > max_error_ratio:
        return f"the profile's error is {profile.forecast_error_ratio:.0%}, over {max_error_ratio:.0%}"
    return ""


def _edges_then(topology: Topology, edges: list[Edge], profile: Profile, now_ms: int, then_ms: int) -> list[Edge]:
    """Every edge by the largest factor of its two components until then, others (ackers) by that of all tuples."""
    component = {e.start: e.component for e in topology.executors}
    moments = [*range(now_ms + SAMPLE_MS, then_ms, SAMPLE_MS), then_ms]
    factors: dict[tuple[str, str, str], float] = {}
    now_tps, then_tps = 0.0, [0.0] * len(moments)
    for p in profile.edges:
        now, then = rate_at(p, now_ms), [rate_at(p, at_ms) for at_ms in moments]
        if now and (known := [tps for tps in then if tps is not None]):
            factors[p.from_, p.stream, p.to] = _factor(now, known)
            now_tps += now
            then_tps = [all_tps + (now if tps is None else tps) for all_tps, tps in zip(then_tps, then, strict=True)]
    whole = _factor(now_tps, then_tps) if now_tps else 1.0
    return [
        msgspec.structs.replace(
            e, rate=e.rate * factors.get((component[e.from_], e.stream or "default", component[e.to]), whole)
        )
        for e in edges
    ]


def _factor(now_tps: float, then_tps: list[float]) -> float:
    return min(max(1.0, *(tps / now_tps for tps in then_tps)), LARGEST_CHANGE)


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
            return e.cpu_mhz + laws[e.component] * (then[e.start] - now[e.start])
        return e.cpu_mhz * then[e.start] / now[e.start] if now[e.start] else e.cpu_mhz

    return with_cpu(topology, {e.start: cpu_mhz(e) for e in topology.executors})
