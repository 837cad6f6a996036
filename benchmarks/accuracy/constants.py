"""The constants of the law from all windows together: what is of components is each topology's own, the rest common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from benchmarks.accuracy.windows import Measured
from stormpilot.observe.cpu_law import CONSTANTS, Evidence, Row, awake_s
from stormpilot.observe.worker_cpu import rows_of


def constants(windows: Sequence[Measured]) -> dict[str, Any]:
    """The constants in use, those that fit these windows best, and the error of a worker's CPU by them."""
    rows: list[Row] = []
    for window in windows:
        model = window.model()
        hosts = {s.id: s.host for s in model.supervisors}
        found = rows_of(model.topologies[0], model.traffic, window.rates, hosts, awake_s(window.snapshot))
        rows += [replace(r, of={_named(n, window.name): x for n, x in r.of.items()}) for r in found]
    fitted, error = Evidence().plus(rows).solved
    return {
        "workers_windows": len(rows),
        "error_ratio": error,
        "in_use": {n: c.value for n, c in CONSTANTS.items()},
        "fitted": {n: fitted[n] for n in CONSTANTS},
        "own": {n: v for n, v in fitted.items() if n.startswith("own:")},
    }


def executor_threads(windows: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Cores of the threads of Java bolts that their topology lets stay awake: with tuples, and without."""
    cores: dict[str, list[float]] = {"none": [], "100 and more": []}
    for window in windows:
        kinds = {c.id: c.kind for c in window.snapshot.components}
        if awake_s(window.snapshot) == 0 or window.contention.text() is not None:
            continue
        for r in window.rates.values():
            if not r.in_jvm or kinds.get(r.component) != "bolt" or r.child_cores is not None:
                continue
            tps = sum(r.received_tps.values())
            if tps == 0 or tps >= 100:
                cores["none" if tps == 0 else "100 and more"].append(r.cpu_cores)
    return {
        name: {"threads": len(c), "least": min(c), "median": median(c), "most": max(c)}
        for name, c in cores.items()
        if c
    }


def _named(name: str, topology: str) -> str:
    return f"own:{topology}/{name.removeprefix('own:')}" if name.startswith("own:") else name
