"""Sizes that were carried out: their tables, and how well the rate, CPU and memory of slots were predicted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.headlines.figures import spread
from benchmarks.markdown import filled, table

MANY_COMPONENTS = 7
"""In one slot; the micro DAGs have six with their source."""
WANTED_PART = 0.95
"""Actual rate by planned rate: the aim."""
SHORT_TRIAL_S = 8.0
"""Of cases whose file does not say how long their trials were."""
CLUSTER_HEAD = [
    "dataflow",
    "shuffle",
    "pair",
    "slots",
    "threads",
    "n",
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
    "threads",
    "slots measured",
    "CPU predicted",
    "CPU measured",
    "memory predicted",
    "memory measured",
]


def cluster(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Sizes that were carried out, their repetitions together."""
    return [
        [
            one["dag"],
            one["shuffle"],
            pair_name(one),
            str(one["slots"]),
            ", ".join(f"{c} {n}" for c, n in one["threads"].items()),
            str(len(again)),
            f"{one['sizedForTps']:.1f}",
            f"{one['evenTps']:.1f}",
            spread([r["predictedTps"] for r in again], ".1f"),
            spread([r["actualTps"] for r in again], ".1f"),
            spread([r["actualTps"] / r["sizedForTps"] for r in again], ".0%"),
            spread([r["actualTps"] / r["predictedTps"] for r in again], ".0%"),
            spread([r["loadAverage"] for r in again], ".1f"),
        ]
        for again in _by_case(found)
        for one in again[:1]
    ]


def _by_case(found: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Repetitions of each case."""
    together: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        together[tuple(one[key] for key in ("dag", "shuffle", "sizedForTps", "allocation", "mapping"))].append(one)
    return list(together.values())


def slots(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Slots of sizes that were carried out: CPU and memory. Those with the same threads in one case stand together."""
    lines = []
    for again in _by_case(found):
        alike: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in again:
            for load in one["slotLoads"]:
                held = one["placement"][load["slot"]]
                alike[", ".join(f"{c} {n}" for c, n in sorted(held.items()))].append(load)
        (one, *_) = again
        for threads, loads_ in alike.items():
            case = f"{one['dag']} for {one['sizedForTps']:g}/s, {one['shuffle']}"
            lines.append([case, pair_name(one), threads, str(len(loads_)), *_shares(loads_, 0), *_shares(loads_, 1)])
    return lines


def _shares(loads_: Sequence[dict[str, Any]], which: int) -> list[str]:
    """CPU (0) or memory (1) as predicted and as measured; `-` where no slot told its own."""
    known = [load["actual"][which] for load in loads_ if load["actual"]]
    return [
        spread([load["predicted"][which] for load in loads_], ".0%"),
        spread(known, ".0%") if known else "-",
    ]


def r_squared(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Square of the correlation of predicted and actual, as the paper has it; None with fewer than four points."""
    points = np.array(list(pairs), dtype=float)
    if len(points) < 4 or not points.std(axis=0).all():
        return None
    return float(np.corrcoef(points.T)[0, 1] ** 2)


def pair_name(one: dict[str, Any]) -> str:
    """`MBA+SAM`."""
    return f"{one['allocation']}+{one['mapping']}".upper()


def paragraphs(found: dict[str, Any]) -> list[str]:
    """Paragraphs of the page on them."""
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
    left = f" {found['left']} runs more are left." if found["left"] else ""
    mhz = Counter(round(one["coreMhz"]) for one in found["cluster"] if one.get("coreMhz"))
    other = "".join(
        f" {n} runs were on cores of {core:,.0f} MHz, as many MHz for each node." for core, n in mhz.items()
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
            + below(even)
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
            f"R² of predicted and measured: {told}; of {len(found['cluster'])} runs and {len(measured)} slots (the "
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


def below(even: Sequence[dict[str, Any]]) -> str:
    """A sentence on each case that sustains less than is wanted, in the median: of each of its runs, and why."""
    told = ""
    for again in _by_case(even):
        planned = again[0]["sizedForTps"]
        if median(one["actualTps"] for one in again) >= WANTED_PART * planned:
            continue
        runs = ", ".join(f"{one['actualTps']:.1f}" for one in again)
        mhz = len({one.get("coreMhz") for one in again})
        told += (
            f" {again[0]['dag'].capitalize()} by {pair_name(again[0])} misses it: {runs} of {planned:.1f}/s, of which "
            f"its prediction, {again[0]['predictedTps']:.1f}/s, leaves {again[0]['predictedTps'] / planned - 1:.0%} to "
            "spare"
            + (", on machines of which one does less work by MHz than the profiled one (below)" * (mhz > 1))
            + "."
        )
    return told


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
    few, many = (round(100 * fmean(errors[many])) for many in (False, True))  # whole ones, so that none is -0
    return (
        f" Slots of {MANY_COMPONENTS} components and more took {many:+} points of CPU against the prediction in the "
        f"mean, others {few:+}. In proportion to the tuples, as the paper predicts CPU, R² would be {fit:.2f}."
    )


def by_cores(found: Sequence[dict[str, Any]]) -> str:
    """CPU against the prediction by machine; empty where all were the same.

    Machines are told apart by the MHz of their cores, which the kernel measured anew at each of their starts.
    """
    loads: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
    for one in found:
        for load in one["slotLoads"]:
            if load["actual"] and "coreMhz" in one:
                loads[one["coreMhz"]].append((load["predicted"][0], load["actual"][0]))
    if len(loads) < 2:
        return ""
    told, known = [], set[int]()
    for mhz, pairs in sorted(loads.items()):
        another = " of another machine" if round(mhz) in known else ""
        known.add(round(mhz))
        ratio = sum(a for _, a in pairs) / sum(p for p, _ in pairs)
        told.append(f"{ratio:.2f} on cores of {mhz:,.0f} MHz{another}")
    fits = [fit for _, pairs in sorted(loads.items()) if (fit := r_squared(pairs)) is not None]
    each = f" R² of CPU on each: {' and '.join(f'{fit:.2f}' for fit in fits)}." if len(fits) == len(loads) else ""
    return (
        f" In all, slots took {' and '.join(told)} of what was predicted: a MHz is not as much work on every "
        f"machine, and a plan counts in MHz.{each}"
    )


def _parts(found: Sequence[dict[str, Any]]) -> str:
    """Parts of the plan that each pair sustained, as a sentence."""
    return " and ".join(f"{pair} sustained {span(parts)}" for pair, parts in planned_parts(found).items())


def span(parts: Sequence[float]) -> str:
    """`95% to 110% in 2 cases`."""
    least, most = f"{min(parts):.0%}", f"{max(parts):.0%}"
    return least if len(parts) == 1 else f"{least} to {most} in {len(parts)} cases"


def planned_parts(found: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Sustained by planned rate of each case, by pair; of repetitions the median."""
    parts: dict[str, list[float]] = {}
    for again in _by_case(found):
        part = median(one["actualTps"] / one["sizedForTps"] for one in again)
        parts.setdefault(pair_name(again[0]), []).append(part)
    return parts
