"""Rows of the comparison, the table on screen, and `docs/results/flow.md`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import metrics, node_load_mhz
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Model, Plan

LIMIT = 0.10
"""Largest error of the flow prediction that the benchmark accepts."""
NO_TRAFFIC = 0.005
"""Of all traffic: below that, a placement counts as one without inter-node traffic, which has no relative error."""


@dataclass(frozen=True)
class Forecast:
    """Prediction for a placement, from the model measured under the one before (tuples/s; MHz of a node)."""

    total_tps: float
    flow_tps: float
    pairs_tps: float
    flow_worker_tps: float
    full_mhz: float
    node_mhz: dict[str, float]


@dataclass(frozen=True)
class Row:
    """One placement: predicted before, measured after. Errors are relative to what was measured."""

    topology: str
    placement: str
    executors: int
    total_tps: float
    total_before_tps: float
    measured_tps: float
    flow_tps: float
    pairs_tps: float
    measured_worker_tps: float
    flow_worker_tps: float
    busiest_mhz: float
    flow_busiest_mhz: float
    full_mhz: float

    @property
    def without_traffic(self) -> bool:
        """Whether next to nothing goes between nodes."""
        return self.measured_tps <= NO_TRAFFIC * self.total_tps

    @property
    def flow_error(self) -> float | None:
        """Of the flow prediction; None where there is no inter-node traffic."""
        return None if self.without_traffic else self.flow_tps / self.measured_tps - 1

    @property
    def pairs_error(self) -> float | None:
        """Of "the pairs stay as measured"."""
        return None if self.without_traffic else self.pairs_tps / self.measured_tps - 1

    @property
    def good(self) -> bool:
        """Whether the flow prediction is within the limit; without inter-node traffic it must say so too."""
        if self.flow_error is None:
            return self.flow_tps <= NO_TRAFFIC * self.total_tps
        return abs(self.flow_error) <= LIMIT


def forecast(before: Model, plan: Plan) -> Forecast:
    """Predict a placement by flows and by pairs."""
    flow = flow_model(before)
    c = flow.compiled
    placement = c.slots_of(plan)
    p = flow.predict(placement)
    return Forecast(
        total_tps=p.total_tps,
        flow_tps=p.inter_node_tps,
        pairs_tps=metrics(c, placement)["inter_node_tps"],
        flow_worker_tps=p.inter_worker_tps,
        full_mhz=p.full_mhz,
        node_mhz=dict(zip(c.node_ids, p.node_load_mhz.tolist(), strict=True)),
    )


def row(topology: str, placement: str, expected: Forecast, after: Model) -> Row:
    """Compare; the CPU is that of the node that turned out busiest."""
    c = compile_model(after)
    measured = metrics(c, c.current)
    load = node_load_mhz(c, c.current)
    busiest = int(np.argmax(load))
    return Row(
        topology=topology,
        placement=placement,
        executors=c.executors,
        total_tps=measured["total_tps"],
        total_before_tps=expected.total_tps,
        measured_tps=measured["inter_node_tps"],
        flow_tps=expected.flow_tps,
        pairs_tps=expected.pairs_tps,
        measured_worker_tps=measured["inter_worker_tps"],
        flow_worker_tps=expected.flow_worker_tps,
        busiest_mhz=float(load[busiest]),
        flow_busiest_mhz=expected.node_mhz[c.node_ids[busiest]],
        full_mhz=expected.full_mhz,
    )


def summary(rows: list[Row]) -> dict[str, Any]:
    """The figures of the last line."""
    flow = [abs(r.flow_error) for r in rows if r.flow_error is not None]
    pairs = [abs(r.pairs_error) for r in rows if r.pairs_error is not None]
    return {
        "placements": len(rows),
        "with_inter_node_traffic": len(flow),
        "topologies": len({r.topology for r in rows}),
        "within_limit": sum(r.good for r in rows),
        "flow_error_median": statistics.median(flow) if flow else None,
        "flow_error_max": max(flow, default=None),
        "pairs_error_median": statistics.median(pairs) if pairs else None,
        "pairs_error_max": max(pairs, default=None),
    }


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows with their errors."""
    return [asdict(r) | {"flow_error": r.flow_error, "pairs_error": r.pairs_error, "good": r.good} for r in rows]


def from_json(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows that `as_json` told."""
    return msgspec.convert(found, list[Row])


HEADINGS = (
    "topology",
    "placement",
    "all tuples/s",
    "before",
    "between nodes",
    "by flows",
    "error",
    "by pairs",
    "error",
    "between workers",
    "by flows",
    "busiest node MHz",
    "by flows",
)


def cells(r: Row) -> list[str]:
    """A row as text."""
    return [
        r.topology,
        r.placement,
        f"{r.total_tps:.0f}",
        f"{r.total_before_tps:.0f}",
        f"{r.measured_tps:.0f}",
        f"{r.flow_tps:.0f}",
        _percent(r.flow_error),
        f"{r.pairs_tps:.0f}",
        _percent(r.pairs_error),
        f"{r.measured_worker_tps:.0f}",
        f"{r.flow_worker_tps:.0f}",
        f"{r.busiest_mhz:.0f}",
        f"{r.flow_busiest_mhz:.0f}",
    ]


def show(rows: list[Row], console: Console) -> None:
    """The table on screen."""
    table = Table(title="Predicted before each placement was applied, measured after", title_justify="left")
    for i, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if i < 2 else "right")
    for r in rows:
        table.add_row(*cells(r), style=None if r.good else "red")
    console.print(table)
    console.print(sentence(rows))


def sentence(rows: list[Row]) -> str:
    """The result in words."""
    s = summary(rows)
    if s["flow_error_max"] is None:
        return "no placement with traffic between nodes was measured"
    of = f"{s['placements']} placements of {s['topologies']} topologies"
    return (
        f"{s['within_limit']} of {of} within {LIMIT:.0%}; error of the flow model {s['flow_error_median']:.1%} in the "
        f"median, {s['flow_error_max']:.1%} at most; of taking the pairs as they were {s['pairs_error_median']:.1%} "
        f"and {s['pairs_error_max']:.1%}"
    )


def markdown(rows: list[Row]) -> list[str]:
    """The table for a page."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * 2 + "---:|" * (len(HEADINGS) - 2)]
    return lines + ["| " + " | ".join(cells(r)) + " |" for r in rows]


def _percent(error: float | None) -> str:
    return "" if error is None else f"{error:+.1%}"
