"""The tables of `make bench-sizes`, and its page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.markdown import filled, table
from benchmarks.sizes import day
from benchmarks.sizes.compare import TASKS

CLAIM, CLAIMED_LEAST = "33% to 50% fewer slots", 0.33
MANY_COMPONENTS = 7
"""In one slot; the micro DAGs have six with their source."""
WANTED_PART = 0.95
SHORT_TRIAL_S = 8.0
"""Of cases whose file does not say how long their trials were."""
"""Actual rate by planned rate: the aim."""
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
CLUSTER_HEAD = [
    "dataflow",
    "shuffle",
    "pair",
    "slots",
    "threads",
    "planned/s",
    "even/s",
    "predicted/s",
    "sustained/s",
    "of the plan",
    "of the prediction",
    "load",
]
SLOTS_HEAD = [
    "dataflow",
    "pair",
    "slot",
    "threads",
    "CPU predicted",
    "CPU measured",
    "memory predicted",
    "memory measured",
]


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


def cluster(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Sizes that were carried out."""
    return [
        [
            one["dag"],
            one["shuffle"],
            pair_name(one),
            str(one["slots"]),
            ", ".join(f"{c} {n}" for c, n in one["threads"].items()),
            f"{one['sizedForTps']:.1f}",
            f"{one['evenTps']:.1f}",
            f"{one['predictedTps']:.1f}",
            f"{one['actualTps']:.1f}",
            f"{one['actualTps'] / one['sizedForTps']:.0%}",
            f"{one['actualTps'] / one['predictedTps']:.0%}",
            f"{one['loadAverage']:.1f}",
        ]
        for one in found
    ]


