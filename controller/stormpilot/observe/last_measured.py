"""CPU and memory of executors that run and tell nothing now: as they were measured last.

A worker that restarts reports nothing for a while, and a reporter may be away. With what Storm declares for everybody,
and no memory, its node would seem to have room for others meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from stormpilot.model.values import Executor, Topology
from stormpilot.observe.build import ModelWithReadiness


class LastMeasured:
    """Executors of every topology (id), by their tasks, as they were when all of it was measured last."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[int, int], Executor]] = {}

    @property
    def cpu_mhz(self) -> float:
        """CPU of all executors that were measured, as it was then."""
        return sum(e.cpu_mhz for known in self._known.values() for e in known.values())

    def keep_only(self, topology_ids: Collection[str]) -> None:
        """Forget topologies that are gone."""
        self._known = {t: known for t, known in self._known.items() if t in topology_ids}

    def filled_in(self, belief: ModelWithReadiness) -> ModelWithReadiness:
        """Take in what is measured, and fill in what is not; that stays an estimate (`Executor.measured`)."""
        topologies = []
        for t in belief.model.topologies:
            if belief.readiness[t.id].ready:
                self._known[t.id] = {(e.start, e.end): e for e in t.executors if e.measured}
            topologies.append(_filled_in(t, self._known.get(t.id, {})))
        return replace(belief, model=msgspec.structs.replace(belief.model, topologies=topologies))


def _filled_in(topology: Topology, known: dict[tuple[int, int], Executor]) -> Topology:
    runs = {a.start for a in topology.assignment}
    executors = [
        msgspec.structs.replace(
            e,
            cpu_mhz=last.cpu_mhz,
            polling_mhz=last.polling_mhz,
            memory_mb=e.memory_mb or last.memory_mb,  # what is declared may be new
        )
        if not e.measured and e.start in runs and (last := known.get((e.start, e.end))) is not None
        else e
        for e in topology.executors
    ]
    return msgspec.structs.replace(topology, executors=executors)
