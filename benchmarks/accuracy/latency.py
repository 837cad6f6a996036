"""Predicted against measured latency of topologies, on the placements whose CPU is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.accuracy.table import followed, plan_in
from benchmarks.accuracy.windows import Measured
from stormpilot.decide.expectation import expectations
from stormpilot.observe.waiting import mean_ms

LEAST_TUPLES = 100
"""Of fewer tuples in a window the mean is chance."""


@dataclass(frozen=True)
class Row:
    """Mean time from emit to ack of a topology's tuples under a placement, ms: predicted before, and measured.

    `before_ms` is what it was when it was predicted; `tuples` were measured in the window.
    """

    seed: int
    topology: str
    placement: str
    tuples: int
    before_ms: float
    predicted_ms: float
    measured_ms: float

    @property
    def error(self) -> float:
        """Of the prediction, relative."""
        return self.predicted_ms / self.measured_ms - 1

    @property
    def error_as_before(self) -> float:
        """Of taking it to be what it was, relative."""
        return self.before_ms / self.measured_ms - 1


def rows(windows: Iterable[Measured]) -> list[Row]:
    """Rows in the order in which they were measured, of topologies whose tuples are acked."""
    found = []
    for a, b, evidence in followed(windows):
        before_ms, measured_ms, tuples = mean_ms([*a.rates.values()]), mean_ms([*b.rates.values()]), _tuples(b)
        if before_ms is None or measured_ms is None or min(_tuples(a), tuples) < LEAST_TUPLES:
            continue
        model = a.model(evidence=evidence)
        (topology,) = model.topologies
        expected = expectations(model, plan_in(model, b.model()), "flow", [topology.id])[topology.id]
        found.append(Row(b.seed, b.name, b.placement, tuples, before_ms, expected.latency_ms[1], measured_ms))
    return found


def _tuples(window: Measured) -> int:
    return sum(n for r in window.rates.values() for _, n in r.latency_ms)


def summary(found: Sequence[Row]) -> dict[str, Any]:
    """Median and 95th percentile of the errors without sign: of the prediction, and of taking it to be as before."""
    errors = {"predicted": [abs(r.error) for r in found], "as_before": [abs(r.error_as_before) for r in found]}
    return {"placements": len(found), "topologies": sorted({r.topology for r in found})} | {
        f"{name}_{q}": float(np.quantile(values, part))
        for name, values in errors.items()
        for q, part in (("median", 0.5), ("p95", 0.95))
    }


def as_json(found: Sequence[Row]) -> dict[str, Any]:
    """Rows with their errors and the summary; empty without rows."""
    return {"summary": summary(found), "rows": [asdict(r) | {"error": r.error} for r in found]} if found else {}


def markdown(told: dict[str, Any]) -> list[str]:
    """Part of a page, of what `as_json` made."""
    if not told:
        return []
    s = told["summary"]
    return [
        "## Latency",
        "",
        "On the same placements: the mean time from emitting a tuple to its ack, predicted as `explain` does "
        "([how](../concepts/control-loop.md#what-is-expected-of-a-plan)) from the window before. Of "
        f"{s['placements']} placements of {', '.join(s['topologies'])} the error is {s['predicted_median']:.0%} in "
        f"the median and {s['predicted_p95']:.0%} at the 95th percentile (taking it to be what it was: "
        f"{s['as_before_median']:.0%} and {s['as_before_p95']:.0%}). Left out are windows with fewer than "
        f"{LEAST_TUPLES} measured tuples, and topologies without acks. How long a tuple waits for a core was chosen on "
        "runs of 28 November 2026 (seeds 5 and 6).",
        "",
        "| seed | topology | placement | tuples | before ms | predicted ms | measured ms | error |",
        "|---|---|---|---:|---:|---:|---:|---:|",
        *(
            f"| {r['seed']} | {r['topology']} | {r['placement']} | {r['tuples']} | {r['before_ms']:.1f} | "
            f"{r['predicted_ms']:.1f} | {r['measured_ms']:.1f} | {r['error']:+.0%} |"
            for r in told["rows"]
        ),
        "",
    ]
