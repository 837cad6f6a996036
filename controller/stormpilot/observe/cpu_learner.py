"""Learns the CPU that follows from places from what topologies report: a window at a time, over their placements."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.moves import MoveState
from stormpilot.model.subset import traffic_of_each
from stormpilot.model.values import Model
from stormpilot.observe.cpu_law import NO_EVIDENCE, Evidence, awake_s, evidence_of
from stormpilot.observe.edges import Rates
from stormpilot.observe.worker_cpu import rows_of


class CpuLearner:
    """Evidence by topology id, from windows that do not overlap."""

    def __init__(self) -> None:
        self.evidence: dict[str, Evidence] = {}
        self._learned_ms: dict[str, int] = {}

    def keep_only(self, topology_ids: Collection[str]) -> None:
        """Forget every other topology."""
        self.evidence = {t: e for t, e in self.evidence.items() if t in topology_ids}
        self._learned_ms = {t: ms for t, ms in self._learned_ms.items() if t in topology_ids}

    def remember(self, moves: Mapping[str, MoveState]) -> None:
        """Go on with what an earlier leader kept of topologies of which nothing is known here."""
        for t, move in moves.items():
            if move.cpu is not None and t not in self.evidence and (kept := evidence_of(move.cpu)) is not None:
                self.evidence[t] = kept

    def take(
        self,
        model: Model,
        snapshots: Mapping[str, TopologySnapshot],
        rates: Mapping[str, Rates],
        since_ms: Mapping[str, int],
        window_s: float,
        now_ms: int,
    ) -> None:
        """Take in the windows of these topologies that are full, and begun after the last that was taken in.

        Parameters
        ----------
        model
            That was built of these rates.
        since_ms
            Begin of the window of every topology.
        """
        due = {
            t
            for t, begun_ms in since_ms.items()
            if now_ms - max(begun_ms, self._learned_ms.get(t, 0)) >= window_s * 1000
            and any(r.in_jvm or r.jvm_cores is not None for r in rates.get(t, {}).values())
        }
        if not due:
            return
        hosts, edges = {s.id: s.host for s in model.supervisors}, traffic_of_each(model)
        for topology in model.topologies:
            t = topology.id
            if t not in due or t not in snapshots:
                continue
            rows = rows_of(topology, edges[t], rates[t], hosts, awake_s(snapshots[t]))
            if rows:
                self.evidence[t] = self.evidence.get(t, NO_EVIDENCE).plus(rows)
                self._learned_ms[t] = now_ms
