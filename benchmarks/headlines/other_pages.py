"""Headlines of other benchmarks: read from the JSON beside their pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.moves import otd
from benchmarks.moves import page as moves
from benchmarks.sizes import outcome
from benchmarks.sizes import page as sizes

ACCURACY_WANTED = 0.05


def lines(results: Path) -> list[list[str]]:
    """Number, here, claim, whether it was reached, page and command; none of a benchmark that has no JSON there."""
    found = []
    if found_sizes := _read(results / "sizes.json"):
        found += _sizes(found_sizes)
    if found_accuracy := _read(results / "accuracy.json"):
        found.append(_accuracy(found_accuracy))
    if found_moves := _read(results / "moves.json"):
        found += _moves(found_moves)
    return found


def _read(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


def _sizes(found: dict[str, Any]) -> list[list[str]]:
    where = "[sizes](sizes.md), `make bench-sizes`"
    rows = []
    for name, title in sizes.MODELS.items():
        saved = [x for run in sizes.runs(found["rows"].get(name, [])) if (x := sizes.fewer(run)) is not None]
        if saved:
            what = f"slots, MBA+SAM to LSA+RSM, {title}"
            here = f"{-sum(saved) / len(saved):+.0%} ({-max(saved):+.0%} to {-min(saved):+.0%})"
            reached = "yes" if min(saved) >= sizes.CLAIMED_LEAST else f"**no** ({_missed(saved)})"
            rows.append([what, here, f"{sizes.CLAIM} [S17]", reached, where])
    if found["cluster"]:
        even = [one for one in found["cluster"] if one["shuffle"] == "even"]
        parts = outcome.planned_parts(even or found["cluster"])
        shuffle = "the even shuffle of the paper's Storm" if even else "the shuffle of Storm 2"
        here = "; ".join(f"{pair} {outcome.span(p)}" for pair, p in parts.items())
        reached = "yes" if min(parts.get("MBA+SAM", [0.0])) >= outcome.WANTED_PART else "**no**"
        claim = "MBA+SAM 90% to 100%, LSA+RSM 60% to 100% [S17]; ours: MBA+SAM at least 95%"
        rows.append(
            [f"sustained by planned rate, sized and carried out on a cluster, {shuffle}", here, claim, reached, where]
        )
    return rows


def _missed(saved: list[float]) -> str:
    return f"{sum(x < sizes.CLAIMED_LEAST for x in saved)} of {len(saved)} below"


def _accuracy(found: dict[str, Any]) -> list[str]:
    error = found["summary"]
    return [
        "predicted CPU of a node after a move: median error",
        f"{error['after_node_median']:.1%} (95th percentile {error['after_node_p95']:.1%})",
        f"ours: at most {ACCURACY_WANTED:.0%} [no source]",
        "yes" if error["after_node_median"] <= ACCURACY_WANTED else "**no**",
        "[accuracy](accuracy.md), `make bench-accuracy`",
    ]


def _moves(found: dict[str, Any]) -> list[list[str]]:
    where = "[moves](moves.md), `make bench-moves`"
    rows = []
    for row in found["rows"]:
        less = moves.less_degraded(row, found["rows"]) if row["variant"] == "rolling" else None
        if less is not None:
            here = f"{-less:+.0%}, {row['seconds_down_by'][moves.WANTED_DOWN_BY]} s in {row['moves']} moves"
            what = f"seconds with 40% or more missing, rolling moves to an assignment change, {row['targets']} tasks"
            reached = "yes" if less >= moves.WANTED_LESS else "**no**"
            rows.append([what, here, f"-{moves.WANTED_LESS:.0%} [N24]", reached, where])
    for form, result in found.get("otd", {}).items():
        for c in otd.claims(result):
            what = f"`otd`, one task at a time, {form}-bound word count: {c.what}"
            rows.append([what, c.here, f"{c.claimed} [N24]", "yes" if c.reached else "**no**", where])
    return rows


MISSING = {
    "moves.json": "no executor stops for as long as 1 s when it moves, and 87% less time below 40% of the throughput "
    "than an assignment change [N24]: `make bench-moves`",
}
"""JSON beside a page -> the claim that it would back."""


def missing(results: Path) -> list[str]:
    """Claims that no JSON backs."""
    return [claim for file, claim in MISSING.items() if not (results / file).exists()]
