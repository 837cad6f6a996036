"""Predicted against measured CPU of nodes: rows, summary, the table on screen, and `docs/results/accuracy.md`."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.accuracy.windows import Measured
from stormpilot.config import LoadSection
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Model, Plan, TopologyPlan
from stormpilot.observe.cpu_law import Evidence, awake_s
from stormpilot.observe.worker_cpu import rows_of

LEAST_CORES = 0.02
"""A node with less of a topology's CPU than that has no relative error worth the name."""
AS_BEFORE = LoadSection(cpu_by_place=False, jvm_idle_cores=0.01)
"""The model without places, with its constants."""
GOAL_MEDIAN, GOAL_P95 = 0.05, 0.12


@dataclass(frozen=True)
class Row:
    """CPU of a topology on one node under a placement, cores: measured, and predicted before by both models.

    `rate_ratio` is how many tuples/s it processed then, against the window that the prediction was made from; `seed`
    tells one run from another.
    """

    seed: int
    topology: str
    placement: str
    node: str
    workers: int
    executors: int
    measured: float
    before: float
    after: float
    rate_ratio: float

    def error(self, model: str) -> float:
        """Of `before` (the model without places) or `after`, relative."""
        return float(getattr(self, model)) / self.measured - 1


def rows(windows: Iterable[Measured]) -> list[Row]:
    """All rows of windows in the order in which they were measured."""
    return [row for a, b, evidence in followed(windows) for row in _compared(a, b, evidence)]


def followed(windows: Iterable[Measured]) -> Iterator[tuple[Measured, Measured, Evidence]]:
    """Each window with the next one of its topology and run, and what the windows until then have taught.

    What was disturbed is neither predicted nor learned from, and nothing is learned from another run.
    """
    by_run: defaultdict[tuple[int, str], list[Measured]] = defaultdict(list)
    for w in windows:
        if w.contention.text() is None:
            by_run[w.seed, w.name].append(w)
    for own in by_run.values():
        evidence = Evidence()
        for a, b in itertools.pairwise(own):
            evidence = learned(a, evidence)
            yield a, b, evidence


def learned(window: Measured, evidence: Evidence) -> Evidence:
    """With what this window tells."""
    model = window.model()
    hosts = {s.id: s.host for s in model.supervisors}
    (topology,) = model.topologies
    return evidence.plus(rows_of(topology, model.traffic, window.rates, hosts, awake_s(window.snapshot)))


def _compared(a: Measured, b: Measured, evidence: Evidence) -> list[Row]:
    after_model = b.model()
    plan = plan_in(a.model(), after_model)
    before = _node_cores(a.model(AS_BEFORE), plan)
    after = _node_cores(a.model(evidence=evidence), plan)
    measured = b.node_cores()
    rates = [sum(e.rate for e in m.traffic) for m in (a.model(), after_model)]
    at = defaultdict(list)
    for w in plan.topologies[0].workers:
        at[w.supervisor].append(len(w.executors))
    return [
        Row(
            seed=b.seed,
            topology=b.name,
            placement=b.placement,
            node=node,
            workers=len(at[node]),
            executors=sum(at[node]),
            measured=measured[node],
            before=before.get(node, 0.0),
            after=after.get(node, 0.0),
            rate_ratio=rates[1] / rates[0] if rates[0] else 0.0,
        )
        for node in sorted(at)
        if measured.get(node, 0.0) >= LEAST_CORES
    ]


def plan_in(before: Model, after: Model) -> Plan:
    """Plan of an earlier model that is what runs in a later one: the first port of a node for its first."""
    c = compile_model(after)
    (only,) = c.plan_of(c.current).topologies
    mine = {s.id: sorted(s.slots) for s in before.supervisors}
    port = {(s.id, p): mine[s.id][i] for s in after.supervisors for i, p in enumerate(sorted(s.slots))}
    workers = [msgspec.structs.replace(w, port=port[w.supervisor, w.port]) for w in only.workers]
    return Plan(topologies=[TopologyPlan(id=before.topologies[0].id, workers=workers)])