def slots(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Slots of sizes that were carried out: CPU and memory."""
    lines = []
    for one in found:
        for load in one["slotLoads"]:
            held = one["placement"][load["slot"]]
            cpu, memory = load["actual"] or (None, None)
            lines.append(
                [
                    f"{one['dag']} for {one['sizedForTps']:g}/s, {one['shuffle']}",
                    pair_name(one),
                    load["slot"].partition(":")[0],
                    ", ".join(f"{c} {n}" for c, n in held.items()),
                    f"{load['predicted'][0]:.0%}",
                    "-" if cpu is None else f"{cpu:.0%}",
                    f"{load['predicted'][1]:.0%}",
                    "-" if memory is None else f"{memory:.0%}",
                ]
            )
    return lines


def r_squared(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Square of the correlation of predicted and actual, as the paper has it; None with fewer than four points."""
    points = np.array(list(pairs), dtype=float)
    if len(points) < 4 or not points.std(axis=0).all():
        return None
    return float(np.corrcoef(points.T)[0, 1] ** 2)


def pair_name(one: dict[str, Any]) -> str:
    """`MBA+SAM`."""
    return f"{one['allocation']}+{one['mapping']}".upper()


def show(found: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    parts = [(f"{name}: {title}", HEAD, slots_needed(found["rows"].get(name, []))) for name, title in MODELS.items()]
    parts += [("carried out", CLUSTER_HEAD, cluster(found["cluster"])), ("", SLOTS_HEAD, slots(found["cluster"]))]
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
    return [*paragraphs, "## Predicted and actual", *_carried_out(found), *told]


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


def _carried_out(found: dict[str, Any]) -> list[str]:
    if not found["cluster"]:
        return ["Nothing was carried out in this run."]
    loads = [one["loadAverage"] for one in found["cluster"]]
    measured = [load for one in found["cluster"] for load in one["slotLoads"] if load["actual"]]
    fits = {
        what: r_squared((load["predicted"][i], load["actual"][i]) for load in measured)
        for i, what in enumerate(("CPU", "memory"))
    }
    fits = {"rate": r_squared((one["predictedTps"], one["actualTps"]) for one in found["cluster"])} | fits
    told = ", ".join(f"{what} {'of too few points' if fit is None else f'{fit:.2f}'}" for what, fit in fits.items())
    even = [one for one in found["cluster"] if one["shuffle"] == "even"]
    left = f" {found['left']} cases more are left to carry out." if found["left"] else ""
    mhz = Counter(one["coreMhz"] for one in found["cluster"] if one.get("coreMhz"))
    other = "".join(
        f" {n} cases ran on cores of {core:,.0f} MHz, as many MHz for each node." for core, n in mhz.items()
    )
    long = Counter(one.get("trialS", SHORT_TRIAL_S) for one in found["cluster"])
    trials = " and ".join(f"{n} with trials of {s:g} s" for s, n in sorted(long.items()))
    return [
        filled(
            f"Dataflows of {', '.join(found['tasks'])}, sized by the measured models, submitted with one thread of "
            "each, carried out by `stormpilot apply-size` on isolated nodes of one slot each, and fed at rising rates: "
            f"the highest stable rate, in steps of {found['cluster'][0]['step']:.0%}; {trials}. The load average of "
            f"the machine of {found['machine']['cores']} cores ({found['machine']['cpu']}) was {min(loads):.1f} to "
            f"{max(loads):.1f}.{other}{left} The aim is {WANTED_PART:.0%} of the plan."
            + (f" Under the even shuffle, for which it is made, {_parts(even)}." if even else "")
        ),
        table(CLUSTER_HEAD, cluster(found["cluster"])),
        *_before(found["cluster"]),
        filled(
            "`shuffle`: `even` splits tuples evenly over threads, as the shuffle of the paper's Storm 1.0 did "
            "(`topology.disable.loadaware.messaging: true`). `local` is what Storm 2 does by default: it prefers "
            "threads in the sender's worker and on its node as long as they keep up. `even/s` is the prediction for "
            "the former, `predicted/s` the one for the row's shuffle; both by `stormpilot predict`. A pair that is "
            "sustained well below the former and near the latter misses its plan because of the shuffle. `load`: load "
            "average of the machine at the end, of the nodes and of whatever else ran."
        ),
        filled(
            f"R² of predicted and measured: {told}; of {len(found['cluster'])} rates and {len(measured)} slots (the "
            "paper: rate 0.71 to 0.95, CPU 0.81, memory 0.55; aims 0.95, 0.9 and 0.8). CPU and memory of a slot are "
            "those at the sustained rate, everything in it together (JVM and Python processes, source and acker too). "
            "Memory of a slot is that of one JVM and of all processes in it, which keep theirs whatever comes; each "
            "component was measured with a JVM of its own, and the source's needs are declared without one. CPU "
            "follows the profile's trials without tuples (of the worker, and of each thread, which looks for tuples "
            "a thousand times a second) and with few, which take more each."
            + cpu_errors(found["cluster"])
            + by_cores(found["cluster"])
        ),
        table(SLOTS_HEAD, slots(found["cluster"])),
    ]


def _before(found: Sequence[dict[str, Any]]) -> list[str]:
    """A paragraph on cases that were placed otherwise than on the machines of the table; none where none were."""
    pairs = Counter(pair_name(one) for one in found if not one["placedAsNow"])
    who = " and ".join(f"{n} of {pair}" for pair, n in pairs.items())
    text = (
        f"On the nodes of the cluster, which are more than it needs, the mapping put other threads of {who} together "
        "than on the machines of the table: as many threads on as many slots. Predictions are for where they were."
    )
    return [filled(text)] if pairs else []


def cpu_errors(found: Sequence[dict[str, Any]]) -> str:
    """Errors of the prediction in slots of many components and in others, and the fit of one in proportion."""
    errors: dict[bool, list[float]] = {False: [], True: []}
    proportional = []
    for one in found:
        for load in one["slotLoads"]:
            if load["actual"]:
                many = len(one["placement"][load["slot"]]) >= MANY_COMPONENTS
                errors[many].append(load["actual"][0] - load["predicted"][0])
                proportional.append((load["proportional"], load["actual"][0]))
    fit = r_squared(proportional)
    if not all(errors.values()) or fit is None:
        return ""
    few, many = (100 * fmean(errors[many]) for many in (False, True))
    return (
        f" Slots of {MANY_COMPONENTS} components and more took {many:+.0f} points of CPU against the prediction in the "
        f"mean, others {few:+.0f}. In proportion to the tuples, as the paper predicts CPU, R² would be {fit:.2f}."
    )


def by_cores(found: Sequence[dict[str, Any]]) -> str:
    """CPU against the prediction by the MHz of the machine's cores; empty where all were the same."""
    sums: defaultdict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in found:
        for load in one["slotLoads"]:
            if load["actual"] and "coreMhz" in one:
                for k, of in enumerate((load["actual"], load["predicted"])):
                    sums[round(one["coreMhz"])][k] += of[0]
    told = [f"{actual / predicted:.2f} on cores of {mhz:,.0f} MHz" for mhz, (actual, predicted) in sorted(sums.items())]
    if len(told) < 2:
        return ""
    return (
        f" In all, slots took {' and '.join(told)} of what was predicted: a MHz is not as much work on every "
        "processor, and a plan counts in MHz."
    )


def _parts(found: Sequence[dict[str, Any]]) -> str:
    """Parts of the plan that each pair sustained, as a sentence."""
    return " and ".join(f"{pair} sustained {span(parts)}" for pair, parts in planned_parts(found).items())


def span(parts: Sequence[float]) -> str:
    """`95% to 110% in 2 cases`."""
    least, most = f"{min(parts):.0%}", f"{max(parts):.0%}"
    return least if len(parts) == 1 else f"{least} to {most} in {len(parts)} cases"


def planned_parts(found: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Sustained by planned rate, by pair."""
    parts: dict[str, list[float]] = {}
    for one in found:
        parts.setdefault(pair_name(one), []).append(one["actualTps"] / one["sizedForTps"])
    return parts
