"""A topology measured under one placement: at its rate, and as fast as it goes."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchmarks.demo.measure import quantile
from benchmarks.flow.jobs import Job
from benchmarks.headlines.cases import Case
from stormpilot.errors import UnreachableError
from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS, RATIO
from stormpilot.model.values import Model

SKIPPED_S, ENDS_EARLY_S = 3.0, 0.5
"""At the begin of each phase, when queues of the one before are not yet empty, and at its end."""
LATE_S = 2.5
"""Reports come so late."""


def phases(job: Job, case: Case) -> dict[str, Any]:
    """Measure the next two phases, whichever comes first."""
    saturated_next = time.time() % (2 * case.phase_s) < case.phase_s
    names = ["saturated", "at_rate"] if saturated_next else ["at_rate", "saturated"]
    return {name: phase(job, case, saturated=name == "saturated")[0] for name in names}


def phase(job: Job, case: Case, *, saturated: bool) -> tuple[dict[str, Any], Model]:
    """Measure in the next such phase."""
    begins_s = case.phase_s if saturated else 0.0
    time.sleep((begins_s - time.time()) % (2 * case.phase_s) + SKIPPED_S)
    window = job.watcher.window(case.phase_s - SKIPPED_S - ENDS_EARLY_S, lambda _: None)
    time.sleep(LATE_S)
    done = job.watcher.completed(window.from_ms, window.to_ms)
    if not sum(done.latency.values()):
        raise UnreachableError(f"{job.name}: no tuple was acked in a window")
    if silent := sorted(spouts(job) - done.tasks):  # what reports less than twice in a window has no rate there
        raise UnreachableError(f"{job.name}: source task {', '.join(map(str, silent))} told of nothing in a window")
    figures = {k: window.figures[k] for k in ("inter_node_share", "inter_node_tps", "total_tps")}
    figures |= {
        "throughput_tps": done.tps,
        "mean_ms": mean_ms(done.latency),
        "p50_ms": quantile(done.latency, 0.5),
        "p99_ms": quantile(done.latency, 0.99),
        "failed": done.failed,
        "polling_cores": polling_cores(window.model),
        "cpu_per_node_percent": window.figures["cpu_per_node_percent"],
    }
    return figures, window.model


def spouts(job: Job) -> set[int]:
    """Tasks of the topology's sources."""
    assert job.watcher.seen is not None
    snapshot = job.watcher.seen.topologies[job.topology_id]
    sources = {c.id for c in snapshot.components if c.kind == "spout"}
    return {task for e in snapshot.executors if e.component in sources for task in range(e.start, e.end + 1)}


def polling_cores(model: Model) -> float:
    """CPU with which the bolts of a model look for tuples."""
    mhz = {s.id: s.mhz for s in model.supervisors}
    at = {(t.id, a.start): a.supervisor for t in model.topologies for a in t.assignment}
    placed = ((e.polling_mhz, at.get((t.id, e.start))) for t in model.topologies for e in t.executors)
    return sum(polling / mhz[supervisor] for polling, supervisor in placed if supervisor in mhz)


def mean_ms(latency: Counter[float]) -> float:
    """Mean of a histogram {upper bound ms: tuples}, each tuple counted as the geometric middle of its bucket."""
    middles = {bound: (BOUNDS_MS[-1] if bound == ABOVE_MS else bound / RATIO**0.5) for bound in latency}
    return sum(middles[bound] * n for bound, n in latency.items()) / sum(latency.values())


def unevenness(window: Mapping[str, Any]) -> float:
    """CPU of the busiest node to that of the mean one."""
    nodes = list(window["cpu_per_node_percent"].values())
    return float(max(nodes) / statistics.fmean(nodes))


def words(result: dict[str, Any]) -> str:
    """Both phases in a line."""
    rate, most = result["at_rate"], result["saturated"]
    return (
        f"{rate['throughput_tps']:.0f}/s with {rate['mean_ms']:.0f} ms mean, {rate['p99_ms']:.0f} ms p99, "
        f"{rate['inter_node_share']:.0%} between nodes; at most {most['throughput_tps']:.0f}/s"
    )
