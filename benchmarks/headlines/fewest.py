"""The fewest nodes that hold a given rate: under Storm's default scheduler, RAS with measured CPU, and ours.

The reference chain on the isolated nodes at one rate, a part of the most that Storm's placement on all of them holds.
Under that it is measured what it takes. Then everybody plans for one node alone, for two, and so on, as after an
operator has drained the others (for Storm's own schedulers, which know no drains: taken them away), until a placement
holds the rate. Repetitions ask in turn forwards and backwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.flow.jobs import Job, Placer
from benchmarks.headlines import runs
from benchmarks.headlines.cases import SLEEP_MS, Case
from benchmarks.headlines.contenders import BEST, DEFAULT, RAS, StormScheduler, ours, storms
from benchmarks.headlines.phases import phase, phases
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.model.flow.places_cpu import GIVES_WAY
from stormpilot.model.values import Exclusion, Model, Plan

FILE = "fewest.json"
RATED = 0.85
"""Of the most that Storm's default placement on all nodes holds: it needs most of them."""
CARRIED = 0.99
"""Of the rate, in each window: what holds it."""
GROWTH = 1.5
"""A mean latency that rises by more from one window to the next grows: the queues do."""
WINDOWS, MOST_WINDOWS = 2, 5
"""One after the other that hold the rate, of so many: JVMs of a full node are slow for a while after a move."""
LEARNED = 4
"""Windows on all nodes, from which is learned what CPU follows from places, as a controller does all the time."""
STEADY = 0.05
"""Two windows that do not hold the rate and let through as much, within so much of it: the next ones will, too."""
FILLED, FULL_ROUNDS = "filled", 3
"""One node under `UNLIMITED`, so often at the rate and as fast as it goes."""
UNLIMITED = "best without limit"
"""`best` that asks as little for CPU as Storm's default does: no B(n)."""
CONTENDERS = ("default", "ras", "best", UNLIMITED)
MEASURED_S, TRIAL_S = 150.0, 90.0


def measure(cluster: LocalCluster, case: Case, repetitions: int, out: Path, clock: runs.Clock, say: runs.Say) -> None:
    """Measure the trials that are missing, as long as there is time."""
    file = out / FILE
    found = _found(out)
    if "rate_tps" not in found:
        found["rate_tps"] = runs.rate_tps(cluster, case, RATED, say)
    case = replace(case, rate_tps=found["rate_tps"], steady=True)
    with runs.running(cluster, case, f"{case.name}-fewest") as job, closing(Placer(cluster)) as placer:
        for _ in range(LEARNED):
            _, model = phase(job, case, saturated=False)
        for repetition in range(1, repetitions + 1):
            for who in CONTENDERS if repetition % 2 else reversed(CONTENDERS):
                while (nodes := following(found["trials"], who, repetition, runs.NODES)) is not None:
                    if not clock.allows(TRIAL_S):
                        say("fewest nodes: the time is over; start again to go on")
                        return
                    trial = _trial(job, placer, case, model, who, nodes, out / "fewest", say)
                    found["trials"].append(trial | {"repetition": repetition})
                    runs.keep(file, found)
    runs.ended(cluster, job)
    if clock.allows(TRIAL_S) and len(found.get(FILLED, [])) < FULL_ROUNDS:
        found[FILLED] = _filled(cluster, replace(case, steady=False), out / "fewest", say)
        runs.keep(file, found)


def _filled(cluster: LocalCluster, case: Case, folder: Path, say: runs.Say) -> list[dict[str, Any]]:
    """One node at the rate, and as fast as it goes."""
    with runs.running(cluster, case, f"{case.name}-filled") as job, closing(Placer(cluster)) as placer:
        _, model = phase(job, case, saturated=False)
        answer = planned(model, 1, UNLIMITED, folder)
        assert isinstance(answer, Plan), answer
        runs.moved(job, placer, answer)
        rounds = [phases(job, case) for _ in range(FULL_ROUNDS)]
    runs.ended(cluster, job)
    for one in rounds:
        say(
            "one node: "
            + ", ".join(
                f"{w['throughput_tps']:.0f}/s with {w['polling_cores']:.2f} cores of looking" for w in one.values()
            )
        )
    return rounds


def _found(out: Path) -> dict[str, Any]:
    asked = {"rated": RATED, "nodes": runs.NODES, "sleep_ms": SLEEP_MS, "most_windows": MOST_WINDOWS}
    asked |= {"gives_way": GIVES_WAY}
    return runs.begun(out / FILE, asked, "trials")


def missing(out: Path, repetitions: int) -> bool:
    """Whether a repetition is not complete."""
    trials = _found(out)["trials"]
    asked = any(following(trials, w, r, runs.NODES) for w in CONTENDERS for r in range(1, repetitions + 1))
    return asked or FILLED not in _found(out)


