"""Traffic to ackers that nobody counted: derived where it is sent, and only there."""

from __future__ import annotations

import msgspec
import pytest

from doubles.snapshots import T0_MS, everywhere, report, topology
from stormpilot.model.values import Executor
from stormpilot.observe.edges import derived_edges
from stormpilot.observe.load import LoadHistory

TOPOLOGY = "flights-1-1763690000"


@pytest.mark.parametrize("tracked", [True, False])
def test_a_topology_whose_sources_track_nothing_sends_nothing_to_its_ackers(tracked: bool) -> None:
    """Its bolts ack what they get, as streamparse does by itself; nothing of that is anchored, and none is sent."""
    history = LoadHistory(60)
    for s in (10, 40):
        own = report(s)
        silent = [msgspec.structs.replace(t, emitted=0, completed=0, latency_ms=[]) for t in own.tasks]
        told = own if tracked else msgspec.structs.replace(own, tasks=silent)
        history.take([told], T0_MS + s * 1000)
    snapshot = topology(everywhere({("a", 6700): (1, 2, 5), ("b", 6700): (3, 4, 6)}))
    executors = [Executor(start=e.start, end=e.end, component=e.component) for e in snapshot.executors]
    rates = history.rates(TOPOLOGY, T0_MS, T0_MS + 40_000)
    assert bool(derived_edges(snapshot, executors, rates)) == tracked
