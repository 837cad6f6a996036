"""Traffic that changes: the reference chain, whose heavy part moves from its first stages to its last ones and back.

In one half of the turns `stage_1` sends three tuples for one and `stage_3` one for three, in the other half `stage_3`
and `stage_5` do. In each turn it is measured under Storm's placement what the traffic is now, then everybody's
placement runs: those that no traffic changes (Storm's, `offline`), those that were made for the traffic of the turn
before, and those for the traffic of now. Turns apply them in turn forwards and backwards.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.flow.jobs import Job, Placer
from benchmarks.headlines import runs
from benchmarks.headlines.cases import Case
from benchmarks.headlines.contenders import DEFAULT, LATENCY, OURS, WHO, ours, roomy
from benchmarks.headlines.phases import phase, unevenness
from benchmarks.markdown import filled, table
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.model.compiled import compile_model
from stormpilot.model.latency import latency_ms, mean_latency_ms
from stormpilot.model.values import Model, Plan
from stormpilot.observe.acker import ACKER

FILE = "changing.json"
RATE_TPS = 3000.0
TURN_S = 360
HEAVIER = 3
ADAPTED = ("online", "best")
"""Planners that plan anew when the traffic has changed, and whose plans of the turn before run on beside."""
BEFORE = "{} of the turn before"
WINDOWS, MOST_WINDOWS = 2, 4
"""Of a placement; more where less than `CARRIED` of the rate came through, as right after a move."""
CARRIED = 0.95
MEASURED_S = 2.5 * TURN_S


def case(chain: Case) -> Case:
    """The chain with stages that take turns in sending more."""
    more, less, same = HEAVIER, 1 / HEAVIER, 1
    turns = {
        stage: f"{first:.6g}x{TURN_S},{then:.6g}x{TURN_S}"
        for stage, (first, then) in {"stage_1": (more, same), "stage_3": (less, more), "stage_5": (same, less)}.items()
    }
    assert chain.chain is not None
    return replace(
        chain,
        name="chain-changing",
        rate_tps=RATE_TPS,
        steady=True,
        chain=replace(chain.chain, turns=turns),
    )


def missing(out: Path, changes: int) -> bool:
    """Whether fewer changes of the traffic were measured."""
    return len(_found(out)["turns"]) < changes


def _found(out: Path) -> dict[str, Any]:
    asked = {"rate_tps": RATE_TPS, "turn_s": TURN_S, "heavier": HEAVIER, "windows": WINDOWS}
    return runs.begun(out / FILE, asked, "turns")


def measure(cluster: LocalCluster, chain: Case, changes: int, out: Path, clock: runs.Clock, say: runs.Say) -> None:
    """Measure the changes that are missing, as long as there is time; the first turn is for plans alone."""
    one, found = case(chain), _found(out)
    with runs.running(cluster, one, one.name) as job, closing(Placer(cluster)) as placer:
        _, model = phase(job, one, saturated=False)
        storms = compile_model(model).plan_of(compile_model(model).current)
        unchanged = {"default": storms, "offline": _plan(model, "offline")}
        before: dict[str, Plan] = {}
        while len(found["turns"]) < changes and clock.allows(TURN_S):
            time.sleep(-time.time() % TURN_S)
            number = int(time.time() // TURN_S)
            try:
                turn, before = _turn(job, placer, one, number, unchanged, before, say)
            except UnreachableError as e:
                say(f"changing traffic: {e}")
                before = {}
                continue
            if turn["measured"]:
                found["turns"].append(turn)
                runs.keep(out / FILE, found)
    runs.ended(cluster, job)


def _turn(
    job: Job,
    placer: Placer,
    one: Case,
    number: int,
    unchanged: Mapping[str, Plan],
    before: Mapping[str, Plan],
    say: runs.Say,
) -> tuple[dict[str, Any], dict[str, Plan]]:
    """Figures of all placements in a turn, none where one was not measured in it; and plans for its traffic."""
    runs.moved(job, placer, unchanged["default"])
    windows, model = _windows(job, one)
    measured = {"default": windows}
    now = {who: _plan(model, who) for who in (*ADAPTED, LATENCY)}
    kept = {BEFORE.format(who): before[who] for who in ADAPTED if before}
    others = {"offline": unchanged["offline"], **kept, **now}
    order = list(others) if number // 2 % 2 else list(reversed(others))
    for who in order if before else []:
        runs.moved(job, placer, others[who])
        measured[who], _ = _windows(job, one)
    if not before or int(time.time() // TURN_S) != number:
        say(f"changing traffic, turn {number}: plans alone")
        return {"measured": {}}, now
    for who, ones in measured.items():
        say(f"changing traffic, turn {number}, {who}: {_latency(ones):.1f} ms mean, {_share(ones):.0%} between nodes")
    load = round(os.getloadavg()[0], 2)
    return {"heavy": "first" if number % 2 == 0 else "last", "measured": measured, "load_average": load}, now


def _windows(job: Job, one: Case) -> tuple[list[dict[str, Any]], Model]:
    found = [phase(job, one, saturated=False) for _ in range(WINDOWS)]
    while len(found) < MOST_WINDOWS and not all(_carried(figures) for figures, _ in found[-WINDOWS:]):
        found.append(phase(job, one, saturated=False))
    kept = [figures | {"steps": steps(model), "modelled_ms": modelled_ms(model)} for figures, model in found[-WINDOWS:]]
    return kept, found[-1][1]


def steps(model: Model) -> dict[str, float]:
    """Part of the tuples that go between nodes, by the step of their way that they take (`source>stage_1`); no acks."""
    c = compile_model(model)
    node = c.slot_node[c.current]
    tuples: dict[str, list[float]] = {}
    for a, b, tps in zip(c.sent_from.tolist(), c.sent_to.tolist(), c.sent_tps.tolist(), strict=True):
        (_, sender), (_, receiver) = c.component_names[c.component[a]], c.component_names[c.component[b]]
        if not {sender, receiver} & {ACKER}:
            counts = tuples.setdefault(f"{sender}>{receiver}", [0.0, 0.0])
            counts[int(node[a] != node[b])] += tps
    return {step: round(far / (near + far), 4) for step, (near, far) in sorted(tuples.items()) if near + far > 0}


def modelled_ms(model: Model) -> float:
    """Mean latency as `objective: latency` computes it of the placement that runs, without what was measured of it."""
    c = compile_model(
        msgspec.structs.replace(
            model, topologies=[msgspec.structs.replace(t, latency_ms=None) for t in model.topologies]
        )
    )
    return round(mean_latency_ms(c, latency_ms(c, c.current)), 2)


def _carried(window: Mapping[str, Any]) -> bool:
    return bool(window["throughput_tps"] >= CARRIED * RATE_TPS)


def _plan(model: Model, who: str) -> Plan:
    answer = ours(roomy(model), OURS[who])
    if isinstance(answer, str):
        raise UnreachableError(f"{who}: no plan: {answer}")
    return answer


def _latency(windows: list[dict[str, Any]]) -> float:
    return statistics.fmean(w["mean_ms"] for w in windows)


def _way(window: Mapping[str, Any]) -> float:
    """Part of the steps of a tuple's way that go between nodes."""
    return statistics.fmean(window["steps"].values())