def _node_cores(model: Model, plan: Plan) -> dict[str, float]:
    flow = flow_model(model)
    c = flow.compiled
    load = flow.predict(c.slots_of(plan)).node_load_mhz
    mhz = {s.id: s.mhz for s in model.supervisors}
    return {n: float(load[i]) / mhz[n] for i, n in enumerate(c.node_ids)}


def summary(found: Sequence[Row]) -> dict[str, Any]:
    """Median and 95th percentile of the errors without sign, by model; of nodes, and of whole placements."""
    told: dict[str, Any] = {
        "placements": len({(r.seed, r.topology, r.placement) for r in found}),
        "topologies": len({r.topology for r in found}),
        "nodes": len(found),
    }
    for model in ("before", "after"):
        errors = np.abs([r.error(model) for r in found])
        whole: defaultdict[tuple[int, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for r in found:
            whole[r.seed, r.topology, r.placement][0] += float(getattr(r, model))
            whole[r.seed, r.topology, r.placement][1] += r.measured
        sums = np.abs([p / m - 1 for p, m in whole.values()])
        for name, values in (("node", errors), ("placement", sums)):
            told[f"{model}_{name}_median"] = float(np.median(values))
            told[f"{model}_{name}_p95"] = float(np.quantile(values, 0.95))
    return told


ERRORS = ("after_node_median", "after_node_p95", "before_node_median", "before_node_p95")


def by_topology(found: Sequence[Row]) -> dict[str, Any]:
    """The summary of the rows of each topology."""
    return {t: summary([r for r in found if r.topology == t]) for t in sorted({r.topology for r in found})}


def reached(found: Sequence[Row]) -> bool:
    """Whether the goal is reached."""
    s = summary(found)
    return bool(s["after_node_median"] < GOAL_MEDIAN and s["after_node_p95"] < GOAL_P95)


def as_json(found: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows with their errors."""
    return [asdict(r) | {"before_error": r.error("before"), "after_error": r.error("after")} for r in found]


def from_json(found: Sequence[dict[str, Any]]) -> list[Row]:
    """Rows of a file that `as_json` made."""
    return [msgspec.convert({f: r[f] for f in Row.__dataclass_fields__}, Row) for r in found]


HEADINGS = (
    "seed",
    "topology",
    "placement",
    "node",
    "workers",
    "executors",
    "cores",
    "without places",
    "error",
    "with places",
    "error",
    "rate",
)


def cells(r: Row) -> list[str]:
    """A row as text."""
    return [
        str(r.seed),
        r.topology,
        r.placement,
        r.node.removeprefix("supervisor-"),
        str(r.workers),
        str(r.executors),
        f"{r.measured:.3f}",
        f"{r.before:.3f}",
        f"{r.error('before'):+.0%}",
        f"{r.after:.3f}",
        f"{r.error('after'):+.0%}",
        f"{r.rate_ratio:.2f}",
    ]


def show(found: Sequence[Row], console: Console) -> None:
    """The table on screen."""
    table = Table(title="CPU of nodes, predicted before each placement and measured under it", title_justify="left")
    for i, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if i < 4 else "right")
    for r in found:
        table.add_row(*cells(r))
    console.print(table)
    console.print(sentence(found))


def sentence(found: Sequence[Row]) -> str:
    """The result in words."""
    s = summary(found)
    return (
        f"{s['placements']} placements of {s['topologies']} topologies, {s['nodes']} nodes: median error "
        f"{s['after_node_median']:.1%}, 95th percentile {s['after_node_p95']:.1%} (without places "
        f"{s['before_node_median']:.1%} and {s['before_node_p95']:.1%}); of a whole topology "
        f"{s['after_placement_median']:.1%} and {s['after_placement_p95']:.1%} (without places "
        f"{s['before_placement_median']:.1%} and {s['before_placement_p95']:.1%})"
    )


def markdown(found: Sequence[Row]) -> list[str]:
    """The table for a page."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * 4 + "---:|" * (len(HEADINGS) - 4)]
    return lines + ["| " + " | ".join(cells(r)) + " |" for r in found]
