"""The RAS network metric over random topologies: ours, Storm's strategies, the proved optimum."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.planners.bench import Bench
from benchmarks.planners.contestants import best, exact

PART = "connections"
METRIC = "ras_network_metric"
PROOF_S = 20.0
BEST_S = 0.5
AT_ONCE = 100
"""Models that Storm's schedulers place in one JVM."""


def measure(folder: Path, count: int, console: Console, ends_s: float) -> None:
    """Place what is not placed yet; `ends_s`: when to stop, of `time.monotonic`.

    Rows are of the sources that made them; the summary beside them (`folder`.json) stays when these change.
    """
    bench = Bench(folder, False, Console(quiet=True), shared=True)  # no time of it is told
    ours, proof = best(BEST_S, objective="ras"), exact(PROOF_S, objective="ras")
    for first in range(0, count, AT_ONCE):
        instances = [bench.instances.small(n) for n in range(first, min(first + AT_ONCE, count))]
        bench.storm(PART, instances, rounds=1, timeout_s=10, budget_s=2)
        for instance in instances:
            if time.monotonic() > ends_s:
                return
            bench.ours(PART, instance, proof)
            bench.ours(PART, instance, ours)
        found = collected(folder)
        folder.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        console.print(f"connections: {first + len(instances)} of {count}")


def collected(folder: Path) -> dict[str, Any] | None:
    """The metric of every contestant on every topology that all of ours placed; None where nothing was measured."""
    bench = Bench(folder, False, Console(quiet=True))
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    proved: set[str] = set()
    for row in bench.store.rows():
        if row.part == PART and row.held and METRIC in row.metrics:
            name = "optimum" if row.contestant.startswith("exact") else row.contestant.split(" objective")[0]
            values[name][row.instance] = row.metrics[METRIC]
            if name == "optimum" and row.metrics.get("proved", 1.0) >= 1.0 and "not proved" not in " ".join(row.notes):
                proved.add(row.instance)
    if not values:
        return None
    ours = next(name for name in values if name.startswith("best"))
    common = sorted(set(values[ours]) & set(values["optimum"]))
    return {
        "topologies": len(common),
        "proved": len(proved & set(common)),
        "values": {name: {i: round(v[i], 6) for i in common if i in v} for name, v in sorted(values.items())},
    }


def summary(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of each contestant: mean and deciles of the metric, on how many it placed all, how often the optimum."""
    best_possible = found["values"]["optimum"]
    rows = []
    for name, values in found["values"].items():
        own = np.array(list(values.values()))
        if not len(own):
            continue
        least = np.array([best_possible[i] for i in values])
        rows.append(
            {
                "who": name,
                "placed": len(own),
                "mean": float(own.mean()),
                **{f"p{q}": float(np.quantile(own, q / 100)) for q in (10, 50, 90)},
                "optimal_share": float((own <= least + 1e-6).mean()),
                "above_optimum": float(own.sum() / least.sum() - 1) if least.sum() else 0.0,
            }
        )
    return sorted(rows, key=lambda r: r["above_optimum"])