def following(trials: Sequence[dict[str, Any]], who: str, repetition: int, nodes: int) -> int | None:
    """Number of nodes to try next; None where a placement held the rate, or none did on all nodes."""
    own = [t for t in trials if (t["who"], t["repetition"]) == (who, repetition)]
    tried = max((t["nodes"] for t in own), default=0)
    return None if tried >= nodes or any(t["holds"] for t in own) else tried + 1


def fewest(found: dict[str, Any], who: str) -> list[int | None]:
    """Fewest nodes in each repetition that is complete; None: not even all of them held the rate."""
    answers: list[int | None] = []
    for repetition in sorted({t["repetition"] for t in found["trials"]}):
        if following(found["trials"], who, repetition, found["nodes"]) is None:
            own = [t for t in found["trials"] if (t["who"], t["repetition"]) == (who, repetition) and t["holds"]]
            answers.append(own[0]["nodes"] if own else None)
    return answers


def drained(model: Model, nodes: int) -> Model:
    """The model with all other nodes drained."""
    others = [Exclusion(supervisor=s.id, drained=True) for s in model.supervisors[nodes:]]
    return msgspec.structs.replace(model, exclusions=[*model.exclusions, *others])


def only(model: Model, nodes: int) -> Model:
    """The model without the other nodes, and nothing placed yet."""
    topologies = [msgspec.structs.replace(t, assignment=[], fixed_workers=[]) for t in model.topologies]
    return msgspec.structs.replace(model, supervisors=model.supervisors[:nodes], topologies=topologies)


def why_not(windows: Sequence[dict[str, Any]], rate_tps: float) -> str:
    """Why these windows do not hold the rate; empty where they do."""
    least = min(w["throughput_tps"] for w in windows)
    if least < CARRIED * rate_tps:
        return f"{least:,.0f} tuples/s came through"
    if failed := sum(w["failed"] for w in windows):
        return f"{failed} tuples failed"
    first, last = windows[0]["mean_ms"], windows[-1]["mean_ms"]
    return f"latency grew from {first:.0f} to {last:.0f} ms" if last > GROWTH * first else ""


def judged(measure: Callable[[], dict[str, Any]], rate_tps: float) -> tuple[list[dict[str, Any]], str]:
    """The last windows, and why they do not hold the rate: until they do, or settle, `MOST_WINDOWS` at most."""
    windows: list[dict[str, Any]] = []
    why = ""
    for _ in range(MOST_WINDOWS):
        try:
            windows = [*windows[1 - WINDOWS :], measure()]
        except UnreachableError as e:  # nothing came through
            windows, why = [], str(e)
            continue
        why = why_not(windows, rate_tps)
        if len(windows) == WINDOWS and (not why or settled(windows, rate_tps)):
            break
    return windows, why


def settled(windows: Sequence[dict[str, Any]], rate_tps: float) -> bool:
    """Whether none of these windows lets the rate through, and all let through as much."""
    through = [w["throughput_tps"] for w in windows]
    return max(through) < CARRIED * rate_tps and max(through) - min(through) <= STEADY * max(through)


def _trial(
    job: Job, placer: Placer, case: Case, model: Model, who: str, nodes: int, folder: Path, say: runs.Say
) -> dict[str, Any]:
    """Whether a contender's placement on so many nodes holds the rate."""
    answer = planned(model, nodes, who, folder)
    windows: list[dict[str, Any]] = []
    why = answer if isinstance(answer, str) else ""
    if isinstance(answer, Plan):
        try:
            runs.moved(job, placer, answer)
            windows, why = judged(lambda: phase(job, case, saturated=False)[0], case.rate_tps)
        except UnreachableError as e:
            why = str(e)
    say(f"fewest nodes, {who} on {nodes}: {why or 'holds'}; load {os.getloadavg()[0]:.1f}")
    load = round(os.getloadavg()[0], 2)
    return {"who": who, "nodes": nodes, "holds": not why, "why": why, "windows": windows, "load_average": load}


def planned(model: Model, nodes: int, who: str, folder: Path) -> Plan | str:
    """A contender's plan for the first nodes of a model, or why there is none."""
    storm: dict[str, StormScheduler] = {"default": DEFAULT, "ras": RAS}
    if who in storm:
        return storms(only(model, nodes), storm[who], folder)
    return ours(drained(unlimited(model) if who == UNLIMITED else model, nodes), BEST)


def unlimited(model: Model) -> Model:
    """The model whose nodes hold whatever CPU all executors of it use."""
    most_mhz = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    nodes = [msgspec.structs.replace(s, cpu_limit_mhz=max(s.limit_mhz, most_mhz)) for s in model.supervisors]
    return msgspec.structs.replace(model, supervisors=nodes)
