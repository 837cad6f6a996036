"""Memory of decisions from cycle to cycle; a controller starts with an empty one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stormpilot.messages.controller_state import GonePart
from stormpilot.model.closed_loop import Demand
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Model, Topology
from stormpilot.printable import tuples


@dataclass(frozen=True)
class Hits:
    """The number of cycles in a row in which a plan was worth its restarts, and the time of the last one.

    `evidence` is the sum over these cycles (`sequential.py`).
    """

    count: int
    at_ms: int
    evidence: float = 0.0


@dataclass(frozen=True)
class Shares:
    """The inter-node share and the throughput of a topology, cycle by cycle, under one placement: how they vary."""

    placement: frozenset[tuple[int, str, int]]
    values: tuple[float, ...]
    throughput_tps: tuple[float, ...]
    at_ms: int


KEPT_SHARES = 40
SEEN_KEPT_MS = 86_400_000
"""So long a supervisor that is gone is known: as `decide.lost_supervisor_grace_s` may be."""
OVERLAP_MS = 120_000
"""So long Storm may still name a supervisor beside the one that runs in its place under a new id."""
DEMAND_KEPT_MS = 3_600_000
"""So long the rate at which nothing held the sources is what wants through."""


@dataclass(frozen=True)
class FreeRate:
    """All tuples/s of a topology when nothing held its sources, last at `at_ms`."""

    total_tps: float
    at_ms: int


class LostSupervisors(NamedTuple):
    """Supervisors that were there within the grace time and are not now, and how many are known at all."""

    gone: list[str]
    known: int


@dataclass(frozen=True)
class Memory:
    """Observations of earlier cycles.

    By topology id: `hits`, `shares`, `free` rates, and the time since which executors run nowhere. By supervisor id:
    the time since which it is overloaded, the time when it was last seen, its host, the time when it came (back), and
    the time when it came beside those that its host had (`OVERLAP_MS`). A supervisor that is gone is forgotten once
    its host has another one under a new id in its place. `live` are the supervisors of the last observation, None
    before the first.
    """

    hits: Mapping[str, Hits] = field(default_factory=dict)
    overloaded_since_ms: Mapping[str, int] = field(default_factory=dict)
    supervisors_seen_ms: Mapping[str, int] = field(default_factory=dict)
    supervisor_hosts: Mapping[str, str] = field(default_factory=dict)
    beside_since_ms: Mapping[str, int] = field(default_factory=dict)
    unplaced_since_ms: Mapping[str, int] = field(default_factory=dict)
    arrived_since_ms: Mapping[str, int] = field(default_factory=dict)
    live: frozenset[str] | None = None
    shares: Mapping[str, Shares] = field(default_factory=dict)
    free: Mapping[str, FreeRate] = field(default_factory=dict)

    def observe(self, model: Model, now_ms: int) -> Memory:
        """Take in the live supervisors and the nodes with a load above B(n), which plans may fill [A13 3.3]."""
        load_mhz = node_load_mhz(model)
        over = {s.id for s in model.supervisors if load_mhz[s.id] > 0 and load_mhz[s.id] > s.limit_mhz * (1 + 1e-9)}
        live = {s.id: now_ms for s in model.supervisors}
        hosts = {**self.supervisor_hosts, **{s.id: s.host for s in model.supervisors}}
        seen_ms = {s: ms for s, ms in self.supervisors_seen_ms.items() if now_ms - ms < SEEN_KEPT_MS}
        replaced, beside = self._replaced(seen_ms, set(live), hosts, now_ms)
        seen_ms = {s: ms for s, ms in (seen_ms | live).items() if s not in replaced}
        unplaced = [t.id for t in model.topologies if len(t.assignment) < len(t.executors)]
        came = set() if self.live is None else set(live) - self.live
        return replace(
            self,
            overloaded_since_ms={s: self.overloaded_since_ms.get(s, now_ms) for s in sorted(over)},
            supervisors_seen_ms=seen_ms,
            supervisor_hosts={s: host for s, host in hosts.items() if s in seen_ms},
            beside_since_ms=beside,
            unplaced_since_ms={t: self.unplaced_since_ms.get(t, now_ms) for t in unplaced},
            arrived_since_ms={
                s: now_ms if s in came else self.arrived_since_ms[s]
                for s in live
                if s in came or s in self.arrived_since_ms
            },
            live=frozenset(live),
        )

    def _replaced(
        self, seen_ms: Mapping[str, int], live: set[str], hosts: Mapping[str, str], now_ms: int
    ) -> tuple[set[str], dict[str, int]]:
        """Supervisors that are gone and came back under a new id, and `beside_since_ms` of the new ids left over.

        On each host a new id stands for one that is gone, the last one first.
        """
        new = live - seen_ms.keys() if seen_ms else set[str]()
        came_ms = {s: ms for s, ms in self.beside_since_ms.items() if s in live and now_ms - ms < OVERLAP_MS}
        came_ms |= dict.fromkeys(sorted(new), now_ms)
        gone = sorted(seen_ms.keys() - live, key=lambda s: seen_ms[s])
        replaced: set[str] = set()
        for s in [*came_ms]:
            left = [g for g in gone if hosts.get(g) == hosts[s] and g not in replaced]
            if left:
                replaced.add(left[-1])
                del came_ms[s]
        return replaced, came_ms

    def arrived(self, now_ms: int, stable_s: float, for_s: float) -> frozenset[str]:
        """Supervisors that are new or came back and have stayed for `stable_s`, but not for `for_s` more than that."""
        return frozenset(
            s
            for s, since_ms in self.arrived_since_ms.items()
            if stable_s * 1000 <= now_ms - since_ms <= (stable_s + for_s) * 1000
        )

    def measured(self, topology: Topology, share: float, total_tps: float, now_ms: int, spacing_s: float) -> Memory:
        """Take in one more measurement of the inter-node share and of all tuples/s, at most one per `spacing_s`."""
        placement = frozenset((a.start, a.supervisor, a.port) for a in topology.assignment)
        last = self.shares.get(topology.id)
        if last is None or last.placement != placement:
            kept = Shares(placement, (share,), (total_tps,), now_ms)
        elif now_ms - last.at_ms < spacing_s * 1000:
            return self
        else:
            values, tps = (*last.values, share), (*last.throughput_tps, total_tps)
            kept = Shares(placement, values[-KEPT_SHARES:], tps[-KEPT_SHARES:], now_ms)
        return replace(self, shares={**self.shares, topology.id: kept})

    def ran_free(self, topology_id: str, total_tps: float, now_ms: int) -> Memory:
        """Take in the tuples/s of a topology while nothing holds its sources."""
        return replace(self, free={**self.free, topology_id: FreeRate(total_tps, now_ms)})

    def demand(self, topology_id: str, total_tps: float, now_ms: int) -> Demand | None:
        """Demand on a topology that is held at `total_tps`, by the rate at which it ran free within the hour.

        None where it never did, or was slower: how much more wants through is not known then.
        """
        last = self.free.get(topology_id)
        if last is None or now_ms - last.at_ms > DEMAND_KEPT_MS or not 0 < total_tps < last.total_tps:
            return None
        minutes = (now_ms - last.at_ms) / 60_000
        text = f"{tuples(last.total_tps)} tuples/s were measured {minutes:.0f} min ago, when nothing held them"
        return Demand(last.total_tps / total_tps, text)

    def lost(self, live: Iterable[str], now_ms: int, grace_s: float) -> LostSupervisors:
        """Supervisors that were seen within the grace time and are gone now."""
        present = set(live)
        known = {s for s, seen_ms in self.supervisors_seen_ms.items() if now_ms - seen_ms <= grace_s * 1000} | present
        return LostSupervisors(sorted(known - present), len(known))

    def gone(self, supervisors: Iterable[str]) -> list[GonePart]:
        """Knowledge of supervisors that are gone."""
        hosts, seen_ms = self.supervisor_hosts, self.supervisors_seen_ms
        return [GonePart(supervisor=s, host=hosts.get(s, ""), seen_ms=seen_ms[s]) for s in supervisors]

    def hit(self, topology_id: str, now_ms: int, spacing_s: float, kept_s: float, evidence: float = 0.0) -> Memory:
        """Count one more time that the plan was worth it, at most once per `spacing_s`.

        What was counted longer than `kept_s` ago is none of the same row: nobody looked since.
        """
        last = self.hits.get(topology_id)
        if last is not None and now_ms - last.at_ms < spacing_s * 1000:
            return self
        if last is not None and now_ms - last.at_ms > kept_s * 1000:
            last = None
        last = last or Hits(0, now_ms)
        hits = Hits(last.count + 1, now_ms, last.evidence + evidence)
        return replace(self, hits={**self.hits, topology_id: hits})

    def missed(self, topology_id: str) -> Memory:
        """Begin to count anew."""
        return replace(self, hits={t: h for t, h in self.hits.items() if t != topology_id})

    def keep_only(self, topology_ids: Iterable[str]) -> Memory:
        """Forget topologies that are gone."""
        keep = set(topology_ids)
        return replace(
            self,
            hits={t: h for t, h in self.hits.items() if t in keep},
            shares={t: s for t, s in self.shares.items() if t in keep},
            free={t: f for t, f in self.free.items() if t in keep},
        )
