"""Figures of the passes: what was measured under each placement, differences within a pass, medians with spread."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.headlines.cases import SETTINGS, UNLIKE

PROSE = {
    "chain": "reference chain",
    SETTINGS: "reference chain, other settings",
    UNLIKE: "reference chain, unlike nodes",
    "wordcount": "`wordcount_comm`",
    "flights": "`flights`",
}


def measured(found: dict[str, Any], case: str) -> dict[str, list[dict[str, Any]]]:
    """Placement -> what was measured under it, in the order of measuring."""
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one_pass in found["passes"]:
        if one_pass["case"] == case:
            for one in one_pass["measured"]:
                rows[one["who"]].append(one)
    return dict(rows)


def cases(found: dict[str, Any]) -> list[str]:
    """The topologies that were measured."""
    return list(dict.fromkeys(p["case"] for p in found["passes"] if p["measured"]))


def spread(values: Sequence[float], form: str) -> str:
    """Median, and least and most where there are several."""
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"


def pairs(
    found: dict[str, Any], case: str, who: str, other: str, get: Callable[[dict[str, Any]], float]
) -> list[float]:
    """Relative difference of `who` to `other` in each pass that has both."""
    changes = []
    for one_pass in found["passes"]:
        if one_pass["case"] == case:
            values = {one["who"]: get(one) for one in one_pass["measured"]}
            if who in values and other in values:
                changes.append(values[who] / values[other] - 1)
    return changes


def latency(one: dict[str, Any]) -> float:
    """Mean ms at the rate."""
    return float(one["at_rate"]["mean_ms"])


def most(one: dict[str, Any]) -> float:
    """Most tuples/s."""
    return float(one["saturated"]["throughput_tps"])


def stays_as_it_is(found: dict[str, Any], case: str) -> bool:
    """Whether the plan of `best` is the placement of Storm's default."""
    metrics = found["cases"][case]["placements"].get("best", {}).get("metrics") or {}
    return bool(metrics.get("moved_executors") == 0)


def cpu(ones: Sequence[dict[str, Any]]) -> str:
    """CPU of the least and of the most busy node while as much as goes comes through, in the mean of the passes."""
    nodes = [sorted(one["saturated"]["cpu_per_node_percent"].values()) for one in ones]
    least, highest = (sum(of[n] for of in nodes) / len(nodes) for n in (0, -1))
    return f"{least:.0f}% to {highest:.0f}%"