def _share(windows: list[dict[str, Any]]) -> float:
    return statistics.fmean(w["inter_node_share"] for w in windows)


def _planned(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Windows under placements by our planners in which the rate came through."""
    turns = [(who, ones) for t in found["turns"] for who, ones in t["measured"].items()]
    return [w for who, ones in turns if who != DEFAULT for w in ones if _carried(w)]


def _told(found: dict[str, Any], get: Callable[[Mapping[str, Any]], float]) -> float:
    """Part of the scatter of the mean latency that a figure of a window tells (r²), over placements by our planners."""
    planned = _planned(found)
    ms, figures = [w["mean_ms"] for w in planned], [get(w) for w in planned]
    return statistics.correlation(ms, figures) ** 2 if len(set(ms)) > 1 < len(set(figures)) else 0.0


def _differences(found: dict[str, Any], who: str) -> str:
    """Differences of the plans of a planner that gained nothing by planning anew, in the turn in which it lost most."""
    before, turns = BEFORE.format(who), [t["measured"] for t in found["turns"]]
    slower = max(turns, key=lambda t: _latency(t[who]) / _latency(t[before]))
    told = []
    for get, form, what in (
        (lambda w: w["inter_node_share"], ".0%", "of the tuples between nodes"),
        (_way, ".0%", "of the steps of a tuple's way"),
        (unevenness, ".2f", "times the CPU of the mean node on the busiest one"),
        (
            lambda w: statistics.fmean(w["cpu_per_node_percent"].values()) / 100,
            ".0%",
            "of the mean node's CPU used",
        ),
    ):
        now, then = (format(statistics.fmean(get(w) for w in slower[name]), form) for name in (who, before))
        told.append(f"{now} against {then} {what}")
    return (
        f"`{who}` for the traffic of now is not below `{who}` for the traffic before. In the turn in which it lost "
        f"most: {', '.join(told)}. Its plans count every tuple alike, acks too, wherever it goes; what a tuple waits "
        "for are the steps of its own way."
    )


def _changes(found: dict[str, Any], who: str, other: str) -> list[float]:
    """Relative difference of mean latencies in each turn."""
    return [_latency(t["measured"][who]) / _latency(t["measured"][other]) - 1 for t in found["turns"]]


def headlines(found: dict[str, Any], spread: Callable[[list[float], str], str]) -> list[list[str]]:
    """Gain of planning anew when the traffic has changed."""
    lines = []
    for who in (*ADAPTED, LATENCY):
        what = f"reference chain, traffic that changes: mean latency, `{who}` for the traffic of now to {{}}"
        kept = (BEFORE.format(who), "that for the traffic before") if who in ADAPTED else ("best", "`best` for it")
        for other, words in (kept, ("default", "default")):
            changes = _changes(found, who, other)
            reached = "yes" if statistics.median(changes) < 0 else "**no**"
            lines.append([what.format(words), spread(changes, "+.0%"), "ours: lower", reached])
    return lines


def section(found: dict[str, Any], spread: Callable[[list[float], str], str]) -> list[str]:
    """Paragraphs: what was asked, and the table."""
    rows = []
    for who in found["turns"][0]["measured"]:
        ones = [t["measured"][who] for t in found["turns"]]
        planner, _, made = (who, "", "") if who in OURS else who.partition(" ")
        rows.append(
            [
                WHO.get(who, f"`{planner}` {made}".rstrip()),
                str(len(ones)),
                spread([_latency(o) for o in ones], ",.1f"),
                spread([max(w["p99_ms"] for w in o) for o in ones], ",.0f"),
                spread([_share(o) for o in ones], ".0%"),
                spread([statistics.fmean(unevenness(w) for w in o) for o in ones], ".2f"),
            ]
        )
    loads = [t["load_average"] for t in found["turns"]]
    return [
        "## Traffic that changes",
        filled(
            f"The reference chain at {found['rate_tps']:,.0f} tuples/s on the same nodes. Every {found['turn_s']} s "
            f"its heavy part changes place: first `stage_1` sends {found['heavier']} tuples for one until `stage_3` "
            f"sends one for {found['heavier']}, then `stage_3` and `stage_5` do. In each turn, after Storm's placement "
            "has been measured, `online`, `best` and `best latency` plan for what was measured; each placement then "
            f"runs for {found['windows']} windows, those that `online` and `best` made in the turn before as well. n: "
            "changes of the traffic; "
            f"{found['cpu']}, load average {min(loads):.1f} to {max(loads):.1f}."
        ),
        table(["placement", "n", "mean ms", "p99 ms", "between nodes", "busiest to mean node"], rows),
        filled(
            "Over all windows of placements by our planners, the CPU of the busiest node to that of the mean one tells "
            f"{_told(found, unevenness):.0%} of the scatter of the mean latency (r²), the share between nodes "
            f"{_told(found, lambda w: w['inter_node_share']):.0%}, the same share of each step of a tuple's way, every "
            f"step weighing alike whatever it carries, {_told(found, _way):.0%}, and the latency that the model says "
            f"(`objective: latency`) {_told(found, lambda w: w['modelled_ms']):.0%}."
        ),
        *(
            filled(_differences(found, who))
            for who in ADAPTED
            if statistics.median(_changes(found, who, BEFORE.format(who))) >= 0
        ),
    ]
