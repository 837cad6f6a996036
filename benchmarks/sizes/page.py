"""The tables of `make bench-sizes`, and its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.markdown import filled, table
from benchmarks.sizes import day, outcome
from benchmarks.sizes.compare import TASKS

CLAIM, CLAIMED_LEAST = "33% to 50% fewer slots", 0.33
MODELS = {"published": "models of the paper", "measured": "models measured here"}
HEAD = [
    "dataflow",
    "tuples/s",
    "LSA slots",
    "LSA+RSM",
    "supports/s",
    "MBA slots",
    "MBA+SAM",
    "supports/s",
    "fewer slots",
]
OTHERS_HEAD = ["dataflow", "tuples/s", "LSA+DSM", "supports/s", "MBA+DSM", "supports/s", "MBA+RSM", "supports/s"]
LOADS_HEAD = ["dataflow", "tuples/s", "CPU, LSA+RSM", "memory", "CPU, MBA+SAM", "memory"]


def runs(rows: Sequence[dict[str, Any]]) -> list[dict[str, dict[str, Any]]]:
    """Rows of the same dataflow and rate together, by pair (`mba+sam`)."""
    together: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for r in rows:
        together.setdefault((r["dag"], r["rateTps"]), {})[f"{r['allocation']}+{r['mapping']}"] = r
    return list(together.values())


def fewer(run: dict[str, dict[str, Any]]) -> float | None:
    """Part of the slots of LSA+RSM that MBA+SAM does not need; None where one of them fits nowhere."""
    before, after = run["lsa+rsm"].get("slots"), run["mba+sam"].get("slots")
    return None if before is None or after is None else 1 - after / before


def slots_needed(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """LSA+RSM against MBA+SAM."""
    lines = []
    for run in runs(rows):
        lsa, mba, saved = run["lsa+rsm"], run["mba+sam"], fewer(run)
        lines.append(
            [
                *_begin(lsa),
                str(lsa["estimatedSlots"]),
                *_placed(lsa),
                str(mba["estimatedSlots"]),
                *_placed(mba),
                "-" if saved is None else f"{saved:.0%}",
            ]
        )
    return lines


def others(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The three other pairs of the paper."""
    return [
        [*_begin(run["lsa+dsm"]), *(x for pair in ("lsa+dsm", "mba+dsm", "mba+rsm") for x in _placed(run[pair]))]
        for run in runs(rows)
    ]


def loads(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """CPU and memory of slots: the least and the most."""
    return [
        [
            *_begin(run["lsa+rsm"]),
            *(_span(run[pair], i) for pair in ("lsa+rsm", "mba+sam") for i in (0, 1)),
        ]
        for run in runs(rows)
    ]


def _begin(row: dict[str, Any]) -> list[str]:
    return [row["dag"], f"{row['rateTps']:g}"]


def _placed(row: dict[str, Any]) -> list[str]:
    return [str(row["slots"]), f"{row['supportedTps']:.1f}"] if "slots" in row else ["no plan", "-"]


def _span(row: dict[str, Any], which: int) -> str:
    shares = [load[which] for load in row.get("slotLoads", [])]
    return f"{min(shares):.0%} to {max(shares):.0%}" if shares else "-"


def show(found: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    parts = [(f"{name}: {title}", HEAD, slots_needed(found["rows"].get(name, []))) for name, title in MODELS.items()]
    parts += [
        ("carried out", outcome.CLUSTER_HEAD, outcome.cluster(found["cluster"])),
        ("", outcome.SLOTS_HEAD, outcome.slots(found["cluster"])),
    ]
    for title, head, lines in parts:
        if lines:
            printed = Table(*head, title=title, box=None)
            for line in lines:
                printed.add_row(*line)
            console.print(printed)


def publish(found: dict[str, Any], results: Path) -> None:
    """Write the page and its JSON."""
    (results / "sizes.json").write_text(json.dumps(found, indent=1) + "\n")
    (results / "sizes.md").write_text("\n\n".join(sections(found)) + "\n")


def sections(found: dict[str, Any]) -> list[str]:
    """The page, paragraph by paragraph."""
    paragraphs = [
        "# Sizes by model",
        filled(
            "`make bench-sizes ARGS=--publish` wrote this page; [sizes.json](sizes.json) has every number. How many "
            "slots does a dataflow need for a rate, and does the size hold? Allocations (LSA, MBA) and mappings (DSM, "
            "RSM, SAM) are those of S17 ([sizing](../concepts/sizing.md)). `slots`: what an allocation adds up to; the "
            "column of a pair: slots until everything fits. `supports/s`: the rate at which the first slot is full, "
            "with tuples split evenly over threads."
        ),
    ]
    for name, title in MODELS.items():
        rows = found["rows"].get(name)
        if rows:
            paragraphs += [f"## With {title}", *_said(name, rows, found), table(HEAD, slots_needed(rows)), _saved(rows)]
            paragraphs += ["The other pairs:", table(OTHERS_HEAD, others(rows))]
            paragraphs += [
                filled(
                    "CPU and memory of the least and the most loaded slot, at the rate of the plan, or at what it "
                    "supports where that is less:"
                ),
                table(LOADS_HEAD, loads(rows)),
            ]
    told = day.paragraphs(found["day"], found["machine"]["cores"])
    return [*paragraphs, "## Predicted and actual", *outcome.paragraphs(found), *told]


def _said(name: str, rows: Sequence[dict[str, Any]], found: dict[str, Any]) -> list[str]:
    if name == "published":
        return [
            filled(
                "The models are those of [the example](../reference/sizing.example.yaml): the points that the paper "
                "prints, the others chosen so that its sums come out. The paper's text lacks the arrows of its "
                "dataflows, which are in drawings: those here have the number of tasks, the paths and the rates that "
                "its text tells (`benchmarks/sizes/dags.py`)."
            )
        ]
    slot = found["slot"]
    text = (
        f"Models of [performance models](profile.md), of a slot of {slot['cpu_mhz']:,.0f} MHz and "
        f"{slot['memory_mb']:,.0f} MB."
    )
    if set(found["tasks"]) < set(TASKS):
        text += (
            f" Tasks that were not measured are left out, so only a line of {', '.join(found['tasks'])} can be sized "
            "by these models."
        )
    return [filled(text)]


def _saved(rows: Sequence[dict[str, Any]]) -> str:
    saved = {f"{dag} at {rate:g}/s": x for (dag, rate), x in _all_saved(rows).items()}
    missed = [name for name, x in saved.items() if x < CLAIMED_LEAST]
    text = (
        f"MBA+SAM needs {min(saved.values()):.0%} to {max(saved.values()):.0%} fewer slots than LSA+RSM; the paper "
        f"claims {CLAIM}."
    )
    if missed:
        whom = "all" if len(missed) == len(saved) else ", ".join(missed)
        text += (
            f" Missed by {whom}. What is saved depends on the tasks: MBA saves slots where one thread leaves most of a "
            "slot unused and more threads get more out of it (blob download), and gives whole slots to full bundles "
            "that use little of them (table query)."
        )
    return filled(text)


def _all_saved(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, float], float]:
    found = {(run["mba+sam"]["dag"], run["mba+sam"]["rateTps"]): fewer(run) for run in runs(rows)}
    return {key: x for key, x in found.items() if x is not None}
